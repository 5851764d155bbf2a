"""Strategic merge patch: merge patch that knows which lists are maps by a key, with its directives.

Directives: ``$patch`` (replace, delete, merge) in an object or a list item, ``$deleteFromPrimitiveList/<field>``,
``$setElementOrder/<field>`` and ``$retainKeys``. Merge keys come from the API's OpenAPI data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from strato.errors import BadRequest

ListStrategy = Callable[[tuple[str, ...]], tuple[str | None, str]]
"""Field path without indices → (merge key or None, ``merge``/``replace``/``retainKeys``)."""

_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"


def apply_strategic_patch(target: dict[str, Any], patch: dict[str, Any], strategy: ListStrategy) -> dict[str, Any]:
    """Return ``target`` with ``patch`` merged in; mutates it.

    Raises:
        BadRequest: A directive is malformed or an item lacks its merge key.
    """
    return _merge_object(target, patch, strategy, ())


def _merge_object(
    target: dict[str, Any], patch: dict[str, Any], strategy: ListStrategy, path: tuple[str, ...]
) -> dict[str, Any]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequest(f"invalid value in $patch: {directive!r}; known are replace, delete and merge")
    retain = patch.get("$retainKeys")
    if retain is not None:
        for name in [name for name in target if name not in retain]:
            del target[name]
    for name, value in patch.items():
        if name.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(target, name.removeprefix(_DELETE_PRIMITIVES), value)
        elif name.startswith("$"):
            continue
        elif value is None:
            target.pop(name, None)
        else:
            target[name] = _merge_field(target.get(name), value, strategy, (*path, name), patch)
    for name, order in patch.items():
        if name.startswith(_SET_ORDER):
            field = name.removeprefix(_SET_ORDER)
            items = target.get(field)
            if isinstance(items, list):
                key, _ = strategy((*path, field))
                target[field] = _ordered(items, order, patch.get(field) or [], key)
    return target


def _merge_field(current: Any, value: Any, strategy: ListStrategy, path: tuple[str, ...], patch: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return _merge_object(current if isinstance(current, dict) else {}, value, strategy, path)
    if not isinstance(value, list):
        return value
    key, how = strategy(path)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in value):
        return [item for item in value if not (isinstance(item, dict) and "$patch" in item)]
    if "merge" not in how:
        return [_without_directives(item) for item in value]
    items = list(current) if isinstance(current, list) else []
    if key is None:
        return items + [item for item in dict.fromkeys(value) if item not in items]
    return _merge_list(items, value, key, strategy, path)


def _merge_list(
    items: list[Any], patches: Sequence[Any], key: str, strategy: ListStrategy, path: tuple[str, ...]
) -> list[Any]:
    """Merge list items by ``key``. Kubernetes' quirk for ports: all items with equal keys are one item."""
    for patch in patches:
        if not isinstance(patch, dict) or key not in patch:
            raise BadRequest(f"map: {patch!r} does not contain declared merge key: {key} (at {'.'.join(path)})")
        position = next((at for at, item in enumerate(items) if item.get(key) == patch[key]), None)
        directive = patch.get("$patch")
        if directive == "delete":
            items = [item for item in items if item.get(key) != patch[key]]
        elif position is None:
            items.append(_merge_object({}, patch, strategy, path))
        else:
            items[position] = _merge_object(items[position], patch, strategy, path)
    return items


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_directives(member) for name, member in value.items() if not name.startswith("$")}
    return value


def _delete_primitives(target: dict[str, Any], field: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadRequest(f"{_DELETE_PRIMITIVES}{field} must be a list")
    items = target.get(field)
    if isinstance(items, list):
        target[field] = [item for item in items if item not in values]


def _ordered(items: list[Any], order: Any, patched: Sequence[Any], key: str | None) -> list[Any]:
    """Put the listed items into the given order; items only the server has keep their place before the next one."""
    if not isinstance(order, list):
        raise BadRequest(f"{_SET_ORDER} must be a list")
    wanted = [item.get(key) if key is not None and isinstance(item, dict) else item for item in order]
    rank = {_hashable(name): position for position, name in enumerate(wanted)}

    def name_of(item: Any) -> Any:
        return _hashable(item.get(key) if key is not None and isinstance(item, dict) else item)

    listed = sorted((item for item in items if name_of(item) in rank), key=lambda item: rank[name_of(item)])
    mine = {name_of(item) for item in patched}
    others = [item for item in items if name_of(item) not in rank]
    if not others:
        return listed
    # Server-only items stay where they were relative to the listed item that followed them.
    result, queue = [], list(listed)
    original = [item for item in items if name_of(item) not in mine or name_of(item) in rank]
    for item in original:
        if name_of(item) in rank:
            if queue:
                result.append(queue.pop(0))
        else:
            result.append(item)
    return result + queue


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, (dict, list)) else value
