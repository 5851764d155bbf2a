"""Typed arguments of plugins and actions: frozen dataclasses whose fields name their configuration keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from strato.errors import Problem, nearest
from strato.scheduler.cache.ingest import go_bool
from strato.units import duration_seconds

A = TypeVar("A")


def arg(
    key: str,
    default: Any,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare an argument.

    Args:
        key: The key under ``arguments:``. A field with ``default_factory=dict`` whose key ends in ``*`` collects every
            key with that prefix, as whole numbers (or what ``read`` makes of each).
        default: Its default; its type is the argument's: bool, int, float or str.
        minimum: Smallest sensible value; a smaller one takes the default, as in Volcano.
        maximum: Largest sensible value; likewise.
        read: Turns what is written into the value, for arguments that are lists or mappings; raises ValueError saying
            what is wrong, one problem a line, each ``path: text`` or just text.
    """
    metadata = Metadata(key, minimum, maximum, read)._asdict()
    if isinstance(default, dict | list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Metadata(NamedTuple):
    """What `arg` notes about a field; see there."""

    key: str
    minimum: float | None = None
    maximum: float | None = None
    read: Callable[[Any], Any] | None = None


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
            if known.metadata.get("read") is not None:
                problems += _structured(values, known, value, place)
                continue
            problem = _set(values, known, known.default, value)
        else:
            prefix = next((p for p in prefixes if key.startswith(p) and len(key) > len(p)), None)
            if prefix is None:
                problems.append(Problem(place, f"no such argument{nearest(key, exact)}"))
                continue
            collected = values.setdefault(prefixes[prefix].name, {})
            problem = _collect(collected, key[len(prefix) :], value, prefixes[prefix].metadata.get("read"))
        if problem:
            problems.append(Problem(place, problem))
    return args_type(**values), problems


def _set(values: dict[str, Any], field: dataclasses.Field[Any], default: Any, value: Any) -> str:
    read = _read(type(default), value)
    if read is None:
        return f"{value!r} is not {_KINDS[type(default)]}"
    minimum, maximum = field.metadata["minimum"], field.metadata.get("maximum")
    sensible = (minimum is None or read >= minimum) and (maximum is None or read <= maximum)
    values[field.name] = read if sensible else default
    return ""


def _structured(values: dict[str, Any], field: dataclasses.Field[Any], value: Any, place: str) -> list[Problem]:
    """Read a list or mapping with the field's ``read`` function."""
    try:
        values[field.name] = field.metadata["read"](value)
    except ValueError as error:
        found = []
        for line in str(error).splitlines():
            path, colon, text = line.partition(": ")
            dot = "" if path.startswith("[") else "."
            found.append(Problem(f"{place}{dot}{path}", text) if colon else Problem(place, line))
        return found
    return []


def structured(kind: type[A]) -> Callable[[Any], A]:
    """Return a reader for a mapping whose keys are a frozen dataclass's arguments."""

    def read(value: Any) -> A:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not a mapping")
        args, problems = read_arguments(kind, {str(k): v for k, v in value.items()}, "")
        if problems:
            raise ValueError("\n".join(f"{p.where.lstrip('.')}: {p.message}" for p in problems))
        return args

    return read


def seconds(value: Any) -> float:
    """Read a Go duration above 0.

    Raises:
        ValueError: It is none.
    """
    try:
        read = duration_seconds(value) if isinstance(value, str) else 0.0
    except ValueError:
        read = 0.0
    if read <= 0:
        raise ValueError(f"{value!r} is not a duration above 0, such as 1m30s")
    return read


def numbers(value: Any) -> dict[str, float]:
    """Read a mapping of names to numbers.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    wrong = [f"{k}: {v!r} is not a number" for k, v in value.items() if _read(float, v) is None]
    if wrong:
        raise ValueError("\n".join(wrong))
    return {str(k): float(v) for k, v in value.items()}


def _collect(into: dict[str, Any], key: str, value: Any, reader: Callable[[Any], Any] | None) -> str:
    if reader is not None:
        try:
            into[key] = reader(value)
        except ValueError as error:
            return str(error)
        return ""
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
