"""Decode parts of the policy into frozen dataclasses, and report all problems at once, each with its place."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from strato.errors import Problem, called, nearest

T = TypeVar("T")
_HUMP = re.compile(r"_([a-z])")
_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}


def key_of(field: str) -> str:
    """Return a field's key in the policy: ``cut_fraction`` is ``cutFraction``."""
    return _HUMP.sub(lambda found: found[1].upper(), field)


def read_options(base: T, given: Any, where: str) -> tuple[T, list[Problem]]:
    """Return a frozen dataclass with the given values, and all problems of these.

    Args:
        base: An instance with the default values. A field may give its key in its metadata, under ``key``. If the class
            has ``problems()``, which returns pairs of a field and a sentence, these are reported too.
        given: The values by key.
        where: Path of the values in the policy, for messages.
    """
    if given is None:
        return base, []
    if not isinstance(given, Mapping):
        return base, [Problem(where, f"must be a mapping, not {called(given)}")]
    named = {one.name: field_key(one) for one in dataclasses.fields(base)}  # type: ignore[arg-type] # always a dataclass
    fields = {named[one.name]: one for one in dataclasses.fields(base)}  # type: ignore[arg-type] # likewise
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in given.items():
        place = f"{where}.{key}"
        if key not in fields:
            problems.append(Problem(place, f"no such key{nearest(str(key), fields)}"))
            continue
        kind = getattr(fields[key].type, "__name__", str(fields[key].type))
        read = _read(kind, value)
        if read is None:
            problems.append(Problem(place, f"must be {_KINDS.get(kind, kind)}, not {value!r}"))
        else:
            values[fields[key].name] = read
    made = dataclasses.replace(base, **values)  # type: ignore[type-var] # likewise
    check = getattr(made, "problems", None)
    if check is not None:
        problems += [Problem(f"{where}.{named[field]}", text) for field, text in check()]
    return made, problems


def field_key(field: dataclasses.Field[Any]) -> str:
    """Return the key of a dataclass's field in the policy."""
    return str(field.metadata.get("key") or key_of(field.name))


def between(options: object, bounds: Mapping[str, tuple[float, float]]) -> Iterable[tuple[str, str]]:
    """Return a sentence for each field outside its inclusive bounds."""
    for field, (least, most) in bounds.items():
        value = getattr(options, field)
        if not least <= value <= most:
            end = f" and at most {most:g}" if most < math.inf else ""
            yield field, f"{value:g} must be at least {least:g}{end}"


def _read(kind: str, value: Any) -> Any:
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind == "int":
        return value if isinstance(value, int) else None
    if kind == "float":
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    return value if isinstance(value, str) else None
