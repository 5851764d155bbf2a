"""The JSON patch (RFC 6902) that turns one JSON value into another."""

from __future__ import annotations

from typing import Any

from strato.api.meta import Json


def json_patch(before: Any, after: Any) -> list[Json]:
    """Return operations that turn ``before`` into ``after``; lists that differ are replaced as a whole."""
    operations: list[Json] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Json]) -> None:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after or type(before) is not type(after):
            operations.append({"op": "replace", "path": path, "value": after})
        return
    for name in before:
        place = f"{path}/{_escaped(name)}"
        if name not in after:
            operations.append({"op": "remove", "path": place})
        else:
            _compare(before[name], after[name], place, operations)
    operations.extend(
        {"op": "add", "path": f"{path}/{_escaped(name)}", "value": value}
        for name, value in after.items()
        if name not in before
    )


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
