"""Executes one run of an experiment in the fidelity that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from strato.node.shapes import NodeShape, parse_nodes
from strato.scheduler.config import parse_config
from strato.sim.experiments.plan import Run
from strato.sim.models.reading import read_models
from strato.sim.progress import Progress
from strato.sim.results.record import RunRecord
from strato.sim.run import DEFAULT_NODES, FIDELITIES, nodes_text
from strato.sim.traces import Trace


def shapes_of(run: Run, trace: Trace) -> tuple[NodeShape, ...]:
    """Return the nodes of a run: its variant's, else its trace's, else as many as a simulation has by default."""
    return run.variant.shapes or trace.nodes or parse_nodes(DEFAULT_NODES)


def nodes_name(run: Run, trace: Trace) -> str:
    """Return what reports call the nodes of a run."""
    return nodes_text(run.variant.nodes, trace)


def execute(run: Run, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Run one run of an experiment to its end.

    Args:
        run: What to run.
        trace: Its jobs.
        notify: Notified of its progress.
    """
    config = None if run.policy.text is None else parse_config(run.policy.text, run.policy.source)
    model = read_models(run.variant.models, Path())
    more = {} if model is None else {"model": model}  # of the fidelity of decisions only, which the file sees to
    return FIDELITIES[run.fidelity](
        trace, shapes_of(run, trace), config, seed=run.seed, queues=run.variant.queues, progress=notify, **more
    )
