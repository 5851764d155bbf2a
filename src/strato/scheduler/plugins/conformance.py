"""conformance: never evict pods that the cluster itself needs (spec volcano-plugins 3)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.framework.plugin import PERMIT, Plugin
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Task

_CRITICAL = frozenset(("system-cluster-critical", "system-node-critical"))


class Conformance(Plugin):
    """Protect critical pods and those of the namespace kube-system from eviction."""

    name = "conformance"
    job_facts = ()
    evictor_facts = ()

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """All but critical pods."""
        return spare_critical(candidates), PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """All but critical pods."""
        return spare_critical(candidates), PERMIT

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """All but critical pods."""
        return spare_critical(candidates), PERMIT


def spare_critical(candidates: Sequence[Task]) -> list[Task]:
    """Return the candidates that are not critical."""
    return [
        task
        for task in candidates
        if task.pod.spec.priority_class_name not in _CRITICAL and task.namespace != "kube-system"
    ]
