"""Read the state and the known run times for ``strato when`` and ``strato queue list --when``, and predict starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import home_of, with_cluster
from strato.cli.statesource import StateSource
from strato.errors import ApiError, StratoError

if TYPE_CHECKING:
    from strato.history.prediction import RunTimePredictor
    from strato.history.predictionintervals import Calibration, Interval
    from strato.scheduler.cache.world import World
    from strato.scheduler.dryrun.trial import Copy
    from strato.sim.foresight.when import Starts

MOST_SECONDS = 20.0
"""No further draw is begun after this time, as the user waits for the answer."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """A state of a cluster, and the predictor of its jobs' run times.

    Attributes:
        copy: The state as the engine's copy.
        world: The same state, to look jobs up in.
        names: Name of the job by its pod group's key.
        calibration: Correction learned from the predictions that the cluster publishes; None where it publishes none.
        predictor: Predicts run times.
    """

    copy: Copy
    world: World
    names: Mapping[str, str]
    calibration: Calibration | None
    predictor: RunTimePredictor

    def starts(self, draws: int, only: Collection[str] | None = None) -> dict[str, Starts]:
        """Return when waiting jobs start, by the key of their pod group."""
        from strato.sim.foresight.when import starts
        from strato.sim.foresight.whenjobs import run_times

        known = run_times(self.predictor)
        return starts(self.copy, known, draws=draws, only=only, budget_seconds=MOST_SECONDS, names=self.names)

    def interval(self, found: Starts) -> Interval:
        """Return the interval of a start, corrected by ``calibration`` if there is one."""
        return self.calibration.calibrated(found.interval) if self.calibration is not None else found.interval


def look(ctx: click.Context, paths: tuple[str, ...], config: Path | None, store: str | None, seed: int) -> Foresight:
    """Read a state, of manifests or of the cluster, and build the predictor of run times.

    Raises:
        InvalidInput: Listing everything that is wrong with the manifests and the configuration.
    """
    from strato.cli import states
    from strato.scheduler.dryrun.run import build
    from strato.sim.foresight.whatif_state import job_names, with_late_pods

    source = StateSource(paths, config)
    state, header = states.read_source(ctx, source, seed=seed)
    calibration = _published(ctx) if source.is_cluster else None
    state, notes = with_late_pods(state, header.now)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    copy = states.copy_of(state, header, source.base)
    world = build(copy.objects)
    predictor = _predictor(ctx, world, store, with_home=not paths)
    return Foresight(copy, world, job_names(state.objects), calibration, predictor)


def _predictor(ctx: click.Context, world: World, store: str | None, *, with_home: bool) -> RunTimePredictor:
    """Return a predictor that has learned from the history, where there is one, and from the jobs that have ended."""
    from strato.cli.history import opened
    from strato.history.prediction import RunTimePredictor
    from strato.sim.foresight.whenjobs import take_ended, take_history

    predictor = RunTimePredictor()
    if store or (with_home and home_of(ctx).history.exists()):
        with opened(ctx, store) as history:
            take_history(predictor, history.runs())
    take_ended(predictor, world)
    return predictor


def _published(ctx: click.Context) -> Calibration | None:
    """Return the correction learned from the predictions that the cluster publishes, None if it publishes none."""
    from strato.sim.foresight.whenpublishing import read_calibration

    try:
        return with_cluster(ctx, read_calibration)
    except (ApiError, StratoError):
        return None  # the interval is then that of the draws


def duration(seconds: float) -> str:
    """Return a waiting time as text for people."""
    from strato.sim.foresight.when import HORIZON_SECONDS
    from strato.units import human_duration

    if seconds < 1.0:
        return "now"
    if seconds > HORIZON_SECONDS:
        return f"more than {human_duration(HORIZON_SECONDS)}"
    return human_duration(seconds)
