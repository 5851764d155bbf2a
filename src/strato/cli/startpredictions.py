"""Predict starts of waiting jobs, as a task of the scheduler's process."""

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
    from strato.history.prediction import SubmittedJob
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
    """Return a coroutine function that predicts starts until cancelled.

    Args:
        scheduler: Its configuration decides when the state is run forward.
        cluster: Pod groups there are annotated with predictions.
        informers: The scheduler's informers.
        clock: The process's clock.
        metrics: Registry for the predictions' accuracy.
        history: File with past runs; None if there is none.
    """

    async def run() -> None:
        from strato.sim.foresight.whenpublishing import StartPublisher

        await scheduler.ready.wait()
        past = _past(history) if history is not None and history.exists() else []
        await StartPublisher(cluster, informers, clock, lambda: scheduler.config, metrics, past=past).run()

    return run


def _past(path: Path) -> list[tuple[SubmittedJob, float]]:
    """Return the newest recorded runs, oldest first; empty if the history cannot be read."""
    from strato.history.store import HistoryError, HistoryStore
    from strato.sim.foresight.whenjobs import past_of

    try:
        with closing(HistoryStore(path, read_only=True)) as store:
            return past_of(store.runs())[-_MOST_PAST:]
    except HistoryError as error:
        _log.warning("starts are predicted without the runs of the past: %s", error)
        return []
