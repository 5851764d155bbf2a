"""The file of a performance test: nodes, load, faults, and the expectations by which it passes or fails.

kind: LoadTest
nodes: 1000x32cpu,256Gi           # `strato up` is started with them; left out: the cluster that is there
load:
  trace: lublin:jobs=2000,nodes=1000   # a file or a model, as everywhere
  rate: 200/s                     # pods; or speed: 60x, the trace's times
  as: jobs                        # or pods
  runSeconds: 30                  # left out: the trace's
  scheduler: volcano
faults:
- {at: 10, nodes: 5, failure: dead for=1m}     # random ones; or names: [hollow-3]
drainSeconds: 60
seed: 0
expectations:
  boundP99Seconds: {max: 1}
  runningPerSecond: {min: 190}
  failedRequests: {max: 0}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, UsageError, called, nearest, one_line
from strato.node.hollow.failures import BadFailure, parse_failure
from strato.sim.load.lives import PERCENTILES, STAGES
from strato.sim.load.plan import JOBS, KINDS, LoadOptions, read_rate, read_speed
from strato.sim.nodes import parse_nodes
from strato.sim.traces import trace_text

KIND: Final = "LoadTest"
MEASURES: Final = (
    "submissions",
    "latePercent",
    "notSent",
    "failedRequests",
    "failedPods",
    "seconds",
    *(f"{stage}{what}" for stage in STAGES for what in ("Pods", "Percent", "PerSecond", "MeanSeconds")),
    *(f"{stage}{name[0].upper()}{name[1:]}Seconds" for stage in STAGES for name in PERCENTILES),
)  # fmt: skip -- a table
"""What expectations may be about."""
_TOP = ("kind", "nodes", "load", "faults", "drainSeconds", "seed", "expectations")
_LOAD = ("trace", "rate", "speed", "as", "runSeconds", "scheduler", "limit")
_FAULT = ("at", "nodes", "names", "failure")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that befalls nodes."""

    at_seconds: float
    failure: str
    """As `strato.node.hollow.failures.parse_failure` reads it."""
    count: int
    """Of nodes, at random; 0 with names."""
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A bound of a measure."""

    measure: str
    low: float
    high: float

    def verdict(self, measures: Mapping[str, float]) -> tuple[bool, str]:
        """Return whether it holds, and a line that says so."""
        bound = " and ".join(
            [f"at least {self.low:g}"] * (self.low > -math.inf) + [f"at most {self.high:g}"] * (self.high < math.inf)
        )
        value = measures.get(self.measure)
        if value is None:
            return False, f"FAIL {self.measure}: no pod got so far; expected {bound}"
        holds = self.low <= value <= self.high
        return holds, f"{'pass' if holds else 'FAIL'} {self.measure} = {value:g}; expected {bound}"


@dataclass(frozen=True, slots=True)
class LoadTest:
    """A performance test."""

    nodes: str
    """Shapes for a cluster of its own; empty is the cluster that is there."""
    trace: str
    limit: int
    options: LoadOptions
    faults: tuple[Fault, ...]
    seed: int
    expectations: tuple[Expectation, ...]


def is_test(path: Path) -> bool:
    """Return whether a file is one of a performance test, by its beginning."""
    try:
        with path.open("rb") as file:
            return any(
                line.replace(b" ", b"").strip() == b"kind:" + KIND.encode() for line in file.read(4096).split(b"\n")
            )
    except OSError:
        return False


def read_test(path: Path) -> LoadTest:
    """Read a test.

    Raises:
        InvalidInput: All that is wrong with it.
        UsageError: The file cannot be read.
    """
    try:
        document = yamltext.load(trace_text(path))
    except yamltext.InvalidYaml as error:
        raise InvalidInput("the test", [Problem(str(path), f"is not YAML: {one_line(error)}")]) from error
    return _Checked(str(path), path.parent).test(document)


class _Checked:
    """Reads a document and collects what is wrong with it."""

    def __init__(self, label: str, folder: Path) -> None:
        self._label = label
        self._folder = folder
        self._problems: list[Problem] = []

    def test(self, document: object) -> LoadTest:
        top = self._dict("", document, _TOP)
        if top.get("kind") != KIND:
            self._note("kind", f"is {top.get('kind')!r}, must be {KIND}")
        nodes = self._text("nodes", top.get("nodes", ""))
        if nodes:
            self._tried("nodes", lambda: parse_nodes(nodes))
        load = self._dict("load", top.get("load", {}), _LOAD)
        trace = self._text("load.trace", load.get("trace", ""))
        if not trace:
            self._note("load.trace", "is missing; name a file or a model such as lublin:jobs=1000,nodes=100")
        options = self._options(load, top)
        faults = tuple(
            self._fault(f"faults[{at}]", one) for at, one in enumerate(self._list("faults", top.get("faults")))
        )
        expected = self._dict("expectations", top.get("expectations") or {}, MEASURES)
        expectations = tuple(self._expectation(f"expectations.{name}", name, one) for name, one in expected.items())
        limit, seed = self._whole("load.limit", load.get("limit", 0)), self._whole("seed", top.get("seed", 0))
        if self._problems:
            raise InvalidInput("the test", self._problems)
        beside = self._folder / trace
        return LoadTest(nodes, str(beside) if beside.exists() else trace, limit, options, faults, seed, expectations)

    def _options(self, load: Mapping[str, Any], top: Mapping[str, Any]) -> LoadOptions:
        rate = speed = 0.0
        if "rate" in load:
            rate = self._tried("load.rate", lambda: read_rate(str(load["rate"]))) or 0.0
        if "speed" in load:
            speed = self._tried("load.speed", lambda: read_speed(str(load["speed"]))) or 0.0
        if rate and speed:
            self._note("load.speed", "and rate exclude each other")
        kind = load.get("as", JOBS)
        if kind not in KINDS:
            self._note("load.as", f"is {kind!r}, must be {' or '.join(KINDS)}")
        run = load.get("runSeconds")
        return LoadOptions(
            pods_per_second=rate,
            speed=speed or 1.0,
            kind=kind,
            run_seconds=None if run is None else self._number("load.runSeconds", run),
            scheduler=self._text("load.scheduler", load.get("scheduler", "volcano")) or "volcano",
            drain_seconds=self._number("drainSeconds", top.get("drainSeconds", 60)),
        )

    def _fault(self, path: str, value: object) -> Fault:
        given = self._dict(path, value, _FAULT)
        failure = self._text(f"{path}.failure", given.get("failure", ""))
        try:
            parse_failure(failure)
        except BadFailure as error:
            self._note(f"{path}.failure", str(error))
        names = self._list(f"{path}.names", given.get("names"))
        count = self._whole(f"{path}.nodes", given.get("nodes", 0))
        if bool(names) == bool(count):
            self._note(path, "needs nodes (how many, at random) or names, not both")
        return Fault(self._number(f"{path}.at", given.get("at", 0)), failure, count, tuple(map(str, names)))

    def _expectation(self, path: str, name: str, value: object) -> Expectation:
        given = self._dict(path, value, ("min", "max"))
        if not given:
            self._note(path, "needs min, max or both")
        low, high = (
            self._number(f"{path}.{key}", given[key], low=-math.inf) if key in given else default
            for key, default in (("min", -math.inf), ("max", math.inf))
        )
        return Expectation(name, low, high)

    def _note(self, path: str, message: str) -> None:
        self._problems.append(Problem(f"{self._label}: {path}" if path else self._label, message))

    def _tried(self, path: str, read: Any) -> Any:
        try:
            return read()
        except InvalidInput as error:
            for problem in error.problems:
                self._note(path, f"{problem.where}: {problem.message}")
        except UsageError as error:
            self._note(path, str(error))
        return None

    def _dict(self, path: str, value: object, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._note(path, f"is {called(value)}, must be an object")
            return {}
        for key in value:
            if key not in keys:
                self._note(f"{path}.{key}".lstrip("."), f"is not known{nearest(str(key), keys)}")
        return {str(key): one for key, one in value.items() if key in keys}

    def _list(self, path: str, value: object) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._note(path, f"is {called(value)}, must be a list")
            return []
        return value

    def _text(self, path: str, value: object) -> str:
        if not isinstance(value, str):
            self._note(path, f"is {called(value)}, must be text")
            return ""
        return value

    def _number(self, path: str, value: object, low: float = 0.0) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= 1e9:
            self._note(path, f"{str(value)[:40]!r} is no number" + ("" if low < 0 else " from 0 to 1e9"))
            return 0.0
        return float(value)

    def _whole(self, path: str, value: object) -> int:
        number = self._number(path, value)
        if number != int(number):
            self._note(path, f"{value!r} is no whole number")
        return int(number)
