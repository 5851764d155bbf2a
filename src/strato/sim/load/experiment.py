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
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, one_line
from strato.node.hollow.failures import parse_failure
from strato.node.shapes import parse_nodes
from strato.sim.documents import Document
from strato.sim.load.latencies import PERCENTILES, STAGES
from strato.sim.load.plan import JOBS, KINDS, LoadOptions, read_rate, read_speed
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
"""The measures that an expectation may bound."""
_TOP = ("kind", "nodes", "load", "faults", "drainSeconds", "seed", "expectations")
_LOAD = ("trace", "rate", "speed", "as", "runSeconds", "scheduler", "limit")
_FAULT = ("at", "nodes", "names", "failure")


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A failure of nodes at a time."""

    at_seconds: float
    failure: str
    """As `strato.node.hollow.failures.parse_failure` reads it."""
    count: int
    """Number of nodes, chosen at random; 0 if ``names`` has them."""
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A bound of a measure."""

    measure: str
    low: float
    high: float

    def verdict(self, measures: Mapping[str, float]) -> tuple[bool, str]:
        """Return whether the measure is within the bound, and a line for the user that says so."""
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
    """Shapes of the nodes of a cluster that is started for the test; empty uses an existing cluster."""
    trace: str
    limit: int
    options: LoadOptions
    faults: tuple[NodeFault, ...]
    seed: int
    expectations: tuple[Expectation, ...]


def is_test(path: Path) -> bool:
    """Return whether a file is a performance test, by its ``kind`` near the beginning."""
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
        InvalidInput: The file has problems; all are listed.
        UsageError: The file cannot be read.
    """
    try:
        document = yamltext.load(trace_text(path))
    except yamltext.InvalidYaml as error:
        raise InvalidInput("the test", [Problem(str(path), f"is not YAML: {one_line(error)}")]) from error
    return _test_of(document, Document("the test", str(path)), path.parent)


def _test_of(given: object, document: Document, folder: Path) -> LoadTest:
    top = document.mapping("", given, _TOP)
    if top.get("kind") != KIND:
        document.note("kind", f"is {top.get('kind')!r}, must be {KIND}")
    nodes = document.text("nodes", top.get("nodes", ""))
    if nodes:
        document.tried("nodes", lambda: parse_nodes(nodes))
    load = document.mapping("load", top.get("load", {}), _LOAD)
    trace = document.text("load.trace", load.get("trace", ""))
    if not trace:
        document.note("load.trace", "is missing; name a file or a model such as lublin:jobs=1000,nodes=100")
    options = _options(document, load, top)
    befallen = enumerate(document.items("faults", top.get("faults")))
    faults = tuple(_fault(document, f"faults[{at}]", one) for at, one in befallen)
    expected = document.mapping("expectations", top.get("expectations") or {}, MEASURES)
    expectations = tuple(_expectation(document, f"expectations.{name}", name, one) for name, one in expected.items())
    limit, seed = document.whole("load.limit", load.get("limit", 0)), document.whole("seed", top.get("seed", 0))
    document.raise_any()
    beside = folder / trace
    return LoadTest(nodes, str(beside) if os.path.exists(beside) else trace, limit, options, faults, seed, expectations)


def _options(document: Document, load: Mapping[str, Any], top: Mapping[str, Any]) -> LoadOptions:
    rate = speed = 0.0
    if "rate" in load:
        rate = document.tried("load.rate", lambda: read_rate(str(load["rate"]))) or 0.0
    if "speed" in load:
        speed = document.tried("load.speed", lambda: read_speed(str(load["speed"]))) or 0.0
    if rate and speed:
        document.note("load.speed", "and rate exclude each other")
    kind = load.get("as", JOBS)
    if kind not in KINDS:
        document.note("load.as", f"is {kind!r}, must be {' or '.join(KINDS)}")
    run = load.get("runSeconds")
    return LoadOptions(
        pods_per_second=rate,
        speed=speed or 1.0,
        kind=kind,
        run_seconds=None if run is None else document.number("load.runSeconds", run),
        scheduler=document.text("load.scheduler", load.get("scheduler", "volcano")) or "volcano",
        drain_seconds=document.number("drainSeconds", top.get("drainSeconds", 60)),
    )


def _fault(document: Document, path: str, value: object) -> NodeFault:
    given = document.mapping(path, value, _FAULT)
    failure = document.text(f"{path}.failure", given.get("failure", ""))
    document.tried(f"{path}.failure", lambda: parse_failure(failure))
    names = document.items(f"{path}.names", given.get("names"))
    count = document.whole(f"{path}.nodes", given.get("nodes", 0))
    if bool(names) == bool(count):
        document.note(path, "needs nodes (how many, at random) or names, not both")
    return NodeFault(document.number(f"{path}.at", given.get("at", 0)), failure, count, tuple(map(str, names)))


def _expectation(document: Document, path: str, name: str, value: object) -> Expectation:
    given = document.mapping(path, value, ("min", "max"))
    if not given:
        document.note(path, "needs min, max or both")
    low, high = (
        document.number(f"{path}.{key}", given[key], low=-math.inf) if key in given else default
        for key, default in (("min", -math.inf), ("max", math.inf))
    )
    return Expectation(name, low, high)
