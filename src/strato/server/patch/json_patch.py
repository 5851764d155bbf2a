"""JSON patch (RFC 6902)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from strato.errors import BadRequest, Cause, Invalid

_MAX_OPERATIONS = 10_000


def apply_json_patch(target: Any, operations: Any) -> Any:
    """Return ``target`` with the operations applied in order; mutates it and takes over the operations' values.

    Raises:
        BadRequest: The patch is not a list of operations.
        Invalid: An operation cannot be applied; says which, and why.
    """
    if not isinstance(operations, list):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MAX_OPERATIONS:
        raise BadRequest(f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}")
    for index, operation in enumerate(operations):
        try:
            target = _apply(target, operation)
        except (LookupError, ValueError, TypeError) as error:
            reason = f"the server rejected our request due to an error in our request: operation {index}: {error}"
            raise Invalid(reason, causes=[Cause("FieldValueInvalid", str(error), f"[{index}]")]) from error
    return target


def _apply(target: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise ValueError("an operation is an object with op and path")
    path, kind = _pointer(operation["path"]), operation.get("op")
    match kind:
        case "add":
            return _add(target, path, operation.get("value"))
        case "remove":
            _, result = _remove(target, path)
            return result
        case "replace":
            if path:  # a missing member is added, as Kubernetes does, unlike the RFC
                _set(target, path, operation.get("value"))
                return target
            return operation.get("value")
        case "move":
            moved, rest = _remove(target, _pointer(operation["from"]))
            return _add(rest, path, moved)
        case "copy":
            return _add(target, path, copy.deepcopy(_get(target, _pointer(operation["from"]))))
        case "test":
            if _found(target, path) != operation.get("value"):
                raise ValueError(f"testing value {operation['path']} failed")
            return target
        case _:
            raise ValueError(f"unknown operation {kind!r}; known are add, remove, replace, move, copy and test")


def _pointer(text: str) -> Sequence[str]:
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(f"path {text!r} does not begin with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], part: str, *, appending: bool = False) -> int:
    if appending and part == "-":
        return len(items)
    if not part.isdigit() or int(part) > len(items) - (0 if appending else 1):
        raise LookupError(f"index {part!r} is outside a list of {len(items)}")
    return int(part)


def _child(parent: Any, part: str) -> Any:
    if isinstance(parent, list):
        return parent[_index(parent, part)]
    if isinstance(parent, dict):
        if part not in parent:
            raise LookupError(f"path {part!r} does not exist")
        return parent[part]
    raise LookupError(f"path {part!r} leads into a plain value")


def _get(target: Any, path: Sequence[str]) -> Any:
    for part in path:
        target = _child(target, part)
    return target


def _found(target: Any, path: Sequence[str]) -> Any:
    """Return what is at a path; a missing member of an object equals null in a test."""
    parent = _get(target, path[:-1]) if path else None
    if isinstance(parent, dict):
        return parent.get(path[-1])
    return _get(target, path)


def _set(target: Any, path: Sequence[str], value: Any) -> None:
    parent = _get(target, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path[-1])] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise LookupError(f"path {path[-1]!r} leads into a plain value")


def _add(target: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(target, path[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, path[-1], appending=True), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise LookupError(f"path {path[-1]!r} leads into a plain value")
    return target


def _remove(target: Any, path: Sequence[str]) -> tuple[Any, Any]:
    if not path:
        return target, None
    removed = _get(target, path)
    parent = _get(target, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        del parent[path[-1]]
    return removed, target
