"""`KeptVerdicts`: the newest verdict on every job and pod that waits, from which a running scheduler explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.reporting.explain import Diagnosis, diagnosis, with_numbers_of

_FEW = 1000
"""Verdicts on pods that are gone are removed only beyond about this many, as that takes a pass over all."""


class KeptVerdicts:
    """See the module.

    Attributes:
        jobs: By job key, the verdicts on the job.
        pods: By pod key, why the pod was not placed.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[str, Sequence[Verdict]] = {}
        self.pods: dict[str, PodVerdict] = {}

    def take(self, plan: Plan) -> None:
        """Take the verdicts of a cycle; drop those on pods that it placed and on their jobs."""
        for bind in plan.binds:
            self.pods.pop(bind.task.key, None)
            if bind.task.job is not None:
                self.jobs.pop(bind.task.job.key, None)
        for verdict in plan.pods:
            self.pods[verdict.task.key] = verdict
        self.jobs.update(plan.verdicts)
        if len(self.pods) > 2 * len(self._world.tasks) + _FEW:
            self.pods = {k: v for k, v in self.pods.items() if k in self._world.tasks}
            self.jobs = {k: v for k, v in self.jobs.items() if k in self._world.jobs}

    def diagnosis(self, key: str, visited_for: Callable[[str], str]) -> Diagnosis | None:
        """Explain why a pod or PodGroup (``namespace/name``) waits; None when it is unknown.

        Args:
            key: Key of the pod or PodGroup.
            visited_for: Returns the key of the job whose visit decided about a job of its class; empty without one.
        """
        task = self._world.tasks.get(key)
        job_key = task.job.key if task is not None and task.job is not None else key
        verdicts = self.jobs.get(job_key, ())
        visited = visited_for(job_key)
        if visited:
            verdicts = with_numbers_of(verdicts, self.jobs.get(visited, ()))
        return diagnosis(self._world, key, verdicts, self.pods)
