"""pdb: no eviction against a PodDisruptionBudget (spec volcano-plugins 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strato.api.policy import PodDisruptionBudget
from strato.api.selectors import InvalidSelector, Selector, from_label_selector
from strato.scheduler.cache.tasks import Task
from strato.scheduler.framework import PERMIT, Plugin

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Pdb(Plugin):
    """Spare pods whose disruption budget is used up; pods without labels are spared always."""

    name = "pdb"

    def open(self, ssn: Session) -> None:
        """Note the budgets; selectors are read when somebody is to be evicted."""
        self._objects = ssn.world.objects.get(PodDisruptionBudget, {})
        self._budgets: dict[str, list[tuple[Selector, PodDisruptionBudget]]] | None = None

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
        for task in tasks:
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
            if not violated:
                victims.append(task)
        return victims

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Candidates that budgets allow to go."""
        return self.victim_tasks(candidates), PERMIT
