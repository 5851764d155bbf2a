"""How long pods run: by annotation, by ``activeDeadlineSeconds``, else by earlier pods of the same class."""

from __future__ import annotations

from typing import Final

from strato.clock import parse_time
from strato.lru import LruCache
from strato.scheduler.model.estimates import EXPECTED, stated_seconds
from strato.scheduler.model.jobs import Task

__all__ = ["EXPECTED", "RunTimes"]

_FRESH: Final = 0.3
"""Weight of the newest run in the average."""
_BYTES: Final = 4 << 20
"""Limit of the averages; enough for some 15,000 classes of pods."""


class RunTimes:
    """Average run times of pods that succeeded, by namespace and task class.

    Attributes:
        on: Whether a plugin uses them; run times are only recorded then.
    """

    def __init__(self) -> None:
        self.on = False
        self._averages: LruCache[tuple[str, int], float] = LruCache(_BYTES, lambda key, _: len(key[0]))

    def note(self, task: Task) -> None:
        """Record the run time of a pod that has succeeded."""
        status = task.pod.status
        ends = [c.state.terminated.finished_at for c in status.container_statuses if c.state.terminated is not None]
        finished = max((end for end in ends if end), default="")
        if not status.start_time or not finished:
            return
        seconds = max(0.0, parse_time(finished) - parse_time(status.start_time))
        key = (task.namespace, task.cls.number)
        known = self._averages.get(key)
        before = seconds if known is None else known
        self._averages.put(key, before + _FRESH * (seconds - before))

    def expected_seconds(self, task: Task) -> float | None:
        """Return how long a pod will run: as stated, else the average of its class; None when neither is known."""
        stated = stated_seconds(task.pod, task.job.group if task.job is not None else None)
        return stated if stated is not None else self._averages.get((task.namespace, task.cls.number))
