"""gang: all of a group's minimum, or none of it (spec volcano-plugins 2)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin
from strato.scheduler.model.answers import Evictor, Validity
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.plan import GroupCondition
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.tasks import ALLOCATED_SET, PENDING, PIPELINED, RELEASING

GANG = "gang"
NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
NOT_ENOUGH_TASKS = "NotEnoughTasks"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
READY_REASON = "tasks in gang are ready to be scheduled"
_SCHEDULED = GroupCondition("Scheduled", "True", READY_REASON, "")


class Gang(Plugin):
    """Bind a group's tasks only when its minimum fits; never break a running gang."""

    name = GANG
    job_facts = ("min_available", "roles")
    evictor_facts = ()

    def job_valid(self, job: Job) -> Validity | None:
        """Whether enough pods exist, in total and per role."""
        if not job.roles_valid():
            return Validity(NOT_ENOUGH_PODS_OF_TASK, "Not enough valid pods of each task for gang-scheduling")
        if job.layout is not None and not job.layout.enough():
            return Validity(NOT_ENOUGH_PODS_OF_TASK, "Not enough valid subGroups of each task for gang-scheduling")
        if job.valid < job.min_available:
            text = f"Not enough valid tasks for gang-scheduling, valid: {job.valid}, min: {job.min_available}"
            return Validity(NOT_ENOUGH_TASKS, text)
        return None

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks beyond their job's minimum."""
        return spare_minimum(candidates), PERMIT

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks beyond their job's minimum."""
        return spare_minimum(candidates), PERMIT

    def job_order(self, job: Job) -> int:
        """Jobs that are not ready first; among them first those of which a crash or failure left a part placed."""
        if job.is_ready:
            return 2
        return 0 if 0 < job.ready < job.min_available else 1

    def job_ready(self, job: Job) -> bool:
        """Whether the minimum, in total and per role, is placed."""
        return job.is_ready and job.roles_ready() and (job.layout is None or job.layout.enough_ready())

    def missing_until_ready(self, job: Job, role: str) -> int:
        """Return how many tasks of a role are missing to the minimum."""
        return job.missing_until_ready(role)

    def job_pipelined(self, job: Job) -> int:
        """Permit pipelined tasks only if they complete the minimum."""
        parts = job.layout is None or job.layout.enough_pipelined()
        return PERMIT if job.is_pipelined and job.roles_pipelined() and parts else REJECT

    def sub_job_order(self, sub: SubJob) -> bool:
        """Sub-jobs that are not ready first."""
        return sub.is_ready

    def sub_job_ready(self, sub: SubJob) -> bool:
        """Whether the sub-job's own minimum is placed."""
        return sub.is_ready

    def missing_until_sub_ready(self, sub: SubJob) -> int:
        """Return how many tasks are missing to the sub-job's minimum."""
        return sub.missing

    def sub_job_pipelined(self, sub: SubJob) -> int:
        """Permit pipelined tasks only if they complete the sub-job's minimum."""
        return PERMIT if sub.is_pipelined else REJECT

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """All candidates: bundles are made so that a gang keeps its minimum or is evicted as a whole."""
        return candidates, PERMIT

    def job_starving(self, job: Job) -> bool:
        """Whether fewer tasks than the job's minimum have a place or are pipelined."""
        return job.is_starving

    def close(self, ssn: CycleContext) -> None:
        """Set the condition Unschedulable or Scheduled on every job that was tried or changed."""
        jobs, known = dict(ssn.world.changed), ssn.world.jobs
        for key in ssn.notes:
            if key not in jobs and key in known:
                jobs[key] = known[key]
        for job in jobs.values():
            if not job.tasks or job.solo or job.group is None:
                continue
            notes = ssn.notes.get(job.key)
            if notes is not None and notes.condition is not None and job.is_waiting_for_queue:
                continue  # enqueue refused it and recorded why
            condition = self._condition(ssn, job)
            if condition is not None:
                ssn.note(job).condition = condition

    @staticmethod
    def _condition(ssn: CycleContext, job: Job) -> GroupCondition | None:
        if job.is_ready:
            return _SCHEDULED
        leaving = 0
        if job.counts[RELEASING]:
            leaving = sum(task.status == RELEASING and task.row >= 0 for task in job.tasks.values())
        open_tasks = job.counts[PENDING] + job.counts[PIPELINED]
        if leaving and not open_tasks and job.scheduled + leaving >= job.min_available:
            return None
        lacking = job.min_available - job.ready - _almost(ssn, job)
        notes = ssn.note(job)
        why = ssn.fit_error(job)
        if notes.verdicts or notes.errors:  # without these, the verdict added below becomes the original reason
            notes.fit_error = why
        text = f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {why}"
        numbers = {"ready": job.ready, "min_available": job.min_available, "tasks": len(job.tasks)}
        ssn.record_verdict(job, Verdict("gang", NOT_ENOUGH_RESOURCES, text, numbers))
        return GroupCondition("Unschedulable", "True", NOT_ENOUGH_RESOURCES, text)


def _almost(ssn: CycleContext, job: Job) -> int:
    """Count pending tasks that had a place in a statement that was discarded."""
    found = 0
    if not ssn.transactions:
        return found
    for key in job.pending:
        last = ssn.transactions.get(key)
        found += last is not None and last.status in ALLOCATED_SET
    return found


def spare_minimum(candidates: Sequence[Task]) -> list[Task]:
    """Return candidates, in order, as long as their job keeps its minimum."""
    left: dict[str, int] = {}
    victims = []
    for task in candidates:
        job = task.job
        if job is None:
            continue
        if job.solo:  # a pod without a group is no gang
            victims.append(task)
            continue
        have = left.get(job.key, job.ready)
        if have > job.min_available:
            left[job.key] = have - 1
            victims.append(task)
    return victims
