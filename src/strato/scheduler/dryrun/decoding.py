"""Decodes a manifest as a typed view and lists every problem with its path, not only the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from strato.api.meta import Object
from strato.errors import Problem
from strato.scheduler.dryrun.manifests import Json, describe
from strato.scheduler.model.resources import internal

V = TypeVar("V", bound=Object)


def decode(view: type[V], obj: Json, where: str) -> tuple[V | None, list[Problem]]:
    """Read an object as a view.

    Returns:
        The view, or None and every problem: wrong types and invalid quantities.
    """
    problems = [Problem(f"{where}: {path}" if path else where, text) for path, text in _walk(_info(view), obj, "")]
    if problems:
        return None, problems
    try:
        return msgspec.convert(obj, view), []
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        return None, [Problem(where, str(error))]


_INFO: dict[type[Any], inspect.Type] = {}


def _info(view: type[Any]) -> inspect.Type:
    if view not in _INFO:
        _INFO[view] = inspect.type_info(view)
    return _INFO[view]


def _walk(wanted: inspect.Type, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and problem of everything under ``value`` that is not of the wanted type."""
    match wanted:
        case inspect.StructType():
            yield from _object(wanted, value, path)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            if not isinstance(value, list):
                yield path, f"must be a list, not {describe(value)}"
                return
            for i, part in enumerate(value):
                yield from _walk(item, part, f"{path}[{i}]")
        case inspect.DictType():
            yield from _map(wanted, value, path)
        case inspect.UnionType(types=types):
            yield from _union(types, value, path)
        case _:
            if not _is(wanted, value):
                yield path, f"must be {_KINDS.get(type(wanted), 'something else')}, not {describe(value)}"


def _object(wanted: inspect.StructType, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield path, f"must be an object, not {describe(value)}"
        return
    for field in wanted.fields:
        if field.encode_name in value:
            inner = f"{path}.{field.encode_name}" if path else field.encode_name
            yield from _walk(field.type, value[field.encode_name], inner)
        elif field.required:
            yield f"{path}.{field.encode_name}" if path else field.encode_name, "is missing"


def _map(wanted: inspect.DictType, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield path, f"must be an object, not {describe(value)}"
        return
    amounts = _holds_quantities(wanted)
    for key, part in value.items():
        inner = f"{path}.{key}"
        if not isinstance(key, str):
            yield inner, f"the key must be text, not {describe(key)}"
        elif amounts:
            yield from _quantity(key, part, inner)
        else:
            yield from _walk(wanted.value_type, part, inner)


def _holds_quantities(wanted: inspect.DictType) -> bool:
    """Whether a map is a resource list: only these have values that may be text, integers or floats."""
    if not isinstance(wanted.value_type, inspect.UnionType):
        return False
    kinds = {type(member) for member in wanted.value_type.types}
    return kinds == {inspect.StrType, inspect.IntType, inspect.FloatType}


def _quantity(name: str, value: Any, path: str) -> Iterator[tuple[str, str]]:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        amount = internal(name, value)
    except (ValueError, OverflowError):
        yield path, f"must be a quantity such as 500m or 2Gi, not {describe(value)}"
        return
    if amount < 0:
        yield path, f"must not be negative: {value}"


def _union(types: tuple[inspect.Type, ...], value: Any, path: str) -> Iterator[tuple[str, str]]:
    if value is None and any(isinstance(member, inspect.NoneType) for member in types):
        return
    members = [member for member in types if not isinstance(member, inspect.NoneType)]
    if len(members) == 1:
        yield from _walk(members[0], value, path)
    elif not any(_is(member, value) for member in members):
        expected = " or ".join(_KINDS.get(type(member), "an object") for member in members)
        yield path, f"must be {expected}, not {describe(value)}"


def _is(wanted: inspect.Type, value: Any) -> bool:
    match wanted:
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.AnyType() | inspect.RawType():
            return True
        case _:
            return not any(True for _ in _walk(wanted, value, ""))


_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.DictType: "an object",
}
