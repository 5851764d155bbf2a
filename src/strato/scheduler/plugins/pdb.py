"""pdb: no eviction against a PodDisruptionBudget (spec volcano-plugins 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strato.api.policy import PodDisruptionBudget
from strato.api.selectors import InvalidSelector, Selector, from_label_selector
from strato.scheduler.cache.tasks import RELEASING, Task
from strato.scheduler.framework import PERMIT, Plugin

if TYPE_CHECKING:
    from strato.scheduler.cache.jobs import Job
    from strato.scheduler.session import Session


class Pdb(Plugin):
    """Spare pods whose disruption budget is used up; pods without labels are spared always."""

    name = "pdb"
    same_for_alike = True

    def open(self, ssn: Session) -> None:
        """Note the budgets; selectors are read when somebody is to be evicted."""
        self._objects = ssn.world.objects.get(PodDisruptionBudget, {})
        self._budgets: dict[str, list[tuple[Selector, PodDisruptionBudget]]] | None = None
        self._gone: dict[str, Task] = dict(ssn.world.evictions.unconfirmed)
        """Evicted pods that budgets do not know of yet."""

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count an eviction of this session against the budgets of the next ones."""
        self._gone.update({task.key: task for task in tasks if task.status == RELEASING})

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Forget evictions that are taken back."""
        if self._gone:
            for task in tasks:
                self._gone.pop(task.key, None)

    def _by_namespace(self) -> dict[str, list[tuple[Selector, PodDisruptionBudget]]]:
        if self._budgets is None:
            self._budgets = {}
            for view in self._objects.values():
                assert isinstance(view, PodDisruptionBudget)
                try:
                    selector = from_label_selector(view.spec.selector)
                except InvalidSelector:
                    continue
                if selector.requirements:
                    self._budgets.setdefault(view.metadata.namespace, []).append((selector, view))
        return self._budgets

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that budgets allow to go, in order, each eviction counted."""
        budgets = self._by_namespace()
        allowed: dict[str, int] = {}
        victims = []
        for task in (*self._gone.values(), *tasks):
            labels = task.pod.metadata.labels
            if not labels:
                continue
            violated = False
            for selector, view in budgets.get(task.namespace, ()):
                if task.name in view.status.disrupted_pods or not selector.matches(labels):
                    continue
                key = str(view.key)
                allowed[key] = allowed.get(key, view.status.disruptions_allowed) - 1
                violated = violated or allowed[key] < 0
            if not violated and task.key not in self._gone:
                victims.append(task)
        return victims

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT
