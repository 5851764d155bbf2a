"""Structural schemas: pruning, defaults, and violations in Kubernetes' words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from strato.server.schema.structural import StructuralSchema


def of(**properties: Any) -> StructuralSchema:
    return StructuralSchema({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})


@dataclass(frozen=True)
class Case:
    id: str
    schema: dict[str, Any]
    value: Any
    want: str = ""
    field: str = "spec.f"


CASES = [
    Case("a fitting value passes", {"type": "integer", "minimum": 1}, 1),
    Case("an integral float is an integer", {"type": "integer"}, 2.0),
    Case(
        "a wrong type names both types",
        {"type": "integer"},
        "x",
        'Invalid value: "string": spec.f in body must be of type integer: "string"',
    ),
    Case(
        "true is no integer",
        {"type": "integer"},
        True,
        'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"',
    ),
    Case("a null that may not be is dropped", {"type": "string"}, None),
    Case(
        "a null in a list stays",
        {"type": "array", "items": {"type": "string"}},
        [None],
        'Invalid value: "null": spec.f[0] in body must be of type string: "null"',
        "spec.f[0]",
    ),
    Case(
        "an integer keeps to its format",
        {"type": "integer", "format": "int32"},
        1 << 31,
        'Invalid value: "": Checked value must be of type integer with format int32 in spec.f',
        "<nil>",
    ),
    Case("null passes where nullable", {"type": "string", "nullable": True}, None),
    Case(
        "enum lists what is supported",
        {"type": "string", "enum": ["a", "b"]},
        "x",
        'Unsupported value: "x": supported values: "a", "b"',
    ),
    Case(
        "minimum",
        {"type": "integer", "minimum": 1},
        0,
        "Invalid value: 0: spec.f in body should be greater than or equal to 1",
    ),
    Case(
        "maximum",
        {"type": "integer", "maximum": 5},
        6,
        "Invalid value: 6: spec.f in body should be less than or equal to 5",
    ),
    Case(
        "pattern", {"type": "string", "pattern": "^a$"}, "b", "Invalid value: \"b\": spec.f in body should match '^a$'"
    ),
    Case(
        "a Go pattern ends at the very end",
        {"type": "string", "pattern": "^a$"},
        "a\n",
        "Invalid value: \"a\\n\": spec.f in body should match '^a$'",
    ),
    Case("max length", {"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
    Case(
        "min items",
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        [],
        "Invalid value: 0: spec.f in body should have at least 1 items",
    ),
    Case("int or string takes both", {"x-kubernetes-int-or-string": True}, "10%"),
    Case(
        "a map list names the duplicate key",
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        [{"name": "a"}, {"name": "a"}],
        'Duplicate value: {"name":"a"}',
        "spec.f[1]",
    ),
    Case(
        "a set names the duplicate",
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "a"],
        'Duplicate value: "a"',
        "spec.f[1]",
    ),
    Case(
        "a required field is missing",
        {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        {},
        "Required value",
        "spec.f.name",
    ),
    Case(
        "a rule that fails says its message",
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "has(self.a)", "message": "a is needed"}],
        },
        {},
        "Invalid value: a is needed",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_validate_words_the_violation(case: Case) -> None:
    causes = of(f=case.schema).validate({"spec": {"f": case.value}})
    assert [(one.message, one.field) for one in causes] == ([(case.want, case.field)] if case.want else [])


def test_prune_reports_and_removes_what_the_schema_does_not_name() -> None:
    schema = of(a={"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}})
    obj: dict[str, Any] = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "n", "bad": 1},
        "spec": {"a": [{"x": "1", "y": 2}], "z": 1},
    }
    unknown = ['unknown field "metadata.bad"', 'unknown field "spec.a[0].y"', 'unknown field "spec.z"']
    assert schema.prune(obj) == (unknown, [])
    assert obj["spec"] == {"a": [{"x": "1"}]}


def test_prune_keeps_what_is_to_be_preserved() -> None:
    schema = of(pod={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    obj = {"spec": {"pod": {"any": {"thing": 1}}}}
    schema.prune(obj)
    assert obj == {"spec": {"pod": {"any": {"thing": 1}}}}


def test_defaults_fill_absent_and_forbidden_null_but_never_share() -> None:
    schema = of(a={"type": "array", "default": [], "items": {"type": "string"}}, b={"type": "string", "default": "x"})
    first: dict[str, Any] = {"spec": {"b": None}}
    second: dict[str, Any] = {"spec": {}}
    schema.default(first)
    schema.default(second)
    first["spec"]["a"].append("mine")
    assert second == {"spec": {"a": [], "b": "x"}}
    assert first["spec"]["b"] == "x"


def test_transition_rules_compare_with_the_stored_object() -> None:
    rule = {"rule": "self == oldSelf", "message": "immutable"}
    schema = of(f={"type": "string", "x-kubernetes-validations": [rule]})
    assert schema.validate({"spec": {"f": "a"}}) == []
    assert schema.validate({"spec": {"f": "a"}}, {"spec": {"f": "a"}}) == []
    assert [one.message for one in schema.validate({"spec": {"f": "b"}}, {"spec": {"f": "a"}})] == [
        'Invalid value: "b": immutable'
    ]


def test_rules_that_cost_too_much_end_the_validation() -> None:
    costly = {"rule": "self.all(x, self.all(y, x != 'no'))"}
    items = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [costly]}
    found = of(a=items).validate({"spec": {"a": ["x"] * 3000}})
    assert [one.message for one in found] == [
        "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will "
        "be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x != 'no'))"
    ]
    each = {"type": "array", "items": {**items, "x-kubernetes-validations": [costly] * 3}}
    (one,) = of(a=each).validate({"spec": {"a": [["x"] * 200] * 50}})
    assert one.message.endswith("running out of cost budget, no further validation rules will be run")


RATCHETED = StructuralSchema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 3},
            "size": {
                "type": "integer",
                "x-kubernetes-validations": [{"rule": "self < 5"}, {"rule": "self >= oldSelf"}],
            },
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"],
                "items": {
                    "type": "object",
                    "properties": {"key": {"type": "string"}, "value": {"type": "integer", "maximum": 1}},
                },
            },
        },
    }
)
BROKEN = {
    "name": "long",
    "size": 9,
    "tags": ["a", "z"],
    "keyed": [{"key": "x", "value": 2}, {"key": "y", "value": 1}],
}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, ["keyed[0].value", "name", "tags[1]"]),
        ({"size": 9}, []),
        ({"name": "longer"}, ["name"]),
        ({"size": 10}, ["size"]),
        ({"tags": ["z", "a"]}, ["tags[0]"]),
        ({"keyed": [{"key": "y", "value": 1}, {"key": "x", "value": 2}]}, []),
        ({"keyed": [{"key": "y", "value": 2}, {"key": "x", "value": 2}]}, ["keyed[0].value"]),
    ],
)
def test_an_update_may_leave_what_broke_the_schema_before_it_came(change: dict[str, Any], fields: list[str]) -> None:
    old = BROKEN if change else None
    causes = RATCHETED.validate({**BROKEN, **change}, old)
    assert [cause.field for cause in causes if cause.field != "<nil>"] == fields


def test_whole_numbers_are_written_as_integers() -> None:
    """A queue of weight 2.0 was stored so, and whoever read integers could not read it."""
    number = {"type": "integer"}
    amount = {"x-kubernetes-int-or-string": True}
    schema = {"type": "object", "properties": {"n": number, "q": amount, "l": {"type": "array", "items": number}}}
    obj = {"n": 2.0, "q": 1.0, "l": [3.0, 4]}
    assert not StructuralSchema(schema).validate(obj)
    assert str(obj) == "{'n': 2, 'q': 1, 'l': [3, 4]}"
    (cause,) = StructuralSchema(schema).validate({"n": 1.5})
    assert "must be of type integer" in cause.message
