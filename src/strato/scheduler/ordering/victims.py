"""The order in which victims are evicted (spec scheduler-core 10.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from operator import itemgetter
from typing import Any

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job, Task


def in_order(ssn: PluginAnswers, victims: Sequence[Task], preemptor: Task) -> list[Task]:
    """Return victims in the order in which to evict them; those of jobs that give back their surplus come first."""
    if len(victims) < 2:
        return list(victims)
    jobs = {victim.job.key: victim.job for victim in victims if victim.job is not None}
    if any(job.has_surplus for job in jobs.values()):
        given = [victim for victim in victims if victim.job is not None and victim.job.has_surplus]
        others = [victim for victim in victims if victim.job is None or not victim.job.has_surplus]
        return [*_in_order(ssn, jobs, given, preemptor), *_in_order(ssn, jobs, others, preemptor)]
    return _in_order(ssn, jobs, victims, preemptor)


def _in_order(ssn: PluginAnswers, jobs: Mapping[str, Job], victims: Sequence[Task], preemptor: Task) -> list[Task]:
    if len(victims) < 2:
        return list(victims)
    if None not in {victim.job for victim in victims} and len({job.queue for job in jobs.values()}) == 1:
        by_job = dict(zip(jobs, ssn.job_plugin_keys(list(jobs.values())), strict=True))
        own = [by_job[victim.job.key] for victim in victims if victim.job is not None]
        ranked = zip(zip(own, ssn.task_keys(victims), strict=True), victims, strict=True)
        return [victim for _, victim in sorted(ranked, key=itemgetter(0), reverse=True)]
    keys = _Keys(ssn)

    def compare(left: Task, right: Task) -> int:
        a, b = left.job, right.job
        if a is b or a is None or b is None:
            if a is not b:
                return -1 if a is None else 1
            return keys.reverse_task_order(left, right)
        mine = preemptor.job
        if mine is None or a.queue is b.queue or a.queue is None or b.queue is None or mine.queue is None:
            x, y = keys.of_job(a), keys.of_job(b)
            if x != y:
                return -1 if x > y else 1
            return keys.reverse_task_order(left, right)
        x, y = ssn.victim_queue_key(a.queue, mine.queue), ssn.victim_queue_key(b.queue, mine.queue)
        if x != y:
            return -1 if x < y else 1
        x, y = ssn.queue_key(a.queue), ssn.queue_key(b.queue)
        return -1 if x > y else 1 if x < y else 0

    return sorted(victims, key=cmp_to_key(compare))


class _Keys:
    """Sort keys, each computed once; valid for one sort, during which no task moves."""

    def __init__(self, ssn: PluginAnswers) -> None:
        self._ssn = ssn
        self._jobs: dict[str, tuple[Any, ...]] = {}
        self._tasks: dict[str, tuple[Any, ...]] = {}

    def of_job(self, job: Job) -> tuple[Any, ...]:
        key = self._jobs.get(job.key)
        if key is None:
            key = self._jobs[job.key] = self._ssn.job_plugin_key(job)
        return key

    def _of_task(self, task: Task) -> tuple[Any, ...]:
        key = self._tasks.get(task.key)
        if key is None:
            key = self._tasks[task.key] = self._ssn.task_key(task)
        return key

    def reverse_task_order(self, left: Task, right: Task) -> int:
        a, b = self._of_task(left), self._of_task(right)
        return -1 if a > b else 1 if a < b else 0
