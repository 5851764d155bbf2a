"""Rules of definitions are checked when the definition is written."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog, crds
from strato.server.schema.rulechecks import problems

SPEC: dict[str, Any] = {
    "x": {"type": "integer"},
    "labels": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


def found(rule: dict[str, Any], **more: Any) -> list[str]:
    schema = {"type": "object", "properties": SPEC, "x-kubernetes-validations": [rule], **more}
    return [
        f"{cause.field} {cause.message}" for cause in problems({"type": "object", "properties": {"spec": schema}}, "s")
    ]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"rule": "self.z == 100"}, "undefined field 'z'"),
        ({"rule": "has(self.z)"}, "undefined field 'z'"),
        ({"rule": "self.labels.k.z == 'a'"}, "undefined field 'z'"),
        ({"rule": "self = 42"}, "Syntax error"),
        ({"rule": "self.x ="}, "Syntax error"),
        ({"rule": "(self.x > 1"}, "Syntax error"),
        ({"rule": " "}, "rule is not specified"),
        ({"rule": "true", "message": " "}, "must be non-empty if specified"),
        ({"rule": "true", "message": "a\nb"}, "must not contain line breaks"),
        ({"rule": "true &&\ntrue"}, "message must be specified if rule contains line breaks"),
        ({"rule": "true", "reason": "Because"}, "Unsupported value"),
        ({"rule": "true", "messageExpression": "self.z"}, "undefined field 'z'"),
        ({"rule": "true", "optionalOldSelf": True}, "may not be set if oldSelf is not used in rule"),
    ],
)
def test_rules_that_are_plainly_wrong_are_refused(rule: dict[str, Any], text: str) -> None:
    (problem,) = found(rule)
    assert problem.startswith("s.properties[spec].x-kubernetes-validations[0].")
    assert text in problem


@pytest.mark.parametrize(
    "rule",
    [
        "self.x > 1 && self.labels.k.a == 'b' && self.free.any.thing == 1",
        "self.items.all(one, one.a != '')",
        "self.x > oldSelf.x",
        "self.?x.orValue(1) > 0",
        "self.x > 1u",
        "self.x > 1 // a comment",
        "self.x > 1 ? [1] == [1] : false",
        "self.items.all(at, one, one.a != '')",
        "self.x.unheard(1)",
    ],
)
def test_rules_that_are_right_or_beyond_what_is_read_are_taken(rule: str) -> None:
    assert found({"rule": rule}) == []


def test_old_values_are_asked_for_where_they_can_be_told() -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": item}}}
    (problem,) = problems(schema, "s")
    assert (
        "oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[list]"
        in problem.message
    )


@pytest.mark.parametrize("kind", catalog.CUSTOM, ids=lambda kind: kind.plural)
def test_definitions_of_our_own_are_right(kind: Any) -> None:
    assert list(problems(crds.schema(kind), "s")) == []
