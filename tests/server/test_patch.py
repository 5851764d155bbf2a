"""Patches as pure functions. Against a real server they are compared in ``tests/server/rest``."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.errors import BadRequest, Invalid, TooLarge
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from strato.server.schema import builtin
from tests.profiles import examples

TEXTS = st.text("ab", max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_does_what_the_standard_shows(target: Any, patch: Any, want: Any) -> None:
    before = copy.deepcopy((target, patch))
    assert apply_merge_patch(target, patch) == want
    assert (target, patch) == before


@settings(max_examples=examples(40))
@given(target=VALUES, patch=st.dictionaries(TEXTS, VALUES))
def test_merge_patch_twice_is_once(target: Any, patch: Any) -> None:
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once


@settings(max_examples=examples(40))
@given(target=st.dictionaries(TEXTS, VALUES), wanted=st.dictionaries(TEXTS, VALUES))
def test_merge_patch_reaches_every_object_without_nulls(target: Any, wanted: Any) -> None:
    target, wanted = without_nulls(target), without_nulls(wanted)
    assert apply_merge_patch(target, difference(target, wanted)) == wanted


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        both = isinstance(value, dict) and isinstance(before, dict)
        patch[name] = difference(before, value) if both else value
    return patch


@pytest.mark.parametrize(
    ("target", "operations", "want"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add a member"),
        pytest.param({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="insert"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="append"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}, id="add at the end"),
        pytest.param({"a": 1}, [{"op": "add", "path": "", "value": {}}], {}, id="replace all"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove an item"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}, id="replace by null"),
        pytest.param({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}, id="move"),
        pytest.param({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a/b": 1}, [{"op": "test", "path": "/a~1b", "value": 1}], {"a/b": 1}, id="a slash in a name"),
        pytest.param({"a~b": 1}, [{"op": "test", "path": "/a~0b", "value": 1}], {"a~b": 1}, id="a tilde in a name"),
        pytest.param({"": 1}, [{"op": "test", "path": "/", "value": 1}], {"": 1}, id="an empty name"),
    ],
)
def test_json_patch(target: Any, operations: Any, want: Any) -> None:
    assert apply_json_patch(target, operations) == want


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "add", "path": "/x/y", "value": 1}, id="a missing parent"),
        pytest.param({"op": "add", "path": "/list/3", "value": 1}, id="beyond the end"),
        pytest.param({"op": "add", "path": "/list/-1", "value": 1}, id="a negative index"),
        pytest.param({"op": "add", "path": "/list/x", "value": 1}, id="a name in a list"),
        pytest.param({"op": "add", "path": "/text/x", "value": 1}, id="a member of a text"),
        pytest.param({"op": "remove", "path": "/x"}, id="remove what is not there"),
        pytest.param({"op": "move", "from": "/x", "path": "/y"}, id="move what is not there"),
        pytest.param({"op": "move", "path": "/y"}, id="move from nowhere"),
        pytest.param({"op": "test", "path": "/text", "value": 1}, id="a test that fails"),
        pytest.param({"op": "fly", "path": "/text"}, id="an unknown operation"),
        pytest.param({"op": "add", "path": 5, "value": 1}, id="a path that is no text"),
        pytest.param("remove", id="an operation that is no object"),
    ],
)
def test_json_patch_that_cannot_be_applied_is_invalid(operation: Any) -> None:
    with pytest.raises(Invalid):
        apply_json_patch({"list": [1, 2], "text": "t"}, [operation])


def test_json_patch_is_bounded() -> None:
    with pytest.raises(TooLarge, match="10000"):
        apply_json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)


PATHS = st.lists(TEXTS | st.sampled_from(["0", "-"]), max_size=3).map(lambda parts: "".join(f"/{p}" for p in parts))
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": PATHS},
    optional={"from": PATHS, "value": VALUES},
)


@settings(max_examples=examples(40))
@given(target=st.dictionaries(TEXTS, VALUES), operations=st.lists(OPERATIONS, max_size=5))
def test_json_patch_answers_or_refuses_and_nothing_else(target: Any, operations: Any) -> None:
    with contextlib.suppress(BadRequest, Invalid):
        apply_json_patch(target, operations)


def strategic(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    info = builtin.merge_info(catalog.POD)
    assert info is not None
    return apply_strategic_patch(copy.deepcopy(target), copy.deepcopy(patch), info.list_strategy)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "a", "image": "1"}]}},
            {"spec": {"containers": [{"name": "a", "image": "2"}]}},
            {"spec": {"containers": [{"name": "a", "image": "2"}]}},
            id="items are merged by their key",
        ),
        pytest.param(
            containers("a", "b"), containers("c"), containers("c", "a", "b"), id="a new item comes before the old ones"
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            containers("b"),
            id="an item is deleted",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}},
            containers("z"),
            id="a list is replaced",
        ),
        pytest.param(
            containers("a", "b", "c"),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
            containers("b", "c", "a"),
            id="an order is set, others keep their place as near as may be",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            id="plain items are united",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="plain items are deleted",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="a list without a key is replaced",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
            {"metadata": {"labels": {"c": "3"}}},
            id="an object is replaced",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": None}}, {"metadata": {}}, id="null removes"
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
            id="only the retained keys stay",
        ),
    ],
)
def test_strategic_patch(target: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]) -> None:
    assert strategic(target, patch) == want


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"spec": {"containers": [{"image": "x"}]}}, id="an item without its key"),
        pytest.param({"spec": {"containers": ["x"]}}, id="an item that is no object"),
        pytest.param({"spec": {"$patch": "explode"}}, id="an unknown directive"),
        pytest.param({"spec": {"$setElementOrder/containers": "a"}}, id="an order that is no list"),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [{"name": "a"}], **containers("b")["spec"]}},
            id="an order that leaves out what is patched",
        ),
        pytest.param({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, id="a deletion that is no list"),
    ],
)
def test_strategic_patch_that_makes_no_sense_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        strategic({**containers("a"), "metadata": {"finalizers": ["a"]}}, patch)


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@settings(max_examples=examples(40))
@given(old=NAMES, patched=NAMES)
def test_strategic_patch_keeps_both_orders(old: list[str], patched: list[str]) -> None:
    """Items of the patch are in its order, the others in theirs, and no item is lost or made up."""
    result = [item["name"] for item in strategic(containers(*old), containers(*patched))["spec"]["containers"]]
    assert [name for name in result if name in patched] == patched
    assert [name for name in result if name not in patched] == [name for name in old if name not in patched]
