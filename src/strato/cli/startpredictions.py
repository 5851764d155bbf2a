"""Predicted starts of waiting jobs as a part of the scheduler's process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strato.client.cluster import Cluster
    from strato.client.informer import Informers
    from strato.clock import Clock
    from strato.history.prediction import Submission
    from strato.metrics import Registry
    from strato.scheduler import Scheduler

_log = logging.getLogger(__name__)
_MOST_PAST = 20_000


def predicting(
    scheduler: Scheduler,
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    metrics: Registry,
    history: Path | None = None,
) -> Callable[[], Awaitable[None]]:
    """Return what predicts starts until it is cancelled.

    Args:
        scheduler: By whose configuration the state is run forward.
        cluster: Where predictions are written.
        informers: What the scheduler reads.
        clock: Of the process.
        metrics: Where the accuracy is shown.
        history: File of the runs of the past, if there is one.
    """

    async def run() -> None:
        from strato.sim.foresight.whenpublishing import StartPublisher

        await scheduler.ready.wait()
        past = _past(history) if history is not None and history.exists() else []
        await StartPublisher(cluster, informers, clock, lambda: scheduler.config, metrics, past=past).run()

    return run


def _past(path: Path) -> list[tuple[Submission, float]]:
    """Return the newest runs of the past, the oldest of them first; a history that cannot be read is none."""
    from strato.history.store import HistoryError, HistoryStore
    from strato.sim.foresight.whenjobs import past_of

    try:
        with closing(HistoryStore(path, read_only=True)) as store:
            return past_of(store.runs())[-_MOST_PAST:]
    except HistoryError as error:
        _log.warning("starts are predicted without the runs of the past: %s", error)
        return []
