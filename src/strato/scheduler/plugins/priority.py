"""priority: jobs and tasks of higher priority first; those of lower priority may be evicted (spec plugins 1)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.framework.plugin import GANG_RECLAIM, PERMIT, Plugin
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Job, SubJob, Task


class Priority(Plugin):
    """Order by the group's PriorityClass and the tasks' own priority."""

    name = "priority"
    job_facts = ("priority",)
    evictor_facts = ("job.priority", "priority")
    weighs_claims = True

    def job_order(self, job: Job) -> int:
        """Higher group priority first."""
        return -job.priority

    def task_order(self, task: Task) -> int:
        """Higher task priority first."""
        return -task.priority

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks of jobs of lower priority, and tasks of lower priority in the same job."""
        mine = preemptor.job
        if mine is None:
            return (), PERMIT
        victims = []
        for task in candidates:
            if task.job is mine:
                if task.priority < preemptor.priority:
                    victims.append(task)
            elif task.job is not None and task.job.priority < mine.priority:
                victims.append(task)
        return victims, PERMIT

    def sub_job_order(self, sub: SubJob) -> int:
        """Higher sub-job priority first."""
        return -sub.priority

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks of jobs of lower priority; between queues priority does not count."""
        if evictor.kind == GANG_RECLAIM:
            return candidates, PERMIT
        mine = evictor.job.priority
        return [task for task in candidates if task.job is not None and task.job.priority < mine], PERMIT

    def job_starving(self, job: Job) -> bool:
        """Whether any task of the job has neither a place nor is pipelined."""
        return job.ready + job.waiting < len(job.tasks)
