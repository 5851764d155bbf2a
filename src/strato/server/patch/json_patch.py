"""JSON patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strato.errors import BadRequest, Invalid, TooLarge

_MAX_OPERATIONS = 10_000
_MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Most bytes that the copy operations of one patch may add, as in Kubernetes: each can double the object."""
_MAX_STEPS = 128
"""Most steps of a path; no object is nested deeper."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class PatchTestFailed(Invalid):
    """A test operation found another value."""


class _OtherValue(ValueError):
    pass


def apply_json_patch(target: Any, operations: Any) -> Any:
    """Apply the operations to ``target`` in order and return it; changes it, and shares the operations' values.

    Raises:
        BadRequest: The patch is not a list of operations.
        TooLarge: There are too many operations, or they copy too much.
        Invalid: An operation cannot be applied; the message says which and why. `PatchTestFailed` for a test.
    """
    if not isinstance(operations, list):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MAX_OPERATIONS:
        raise TooLarge(f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}")
    copies = _Copies()
    for index, operation in enumerate(operations):
        try:
            target = _apply(target, operation, copies)
        except (LookupError, ValueError, TypeError) as error:
            reason = f"the server rejected our request due to an error in our request: operation {index}: {error}"
            kind = PatchTestFailed if isinstance(error, _OtherValue) else Invalid
            raise kind(reason) from error
    return target


class _Copies:
    """Makes copies, and raises when these have too many bytes."""

    def __init__(self) -> None:
        self._bytes = 0

    def of(self, value: Any) -> Any:
        text = _encode(value)
        self._bytes += len(text)
        if self._bytes > _MAX_COPIED_BYTES:
            raise TooLarge(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._bytes}, exceeding the "
                f"limit {_MAX_COPIED_BYTES}"
            )
        return _decode(text)


def _apply(target: Any, operation: Any, copies: _Copies) -> Any:
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
            if path:  # replace adds a missing member, as in Kubernetes and unlike the RFC
                _set(target, path, operation.get("value"))
                return target
            return operation.get("value")
        case "move":
            moved, rest = _remove(target, _pointer(operation.get("from")))
            return _add(rest, path, moved)
        case "copy":
            return _add(target, path, copies.of(_get(target, _pointer(operation.get("from")))))
        case "test":
            if _found(target, path) != operation.get("value"):
                raise _OtherValue(f"testing value {operation['path']} failed")
            return target
        case _:
            raise ValueError(f"unknown operation {kind!r}; known are add, remove, replace, move, copy and test")


def _pointer(text: Any) -> Sequence[str]:
    if not isinstance(text, str):
        raise ValueError("an operation needs a path to take the value from")
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(f"path {text!r} does not begin with a slash")
    if text.count("/") > _MAX_STEPS:
        raise ValueError(f"path {text[:40]!r}… has over {_MAX_STEPS} steps")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], part: str, *, appending: bool = False) -> int:
    if appending and part == "-":
        return len(items)
    if not (part.isascii() and part.isdigit()) or len(part) > 9 or int(part) > len(items) - (0 if appending else 1):
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
    """Return the value at a path; a missing member of an object is None, as it equals null in a test."""
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
        raise ValueError("the whole object cannot be removed")
    removed = _get(target, path)
    parent = _get(target, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path[-1])]
    else:
        del parent[path[-1]]
    return removed, target
