"""`simulate_decisions`: runs a trace under a policy with the scheduler's cycle alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from strato.api.meta import Json
from strato.node.shapes import NodeShape
from strato.scheduler.config import default_config
from strato.scheduler.framework.options import Config
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.placement.placer import warm_up
from strato.seeding import child
from strato.sim.decisions.beginning import fill, new_world, stored_before
from strato.sim.decisions.engine import Engine
from strato.sim.decisions.jobs import Jobs
from strato.sim.decisions.paced import PacedJobs
from strato.sim.decisions.templates import Templates
from strato.sim.decisions.timeline import Timeline
from strato.sim.machines import columns_of, node_objects
from strato.sim.models import PerformanceModel
from strato.sim.progress import Progress
from strato.sim.rest import START
from strato.sim.results.record import RunRecord, RunRecorder
from strato.sim.traces import Trace


def simulate_decisions(
    trace: Trace,
    shapes: tuple[NodeShape, ...],
    config: Config | None = None,
    *,
    seed: int = 0,
    queues: Sequence[Json] = (),
    start: float = START,
    progress: Callable[[Progress], None] | None = None,
    model: PerformanceModel | None = None,
) -> RunRecord:
    """Run a trace to its end. Depends on its arguments only.

    Args:
        trace: The jobs.
        shapes: The nodes; empty takes those of the trace.
        config: The policy; None is the built-in one.
        seed: Seeds the scheduler's random numbers.
        queues: Manifests; queues that the trace names and these do not are made with weight 1.
        start: The instant at which the trace begins, seconds since the epoch.
        progress: Called after each instant that had an event.
        model: Gives the jobs' speed by placement, start delay and loss on eviction; None takes the trace's run times.

    Raises:
        ApiError: A queue was refused.
    """
    config = config or default_config()
    nodes = node_objects(shapes or trace.nodes, start)
    stored = stored_before(trace.jobs, queues, start)
    world = new_world(config, SchedulerOptions())
    fill(world, stored, nodes)
    warm_up()
    recorder = RunRecorder(trace.jobs, columns_of(nodes))
    timeline = Timeline(start)
    jobs: Jobs = Jobs(trace.jobs, world, Templates(stored), recorder, timeline)
    if model is not None:
        jobs = PacedJobs(trace.jobs, world, Templates(stored), recorder, timeline)
        jobs.follow(model)
    engine = Engine(world, config, jobs, recorder, timeline, child(Random(seed)))
    if progress is None:
        engine.run()
    else:
        engine.run(
            lambda: progress(
                Progress(timeline.now, jobs.submitted, recorder.finished, len(trace.jobs), recorder.running_pods)
            )
        )
    return recorder.record(recorder.last_change_at, jobs.reasons())
