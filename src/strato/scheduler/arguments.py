"""Typed arguments of plugins and actions: frozen dataclasses whose fields name their configuration keys."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from strato.errors import Problem
from strato.scheduler.ingest import go_bool

A = TypeVar("A")


def arg(key: str, default: Any, *, minimum: float | None = None) -> Any:
    """Declare an argument.

    Args:
        key: The key under ``arguments:``. A field with ``default_factory=dict`` whose key ends in ``*`` collects every
            key with that prefix, as whole numbers.
        default: Its default; its type is the argument's: bool, int, float or str.
        minimum: Smallest sensible value; a smaller one takes the default, as in Volcano.
    """
    return dataclasses.field(default=default, metadata={"key": key, "minimum": minimum})


def read_arguments(args_type: type[A], given: Mapping[str, Any], where: str) -> tuple[A, list[Problem]]:
    """Decode arguments strictly.

    Returns:
        The arguments (defaults where something was wrong) and every problem found.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    exact: dict[str, dataclasses.Field[Any]] = {}
    prefixes: dict[str, dataclasses.Field[Any]] = {}
    for field in dataclasses.fields(args_type):  # type: ignore[arg-type] # A is always a dataclass
        key = field.metadata["key"]
        (prefixes if key.endswith("*") else exact)[key.rstrip("*")] = field
    for key, value in given.items():
        place = f"{where}.{key}"
        known = exact.get(key)
        if known is not None:
            problem = _set(values, known, known.default, value)
        else:
            prefix = next((p for p in prefixes if key.startswith(p) and len(key) > len(p)), None)
            if prefix is None:
                problems.append(Problem(place, f"no such argument{nearest(key, exact)}"))
                continue
            collected = values.setdefault(prefixes[prefix].name, {})
            problem = _collect(collected, key[len(prefix) :], value)
        if problem:
            problems.append(Problem(place, problem))
    return args_type(**values), problems


def _set(values: dict[str, Any], field: dataclasses.Field[Any], default: Any, value: Any) -> str:
    read = _read(type(default), value)
    if read is None:
        return f"{value!r} is not {_KINDS[type(default)]}"
    minimum = field.metadata["minimum"]
    values[field.name] = default if minimum is not None and read < minimum else read
    return ""


def _collect(into: dict[str, Any], key: str, value: Any) -> str:
    read = _read(int, value)
    if read is None:
        return f"{value!r} is not {_KINDS[int]}"
    into[key] = read
    return ""


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _read(kind: type, value: Any) -> Any:
    if kind is bool:
        return value if isinstance(value, bool) else go_bool(value) if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    if kind is int:
        return value if isinstance(value, int) else None
    if kind is float:
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, str) else None


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return a hint naming the closest known name, or all of them when none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known))}" if known else "; there are none"
