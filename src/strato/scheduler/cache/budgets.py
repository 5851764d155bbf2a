"""PodDisruptionBudgets in a session: which evictions would violate one."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.policy import PodDisruptionBudget
from strato.api.selectors import InvalidSelector, Selector, from_label_selector
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task


class Budgets:
    """The budgets of all namespaces; their selectors are parsed at the first eviction."""

    def __init__(self, world: World) -> None:
        self._objects = world.objects.get(PodDisruptionBudget, {})
        self._known: dict[str, list[tuple[Selector, PodDisruptionBudget]]] | None = None

    def _by_namespace(self) -> dict[str, list[tuple[Selector, PodDisruptionBudget]]]:
        if self._known is None:
            self._known = {}
            for view in self._objects.values():
                assert isinstance(view, PodDisruptionBudget)
                try:
                    selector = from_label_selector(view.spec.selector)
                except InvalidSelector:
                    continue
                if selector.requirements:
                    self._known.setdefault(view.metadata.namespace, []).append((selector, view))
        return self._known

    def violated_by(self, gone: Iterable[Task], tasks: Iterable[Task]) -> list[bool]:
        """Return for each task whether evicting it after ``gone`` and the tasks before it violates a budget."""
        budgets = self._by_namespace()
        allowed: dict[str, int] = {}
        for task in gone if budgets else ():
            self._take(task, allowed)
        return [bool(budgets) and self._take(task, allowed) for task in tasks]

    def _take(self, task: Task, allowed: dict[str, int]) -> bool:
        labels = task.pod.metadata.labels
        violated = False
        for selector, view in self._by_namespace().get(task.namespace, ()) if labels else ():
            if task.name in view.status.disrupted_pods or not selector.matches(labels):
                continue
            key = str(view.key)
            allowed[key] = allowed.get(key, view.status.disruptions_allowed) - 1
            violated = violated or allowed[key] < 0
        return violated
