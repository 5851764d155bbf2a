"""Strategic merge patch: a merge patch that merges lists by a key, with directives.

Directives: ``$patch`` (replace, delete, merge) in an object or a list item, ``$deleteFromPrimitiveList/<field>``,
``$setElementOrder/<field>`` and ``$retainKeys``. Merge keys come from the API's OpenAPI data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from strato.errors import BadRequest

ListStrategy = Callable[[tuple[str, ...]], tuple[str | None, str]]
"""Field path without indices → (merge key or None, ``merge``/``replace``/``retainKeys``)."""

_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"
_MANY = 1024
"""Members that are merged in one go; more are merged by a call for each, between which a `Computation` can pause."""
_SCALARS = frozenset((str, int, bool, float))


def apply_strategic_patch(
    target: dict[str, Any], patch: dict[str, Any], strategy: ListStrategy, at: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return ``target`` with ``patch`` merged in. Changes neither; unchanged parts are shared with ``target``.

    ``at`` is the path of the target in its object.

    Raises:
        BadRequest: A directive is malformed or an item lacks its merge key.
    """
    return _merge_object(target, patch, strategy, at)


def _merge_object(
    target: dict[str, Any], patch: dict[str, Any], strategy: ListStrategy, path: tuple[str, ...]
) -> dict[str, Any]:
    if len(patch) > _MANY or "$" in "".join(patch):
        return _follow_directives(target, patch, strategy, path)
    result = dict(target)
    for name, value in patch.items():
        if value.__class__ in _SCALARS:
            result[name] = value
        else:
            _merge_member(result, name, value, strategy, path)
    return result


def _follow_directives(
    target: dict[str, Any], patch: dict[str, Any], strategy: ListStrategy, path: tuple[str, ...]
) -> dict[str, Any]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequest(f"unknown patch type: {directive} (at {_shown(path)}); known are replace, delete and merge")
    retain = patch.get("$retainKeys")
    if retain is not None and not isinstance(retain, list):
        raise BadRequest(f"$retainKeys must be a list (at {_shown(path)})")
    result = dict(target) if retain is None else {name: value for name, value in target.items() if name in retain}
    orders = {name.removeprefix(_SET_ORDER): order for name, order in patch.items() if name.startswith(_SET_ORDER)}
    before = {field: result.get(field) for field in orders}
    for name, value in patch.items():
        if name.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(result, name.removeprefix(_DELETE_PRIMITIVES), value)
        elif not name.startswith("$"):
            _merge_member(result, name, value, strategy, path)
    for field, order in orders.items():
        if isinstance(result.get(field), list):
            key, _ = strategy((*path, field))
            wanted = _checked_order(order, patch.get(field), key, (*path, field))
            result[field] = _ordered(result[field], wanted, _names(before[field], key), key)
    return result


def _merge_member(result: dict[str, Any], name: str, value: Any, strategy: ListStrategy, path: tuple[str, ...]) -> None:
    """Merge one member into ``result``, a new dict whose values are shared with others and must not be changed."""
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        current = result.get(name)
        if name not in result and "$patch" in value:
            return  # a directive for a missing member has no effect
        if isinstance(current, dict) and strategy((*path, name))[1] == "replace":
            result[name] = _as_new(value)
            return
        result[name] = _merge_object(current if isinstance(current, dict) else {}, value, strategy, (*path, name))
    elif isinstance(value, list):
        result[name] = _merge_items(result.get(name), value, strategy, (*path, name))
    else:
        result[name] = value


def _merge_items(current: Any, value: list[Any], strategy: ListStrategy, path: tuple[str, ...]) -> list[Any]:
    key, how = strategy(path)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in value):
        return [item for item in value if not (isinstance(item, dict) and "$patch" in item)]
    if current is None:  # not looked at in Kubernetes, so that items may lack their key
        return list(_as_new(value))
    if "merge" not in how:
        # a search in the text takes a tenth of the time of the walk, and hardly any list has directives
        return [_without_directives(item) for item in value] if b'"$' in msgspec.json.encode(value) else value
    items = current if isinstance(current, list) else []
    if key is not None:
        return _merge_list(items, value, key, strategy, path)
    known = set(_names(items, None))
    merged = items + [item for name, item in _by_name(value).items() if name not in known]
    return _ordered(merged, _names(value, None), _names(items, None), None)


def _merge_list(
    items: list[Any], patches: Sequence[Any], key: str, strategy: ListStrategy, path: tuple[str, ...]
) -> list[Any]:
    """Merge list items by ``key``. As in Kubernetes (ports!), all items with equal keys count as one item."""
    before, wanted, merged = _names(items, key), _names(patches, key), list(items)
    places = _places(before)
    is_new = is_gone = False
    for name, patch in zip(wanted, patches, strict=True):
        if not isinstance(patch, dict) or key not in patch:
            raise BadRequest(f"map: {patch!r} does not contain declared merge key: {key} (at {_shown(path)})")
        at = places.get(name)
        if patch.get("$patch") == "delete":
            is_gone = True
            if at is not None:
                del places[name]
                merged = [_GONE if _name(item, key) == name else item for item in merged]
        elif at is None:
            is_new = True
            places[name] = len(merged)
            merged.append(_merge_object({}, patch, strategy, path))
        else:
            item = merged[at]
            merged[at] = _merge_object(item if isinstance(item, dict) else {}, patch, strategy, path)
    if not is_gone and len(places) == len(merged):  # all names are different
        if not is_new and (positions := [places[name] for name in wanted]) == sorted(positions):
            return merged
        if len(merged) == len(before) + len(wanted):
            return merged[len(before) :] + merged[: len(before)]
    return _ordered([item for item in merged if item is not _GONE], wanted, before, key)


_GONE = object()
"""Placeholder for a deleted item of a list."""


def _by_name(items: Sequence[Any]) -> dict[Any, Any]:
    """Return the first item of each name, in order."""
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(_name(item, None), item)
    return found


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_directives(member) for name, member in value.items() if not name.startswith("$")}
    return value


def _as_new(value: Any) -> Any:
    """Return what is not merged with anything, without directives and members that are null."""
    if isinstance(value, dict):
        members = value.items()
        return {name: _as_new(one) for name, one in members if one is not None and not name.startswith("$")}
    if isinstance(value, list):  # unlike Kubernetes, which makes the item that is to be deleted
        return [_as_new(item) for item in value if not (isinstance(item, dict) and item.get("$patch") == "delete")]
    return value


def _delete_primitives(target: dict[str, Any], field: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadRequest(f"{_DELETE_PRIMITIVES}{field} must be a list")
    items = target.get(field)
    if isinstance(items, list):
        dropped = set(_names(values, None))
        target[field] = [item for item in items if _name(item, None) not in dropped]


# ── the order of lists ────────────────────────────────────────────────────────────────────────────────────────────


def _name(item: Any, key: str | None) -> Any:
    """Return a hashable name of an item: the value of its key, or the item itself."""
    name = item.get(key) if key is not None and isinstance(item, dict) else item
    return repr(name) if isinstance(name, dict | list) else name


def _places(names: Sequence[Any]) -> dict[Any, int]:
    """Return the first index of each name."""
    places: dict[Any, int] = {}
    for at, name in enumerate(names):
        places.setdefault(name, at)
    return places


def _names(items: Any, key: str | None) -> list[Any]:
    return [_name(item, key) for item in items] if isinstance(items, list) else []


def _checked_order(order: Any, patched: Any, key: str | None, path: tuple[str, ...]) -> list[Any]:
    """Return the names of a ``$setElementOrder``, which must contain those of the patched list in the same order."""
    if not isinstance(order, list):
        raise BadRequest(f"{_SET_ORDER}{path[-1]} must be a list")
    wanted = _names(order, key)
    kept = [
        item
        for item in (patched if isinstance(patched, list) else ())
        if not (isinstance(item, dict) and item.get("$patch") == "delete")
    ]
    named = _names(kept, key)
    known = set(named)
    if [name for name in wanted if name in known] != named:
        raise BadRequest(f"the order of the items in the patch of {_shown(path)} is not that of {_SET_ORDER}{path[-1]}")
    return wanted


def _ordered(items: list[Any], wanted: Sequence[Any], before: Sequence[Any], key: str | None) -> list[Any]:
    """Return the items with those of the patch in the patch's order, merged with the others near their old places.

    An item of the patch comes before one that only the server has, unless both existed before in the reverse order.
    """
    rank = {name: position for position, name in enumerate(wanted)}
    place = {name: position for position, name in enumerate(before)}
    mine = sorted((item for item in items if _name(item, key) in rank), key=lambda item: rank[_name(item, key)])
    others = deque(item for item in items if _name(item, key) not in rank)
    result: list[Any] = []
    for item in mine:
        here = place.get(_name(item, key))
        while here is not None and others and place.get(_name(others[0], key), here) < here:
            result.append(others.popleft())
        result.append(item)
    return [*result, *others]


def _shown(path: Sequence[str]) -> str:
    return ".".join(path) or "the root"
