"""Field paths and sets of them, as in ``FieldsV1``.

A path is a sequence of elements, each a canonical text: ``f:name`` is a member, ``k:{"name":"a"}`` an item of a list
with keys, ``v:"x"`` an item of a set, ``i:3`` an item by index. A set is a trie of elements in which `MEMBER` marks the
end of a path, so that set operations merge plain dicts. A set is never changed once it is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from strato.decoding import UNDECODABLE

FieldSet = dict[str, Any]
"""The sets below each element; `MEMBER` has an empty one."""
Path = tuple[str, ...]
MEMBER = "."
"""Marks that the path up to here is in the set."""
LEAF: FieldSet = {MEMBER: {}}
_SHORT = 256
"""Longest element whose parsed form and order are cached; clients can make elements of any length."""
_INDEX = re.compile(r"[+-]?\d+")
_decode: Callable[[str], Any] = msgspec.json.Decoder().decode
_encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode


class InvalidFields(ValueError):
    """Fields cannot be parsed."""


# ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def value_element(value: Any) -> str:
    """Return the element of an item of a set."""
    return "v:" + _json_text(value)


def key_element(keys: Mapping[str, Any]) -> str:
    """Return the element of an item of a list with keys."""
    return "k:" + _json_text(keys)


def _json_text(value: Any) -> str:
    text = _encode(_canonical(value)).decode()
    if "<" in text or ">" in text or "&" in text:  # Go escapes these in JSON
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return text


def _canonical(value: Any) -> Any:
    """Return a value in which equal numbers have the same form."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, Mapping):
        return {name: _canonical(inner) for name, inner in value.items()}
    return [_canonical(inner) for inner in value] if isinstance(value, list) else value


def read_element(text: str) -> str | None:
    """Return the canonical form of an element; None for an unknown type of element.

    Raises:
        InvalidFields: It cannot be parsed.
    """
    return _read_short(text) if len(text) <= _SHORT else _read_element(text)


def _read_element(text: str) -> str | None:
    if len(text) < 2:
        raise InvalidFields("key must be 2 characters long:")
    if text[1] != ":":
        raise InvalidFields(f"missing colon: {text}")
    letter, rest = text[0], text[2:]
    if letter == "f":
        return text
    if letter == "i":
        if not _INDEX.fullmatch(rest):
            raise InvalidFields(f'parsing "{rest}": invalid syntax')
        return f"i:{int(rest)}"
    if letter not in "kv":
        return None
    try:
        value = _decode(rest)
    except (*UNDECODABLE, UnicodeError) as error:
        raise InvalidFields(f"{text}: {error}") from error
    if letter == "v":
        return value_element(value)
    if not isinstance(value, dict):
        raise InvalidFields(f"{text}: the keys of an item must be an object")
    return key_element(value)


_read_short = lru_cache(maxsize=4096)(_read_element)


def text_of(path: Sequence[str]) -> str:
    """Return a path in readable form: ``.spec.containers[name="a"].image``."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """Return an element in readable form."""
    rest = element[2:]
    match element[0]:
        case "f":
            return "." + rest
        case "k":
            return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in _decode(rest).items()) + "]"
        case "v":
            return f"[={_value_text(_decode(rest))}]"
    return f"[{rest}]"


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"{name}={_value_text(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return "[" + ",".join(map(_value_text, value)) + "]"
    return _encode(value).decode()


def _order(element: str) -> tuple[Any, ...]:
    """Return the sort key of an element among its siblings."""
    return _short_order(element) if len(element) <= _SHORT else _order_of(element)


def _order_of(element: str) -> tuple[Any, ...]:
    letter, rest = element[0], element[2:]
    if letter == MEMBER:
        return (0,)
    if letter == "f":
        return (1, rest)
    if letter == "k":
        return (2, *((name, _value_order(value)) for name, value in _decode(rest).items()))
    return (3, _value_order(_decode(rest))) if letter == "v" else (4, int(rest))


_short_order = lru_cache(maxsize=4096)(_order_of)


def _value_order(value: Any) -> tuple[Any, ...]:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, *map(_value_order, value))
        case dict():
            return (4, *((name, _value_order(inner)) for name, inner in sorted(value.items())))
    return (5,)


# ── sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_set(fields: Any) -> FieldSet:
    """Parse ``FieldsV1`` into a set; None is the empty set.

    Raises:
        InvalidFields: It cannot be parsed.
    """
    return {element: below for element, below in _read(fields).items() if element != MEMBER}


def _read(fields: Any) -> FieldSet:
    if fields is None:
        return LEAF
    if not isinstance(fields, dict):
        raise InvalidFields(f"expect an object, but found {type(fields).__name__}")
    found: FieldSet = {}
    for text, below in fields.items():
        if text == MEMBER:
            found[MEMBER] = {}
            continue
        element = read_element(text)
        if element is not None:
            inner = _read(below)
            found[element] = union(found[element], inner) if element in found else inner
    return found or LEAF


def write_set(fields: FieldSet) -> dict[str, Any]:
    """Return a set as ``FieldsV1``, in canonical order."""
    return {element: write_set(fields[element]) for element in sorted(fields, key=_order)} if fields != LEAF else {}


def insert(fields: FieldSet, path: Sequence[str]) -> None:
    """Add a path to a set that is being built; the empty path is not added."""
    if path:
        for element in path:
            fields = fields.setdefault(element, {})
        fields[MEMBER] = {}


def has(fields: FieldSet, path: Sequence[str]) -> bool:
    """Return whether a path is in a set."""
    for element in path:
        below = fields.get(element)
        if below is None:
            return False
        fields = below
    return MEMBER in fields


def iterate(fields: FieldSet, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of a set; at each level those that end there come before deeper ones."""
    elements = sorted((element for element in fields if element != MEMBER), key=_order)
    for element in elements:
        if MEMBER in fields[element]:
            yield (*path, element)
    for element in elements:
        yield from iterate(fields[element], (*path, element))


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in one or the other."""
    if not one or not other or one is other:
        return one or other
    result = {**one}
    for element, below in other.items():
        mine = one.get(element)
        result[element] = below if mine is None else union(mine, below)
    return result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in both."""
    result: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            continue
        if element == MEMBER or (inner := intersection(below, theirs)):
            result[element] = {} if element == MEMBER else inner
    return result


def difference(one: FieldSet, other: FieldSet, *, with_below: bool = False) -> FieldSet:
    """Return the paths only in the first set; with ``with_below`` also without those below a path of the other."""
    result: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            result[element] = below
        elif (MEMBER not in theirs or not with_below) and (inner := difference(below, theirs, with_below=with_below)):
            result[element] = inner
    return result


def without(one: FieldSet, excluded: FieldSet) -> FieldSet:
    """Return the paths that are neither excluded nor below an excluded one."""
    return difference(one, excluded, with_below=True)


def only(one: FieldSet, included: FieldSet) -> FieldSet:
    """Return the paths that are included or below an included one; ``*`` stands for any element."""
    if MEMBER in included:
        return one
    result: FieldSet = {}
    for element, below in one.items():
        theirs = included.get(element) or included.get("*")
        if theirs is not None and element != MEMBER and (inner := only(below, theirs)):
            result[element] = inner
    return result
