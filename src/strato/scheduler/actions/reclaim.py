"""reclaim: evict tasks of queues that hold more than their share, for other queues (spec volcano-actions 5)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.offers import Offers
from strato.scheduler.actions.placing import promise
from strato.scheduler.actions.preempt import pending_in_order
from strato.scheduler.actions.surplus import given_back
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import RUNNING
from strato.scheduler.ordering.jobqueue import starving_jobs
from strato.scheduler.session import Session
from strato.scheduler.statement import Statement


class Reclaim(Action):
    """Evict across queues for starving jobs of queues below their share."""

    name = "reclaim"

    def execute(self, ssn: Session) -> None:
        """Visit queues in order, each with all its starving jobs."""
        queues, offers = starving_jobs(ssn, ssn.job_classes), Offers(ssn, "reclaimable")
        while (queue := queues.pop()) is not None:
            if ssn.overused(queue.queue):
                continue
            for job in queue.visits():
                with ssn.isolated(job):
                    self._serve(ssn, queue.queue, job, offers)

    def _serve(self, ssn: Session, queue: Queue, job: Job, offers: Offers) -> None:
        stmt, attempts = ssn.statement(), choice.Attempts()
        for task in pending_in_order(ssn, job):
            if not ssn.job_starving(job):
                break
            if task.preemption_policy == "Never":
                continue
            if ssn.world.evictions.serve(task.key) and promise(ssn, queue, stmt, task):
                continue
            if choice.keeps_room(ssn, task):
                continue
            if not ssn.preemptive(queue, [task]):
                continue
            if ssn.pre_filter(task) is None:
                attempts.turn_to(ssn, task, offers)
                self._reclaim(ssn, stmt, queue, task, attempts, offers)
        if ssn.job_pipelined(job):
            stmt.commit()
        else:
            stmt.discard()

    @staticmethod
    def _reclaim(
        ssn: Session, stmt: Statement, queue: Queue, task: Task, attempts: choice.Attempts, offers: Offers
    ) -> None:
        """Evict for a task on the first node where that suffices; record the other rows as exhausted.

        Nodes where evicting tasks that elastic jobs give back suffices are preferred.
        """
        nodes, exhausted = ssn.world.nodes, attempts.exhausted
        open_rows = offers.surplus.rows()
        for row in attempts.rows(ssn, task) if open_rows else ():
            if row in open_rows and row not in exhausted:
                surplus = given_back(_candidates(ssn, queue, row))
                if surplus and _take(ssn, stmt, task, row, ssn.reclaimable(task, surplus)):
                    return
        for row in attempts.rows(ssn, task):
            if row in exhausted:
                continue
            candidates = _candidates(ssn, queue, row)
            free = nodes.free(row)
            victims = ssn.reclaimable(task, candidates) if candidates else []
            if not candidates or not choice.suffices(task, free, victims):
                attempts.refuse(row, free, victims)
            elif _take(ssn, stmt, task, row, victims):
                return


def _candidates(ssn: Session, queue: Queue, row: int) -> list[Task]:
    return [t for t in ssn.world.nodes.tasks[row].values() if t.status == RUNNING and _is_borrowed(ssn, t, queue)]


def _take(ssn: Session, stmt: Statement, task: Task, row: int, victims: Sequence[Task]) -> bool:
    """Evict victims on a row until the task fits; undo all evictions when it does not."""
    free = ssn.world.nodes.free(row)
    trial = ssn.statement()
    evicted: list[Task] = []
    for victim in ssn.victims_in_order(victims, task):
        if choice.suffices(task, free, evicted):
            break
        trial.evict(victim, "reclaim", task.key)
        evicted.append(victim)
    if not choice.suffices(task, free, evicted) or not choice.passes_filters(ssn, task, row):
        trial.discard()
        return False
    trial.pipeline(task, row, evicted=bool(evicted))
    stmt.merge(trial)
    return True


def _is_borrowed(ssn: Session, task: Task, queue: Queue) -> bool:
    """Whether a task runs in another, reclaimable queue."""
    job = task.job
    if job is None or job.queue is None or job.queue is queue or not job.queue.reclaimable:
        return False
    return choice.may_be_reclaimed(ssn, task)
