"""Typed values: check a value against its type, list its paths, and compare two values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from strato.server.fieldmanager.paths import LEAF, MEMBER, FieldSet, element_text, insert, key_element, value_element
from strato.server.fieldmanager.types import ABSENT, DEDUCED, ListType, MapType, Type

_SCALARS: dict[str, tuple[type, ...]] = {
    "numeric": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "untyped": (int, float, str, bool),
}
_EXPECTED = {"numeric": "numeric (int or float)", "untyped": "any scalar"}
_MAX_PROBLEMS = 100


class Misfit(ValueError):
    """A value does not fit its type."""


class Comparison(NamedTuple):
    """The paths in which two objects differ."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def check(kind: Type, value: Any, *, with_duplicates: bool) -> None:
    """Check that a value fits its type.

    Raises:
        Misfit: It does not; the message has all reasons, up to a limit.
    """
    problems: list[str] = []
    for problem in _problems(kind, value, "", with_duplicates):
        problems.append(problem)
        if len(problems) >= _MAX_PROBLEMS:
            break
    if problems:
        raise Misfit(problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems))


def _problems(kind: Type, value: Any, path: str, duplicates: bool) -> Iterator[str]:
    prefix = f"{path}: " if path else ""
    what = kind.kind_of(value) or kind.first()
    if what == "scalar":
        if value is not None and value.__class__ not in _SCALARS[kind.scalar]:
            yield f"{prefix}expected {_EXPECTED.get(kind.scalar, kind.scalar)}, got {_go_text(value)}"
    elif value is None:
        return
    elif what == "map":
        assert kind.map is not None
        if value.__class__ is not dict:
            yield f"{prefix}expected map, got {_go_text(value)}"
            return
        for name, inner in value.items():
            child = kind.map.child(name)
            if child is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from _problems(child, inner, f"{path}.{name}", duplicates)
    else:
        assert kind.list is not None
        if value.__class__ is not list:
            yield f"{prefix}expected list, got {_go_text(value)}"
            return
        yield from _item_problems(kind.list, value, path, duplicates)


def _item_problems(kind: ListType, value: Sequence[Any], path: str, duplicates: bool) -> Iterator[str]:
    known: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if kind.kind != "atomic":
            try:
                element = item_element(kind, item)
            except Misfit as error:
                yield f"{path}: element {index}: {error}"
                return
            if element in known and not duplicates:
                yield f"{path}: duplicate entries for key {element_text(element)}"
            known.add(element)
        yield from _problems(kind.element, item, path + element_text(element), duplicates)


def atomic_paths(kind: Type, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the atomic lists, maps and structs of a value."""
    if value.__class__ is dict and kind.map is not None:
        if kind.map.atomic:
            yield path
        for name, inner in value.items():
            yield from atomic_paths(kind.map.child(name) or DEDUCED, inner, f"{path}.{name}")
    elif value.__class__ is list and kind.list is not None:
        if kind.list.kind == "atomic":
            yield path
        for index, item in enumerate(value):
            yield from atomic_paths(kind.list.element, item, f"{path}[{index}]")


def _go_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"&{{{text[:256]}}}"


def item_element(kind: ListType, item: Any) -> str:
    """Return the path element of an item of a granular list.

    Raises:
        Misfit: The item has no key that identifies it.
    """
    if kind.kind == "set":
        if item.__class__ is dict:
            raise Misfit("associative list without keys has an element that's a map type")
        if item.__class__ is list:
            raise Misfit("not supported: associative list with lists as elements")
        if item is None:
            raise Misfit("associative list without keys has an element that's an explicit null")
        return value_element(item)
    if item is None:
        raise Misfit("associative list with keys may not have a null element")
    if item.__class__ is not dict:
        raise Misfit("associative list with keys may not have non-map elements")
    keys = {}
    for key in kind.keys:
        value = item[key] if key in item else kind.default_of(key)
        if value is not ABSENT:
            keys[key] = value
    if not keys:
        named = " ".join(f'"{key}"' for key in kind.keys)
        raise Misfit(
            f"associative list with keys has an element that omits all key fields [{named}] (and doesn't have default "
            "values for any key fields)"
        )
    return key_element(keys)


def field_set(kind: Type, value: Any) -> FieldSet:
    """Return the paths in a configuration."""
    return _own(kind, value)[0]


def _own(kind: Type, value: Any) -> tuple[FieldSet, bool]:
    """Return the paths below a value, and whether its own path belongs to the set too."""
    what = kind.kind_of(value) or kind.first()
    if what == "map":
        assert kind.map is not None
        return ({}, True) if kind.map.atomic else (_own_members(kind.map, value), False)
    if what == "list":
        assert kind.list is not None
        return ({}, True) if kind.list.kind == "atomic" else (_own_items(kind.list, value), False)
    return {}, True


def _own_members(kind: MapType, value: Any) -> FieldSet:
    found: FieldSet = {}
    for name, inner in value.items() if isinstance(value, dict) else ():
        below, is_own = _own(kind.child(name) or DEDUCED, inner)
        if is_own or inner is None or inner == {} or name not in kind.declared:
            below = {MEMBER: {}, **below} if below else LEAF
        if below:
            found["f:" + name] = below
    return found


def _own_items(kind: ListType, value: Any) -> FieldSet:
    found: FieldSet = {}
    items = [(item_element(kind, item), item) for item in value or ()]
    counts = Counter(element for element, _ in items)
    for element, item in items:
        if counts[element] > 1:  # of duplicates only the path of the item, as paths below it would be ambiguous
            found[element] = LEAF
        else:
            found[element] = {MEMBER: {}, **_own(kind.element, item)[0]}
    return found


def compare(kind: Type, old: Any, new: Any) -> Comparison:
    """Compare two values of a type; identical Python objects are skipped."""
    result = Comparison({}, {}, {})
    _Comparer(result, []).values(kind, old, new)
    return result


class _Comparer(NamedTuple):
    found: Comparison
    path: list[str]

    def values(self, kind: Type, old: Any, new: Any) -> None:
        if old is new:
            return
        was, becomes = kind.kind_of(old), kind.kind_of(new)
        if new is ABSENT:
            is_leaf = self._as(was, kind, old, new)
        else:
            if old is not ABSENT and was != becomes:
                self._as(was, kind, old, new)
            is_leaf = self._as(becomes, kind, old, new)
        if not is_leaf and old is ABSENT:
            insert(self.found.added, self.path)
        elif not is_leaf and new is ABSENT:
            insert(self.found.removed, self.path)

    def _as(self, what: str, kind: Type, old: Any, new: Any) -> bool:
        """Compare two values as scalars, maps or lists; return whether they are leaves."""
        what = what or kind.first()
        if what == "map":
            assert kind.map is not None
            before, after = _members(old), _members(new)
            if not kind.map.atomic and (before or after):
                for name in {**before, **after}:
                    self._below(
                        "f:" + name, kind.map.child(name) or DEDUCED, before.get(name, ABSENT), after.get(name, ABSENT)
                    )
                return False
        elif what == "list":
            assert kind.list is not None
            if kind.list.kind != "atomic" and (_items(old) or _items(new)):
                self._compare_items(kind.list, _items(old), _items(new))
                return False
        self._leaf(old, new)
        return True

    def _leaf(self, old: Any, new: Any) -> None:
        if old is ABSENT:
            insert(self.found.added, self.path)
        elif new is ABSENT:
            insert(self.found.removed, self.path)
        elif not same(old, new):
            insert(self.found.modified, self.path)

    def _below(self, element: str, kind: Type, old: Any, new: Any) -> None:
        self.path.append(element)
        self.values(kind, old, new)
        self.path.pop()

    def _compare_items(self, kind: ListType, old: Sequence[Any], new: Sequence[Any]) -> None:
        before, after = group(kind, old), group(kind, new)
        for element in {**before, **after}:
            was, becomes = before.get(element, ()), after.get(element, ())
            if len(was) > 1 and len(becomes) > 1:
                if not same(list(was), list(becomes)):
                    insert(self.found.modified, [*self.path, element])
            elif len(was) > 1:
                if becomes:
                    self._below(element, kind.element, ABSENT, becomes[0])
                insert(self.found.removed, [*self.path, element])
            elif len(becomes) > 1:
                if was:
                    self._below(element, kind.element, was[0], ABSENT)
                insert(self.found.added, [*self.path, element])
            else:
                self._below(element, kind.element, was[0] if was else ABSENT, becomes[0] if becomes else ABSENT)


def group(kind: ListType, items: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the items of a list by their path elements."""
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item_element(kind, item), []).append(item)
    return found


def _members(value: Any) -> dict[str, Any]:
    return value if value.__class__ is dict else {}


def _items(value: Any) -> Sequence[Any]:
    return value if value.__class__ is list else ()


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; unlike in Python, true is not 1."""
    if one is other:
        return True
    if one.__class__ is dict and other.__class__ is dict:
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if one.__class__ is list and other.__class__ is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and (one.__class__ is bool) is (other.__class__ is bool)
