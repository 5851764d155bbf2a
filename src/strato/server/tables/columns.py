"""The format of a kind's table (`TableFormat`), and functions for cells of several kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strato.clock import parse_time
from strato.units import human_duration

Obj = Mapping[str, Any]
Cells = Callable[[Obj, float], list[Any]]
NONE = "<none>"
UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """Columns of one kind."""

    definitions: list[dict[str, Any]]
    cells: Cells
    """Computes a row, with a cell for each definition, from an object and the current time."""
    conditions: Callable[[Obj], list[dict[str, Any]]] | None = None
    """Computes row conditions (``Completed``); None if the kind has none."""


def table_format(
    header: str, cells: Cells, conditions: Callable[[Obj], list[dict[str, Any]]] | None = None
) -> TableFormat:
    """Make a table's format from one line of text.

    Args:
        header: Columns separated by ``|``; ``*`` before one hides it without ``-o wide``, ``#`` makes it an integer,
            ``?`` a boolean, ``@`` a date.
        cells: Computes a row.
        conditions: Computes row conditions.
    """
    definitions = []
    for text in header.split("|"):
        title = text.strip()
        is_wide, marked = title.startswith("*"), title.removeprefix("*")
        definitions.append(
            definition(marked.lstrip("#?@"), _TYPES.get(marked[0], "string"), priority=1 if is_wide else 0)
        )
    return TableFormat(definitions, cells, conditions)


_TYPES = {"#": "integer", "?": "boolean", "@": "date"}


def definition(
    name: str, type_: str = "string", format_: str = "", description: str = "", priority: int = 0
) -> dict[str, Any]:
    """Return one ``columnDefinitions`` entry; the column Name is marked as the name."""
    return {
        "name": name,
        "type": type_,
        "format": format_ or ("name" if name == "Name" else ""),
        "description": description,
        "priority": priority,
    }


def part(obj: Obj, *path: str) -> Any:
    """Return a nested member, or None where the path ends early."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value


def name(obj: Obj) -> str:
    """Return the object's name."""
    return str(part(obj, "metadata", "name") or "")


def age(obj: Obj, now: float) -> str:
    """Return the time since creation as kubectl writes it."""
    return since(part(obj, "metadata", "creationTimestamp"), now)


def since(timestamp: str | None, now: float) -> str:
    """Return the time since an RFC 3339 instant, ``<unknown>`` without one."""
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(timestamp))
    except ValueError:
        return "<invalid>"


def selector(value: Obj | None) -> str:
    """Return a label selector (or a plain map of labels) as text."""
    if not value:
        return NONE
    if not ("matchLabels" in value or "matchExpressions" in value):
        return pairs(value)
    texts = [f"{key}={item}" for key, item in sorted((value.get("matchLabels") or {}).items())]
    for one in value.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        match one.get("operator"):
            case "In":
                texts.append(f"{one['key']} in ({values})")
            case "NotIn":
                texts.append(f"{one['key']} notin ({values})")
            case "Exists":
                texts.append(one["key"])
            case "DoesNotExist":
                texts.append(f"!{one['key']}")
    return ",".join(texts)


def pairs(labels: Obj | None) -> str:
    """Return labels as ``a=b,c=d``, ``<none>`` when there are none."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def joined(values: Sequence[Any] | None, empty: str = NONE) -> str:
    """Return values joined by commas."""
    return ",".join(str(value) for value in values) if values else empty


def containers(template: Obj) -> list[str]:
    """Return the cells Containers and Images of a pod template."""
    found = part(template, "spec", "containers") or ()
    return [",".join(one.get("name", "") for one in found), ",".join(one.get("image", "") for one in found)]


def condition(obj: Obj, type_: str) -> Obj | None:
    """Return the condition of a type."""
    for one in part(obj, "status", "conditions") or ():
        if one.get("type") == type_:
            found: Obj = one
            return found
    return None


def plain(*paths: tuple[str, ...]) -> Any:
    """Return cells of name, the members at the paths, and age."""

    def cells(obj: Obj, now: float) -> list[Any]:
        return [name(obj), *(_text(part(obj, *path)) for path in paths), age(obj, now)]

    return cells


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return joined(value)
    return "" if value is None else value
