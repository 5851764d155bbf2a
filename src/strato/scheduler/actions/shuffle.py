"""shuffle: evict running tasks that plugins choose, so that they are placed anew (spec volcano-actions 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strato.scheduler.actions.base import Action
from strato.scheduler.model.tasks import RUNNING

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Shuffle(Action):
    """Evict the running tasks that plugins name; controllers make new ones, which are placed afresh."""

    name = "shuffle"
    args_type = None

    def execute(self, ssn: Session) -> None:
        """Evict the running tasks that plugins return from ``victim_tasks``."""
        if not ssn.tiers["victim_tasks"]:
            return
        jobs = [job for job in ssn.world.jobs.values() if job.queue is not None and job.queue.view is not None]
        running = [task for job in jobs for task in job.tasks.values() if task.status == RUNNING]
        stmt = ssn.statement()
        for task in ssn.victim_tasks(running):
            if task.status == RUNNING and not ssn.world.evictions.spares(task, ssn.now):
                stmt.evict(task, self.name)
        stmt.commit()
