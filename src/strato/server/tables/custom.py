"""Columns of custom resources, from ``additionalPrinterColumns``: a JSONPath and a type each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from strato.api.kinds import Column, Kind
from strato.lru import memoised
from strato.server.tables.columns import Obj, TableFormat, age, definition, name, since

Find = Callable[[Any], list[Any]]

_LONGEST = 1000
"""Longest path, in characters."""
_MOST_VALUES = 10_000
"""Most values that a step of a path may find."""
_STEP = re.compile(
    r"""\.\.(?P<deep>[\w\-]+)|\.(?P<field>(?:[\w\-]|\\.)+|\*)|\[(?P<index>-?\d{1,9})\]|\[(?P<all>\*)\]
    |\[(?P<begin>(?:-?\d{1,9})?):(?P<end>(?:-?\d{1,9})?)\]
    |\[['"](?P<key>[^'"]*)['"]\]|\[\?\(@\.(?P<left>[\w.\-]+)\s*(?P<op>==|!=)\s*(?P<right>"[^"]*"|'[^']*'|[\w.\-]+)\)\]""",
    re.VERBOSE,
)


def table_format(kind: Kind) -> TableFormat:
    """Return the format of a kind's table from its printer columns; name and age if it has none."""
    columns = kind.columns or (Column("Age", ".metadata.creationTimestamp", "date"),)
    definitions = [definition("Name", description="Name of the object")]
    finders: list[tuple[Column, Find]] = []
    for column in columns:
        definitions.append(
            definition(
                column.name,
                column.type,
                column.format,
                column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
                column.priority,
            )
        )
        finders.append((column, compile_path(column.json_path)))

    def cells(obj: Obj, now: float) -> list[Any]:
        return [name(obj), *(_cell(column, find(obj), obj, now) for column, find in finders)]

    return TableFormat(definitions, cells)


def _cell(column: Column, found: list[Any], obj: Obj, now: float) -> Any:
    """Return one cell; None, an empty cell, if the path finds nothing or the value has another type."""
    if column.type == "date" and column.json_path == ".metadata.creationTimestamp":
        return age(obj, now)
    found = [value for value in found if value is not None]
    if not found:
        return None
    value = found[0]
    match column.type:
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return float(value) if _is_number(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return since(value, now) if isinstance(value, str) else None
    return ",".join(_text(one) for one in found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + " ".join(_text(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{_text(one)}" for key, one in sorted(value.items())) + "]"
    return str(value)


@memoised(2 << 20, longest=_LONGEST)
def compile_path(path: str) -> Find:
    """Compile a JSONPath: fields, indices, slices, ``[*]``, ``['key']``, ``..field`` and ``[?(@.a=="b")]``.

    A path that cannot be parsed, or is too long, finds nothing.
    """
    steps: list[Callable[[Any], Iterable[Any]]] = []
    body = path.strip().removeprefix("{").removesuffix("}") if len(path) <= _LONGEST else "too long"
    at = descents = 0
    while at < len(body):
        match = _STEP.match(body, at)
        if match is None:
            return lambda _: []
        steps.append(_step(match))
        descents += match["deep"] is not None
        if descents > 1:  # each one multiplies the number of values
            return lambda _: []
        at = match.end()

    def find(obj: Any) -> list[Any]:
        values = [obj]
        for step in steps:
            values = list(islice((found for value in values for found in step(value)), _MOST_VALUES))
        return values

    return find


def _step(match: re.Match[str]) -> Callable[[Any], Iterable[Any]]:
    if match["all"] or match["field"] == "*":
        return _children
    if match["deep"]:
        wanted = match["deep"]
        return lambda value: _descend(value, wanted)
    if match["index"]:
        index = int(match["index"])
        return lambda value: value[index : index + 1 or None] if isinstance(value, list) else ()
    if match["end"] is not None:
        part = slice(int(match["begin"]) if match["begin"] else None, int(match["end"]) if match["end"] else None)
        return lambda value: value[part] if isinstance(value, list) else ()
    if match["op"]:
        return _filter(match["left"], match["op"], match["right"])
    key = match["key"] if match["field"] is None else match["field"].replace("\\", "")
    return lambda value: (value[key],) if isinstance(value, Mapping) and key in value else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _descend(value: Any, wanted: str) -> Iterable[Any]:
    if isinstance(value, Mapping) and wanted in value:
        yield value[wanted]
    for child in _children(value):
        yield from _descend(child, wanted)


def _filter(left: str, operator: str, right: str) -> Callable[[Any], Iterable[Any]]:
    find = compile_path("." + left)
    text = right.strip("'\"")

    def matches(item: Any) -> bool:
        found = find(item)
        return bool(found) and (_text(found[0]) == text) == (operator == "==")

    return lambda value: [item for item in _children(value) if matches(item)]
