"""Offer constraints: which agents they admit, and what of them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.interop.mesos.constraints import AttributeConstraint, OfferConstraints, Predicate, from_json
from strato.interop.mesos.specs import AgentSpec, Domain

AGENT = AgentSpec(
    "node-7.example",
    attributes=(("rack", "r1"), ("rack", "r2"), ("cores", None), ("os", "linux")),
    domain=Domain("eu", "eu-1"),
)


def predicate(kind: str, operand: str | None = None) -> dict[str, Any]:
    key = "regex" if kind.endswith("matches") else "value"
    return {kind: {} if operand is None else {key: operand}}


def constraint(selector: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    return {"selector": selector, "predicate": asked}


def constraints(*groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role_constraints": {"r": {"groups": [{"attribute_constraints": group} for group in groups]}}}


RACK, CORES, NONE = {"attribute_name": "rack"}, {"attribute_name": "cores"}, {"attribute_name": "gpu"}


@pytest.mark.parametrize(
    ("selector", "kind", "operand", "admits"),
    [
        (RACK, "exists", None, True),
        (RACK, "not_exists", None, False),
        (NONE, "exists", None, False),
        (NONE, "not_exists", None, True),
        (RACK, "text_equals", "r1", True),
        (RACK, "text_equals", "r2", False),  # the first of several counts
        (RACK, "text_not_equals", "r2", True),
        (RACK, "text_matches", "r[0-9]", True),
        (RACK, "text_matches", "r", False),  # the whole text
        (RACK, "text_matches", "x|r1", True),
        (RACK, "text_not_matches", "r.*", False),
        (NONE, "text_equals", "r1", False),
        (NONE, "text_matches", ".*", False),
        (NONE, "text_not_equals", "r1", True),
        (NONE, "text_not_matches", ".*", True),
        (CORES, "exists", None, True),
        (CORES, "text_equals", "x", True),  # no text: never excluded
        (CORES, "text_not_equals", "x", True),
        (CORES, "text_matches", "x", True),
        ({"pseudoattribute_type": "HOSTNAME"}, "text_matches", r"node-\d\.example", True),
        ({"pseudoattribute_type": "REGION"}, "text_equals", "eu", True),
        ({"pseudoattribute_type": "ZONE"}, "text_equals", "eu-2", False),
    ],
)
def test_predicates(selector: dict[str, Any], kind: str, operand: str | None, admits: bool) -> None:
    read = from_json(constraints([constraint(selector, predicate(kind, operand))]), ["r"])
    assert read["r"].admit(AGENT) is admits


def test_an_agent_without_a_domain_has_no_region() -> None:
    asked = AttributeConstraint(Predicate.EXISTS, pseudoattribute="REGION")
    assert asked.admits(AGENT)
    assert not asked.admits(AgentSpec("host"))


def test_of_a_group_all_and_of_groups_any() -> None:
    linux, other = (
        constraint({"attribute_name": "os"}, predicate("text_equals", "linux")),
        constraint(RACK, predicate("text_equals", "r9")),
    )
    assert not from_json(constraints([linux, other]), ["r"])["r"].admit(AGENT)
    assert from_json(constraints([linux], [other]), ["r"])["r"].admit(AGENT)
    assert OfferConstraints().admit(AGENT)
    assert from_json(None, []) == {}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], "offer_constraints: expected an object"),
        ({"role_constraints": []}, "offer_constraints.role_constraints: expected an object"),
        ({"role_constraints": {"x": {"groups": []}}}, "role_constraints[x]: the framework is not subscribed"),
        ({"role_constraints": {"r": {"groups": [{}]}}}, "groups[0]: a group needs at least one"),
        (constraints([constraint({}, predicate("exists"))]), "selector: needs one of"),
        (constraints([constraint(RACK | {"pseudoattribute_type": "ZONE"}, predicate("exists"))]), "needs one of"),
        (constraints([constraint({"pseudoattribute_type": "RACK"}, predicate("exists"))]), "'RACK' is unknown"),
        (constraints([constraint(RACK, {})]), "predicate: needs exactly one of"),
        (constraints([constraint(RACK, predicate("exists") | predicate("not_exists"))]), "needs exactly one of"),
        (constraints([constraint(RACK, predicate("text_equals"))]), "text_equals.value: is missing"),
        (constraints([constraint(RACK, predicate("text_matches", "a)(b"))]), "'a)(b' is no usable pattern"),
        (constraints([constraint(RACK, predicate("text_matches", "((a{100}){100}){100}"))]), "is no usable pattern"),
        (constraints([7]), "attribute_constraints[0]: expected an object"),  # type: ignore[list-item] # is the point
        (constraints([constraint(RACK, predicate("exists"))] * 10_001), "more than 10000 constraints"),
    ],
)
def test_bad_constraints_say_where(value: Any, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_json(value, ["r"])
    assert where in str(caught.value)


def test_all_problems_are_listed() -> None:
    bad = constraints([constraint({}, {})], [])
    with pytest.raises(InvalidInput) as caught:
        from_json(bad, ["r"])
    assert len(caught.value.problems) == 3
