"""Check objects of built-in kinds: unknown and duplicate fields, wrong JSON types; and merge keys for patches.

Most objects are valid, so `strato.server.schema.typed` runs first, which only answers yes or no. If the answer is no,
`_Finder` walks the object and its shape, which is slower, to find the messages.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from strato.api.kinds import Kind
from strato.server.flowcontrol.timeslice import alone, is_divided
from strato.server.schema import shapes
from strato.server.schema.typed import (
    NEVER_NULL,
    Check,
    converter,
    fits_text,
    is_bytes,
    is_clean,
    is_quantity,
    is_time,
    quantity_problem,
)

_MAX_REPORTS = 100
"""Most problems reported, as in Kubernetes."""


def typed(kind: Kind, obj: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Remove unknown fields and nulls from ``obj``, in place, as decoding into Go's types would.

    Returns:
        ``unknown field "spec.foo"`` for every field the kind does not have, and the message of Kubernetes' decoder for
        each value of a wrong JSON type. Usually two empty lists.
    """
    name = shapes.load().of(kind)
    if name is None or (_is_clean_in_parts(name, obj) if is_divided() else _is_clean(name)(obj)):
        return [], []
    finder = _Finder()
    finder.structure(name, obj, "", ())
    return finder.unknown[:_MAX_REPORTS], finder.wrong


def typed_metadata(metadata: dict[str, Any], path: str) -> tuple[list[str], list[str]]:
    """Remove unknown fields and nulls from the metadata at ``path`` of a custom object; return as `typed`."""
    finder = _Finder()
    finder.structure(shapes.METADATA, metadata, path, ())
    return finder.unknown[:_MAX_REPORTS], finder.wrong


@cache
def status_check(kind: Kind) -> Callable[[bytes], bool]:
    """Return the quick check of a status as JSON text: whether `typed` would find no problem in it."""
    name = shapes.load().of(kind)
    return fits_text(name, "status") if name is not None else lambda _: False


def _is_int32(value: Any) -> bool:
    return value.__class__ is int and -(1 << 31) <= value < (1 << 31)


_SCALARS: dict[str, type | Check] = {
    "string": str,
    "bytes": is_bytes,
    "boolean": bool,
    "int32": _is_int32,
    "int64": lambda value: value.__class__ is int and -(1 << 63) <= value < (1 << 63),
    "number": lambda value: value.__class__ in (int, float),
    "object": dict,
    "quantity": is_quantity,
    "time": is_time,
    "int-or-string": lambda value: value.__class__ is str or _is_int32(value),
    "any": lambda _: True,
}


_is_clean = cache(is_clean)
_converter = cache(converter)
_MANY = 1024
"""Members of a map or list that are checked in one call."""


def _is_clean_in_parts(name: str, obj: dict[str, Any]) -> bool:
    """Check a large object as `is_clean` does, its long maps a part at a time, so that this can pause."""
    convert, rest = _converter(name), dict(obj)
    for key, value in obj.items():
        if value.__class__ is dict and len(value) > _MANY:
            members = iter(value.items())
            while part := dict(islice(members, _MANY)):
                if alone(convert, {key: part}) is None:
                    return False
            rest[key] = {}
    return alone(convert, rest) is not None


# ── the words ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Finder:
    """Walks an object along its shape, removes unknown fields and nulls, and collects the problems."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[str] = []

    def structure(self, name: str, obj: Any, path: str, fields_path: tuple[str, ...]) -> None:
        fields = shapes.load().types[name]
        owner = name.rpartition(".")[2]
        for key in list(obj):
            inner = f"{path}.{key}" if path else key
            if key not in fields:
                self.unknown.append(f'unknown field "{inner}"')
                del obj[key]
                continue
            kind = fields[key][0]
            if obj[key] is None:
                if kind != "time" or key in NEVER_NULL:
                    del obj[key]
                continue
            obj[key] = self.value(kind, obj[key], inner, owner, (*fields_path, key))

    def value(self, kind: shapes.Type, value: Any, path: str, owner: str, fields_path: tuple[str, ...]) -> Any:
        """Return the value as it is stored."""
        scalars = shapes.load().scalars
        if isinstance(kind, str) and kind[1:] in scalars:
            kind = scalars[kind[1:]]
        if isinstance(kind, Mapping):
            wanted: Any = list if "list" in kind else dict
            if value.__class__ is not wanted:
                self._mismatch(kind, value, owner, fields_path)
            elif wanted is list:
                for index, item in enumerate(value):
                    if item is None:
                        value[index] = _zero(kind["list"])
                    else:
                        value[index] = self.value(kind["list"], item, f"{path}[{index}]", owner, fields_path)
            else:
                for key, item in value.items():
                    if item is None:
                        value[key] = _zero(kind["map"])
                    else:
                        value[key] = self.value(kind["map"], item, f"{path}.{key}", owner, fields_path)
        elif kind.startswith("@"):
            if isinstance(value, dict):
                self.structure(kind[1:], value, path, fields_path)
            else:
                self._mismatch(kind, value, owner, fields_path)
        elif kind == "bytes" and isinstance(value, list):
            return self._octets(value, owner, fields_path)
        else:
            want = _SCALARS[kind]
            if not (value.__class__ is want if isinstance(want, type) else want(value)):
                self._mismatch(kind, value, owner, fields_path)
        return value

    def _octets(self, value: list[Any], owner: str, fields_path: tuple[str, ...]) -> str:
        """Return a list of numbers, which Go's decoder takes for bytes, as base64."""
        octets = bytearray()
        for item in value:
            if item is None or (item.__class__ is int and 0 <= item < 256):
                octets.append(item or 0)
            else:
                self._mismatch("uint8", item, owner, fields_path)
        return base64.b64encode(octets).decode()

    def _mismatch(self, kind: shapes.Type, value: Any, owner: str, fields_path: tuple[str, ...]) -> None:
        if kind == "bytes" and isinstance(value, str):
            self.wrong.append(f"illegal base64 data at {'.'.join(fields_path)}")
        elif kind == "quantity" and isinstance(value, str):
            self.wrong.append(quantity_problem(value))
        elif kind == "time" and isinstance(value, str):
            text = json.dumps(value)
            self.wrong.append(f'parsing time {text} as "2006-01-02T15:04:05Z07:00": cannot parse {text} as "2006"')
        else:
            self.wrong.append(
                f"json: cannot unmarshal {_json_name(value, kind)} into Go struct field "
                f"{owner}.{'.'.join(fields_path)} of type {shapes.go_name(kind)}"
            )


def _zero(kind: shapes.Type) -> Any:
    """Return the zero value to which Go decodes a null in a list or map."""
    if isinstance(kind, Mapping):
        return [] if "list" in kind else {}
    if kind.startswith("@"):
        scalars = shapes.load().scalars
        return _zero(scalars[kind[1:]]) if kind[1:] in scalars else {}
    return _ZEROS.get(kind)


_ZEROS: dict[str, Any] = {
    "string": "",
    "bytes": "",
    "boolean": False,
    "int32": 0,
    "int64": 0,
    "number": 0,
    "quantity": "0",
}


def _json_name(value: Any, kind: shapes.Type) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return f"number {json.dumps(value)}" if kind in ("int32", "int64", "uint8") else "number"
        case list():
            return "array"
    return "object"


# ── duplicate keys ────────────────────────────────────────────────────────────────────────────────────────────────


def duplicate_fields(body: bytes, obj: Any = None) -> list[str]:
    """Return ``duplicate field "metadata.name"`` for every key a JSON object of the body has twice.

    Args:
        body: JSON that is known to parse.
        obj: The same body decoded, if at hand: counting keys then spares the second parse of nearly every body.
    """
    if obj is not None and body.count(b'":') == _count_keys(obj) and not _SPACED_COLON.search(body):
        return []
    pairs = json.loads(body, object_pairs_hook=lambda pairs: _Pairs(pairs))  # a call, so that a `Computation` can pause
    found: dict[str, None] = {}
    _duplicates(pairs, "", found)
    return list(found)[:_MAX_REPORTS]


def in_document_order(body: bytes, unknown: list[str]) -> list[str]:
    """Return the unknown and the duplicate fields of a JSON body, in the order in which Go's decoder meets them."""
    pairs = json.loads(body, object_pairs_hook=lambda pairs: _Pairs(pairs))
    found: dict[str, None] = {}
    _duplicates(pairs, "", found, frozenset(unknown))
    return list(found)[:_MAX_REPORTS]


_SPACED_COLON = re.compile(rb'"\s+:')


def merge_duplicates(body: bytes) -> Any:
    """Decode JSON with duplicate keys as Go does: objects under one key are merged, of other values the last counts."""
    return json.loads(body, object_pairs_hook=_merged)


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        before = result.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _merged([*before.items(), *value.items()])
        result[key] = value
    return result


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, with duplicates."""


def _count_keys(value: Any) -> int:
    if value.__class__ is dict:
        count = len(value)
        for inner in value.values():
            if inner.__class__ is dict or inner.__class__ is list:
                count += _count_keys(inner)
        return count
    count = 0
    if value.__class__ is list:
        for inner in value:
            if inner.__class__ is dict or inner.__class__ is list:
                count += _count_keys(inner)
    return count


def _duplicates(value: Any, path: str, found: dict[str, None], unknown: frozenset[str] = frozenset()) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            inner_path = f"{path}.{key}" if path else key
            if (text := f'unknown field "{inner_path}"') in unknown:
                found[text] = None  # Go skips the value, so problems inside are not reported
                continue
            if key in seen:
                found[f'duplicate field "{inner_path}"'] = None
            seen.add(key)
            _duplicates(inner, inner_path, found, unknown)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _duplicates(item, f"{path}[{index}]", found, unknown)


# ── merge keys ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class MergeInfo:
    """How strategic merge patches treat the fields of one kind."""

    shape: str
    """Name of the kind's shape."""

    def list_strategy(self, path: tuple[str, ...]) -> tuple[str | None, str]:
        """Return (merge key, strategy) of the field at ``path``, which has no list indices and map keys.

        The strategy is ``replace``, ``merge``, ``retainKeys`` or ``merge,retainKeys``. By default a list is replaced
        and a structure or map merged. Values at unknown paths are replaced.
        """
        return _strategy(self.shape, path)


def _strategy(shape: str, path: tuple[str, ...]) -> tuple[str | None, str]:
    found: tuple[str | None, str] = None, "merge"
    name: str | None = shape
    for step in path:
        if name is None:
            return None, "merge"  # inside a map with arbitrary members or an untyped value
        member = _merged_members(name).get(step)
        if member is None:
            return None, "replace"
        found, name = member
    return found


@cache
def _merged_members(shape: str) -> dict[str, tuple[tuple[str | None, str], str | None]]:
    """Return merge key and strategy of each field of a shape, and the shape of its value or items."""
    members: dict[str, tuple[tuple[str | None, str], str | None]] = {}
    for name, field in shapes.load().types[shape].items():
        strategy, key = (field[1], field[2]) if len(field) > 1 else ("", "")
        is_list = isinstance(field[0], Mapping) and "list" in field[0]
        members[name] = (key or None, strategy or ("replace" if is_list else "merge")), _next_shape(field[0])
    return members


def _next_shape(kind: shapes.Type) -> str | None:
    while isinstance(kind, Mapping):
        kind = kind["list"] if "list" in kind else kind["map"]
    return kind[1:] if kind.startswith("@") and kind[1:] in shapes.load().types else None


def merge_info(kind: Kind) -> MergeInfo | None:
    """Return the kind's merge keys; None for kinds that take no strategic merge patch (custom resources)."""
    name = shapes.load().of(kind)
    return _merge_info(name) if name is not None else None


_merge_info = cache(MergeInfo)
"""A cached `MergeInfo` by shape."""
