"""`read_models`: reads the performance models of an experiment's file, a mapping with a key for each model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from strato.errors import InvalidInput, Problem, UsageError, nearest
from strato.scheduler.plugins.fgd import FgdArgs
from strato.scheduler.plugins.throughputs import Throughputs, read_throughputs
from strato.sim.models import Combined, PerformanceModel
from strato.sim.models.elastic import Checkpoints, Elastic
from strato.sim.models.gpus import CoLocation, GpuSpeed
from strato.sim.models.locality import Locality, read_profiles
from strato.sim.models.startcost import StartCost
from strato.units import duration_seconds

_LABEL: Final = FgdArgs().label
_PATHS: Final = ("profiles", "throughputs")
"""Fields of models that hold paths."""


class _Fields:
    """Reads the fields of one model; wrong values and unknown fields are added to the problems."""

    def __init__(self, where: str, written: Any, folder: Path, problems: list[Problem]) -> None:
        self._where = where
        self._folder = folder
        self._problems = problems
        self._left: dict[str, Any] = {}
        if isinstance(written, dict):
            self._left = {str(key): value for key, value in written.items()}
        else:
            self.note("", f"{written!r} is no mapping")

    def note(self, field: str, message: str) -> None:
        self._problems.append(Problem(f"{self._where}.{field}" if field else self._where, message))

    def seconds(self, field: str, default: float = 0.0) -> float:
        value = self._left.pop(field, default)
        try:
            read = float(value) if isinstance(value, int | float) else duration_seconds(str(value))
        except ValueError:
            read = math.nan
        if isinstance(value, bool) or not (read >= 0 and (math.isfinite(read) or read == default)):
            self.note(field, f"{value!r} is no time; write seconds (90) or a duration (1m30s), not negative")
            return 0.0
        return read

    def number(self, field: str, default: float, low: float, high: float) -> float:
        value = self._left.pop(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.note(field, f"{value!r} is no number from {low:g} to {high:g}")
            return default
        return float(value)

    def text(self, field: str, default: str) -> str:
        value = self._left.pop(field, default)
        if not isinstance(value, str):
            self.note(field, f"{value!r} is no text")
            return default
        return value

    def table(self, field: str, read: Callable[[str, Any], Any]) -> dict[str, Any]:
        value = self._left.pop(field, None) or {}
        if not isinstance(value, dict):
            self.note(field, f"{value!r} is no mapping")
            return {}
        return {str(key): read(f"{field}.{key}", entry) for key, entry in value.items()}

    def speeds(self, field: str, value: Any) -> dict[int, float]:
        try:
            read = {int(members): float(speed) for members, speed in value.items()}
        except (AttributeError, TypeError, ValueError):
            read = {}
        if not read or not all(members > 0 and 0 < speed < math.inf for members, speed in read.items()):
            self.note(field, f"{value!r} is no mapping of numbers of members to speeds above 0")
            return {1: 1.0}
        return read

    def one_time(self, field: str, value: Any) -> float:
        self._left[field] = value
        return self.seconds(field)

    def path(self, field: str) -> Path | None:
        text = self.text(field, "")
        if not text:
            self.note(field, "is missing: a path, from the experiment's folder")
            return None
        if "\0" in text:
            self.note(field, "is no path, as it has a NUL")
            return None
        return self._folder / text

    def done(self, *known: str) -> None:
        for field in self._left:
            self.note(field, f"no such field{nearest(field, known)}")


def read_models(written: Mapping[str, Any], folder: Path, where: str = "models") -> PerformanceModel | None:
    """Read the performance models of an experiment; None if it has none.

    Args:
        written: Name of a model → its fields.
        folder: The folder to which paths are relative.
        where: How problems name the mapping.

    Raises:
        InvalidInput: The models have problems; all are listed.
    """
    problems: list[Problem] = []
    models: list[PerformanceModel] = []
    for name, fields in written.items():
        read = MODELS.get(str(name))
        if read is None:
            problems.append(Problem(f"{where}.{name}", f"no such model{nearest(str(name), MODELS)}"))
            continue
        made = read(_Fields(f"{where}.{name}", fields, folder, problems))
        if made is not None:
            models.append(made)
    if problems:
        raise InvalidInput("the performance models", problems)
    return Combined(models) if models else None


def seen_from_here(written: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the models with their paths relative to the working directory instead of ``folder``."""
    found = {}
    for name, fields in written.items():
        paths = {}
        if isinstance(fields, dict):
            paths = {key: str(folder / fields[key]) for key in _PATHS if isinstance(fields.get(key), str)}
        found[str(name)] = {**fields, **paths} if paths else fields
    return found


def _start_cost(fields: _Fields) -> PerformanceModel:
    model = StartCost(
        pull_seconds=fields.seconds("pullSeconds"),
        pull_seconds_of=fields.table("pullSecondsOf", fields.one_time),
        median_seconds=fields.seconds("medianSeconds"),
        spread=fields.number("spread", 0.0, 0.0, 5.0),
        most_seconds=fields.seconds("mostSeconds", math.inf),
        seed=int(fields.number("seed", 0, 0, 2**53)),
    )
    fields.done("pullSeconds", "pullSecondsOf", "medianSeconds", "spread", "mostSeconds", "seed")
    return model


def _elastic(fields: _Fields) -> PerformanceModel:
    model = Elastic(
        serial_ratio=fields.number("serialRatio", 0.0, 0.0, 1.0), speed_of=fields.table("speedOf", fields.speeds)
    )
    fields.done("serialRatio", "speedOf")
    return model


def _checkpoints(fields: _Fields) -> PerformanceModel:
    model = Checkpoints(
        interval_seconds=fields.seconds("intervalSeconds"),
        cost_seconds=fields.seconds("costSeconds"),
        restore_seconds=fields.seconds("restoreSeconds"),
    )
    fields.done("intervalSeconds", "costSeconds", "restoreSeconds")
    return model


def _locality(fields: _Fields) -> PerformanceModel | None:
    path, default = fields.path("profiles"), fields.text("default", "")
    fields.done("profiles", "default")
    if path is None:
        return None
    try:
        profiles = read_profiles(path)
    except InvalidInput as error:
        for problem in error.problems:
            fields.note("profiles", f"{problem.where}: {problem.message}")
        return None
    except UsageError as error:
        fields.note("profiles", str(error))
        return None
    if default and default not in profiles:
        fields.note("default", f"{default!r} is no application of the profiles: {', '.join(profiles)}")
    return Locality(profiles=profiles, default=default)


def _gpu_speed(fields: _Fields) -> PerformanceModel | None:
    table = _throughputs(fields)
    recorded, label = fields.text("recordedOn", "v100"), fields.text("label", _LABEL)
    fields.done("throughputs", "recordedOn", "label")
    if table is None or not _measured(fields, "recordedOn", recorded, table):
        return None
    return GpuSpeed(throughputs=table, recorded_on=recorded, label=label)


def _co_location(fields: _Fields) -> PerformanceModel | None:
    table = _throughputs(fields)
    model, unknown = fields.text("model", "v100"), fields.number("unknownRate", 1.0, 0.01, 1.0)
    fields.done("throughputs", "model", "unknownRate")
    if table is None or not _measured(fields, "model", model, table):
        return None
    return CoLocation(throughputs=table, model=model, unknown_rate=unknown)


def _throughputs(fields: _Fields) -> Throughputs | None:
    path = fields.path("throughputs")
    if path is None:
        return None
    try:
        return read_throughputs(path)
    except ValueError as error:
        for line in str(error).splitlines():
            fields.note("throughputs", line)
        return None


def _measured(fields: _Fields, field: str, model: str, table: Throughputs) -> bool:
    if model in table.alone:
        return True
    fields.note(field, f"{model!r} is no model of the table: {', '.join(table.alone)}")
    return False


MODELS: Final[Mapping[str, Callable[[_Fields], PerformanceModel | None]]] = {
    "startCost": _start_cost,
    "elastic": _elastic,
    "checkpoints": _checkpoints,
    "locality": _locality,
    "gpuSpeed": _gpu_speed,
    "coLocation": _co_location,
}
"""Name of a model in an experiment's file → the function that reads it."""
