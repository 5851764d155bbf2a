"""cdp: pods are not evicted for a while after they started (spec volcano-plugins 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.clock import parse_time
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, Plugin
from strato.scheduler.model.jobs import Task
from strato.units import duration_seconds

COOLDOWN: Final = "volcano.sh/cooldown-time"
"""Pod label, or else annotation, with a Go duration."""


class Cdp(Plugin):
    """Protect pods during their cool-down from eviction."""

    name = "cdp"
    job_facts = ()
    evictor_facts = ()

    def open(self, ssn: CycleContext) -> None:
        """Note the time."""
        self._ssn = ssn

    def _cools_down(self, task: Task) -> bool:
        meta, status = task.pod.metadata, task.pod.status
        text = meta.label(COOLDOWN) or meta.annotation(COOLDOWN)
        if not text or status.phase != "Running":
            return False
        try:
            seconds = duration_seconds(text)
        except ValueError:
            return False
        for condition in status.conditions:
            if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
                return parse_time(condition.last_transition_time) + seconds > self._ssn.now
        return False

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that are not in their cool-down."""
        return [task for task in candidates if not self._cools_down(task)], PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that are not in their cool-down."""
        return self.preemptable(reclaimer, candidates)
