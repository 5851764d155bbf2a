"""`simulate`: reads a trace and a policy from files, runs them in virtual time in either fidelity, returns a report.

Nothing here reads the machine's clock or draws unseeded random numbers: the same trace, options and seed give the same
report, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strato.api import catalog, yamltext
from strato.api.meta import Json
from strato.errors import InvalidInput, Problem, UsageError, one_line
from strato.node.shapes import NodeShape, parse_nodes
from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from strato.sim.decisions.run import simulate_decisions
from strato.sim.objects import simulate_objects
from strato.sim.progress import Progress as Progress
from strato.sim.report import SimulationReport, report_of
from strato.sim.rest import START
from strato.sim.results.record import RunRecord
from strato.sim.traces import Trace, read_trace

DEFAULT_NODES = "100x32cpu,256Gi"
"""The nodes of a simulation if neither its options nor its trace name any."""
OBJECTS, DECISIONS = "objects", "decisions"
FIDELITIES: Mapping[str, Callable[..., RunRecord]] = {OBJECTS: simulate_objects, DECISIONS: simulate_decisions}
"""Fidelity → the function that runs a trace in it. Both make the same decisions; only ``objects`` has API objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """One simulation."""

    trace: Path
    """CSV or SWF; see `strato.sim.traces`."""
    nodes: str = ""
    """See `strato.node.shapes.parse_nodes`; empty takes the trace's nodes, or `DEFAULT_NODES` if it has none."""
    fidelity: str = OBJECTS
    """``objects`` or ``decisions``."""
    config: Path | None = None
    """The scheduler's configuration file; None is the built-in one."""
    queues: Path | None = None
    """A YAML file of Queue manifests; queues that only the trace names are made with weight 1."""
    seed: int = 0
    queue_by: str = ""
    """For SWF: the field that becomes a job's queue: ``queue``, ``user`` or ``group``."""
    limit: int = 0
    """Only the first so many jobs of the trace; 0 is all."""
    start: float = START
    """The virtual instant at which the trace begins, seconds since the epoch."""
    progress: Callable[[Progress], None] | None = None
    """Called after each job that was submitted or ended."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    trace: Trace
    shapes: tuple[NodeShape, ...]
    config: Config | None
    queues: tuple[Json, ...]


def simulate(options: SimulationOptions) -> SimulationReport:
    """Run one simulation to its end.

    Raises:
        InvalidInput: Trace, nodes, configuration or queues have problems; all are listed.
        UsageError: A file cannot be read.
    """
    inputs = _read(options)
    return report_of(
        _record(options, inputs),
        trace=options.trace.name,
        nodes=nodes_text(options.nodes, inputs.trace),
        seed=options.seed,
        skipped=inputs.trace.skipped,
        queues=inputs.queues,
    )


def _record(options: SimulationOptions, inputs: _Inputs) -> RunRecord:
    return FIDELITIES[options.fidelity](
        inputs.trace,
        inputs.shapes,
        inputs.config,
        seed=options.seed,
        queues=inputs.queues,
        start=options.start,
        progress=options.progress,
    )


def nodes_text(nodes: str, trace: Trace) -> str:
    """Return how reports name the nodes of a simulation: as the user wrote them, else the trace's, else the default."""
    if nodes:
        return nodes
    return f"the trace's {sum(shape.count for shape in trace.nodes)} nodes" if trace.nodes else DEFAULT_NODES


def check(options: SimulationOptions) -> None:
    """Read all inputs of a simulation without running it. Raises as `simulate` does."""
    _read(options)


def _read(options: SimulationOptions) -> _Inputs:
    """Read everything; problems of all inputs are reported together."""
    problems: list[Problem] = []
    readers: Mapping[str, Callable[[], Any]] = {
        "trace": lambda: read_trace(options.trace, queue_by=options.queue_by, limit=options.limit),
        "nodes": lambda: parse_nodes(options.nodes) if options.nodes else (),
        "config": lambda: _config(options.config),
        "queues": lambda: _queues(options.queues),
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except InvalidInput as error:
            problems.extend(error.problems)
        except UsageError as error:
            problems.append(Problem("", str(error)))
    if problems:
        raise InvalidInput("the simulation", problems)
    shapes = found["nodes"] or found["trace"].nodes or parse_nodes(DEFAULT_NODES)
    return _Inputs(found["trace"], shapes, found["config"], found["queues"])


def _config(path: Path | None) -> Config | None:
    if path is None:
        return None
    try:
        return parse_config(_text(path), str(path))
    except InvalidInput as error:  # `_read` joins the problems of several files, so each must name its file
        named = [Problem(f"{path}: {problem.where}".removesuffix(": "), problem.message) for problem in error.problems]
        raise InvalidInput(error.what, named) from error


def _queues(path: Path | None) -> tuple[Json, ...]:
    if path is None:
        return ()
    try:
        documents = [document for document in yamltext.load_all(_text(path)) if document is not None]
    except yamltext.InvalidYaml as error:
        raise InvalidInput("queues", [Problem(str(path), f"is not YAML: {one_line(error)}")]) from error
    problems = []
    for number, document in enumerate(documents, start=1):
        where = f"{path}: document {number}"
        if not isinstance(document, dict) or document.get("kind") != catalog.QUEUE.name:
            problems.append(Problem(where, "is no Queue"))
        elif not isinstance(document.get("metadata"), dict) or not isinstance(document["metadata"].get("name"), str):
            problems.append(Problem(f"{where}: metadata.name", "is missing"))
    if problems:
        raise InvalidInput("queues", problems)
    return tuple(documents)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
