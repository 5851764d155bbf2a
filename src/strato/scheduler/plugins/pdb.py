"""pdb: no eviction against a PodDisruptionBudget (spec volcano-plugins 11)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.cache.budgets import Budgets
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, Plugin
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.tasks import RELEASING


class Pdb(Plugin):
    """Protect pods whose disruption budget is used up; pods without labels are always protected."""

    name = "pdb"
    job_facts = ()
    evictor_facts = ()

    def open(self, ssn: CycleContext) -> None:
        """Keep the budgets; their selectors are parsed at the first eviction."""
        self._budgets = Budgets(ssn.world)
        self._gone: dict[str, Task] = dict(ssn.world.evictions.unconfirmed)
        """Evicted pods that the budgets' statuses do not include yet."""

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count an eviction of this session against the budgets of the next ones."""
        self._gone.update({task.key: task for task in tasks if task.status == RELEASING})

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Forget evictions that were undone."""
        if self._gone:
            for task in tasks:
                self._gone.pop(task.key, None)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks whose eviction budgets allow, in order, after evicting those before."""
        asked = [task for task in tasks if task.pod.metadata.labels]
        violated = self._budgets.violated_by(self._gone.values(), asked)
        pairs = zip(asked, violated, strict=True)
        return [task for task, violates in pairs if not violates and task.key not in self._gone]

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT
