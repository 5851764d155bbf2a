"""Model of the slow-down of gangs that are spread over nodes, by measured step times (Pollux, OSDI 2021)."""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from strato.errors import InvalidInput, Problem, UsageError
from strato.node.shapes import GPU
from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob, trace_text

_PROBLEMS: Final = 20


class Spread(NamedTuple):
    """A placement of a gang: its number of GPUs, and the number of nodes that they are on."""

    gpus: int
    nodes: int


@dataclass(frozen=True, slots=True)
class PlacementProfile:
    """Slow-downs of one application by placement."""

    slowdown: Mapping[Spread, float]
    """Step time relative to that of as many GPUs on the fewest nodes that were measured; ≥ 1."""

    def of(self, spread: Spread) -> float:
        """Return the slow-down of a placement, or that of the nearest measured one if it was not measured."""
        found = self.slowdown.get(spread)
        if found is None and self.slowdown:
            found = self.slowdown[min(self.slowdown, key=lambda known: _distance(known, spread))]
        return 1.0 if found is None or spread.nodes <= 1 else found


def _distance(known: Spread, wanted: Spread) -> tuple[int, int]:
    return abs(known.nodes - wanted.nodes), abs(known.gpus - wanted.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """Speed of gangs by the number of nodes that they are spread over."""

    profiles: Mapping[str, PlacementProfile]
    """Application → its profile."""
    default: str = ""
    """Application whose profile is used for those without one; empty does not slow these down."""

    @property
    def sees_neighbours(self) -> bool:
        """False, as `rate` reads no neighbours."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return the reciprocal of the placement's slow-down."""
        profile = self.profiles.get(running.job.application) or self.profiles.get(self.default)
        if profile is None or not running.nodes:
            return 1.0
        gpus = max(1, int(running.job.requests.get(GPU, "1") or 1))
        return 1.0 / profile.of(Spread(gpus * len(running.nodes), len(set(running.nodes))))

    def start_seconds(self, start: PodStart) -> float:
        """Return 0, as this model delays no start."""
        return 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return ``done_seconds``, as this model loses no work."""
        return done_seconds


def read_profiles(folder: Path) -> dict[str, PlacementProfile]:
    """Read the folders of applications, each with ``placements.csv``, as Pollux publishes them.

    Raises:
        UsageError: The folder has no profile, or one cannot be read.
        InvalidInput: Profiles have problems; they are listed with their lines.
    """
    files = sorted(folder.glob("*/placements.csv")) if os.path.isdir(folder) else []
    if not files:
        raise UsageError(f"{folder} holds no folder with placements.csv")
    problems: list[Problem] = []
    profiles = {file.parent.name: parse_profile(trace_text(file), str(file), problems) for file in files}
    if problems:
        raise InvalidInput("the profiles", problems)
    return profiles


def parse_profile(text: str, source: str, problems: list[Problem]) -> PlacementProfile:
    """Read ``placement,local_bsz,step_time,…``: one digit per node, seconds."""
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in ("placement", "local_bsz", "step_time") if name not in (reader.fieldnames or ())]
    if missing:
        problems.append(Problem(f"{source}: line 1: {missing[0]}", "is missing in the header"))
        return PlacementProfile({})
    times: dict[tuple[Spread, str], list[float]] = {}
    for row in reader:
        placement, seconds = row["placement"] or "", _seconds(row["step_time"])
        if not placement.isascii() or not placement.isdecimal() or "0" in placement:
            _note(problems, f"{source}: line {reader.line_num}: placement", f"{placement!r} is not one digit per node")
        elif seconds is None:
            _note(problems, f"{source}: line {reader.line_num}: step_time", f"{row['step_time']!r} is no time above 0")
        else:
            spread = Spread(sum(map(int, placement)), len(placement))
            times.setdefault((spread, row["local_bsz"] or ""), []).append(seconds)
    return PlacementProfile(_slowdowns({key: sum(values) / len(values) for key, values in times.items()}))


def _slowdowns(times: Mapping[tuple[Spread, str], float]) -> dict[Spread, float]:
    """Return the slow-down of each spread, the geometric mean over the batch sizes measured."""
    best: dict[tuple[int, str], tuple[int, float]] = {}
    for (spread, batch), seconds in times.items():
        known = best.get((spread.gpus, batch))
        if known is None or spread.nodes < known[0]:
            best[spread.gpus, batch] = spread.nodes, seconds
    logarithms: dict[Spread, list[float]] = {}
    for (spread, batch), seconds in times.items():
        logarithms.setdefault(spread, []).append(math.log(seconds / best[spread.gpus, batch][1]))
    return {spread: max(1.0, math.exp(_mean(values))) for spread, values in logarithms.items()}


def _mean(values: Iterable[float]) -> float:
    counted = Counter(values)
    return sum(value * times for value, times in counted.items()) / counted.total()


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _note(problems: list[Problem], where: str, message: str) -> None:
    if len(problems) < _PROBLEMS:
        problems.append(Problem(where, message))
