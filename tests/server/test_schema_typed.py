"""The quick check of built-in kinds says yes only where the walk over the shapes finds nothing to say or to drop."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.server.schema import builtin, shapes, typed
from tests.profiles import examples

_TIME = "2026-08-01T12:00:00Z"
_FITTING: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", _TIME]),
    "bytes": st.sampled_from(["", "YQ=="]),
    "boolean": st.booleans(),
    "int32": st.sampled_from([0, -(2**31), 2**31 - 1]),
    "int64": st.sampled_from([0, -(2**63), 2**63 - 1]),
    "number": st.sampled_from([0, 1.5]),
    "object": st.just({"any": [None]}),
    "quantity": st.sampled_from([1, 0.5, "1Gi", "100m", "1e3"]),
    "time": st.sampled_from([_TIME, "2026-08-01T12:00:00.123456+02:00"]),
    "int-or-string": st.sampled_from([1, "50%"]),
    "any": st.sampled_from([None, 1, {"a": None}, []]),
}
_STRANGE: list[Any] = [
    None,
    True,
    1.0,
    2**31,
    2**64,
    "x",
    "1 Gi",
    "2026-08-01",
    "2026-08-01T12:00:00",
    "2026-08-01t12:00:00z",
    [],
    {},
    [None],
]
_KINDS = ["/v1/Pod", "/v1/Node", "/v1/Service", "/v1/Event", "apps/v1/Deployment", "coordination.k8s.io/v1/Lease"]


def _value(kind: shapes.Type, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, dict):
        inner = _value(kind["list"] if "list" in kind else kind["map"], depth)
        return st.lists(inner, max_size=2) if "list" in kind else st.dictionaries(st.sampled_from("ab"), inner)
    assert isinstance(kind, str)
    if not kind.startswith("@"):
        return _FITTING[kind]
    scalar = shapes.load().scalars.get(kind[1:])
    return _value(scalar, depth) if scalar is not None else _object(kind[1:], depth - 1)


def _object(shape: str, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    fields = shapes.load().types[shape]

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True)) if depth > 0 else []
        return {name: draw(_value(fields[name][0], depth)) for name in names}

    return build()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every member and item as (container, key)."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in members for place in [(value, key), *_places(inner)]]


@pytest.mark.parametrize("kind", _KINDS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_the_quick_check_accepts_is_left_as_it_is(kind: str, data: st.DataObject) -> None:
    shape = shapes.load().kinds[kind]
    obj = data.draw(_object(shape, 5))
    assert typed.is_clean(shape)(obj), "an object that fits is accepted at once"
    places = _places(obj)
    if places:
        container, key = data.draw(st.sampled_from(places))
        container[key] = data.draw(st.sampled_from(_STRANGE))
    if data.draw(st.booleans()):
        obj["foo"] = 1
    if not typed.is_clean(shape)(obj):
        assert not typed.fits_text(shape)(msgspec.json.encode(obj)), "the check of text is the stricter one"
        return
    before = copy.deepcopy(obj)
    finder = builtin._Finder()
    finder.structure(shape, obj, "", ())
    assert (finder.unknown, finder.wrong) == ([], [])
    assert obj == before


@pytest.mark.parametrize(
    ("status", "fits"),
    [
        ({"phase": "Running", "message": "jazz", "startTime": _TIME}, True),
        ({"phase": "Running", "startTime": None}, True),
        ({"startTime": "2026-08-01T12:00:00z"}, False),
        ({"startTime": "soon"}, False),
        ({"phase": None}, False),
        ({"hello": 1}, False),
        ([], False),
    ],
)
def test_the_text_of_a_status_is_checked_like_the_status(status: Any, fits: bool) -> None:
    text = msgspec.json.encode(status)
    # the last letter of a text may stand for one of a time in lower case: such a text is left to the other check
    assert builtin.status_check(catalog.POD)(text) is (fits and b'z"' not in text)
    assert typed.is_clean(shapes.load().kinds["/v1/Pod"])({"status": status}) is fits


def test_every_shape_can_be_compiled() -> None:
    for shape in shapes.load().types:
        assert typed.is_clean(shape)({})
        assert not typed.is_clean(shape)({"no such field": 1})


def test_schemas_inside_schemas_are_checked() -> None:
    check = typed.is_clean("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert check({"properties": {"a": {"properties": {"b": {"type": "string"}}}}})
    assert not check({"properties": {"a": {"properties": {"b": {"typo": "string"}}}}})
