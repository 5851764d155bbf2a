"""Merge an applied configuration into a live value, and remove paths from a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from strato.server.fieldmanager.paths import LEAF, MEMBER, FieldSet, element_text
from strato.server.fieldmanager.typed import Misfit, item_element
from strato.server.fieldmanager.types import ABSENT, DEDUCED, ListType, MapType, Type


def merge(kind: Type, live: Any, applied: Any) -> Any:
    """Return ``live`` with ``applied`` merged in, or `ABSENT` if nothing is left. Changes neither.

    Raises:
        Misfit: Items of a list cannot be identified.
    """
    what = (kind.kind_of(live) if applied is ABSENT else kind.kind_of(applied)) or kind.first()
    if what == "map":
        assert kind.map is not None
        mine, theirs = (value if value.__class__ is dict else {} for value in (live, applied))
        if not kind.map.atomic and (mine or theirs):
            return _merged_members(kind.map, mine, theirs)
    elif what == "list":
        assert kind.list is not None
        items, others = (value if value.__class__ is list else [] for value in (live, applied))
        if kind.list.kind != "atomic" and (items or others):
            return _merged_items(kind.list, items, others)
    return live if applied is ABSENT else applied


def _merged_members(kind: MapType, live: dict[str, Any], applied: dict[str, Any]) -> Any:
    result = {}
    for name in {**live, **applied}:
        value = live.get(name, ABSENT)
        if name in applied or value.__class__ is dict or value.__class__ is list:
            value = merge(kind.child(name) or DEDUCED, value, applied.get(name, ABSENT))
        if value is not ABSENT:
            result[name] = value
    return result or ABSENT


def _merged_items(kind: ListType, live: Sequence[Any], applied: Sequence[Any]) -> Any:
    """Return the merged items: those of ``applied`` in their order, other live items after their old predecessors."""
    mine = [item_element(kind, item) for item in live]
    theirs = [item_element(kind, item) for item in applied]
    given = dict(zip(theirs, applied, strict=True))
    if len(given) < len(theirs):
        counts = Counter(theirs)
        twice = next(element for element in theirs if counts[element] > 1)
        raise Misfit(f"duplicate entries for key {element_text(twice)}")
    there: dict[str, Any] = {}
    for element, item in zip(mine, live, strict=True):
        there[element] = item if element not in there else None  # duplicate items are not merged
    shared = iter([element for element in theirs if element in there])
    awaited = next(shared, None)
    result: list[Any] = []
    taken: set[str] = set()

    def take(element: str, item: Any) -> None:
        value = merge(kind.element, item, given.get(element, ABSENT))
        if value is not ABSENT:
            result.append(value)
        taken.add(element)

    at = to = 0
    while at < len(mine) or to < len(theirs):
        if at < len(mine):
            element = mine[at]
            if to < len(theirs):
                if element == theirs[to]:
                    take(element, there[element])
                    at, to = at + 1, to + 1
                    awaited = next(shared, None)
                    continue
                if element in given and awaited is not None and element != awaited:
                    at += 1  # an item of both lists, which comes later in the applied order
                    continue
            if element not in given:
                take(element, live[at])
                at += 1
                continue
            if element in taken:
                at += 1
        if to < len(theirs):
            element = theirs[to]
            take(element, there.get(element, ABSENT))
            to += 1
            if element == awaited:
                awaited = next(shared, None)
    return result or ABSENT


def remove(kind: Type, value: Any, paths: FieldSet) -> Any:
    """Return a value without the given members and items; null if nothing is left. Does not change it."""
    what = kind.kind_of(value) or kind.first()
    if what == "scalar":
        return value
    kept: Any = None
    if what == "map" and kind.map is not None and value.__class__ is dict and not kind.map.atomic:
        kept = {}
        for name, inner in value.items():
            below = paths.get("f:" + name)
            if below is None or MEMBER not in below:
                kept[name] = inner if below is None else remove(kind.map.child(name) or DEDUCED, inner, below)
    elif what == "list" and kind.list is not None and value.__class__ is list and kind.list.kind != "atomic":
        kept = []
        for item in value:
            below = paths.get(item_element(kind.list, item))
            if below is None or MEMBER not in below:
                kept.append(item if below is None else remove(kind.list.element, item, below))
    return kept or None


def with_named_fields(fields: FieldSet, kind: Type | None) -> FieldSet:
    """Return a set with the declared fields above its paths added."""
    struct = kind.map if kind is not None else None
    items = kind.list if kind is not None else None
    result: FieldSet = {}
    for element, below in fields.items():
        if element == MEMBER:
            result[element] = below
            continue
        child = None
        is_named = False
        if element[0] == "f" and struct is not None:
            child, is_named = struct.child(element[2:]), element[2:] in struct.declared
        elif element[0] == "k" and items is not None:
            child = items.element
        inner = with_named_fields(below, child)
        result[element] = {MEMBER: {}, **inner} if is_named else inner
    return result


def reconcile(fields: FieldSet, kind: Type) -> FieldSet | None:
    """Return a set adapted to a type that has changed since; None if it needs no change.

    If a value has become atomic, an owner of a part of it owns the whole; if it has become granular, nothing changes.
    """
    result = _reconciled(fields, kind)
    return None if result is fields else result


def _reconciled(fields: FieldSet, kind: Type) -> FieldSet:
    what = kind.first()
    if what == "scalar" or fields == LEAF:
        return fields
    if what == "list" and kind.list is not None and kind.list.kind == "atomic":
        return LEAF
    if kind.map is not None:
        others = kind.map.element
        if others is not None and others.is_deduced and not kind.map.declared:
            return fields
        if kind.map.atomic:
            return LEAF
    result: FieldSet = {}
    is_changed = False
    for element, below in fields.items():
        child = _child_type(kind, element)
        result[element] = below if child is None else _reconciled(below, child)
        is_changed = is_changed or result[element] is not below
    return result if is_changed else fields


def _child_type(kind: Type, element: str) -> Type | None:
    if element == MEMBER:
        return None
    if kind.map is not None:
        return kind.map.child(element[2:]) if element[0] == "f" else kind.map.element
    return kind.list.element if kind.list is not None else None
