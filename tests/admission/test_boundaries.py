"""Rules of admission where they begin to hold: zero, the exact amount, one of two, the object itself."""

from __future__ import annotations

from typing import Any

import pytest

from strato.admission import ChainOptions, Denied
from strato.admission.chain import ALL_WEBHOOKS
from strato.admission.pods import GATE
from strato.api import catalog
from tests.admission.reader import FakeWorld, admit
from tests.admission.test_others import pod, queue, tree

Json = dict[str, Any]
PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def passes(body: Json, reader: FakeWorld, **how: Any) -> bool:
    try:
        admit(catalog.QUEUE, body, reader, **how)
    except Denied:
        return False
    return True


@pytest.mark.parametrize(("amount", "fine"), [("0", True), ("1m", True), ("-1m", False), (0, True), (-1, False)])
def test_a_queue_may_be_given_nothing_but_not_less(amount: str | int, fine: bool) -> None:
    assert passes(queue(capability={"cpu": amount}), FakeWorld().queue("root")) is fine


@pytest.mark.parametrize(("pods", "fine"), [("0", True), ("1", False), (None, True)])
def test_a_queue_without_pods_may_become_a_parent(pods: str | None, fine: bool) -> None:
    reader = FakeWorld().queue("root").queue("parent", allocated={} if pods is None else {"pods": pods})
    assert passes(queue(parent="parent"), reader, options=ChainOptions()) is fine


@pytest.mark.parametrize(
    ("name", "path", "fine"),
    [("x", "root/a/b", False), ("x", "root/a/c", True), ("x", "root/a/b/c/d", True), ("other", "root/a/b", True)],
)
def test_no_queue_lies_above_another_in_the_hierarchy(name: str, path: str, fine: bool) -> None:
    there = {"annotations": {PATH: "root/a/b/c", WEIGHTS: "1/1/1/1"}}
    reader = FakeWorld().queue("root").add(catalog.QUEUE, "other", metadata=there, spec={}, status={"state": "Open"})
    weights = "/".join("1" for _ in path.split("/"))
    assert passes(queue(name, annotations={PATH: path, WEIGHTS: weights}), reader, name=name) is fine


def test_the_root_queue_may_be_made_with_resources() -> None:
    assert passes(queue("root", capability={"cpu": 1}), FakeWorld(), name="root")


def test_the_root_queue_may_change_when_nobody_protects_it_or_nothing_of_its_resources_changes() -> None:
    old = tree().get(catalog.QUEUE, "", "root")
    assert passes(queue("root", weight=3), tree(), old=old, operation="UPDATE", name="root")


RUNS_FOR = 300
READY, REACH = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TOLERATIONS: list[tuple[list[Json], list[str]]] = [
    ([], [READY, REACH]),
    ([{"key": READY, "operator": "Exists"}], [REACH]),
    ([{"key": REACH, "operator": "Exists"}], [READY]),
    ([{"key": READY, "operator": "Exists"}, {"key": REACH, "operator": "Exists"}], []),
    ([{"key": REACH, "operator": "Exists"}, {"key": "other", "operator": "Exists"}], [READY]),
    ([{"key": READY, "operator": "Exists"}, {"key": "other", "operator": "Exists"}], [REACH]),
    ([{"operator": "Exists"}], []),
    ([{"operator": "Exists", "effect": "NoSchedule"}], [READY, REACH]),
    ([{"key": READY, "operator": "Exists", "effect": "NoExecute"}], [REACH]),
    ([{"key": READY, "operator": "Exists", "effect": "NoSchedule"}], [READY, REACH]),
    ([{"key": "other", "operator": "Exists"}], [READY, REACH]),
]


@pytest.mark.parametrize(("given", "added"), TOLERATIONS, ids=str)
def test_nodes_that_are_away_are_tolerated_for_a_while(given: list[Json], added: list[str]) -> None:
    made = admit(catalog.POD, pod(tolerations=[dict(one) for one in given]), FakeWorld())["spec"]["tolerations"]
    assert [one for one in made if one in given] == given
    waits = [one for one in made if one.get("tolerationSeconds") == RUNS_FOR]
    assert [(one["key"], one["effect"]) for one in waits] == [(key, "NoExecute") for key in added]


@pytest.mark.parametrize(
    ("services", "value", "gated"),
    [
        (ALL_WEBHOOKS, "true", True),
        (ALL_WEBHOOKS, "false", False),
        (ALL_WEBHOOKS, "", False),
        (("/pods/validate",), "true", False),
    ],
)
def test_the_gate_is_set_where_it_is_asked_for_and_pods_are_mutated(
    services: tuple[str, ...], value: str, gated: bool
) -> None:
    options = ChainOptions(enabled=frozenset(services))
    made = admit(catalog.POD, pod({GATE: value} if value else {}), FakeWorld(), options=options)
    assert ({"name": GATE} in made["spec"].get("schedulingGates", [])) is gated


def test_a_gate_is_not_set_twice() -> None:
    body = pod({GATE: "true"}, schedulingGates=[{"name": "other"}, {"name": GATE}])
    made = admit(catalog.POD, body, FakeWorld())
    assert made["spec"]["schedulingGates"] == [{"name": "other"}, {"name": GATE}]


BOUNDS: list[tuple[Json, Json, Json, bool]] = [
    ({"max": {"cpu": "3"}}, {"cpu": "3"}, {"cpu": "3"}, True),
    ({"max": {"cpu": "3"}}, {"cpu": "3"}, {"cpu": "3001m"}, False),
    ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, True),
    ({"min": {"cpu": "1"}}, {"cpu": "999m"}, {"cpu": "1"}, False),
    ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, True),
    ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2001m"}, False),
]


@pytest.mark.parametrize(("item", "requests", "limits", "fine"), BOUNDS)
def test_limit_ranges_hold_from_the_exact_amount(item: Json, requests: Json, limits: Json, fine: bool) -> None:
    reader = FakeWorld().add(catalog.LIMITRANGE, "l", "default", spec={"limits": [{"type": "Container", **item}]})
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]
    if fine:
        admit(catalog.POD, pod(containers=containers), reader)
    else:
        with pytest.raises(Exception, match=r"usage per Container|ratio per Container"):
            admit(catalog.POD, pod(containers=containers), reader)
