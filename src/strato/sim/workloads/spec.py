"""Generates workloads from texts: ``lublin:jobs=10000,nodes=128,load=0.9``, ``fit:FILE,jobs=1000``, ``scale:…``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from strato.errors import InvalidInput, Problem, nearest
from strato.sim.workloads import fitted, lublin, scale
from strato.sim.workloads.jobs import Trace

MODELS: Final = ("lublin", "fit", "scale")
_SPEC = re.compile(rf"({'|'.join(MODELS)}):(.*)", re.DOTALL)
_MOST_JOBS: Final = 10_000_000
_Bounds = tuple[float, float]
_BOUNDS: Final[Mapping[str, _Bounds]] = {
    "jobs": (0, _MOST_JOBS),
    "nodes": (2, 1_000_000),
    "load": (0, 10),
    "cpus": (1, 1024),
    "start_hour": (0, 23),
    "users": (0, 100_000),
    "seed": (0, 2**63 - 1),
    "rate": (1e-6, 1e6),
    "run": (1e-6, 1e6),
    "copies": (1, 1000),
}
_OPTIONS: Final[Mapping[str, type]] = {
    "lublin": lublin.LublinOptions,
    "fit": fitted.FitOptions,
    "scale": scale.ScaleOptions,
}

_LONGEST = 8192
"""Most characters of such a text, with the path of its file."""


def is_model(text: str) -> bool:
    """Return whether a text names a model instead of a file."""
    return _SPEC.fullmatch(text) is not None


def make(text: str, read: Callable[[str], Trace]) -> Trace:
    """Generate the workload that a text describes.

    Args:
        text: A text for which `is_model` is True.
        read: Reads the trace that a model is fitted to or scales.

    Raises:
        InvalidInput: Parameters have problems; all are listed.
        UsageError: The trace cannot be read.
    """
    if len(text) > _LONGEST:
        raise InvalidInput("the workload", [Problem(f"{text[:40]}…", f"has more than {_LONGEST} characters")])
    model, _, rest = text.partition(":")
    file, given = _split(model, rest)
    problems = [Problem(text, "names no file; write for example fit:trace.swf.gz,jobs=1000")] if file == "" else []
    options = _options(model, given, text, problems)
    if problems:
        raise InvalidInput("the workload", problems)
    if file is None:
        return lublin.make(options)
    trace = read(file)
    return fitted.fit(trace, options) if model == "fit" else scale.scale(trace, options)


def _split(model: str, rest: str) -> tuple[str | None, list[str]]:
    """Return the file (None for models without one) and the parameters."""
    parts = rest.split(",")
    if model == "lublin":
        return None, [part for part in parts if part.strip()]
    at = next((at for at, part in enumerate(parts) if at and re.match(r"\s*\w+=", part)), len(parts))
    return ",".join(parts[:at]), parts[at:]


def _options(model: str, given: list[str], text: str, problems: list[Problem]) -> Any:
    kind = _OPTIONS[model]
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for part in given:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if name not in known or not equals:
            problems.append(Problem(text, f"{part.strip()!r} is no parameter of {model}{nearest(name, known)}"))
        elif name == "kind":
            if value not in lublin.KINDS:
                problems.append(Problem(text, f"kind {value!r} is not known{nearest(value, lublin.KINDS)}"))
            values[name] = value
        else:
            values[name] = _number(name, value, isinstance(known[name].default, int), text, problems)
    return kind(**values) if not problems else None


def _number(name: str, value: str, is_whole: bool, text: str, problems: list[Problem]) -> float:
    low, high = _BOUNDS[name]
    try:
        number: float = int(value) if is_whole else float(value)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        kind = "whole number" if is_whole else "number"
        problems.append(Problem(text, f"{name} {value[:40]!r} is no {kind} from {low:g} to {high:g}"))
        return low
    return number
