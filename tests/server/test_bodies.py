"""Request bodies: every decoder answers with an `ApiError` or a value within the limits, and nothing else."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.errors import ApiError, BadRequest, Invalid, TooLarge, UnsupportedMedia
from strato.server import bodies, protobuf
from strato.server.bodies import MAX_DEPTH, MAX_VALUES, read_body
from strato.server.flowcontrol.dispatch import at_once
from strato.server.jsonbodies import LARGE_BYTES
from strato.server.negotiation import PROTOBUF
from strato.server.patch import apply_json_patch, apply_merge_patch, apply_strategic_patch
from tests.profiles import examples

GOLDEN = Path(__file__).parent / "protobuf/golden/data"
YAML = "application/yaml"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"[" * 50_000, BadRequest, id="very deep"),
        pytest.param(b"[" * 200 + b"]" * 200, BadRequest, id="deeper than walks can bear"),
        pytest.param(b'{"a":' * 200 + b"1" + b"}" * 200, BadRequest, id="deep objects"),
        pytest.param(b"[" + b"1," * MAX_VALUES + b"1]", TooLarge, id="many numbers"),
        pytest.param(b"[" + b"[]," * MAX_VALUES + b"1]", TooLarge, id="many lists"),
        pytest.param(b"[" + b'"",' * MAX_VALUES + b"1]", TooLarge, id="many texts"),
        pytest.param(b"[" + b'"' * 1_000_000, BadRequest, id="many quotes"),
        pytest.param(b'"' + b"a" * (3 << 20) + b'"', TooLarge, id="3 MiB"),
        pytest.param(b"[" + b"9" * 5000 + b"]", BadRequest, id="an integer of 5,000 digits"),
        pytest.param(
            b'["' + b"x" * (LARGE_BYTES - 300) + b'",' + b"1" * 600 + b"]", BadRequest, id="a number of 600 digits"
        ),
        pytest.param(b"[" + (b"0." + b"1" * 1000 + b",") * 100 + b"1]", BadRequest, id="numbers of 1,000 digits"),
        pytest.param(b"1e999", BadRequest, id="an infinite number"),
        pytest.param(b'"\\ud800"', BadRequest, id="half a surrogate pair"),
        pytest.param(b'"\xed\xa0\x80"', BadRequest, id="an encoded surrogate"),
        pytest.param(b'"\xff"', BadRequest, id="no UTF-8"),
        pytest.param(b"", BadRequest, id="nothing"),
        pytest.param(b"{}{}", BadRequest, id="two"),
    ],
)
def test_json_over_a_limit_is_refused(body: bytes, error: type[ApiError]) -> None:
    with pytest.raises(error):
        read_body(body, "application/json")


def test_what_is_inside_texts_does_not_count() -> None:
    text = ",[{" * 200_000 + '\\"' * 20_000
    assert read_body(msgspec.json.encode({"a": text}), "application/json") == {"a": text}
    assert read_body(json.dumps(["9" * 5000] * 20).encode(), "") == ["9" * 5000] * 20


def test_long_numbers_are_looked_for_in_time_linear_in_the_body() -> None:
    body = b"[" + b",".join([b"1" * 390] * 7600) + b"]"
    before = time.thread_time()
    assert len(read_body(body, "")) == 7600
    assert time.thread_time() - before < 0.5, "CPU of this thread; a search that begins anew at each digit takes 1.0 s"


def test_the_largest_that_is_read() -> None:
    assert len(read_body(b"[" + b"1," * (MAX_VALUES - 2) + b"1]", "")) == MAX_VALUES - 1
    assert read_body(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "") is not None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"[" * 50_000, BadRequest, id="very deep"),
        pytest.param(b"a: &a [x,x]\nb: &b [*a,*a]\n" + b"c: *d", BadRequest, id="an unknown alias"),
        pytest.param(b"a: " + b"x" * (600 << 10), TooLarge, id="600 KiB"),
        pytest.param(b"a: .inf", BadRequest, id="infinity"),
    ],
)
def test_yaml_over_a_limit_is_refused(body: bytes, error: type[ApiError]) -> None:
    with pytest.raises(error):
        read_body(body, YAML)


def _parsed(body: bytes, content_type: str) -> bodies.ParsedBody:
    return at_once(bodies.parsing(body, content_type))


def test_a_body_decoded_ahead_is_the_same() -> None:
    assert read_body(_parsed(b"a: yes", YAML), YAML) == {"a": True}
    assert bodies.duplicate_keys(_parsed(b"a: 1\na: 2", YAML), YAML) == [
        'yaml: unmarshal errors:\n  line 2: key "a" already set in map'
    ]
    with pytest.raises(BadRequest, match=r"exceeded max(imum nesting)? depth"):
        read_body(_parsed(b"[" * 50_000, YAML), YAML)
    body = (GOLDEN / "namespace.pb").read_bytes()
    assert read_body(_parsed(body, PROTOBUF), PROTOBUF) == protobuf.decode(body)


def test_other_types_are_not_read() -> None:
    with pytest.raises(UnsupportedMedia):
        read_body(b"{}", "text/xml")


BROKEN_JSON = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"u", b"d800", b"1", b"-", b".", b"e9", b"null", b" "]
    )
    | st.binary(max_size=3),
    max_size=40,
).map(b"".join)


@settings(max_examples=examples(300), deadline=None)
@given(body=BROKEN_JSON, media=st.sampled_from(["", "application/json", YAML, PROTOBUF, "x/y"]))
def test_any_bytes_are_read_or_refused(body: bytes, media: str) -> None:
    with contextlib.suppress(ApiError):
        msgspec.json.encode(read_body(body, media))


PACKED = sorted(GOLDEN.glob("*.pb"))


@settings(max_examples=examples(200), deadline=None)
@given(
    which=st.sampled_from(PACKED),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=4)), max_size=5),
)
def test_damaged_protobuf_is_read_or_refused(which: Path, cuts: list[tuple[float, int, bytes]]) -> None:
    body = which.read_bytes()
    for place, drop, put in cuts:
        at = int(place * len(body))
        body = body[:at] + put + body[at + drop :]
    with contextlib.suppress(ApiError):
        msgspec.json.encode(read_body(body, PROTOBUF))


# ── patches ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copies_that_double_are_stopped() -> None:
    operations = [{"op": "copy", "from": "", "path": f"/a{n}"} for n in range(100)]
    with pytest.raises(TooLarge, match="accumulated size increase of copy"):
        apply_json_patch({"text": "x" * 100}, operations)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": ""},
        {"op": "move", "path": "/a"},
        {"op": "copy", "path": "/a", "from": 5},
        {"op": "add", "path": "/list/²", "value": 1},
        {"op": "add", "path": "/list/" + "9" * 5000, "value": 1},
        {"op": "add", "path": "/a" * 5000, "value": 1},
        {"op": "test", "path": "/a", "value": [[]]},
        {"path": "/a"},
        5,
    ],
    ids=str,
)
def test_operations_that_make_no_sense_are_refused(operation: Any) -> None:
    with pytest.raises(Invalid):
        apply_json_patch({"list": [1, 2]}, [operation])


def _strategy(path: tuple[str, ...]) -> tuple[str | None, str]:
    return ("name", "merge") if path[-1] == "items" else (None, "merge")


@pytest.mark.parametrize(
    "patch",
    [
        {"primitives": [{"a": 1}, [1], {"a": 1}]},
        {"primitives": [1], "$setElementOrder/primitives": [[1], {"a": 2}]},
        {"items": [{"name": ["a"]}, {"name": {"b": 1}, "$patch": "delete"}]},
        {"items": 5, "$setElementOrder/items": [{"name": "a"}]},
        {"$retainKeys": 5},
        {"$deleteFromPrimitiveList/primitives": [[1], {"a": 1}]},
        {"$patch": []},
    ],
    ids=str,
)
def test_strategic_patches_of_anything_are_applied_or_refused(patch: Any) -> None:
    target = {"primitives": ["x", {"a": 1}], "items": [{"name": "a"}, "text"]}
    with contextlib.suppress(ApiError):
        apply_strategic_patch(target, patch, _strategy)


def test_items_are_merged_and_deleted_by_their_key() -> None:
    target = {"items": [{"name": "a", "x": 1}, {"name": "b"}, {"name": "a", "x": 2}]}
    patch = {"items": [{"name": "a", "$patch": "delete"}, {"name": "a", "y": 1}, {"name": "b", "z": 1}]}
    assert apply_strategic_patch(target, patch, _strategy) == {"items": [{"name": "a", "y": 1}, {"name": "b", "z": 1}]}


MEMBERS = st.sampled_from(["a", "b", "name", "items", "$patch", "$retainKeys", "$setElementOrder/items"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", "", "replace", "delete"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "name", "items", "$patch", "$retainKeys", "$setElementOrder/items"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "items", "b"]), VALUES, max_size=3)


@settings(max_examples=examples(300), deadline=None)
@given(
    target=OBJECTS, patch=st.dictionaries(st.sampled_from(["a", "items", "$setElementOrder/items", "$patch"]), VALUES)
)
def test_any_object_patches_any_other_or_is_refused(target: Any, patch: Any) -> None:
    apply_merge_patch(target, patch)
    with contextlib.suppress(ApiError):
        apply_strategic_patch(target, patch, _strategy)
