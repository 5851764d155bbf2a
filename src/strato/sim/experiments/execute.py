"""`execute`: simulates one run of an experiment in the fidelity that the run names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from strato.node.shapes import NodeShape, parse_nodes
from strato.scheduler.config import parse_config
from strato.sim.experiments.plan import ExperimentRun
from strato.sim.models.reading import read_models
from strato.sim.progress import Progress
from strato.sim.results.record import RunRecord
from strato.sim.run import DEFAULT_NODES, FIDELITIES, nodes_text
from strato.sim.traces import Trace


def shapes_of(run: ExperimentRun, trace: Trace) -> tuple[NodeShape, ...]:
    """Return the nodes of a run: its variant's, else its trace's, else the simulator's default."""
    return run.variant.shapes or trace.nodes or parse_nodes(DEFAULT_NODES)


def nodes_name(run: ExperimentRun, trace: Trace) -> str:
    """Return how reports name the nodes of a run."""
    return nodes_text(run.variant.nodes, trace)


def execute(run: ExperimentRun, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Simulate one run of an experiment to its end.

    Args:
        run: The run.
        trace: The jobs of the run.
        notify: Called with the progress of the simulation.
    """
    config = None if run.policy.text is None else parse_config(run.policy.text, run.policy.source)
    model = read_models(run.variant.models, Path())
    more = {} if model is None else {"model": model}  # only ``decisions`` takes models; the file's reader checks that
    return FIDELITIES[run.fidelity](
        trace, shapes_of(run, trace), config, seed=run.seed, queues=run.variant.queues, progress=notify, **more
    )
