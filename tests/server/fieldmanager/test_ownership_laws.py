"""Laws of field sets, and that whatever is sent is either understood or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import ApiError
from strato.server.fieldmanager import paths
from strato.server.fieldmanager.entries import InvalidEntries, read_entries, write_entries
from strato.server.fieldmanager.manager import FieldManager
from strato.server.fieldmanager.schemas import Compiler
from strato.server.fieldmanager.typed import compare, field_set
from strato.server.fieldmanager.types import DEDUCED, Type
from strato.server.fieldmanager.updater import Updater
from strato.server.openapi.schemas import published

NOW, LATER = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'k:{"n":1}', 'v:"s"', "v:2", "i:0"])
SETS = st.lists(st.lists(ELEMENTS, min_size=1, max_size=3), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab:{", max_size=3)
NAMES = st.sampled_from(["a", "b", "metadata", "spec", "ports", "containers", "name", "labels", "containerPort"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


def made(each: list[list[str]]) -> paths.FieldSet:
    found: paths.FieldSet = {}
    for path in each:
        paths.insert(found, path)
    return found


def members(fields: paths.FieldSet) -> set[paths.Path]:
    return set(paths.iterate(fields))


@given(SETS, SETS)
def test_sets_are_sets(one: list[list[str]], other: list[list[str]]) -> None:
    a, b = made(one), made(other)
    assert members(paths.union(a, b)) == members(a) | members(b)
    assert members(paths.intersection(a, b)) == members(a) & members(b)
    assert members(paths.difference(a, b)) == members(a) - members(b)
    kept = {path for path in members(a) if not any(path[: len(each)] == each for each in members(b))}
    assert members(paths.without(a, b)) == kept
    assert paths.read_set(paths.write_set(a)) == a


@given(VALUES, VALUES)
def test_a_comparison_mirrors_and_finds_nothing_in_equals(one: Any, other: Any) -> None:
    there, back = compare(DEDUCED, one, other), compare(DEDUCED, other, one)
    assert (there.added, there.modified, there.removed) == (back.removed, back.modified, back.added)
    assert not any(compare(DEDUCED, one, one))


class OneVersion:
    """A kind in one version."""

    def __init__(self, kind: Type) -> None:
        self._kind = kind

    def type_of(self, api_version: str) -> Type | None:
        return self._kind if api_version == "v1" else None

    def convert(self, obj: Any, api_version: str, to: str) -> Any:
        assert api_version == to, "there is one version"
        return obj


PODS = FieldManager(Updater(OneVersion(Compiler(published().get).named("io.k8s.api.core.v1.Pod"))), "v1", "Pod")
FREE = FieldManager(Updater(OneVersion(DEDUCED)), "v1", "Any")


@given(OBJECTS, OBJECTS)
def test_an_apply_holds_what_was_applied_and_is_idempotent(first: dict[str, Any], second: dict[str, Any]) -> None:
    live: Any = None
    for number, config in enumerate((first, second)):
        config = {"apiVersion": "v1", "kind": "Any", **config, "metadata": {"name": "x"}}
        live = FREE.apply(live, config, f"m{number}", NOW, force=True)
        assert FREE.apply(live, config, f"m{number}", LATER, force=False) == live
        owned = read_entries(live["metadata"].get("managedFields"))
        mine = next((each.fields for owner, each in owned.items() if owner.manager == f"m{number}"), {})
        unowned = {("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:metadata", "f:name")}
        assert members(mine) == members(field_set(DEDUCED, config)) - unowned


@given(OBJECTS)
def test_whatever_is_applied_is_taken_or_refused(config: dict[str, Any]) -> None:
    code = 201
    try:
        PODS.apply(None, {**config, "apiVersion": "v1", "kind": "Pod"}, "m", NOW, force=False)
    except ApiError as error:
        code = error.code
    assert code in (201, 400, 500)


@given(st.lists(st.dictionaries(st.sampled_from(["manager", "operation", "apiVersion", "fieldsV1", "time"]), VALUES)))
def test_whatever_entries_are_sent_are_read_or_refused(entries: list[dict[str, Any]]) -> None:
    try:
        managed = read_entries(entries)
    except InvalidEntries:
        return
    assert read_entries(write_entries(managed)) == managed


@pytest.mark.parametrize("entries", [[{}] * 501, [{"operation": "Apply"}], ["x"]], ids=["many", "no version", "text"])
def test_entries_that_cannot_be_read_are_named(entries: list[Any]) -> None:
    with pytest.raises(InvalidEntries, match="managed fields entr"):
        read_entries(entries)


def test_deep_objects_are_merged() -> None:
    value: Any = 1
    for _ in range(126):
        value = {"a": value}
    config = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "x"}, "spec": value}
    live = FREE.apply(None, config, "m", NOW, force=False)
    assert FREE.apply(live, config, "m", LATER, force=False) == live
