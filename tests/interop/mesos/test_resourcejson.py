"""Resources in the wire's JSON, in both formats of reservations."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.interop.mesos.resourcejson import from_json, to_json
from strato.interop.mesos.resources import Resources
from strato.interop.mesos.resourcetext import parse
from tests.interop.mesos.strategies import resources


def scalar(**more: Any) -> dict[str, Any]:
    return {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}} | more


def test_resources_are_read() -> None:
    listed = [
        scalar(role="*"),
        scalar(role="a"),
        scalar(reservations=[{"type": "STATIC", "role": "b"}]),
        {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 1, "end": 2}, {"begin": 3, "end": 4}]}},
        {"name": "disks", "type": "SET", "set": {"item": ["sda"]}},
    ]
    assert from_json(listed) == parse("cpus:1;cpus(a):1;cpus(b):1;ports:[1-4];disks:{sda}")


def test_both_formats_of_a_dynamic_reservation_are_one_kind() -> None:
    labels = {"labels": [{"key": "k", "value": "v"}, {"key": "l"}]}
    old = [scalar(role="a", reservation={"principal": "p", "labels": labels})]
    new = [scalar(reservations=[{"type": "DYNAMIC", "role": "a", "principal": "p", "labels": labels}])]
    assert from_json(old) == from_json(new)
    assert to_json(from_json(old)) == new
    assert to_json(from_json(new), refined=False) == old


def test_what_is_unreserved_has_its_role_in_the_old_format_only() -> None:
    assert to_json(parse("cpus:1"), refined=False) == [scalar(role="*")]
    assert to_json(parse("cpus:1")) == [scalar()]


def test_zero_amounts_go() -> None:
    assert from_json([scalar(scalar={"value": 0.0}), {"name": "p", "type": "RANGES", "ranges": {}}]) == Resources()


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (7, "resources[0]: expected an object, got a number"),
        ({"type": "SCALAR", "scalar": {"value": 1}}, "resources[0].name"),
        (scalar(type="TEXT"), "resources[0].type"),
        (scalar(scalar={"value": -1}), "resources[0].scalar.value"),
        (scalar(scalar={"value": float("nan")}), "resources[0].scalar.value"),
        (scalar(scalar={"value": 1e300}), "resources[0].scalar.value"),
        (scalar(scalar={"value": True}), "resources[0].scalar.value"),
        (scalar(scalar=[]), "resources[0].scalar"),
        (scalar(role="a//b"), "resources[0].role"),
        (scalar(role=["a"]), "resources[0].role"),
        (scalar(reservation={}), "resources[0].reservation"),
        (scalar(reservations=[{"type": "STATIC", "role": "*"}]), "resources[0].reservations[0]"),
        (scalar(reservations=[{"role": "a"}]), "resources[0].reservations[0].type"),
        (scalar(reservations=[{"type": "DYNAMIC", "role": "a"}, {"type": "STATIC", "role": "a/b"}]), "reservations[1]"),
        (scalar(reservations=[{"type": "STATIC", "role": "a"}, {"type": "DYNAMIC", "role": "b"}]), "is not below 'a'"),
        (scalar(reservations="a"), "resources[0].reservations: expected a list"),
        (scalar(shared={}), "resources[0].shared"),
        (scalar(disk={"persistence": {"id": "v"}}), "resources[0].disk"),
        ({"name": "p", "type": "RANGES", "ranges": {"range": [{"begin": 2, "end": 1}]}}, "ranges.range[0]"),
        ({"name": "p", "type": "RANGES", "ranges": {"range": [{"begin": True, "end": 1}]}}, "ranges.range[0]"),
        ({"name": "p", "type": "SET", "set": {"item": [1]}}, "resources[0].set.item"),
    ],
)
def test_bad_resources_say_where(item: Any, where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_json([item])
    assert where in str(caught.value)


def test_all_problems_are_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        from_json([scalar(role="/a"), scalar(), {"name": 1}])
    assert len(caught.value.problems) >= 2
    with pytest.raises(InvalidInput, match="expected a list, got an object"):
        from_json({})


@given(resources())
def test_what_is_written_is_read_again(some: Resources) -> None:
    assert from_json(to_json(some)) == some
    assert from_json(to_json(some.allocated("a/b"))) == some.allocated("a/b")
    old = some.filter(lambda kind: len(kind.reservations) < 2)
    assert from_json(to_json(old, refined=False)) == old


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab*/", max_size=3) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "scalar", "value", "ranges", "range", "role", "reservations", "disk"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_or_refused(listed: Any) -> None:
    with contextlib.suppress(InvalidInput):
        from_json(listed)
