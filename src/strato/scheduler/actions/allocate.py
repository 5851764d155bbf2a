"""allocate: place pending tasks, gang by gang, in the order of queues and jobs (spec volcano-actions 2)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from strato.scheduler.actions.base import Action
from strato.scheduler.actions.gangsearch import GangSearch, from_nomination
from strato.scheduler.actions.lines import Line, lines_of
from strato.scheduler.actions.placing import TaskLoop, Work, can_try
from strato.scheduler.actions.ranks import Ranks
from strato.scheduler.actions.sheets import Sheet
from strato.scheduler.cache.ingest import waits_for_queue
from strato.scheduler.model.jobs import PHASE_INQUEUE, Job, Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.tasks import Task
from strato.scheduler.topology.domains import Search

if TYPE_CHECKING:
    from strato.scheduler.ordering.backlog import Room
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Statement


class Allocate(Action):
    """Place what fits now; promise what will fit."""

    name = "allocate"

    def execute(self, ssn: Session) -> None:
        """Visit queues in order; each visit places one job up to its minimum, or one task of a ready job."""
        work, jobs, room = self._collect(ssn)
        lines = lines_of(ssn, room, jobs)
        queues: list[tuple[Any, str, Queue]] = []
        for name in lines:
            queue = ssn.world.queues[name]
            queues.append((ssn.queue_key(queue), name, queue))
        heapify(queues)
        ranks = Ranks(ssn)
        while queues:
            if ssn.queue_keys_move:
                queues = [(ssn.queue_key(queue), name, queue) for _, name, queue in queues]
                heapify(queues)
            _, name, queue = heappop(queues)
            line = lines[name]
            if not line:
                continue
            if ssn.overused(queue):
                self._say_overused(ssn, queue, line)
                continue
            moved = False
            # a visit that moved nothing leaves this queue the first, and no more used
            while not moved and (place := line.pop()) is not None:
                again = served = False
                with ssn.isolated(place.job):
                    served = not queues and ranks.serve(queue, line, place)
                    again = not served and self._visit(ssn, place.job, queue, work)
                if served:
                    break
                moved = line.visited(place, again=again)
            heappush(queues, (ssn.queue_key(queue) if queues else (), name, queue))  # the only one needs no order

    def _visit(self, ssn: Session, job: Job, queue: Queue, work: dict[str, Work | Sheet]) -> bool:
        """Place what one visit may of a job; return whether to come back for more."""
        todo = work.get(job.key)
        if todo is None:  # it came out of a crowd
            if not can_try(ssn, job):
                return False
            todo = work[job.key] = self._todo(ssn, job)
        if isinstance(todo, Sheet):
            search = GangSearch(ssn, job, queue, todo)
            found = search.run()
            work[job.key] = todo = search.sheet
            if found is None or not ssn.job_ready(job):
                return False
            found.commit()
            search.remember()
            return bool(todo)
        stmt = self._place_plain(ssn, job, queue, todo)
        if stmt is None or not ssn.job_ready(job):
            return False
        stmt.commit()
        ssn.nominations.pop(job.key, None)
        return bool(todo)

    @staticmethod
    def _place_plain(ssn: Session, job: Job, queue: Queue, todo: Work) -> Statement | None:
        """Place tasks of a job that is looked at as one and may go anywhere; None when nothing stands."""
        nominated = ssn.nominations.get(job.key)
        if nominated is not None:
            stmt = from_nomination(ssn, queue, todo, nominated)
            if stmt is not None:
                return stmt
            del ssn.nominations[job.key]
        stmt = ssn.statement()
        sub = job.layout.subs.get(job.key) if job.layout is not None else None
        loop = TaskLoop(ssn, stmt, job, queue, todo, ssn.note(job), sub)
        if sub is None:
            stands = loop.run()
        else:
            with ssn.searching(Search(ssn.tree, ssn.tree.top, sub, ssn.domains.allocated(sub))):
                stands = loop.run()
        if stands:
            return stmt
        stmt.discard()
        return None

    def _collect(self, ssn: Session) -> tuple[dict[str, Work | Sheet], list[Job], Room | None]:
        """Return the jobs by themselves that may be placed with the work of each, and where the others are."""
        enqueue_runs = "enqueue" in ssn.config.actions
        work: dict[str, Work | Sheet] = {}
        jobs: list[Job] = []
        if not enqueue_runs:
            for job in list(ssn.world.waiting_for_queue.values()):
                if job.group is not None and job.queue is not None and job.queue.view is not None:
                    ssn.world.set_phase(job, PHASE_INQUEUE)
        room = ssn.room("pending")
        for job in (ssn.world.with_pending if room is None else room.loose).values():
            if job.is_waiting_for_queue or job.queue is None or job.queue.view is None:
                continue
            if not can_try(ssn, job) or not self._topology_known(ssn, job):
                continue
            todo = self._todo(ssn, job)
            if not todo:
                continue
            work[job.key] = todo
            jobs.append(job)
        return work, jobs, room

    @staticmethod
    def _topology_known(ssn: Session, job: Job) -> bool:
        if job.layout is None or not job.layout.topological or not ssn.tree.problem:
            return True
        ssn.say(job, Verdict("core", "Topology", f"the network topology cannot be used: {ssn.tree.problem}"))
        return False

    @staticmethod
    def _todo(ssn: Session, job: Job) -> Work | Sheet:
        if job.layout is not None and (job.layout.split or ssn.domains.limit(job) is not None):
            return Sheet(ssn, job, _placeable)
        tasks: Iterable[Task] = job.pending.values()
        if job.gated or job.pending_best_effort:
            tasks = [task for task in tasks if _placeable(task)]
        return Work(ssn.sorted_tasks(tasks))

    @staticmethod
    def _say_overused(ssn: Session, queue: Queue, line: Line) -> None:
        text = f"queue {queue.name} has all it deserves"
        verdict = Verdict("proportion", "QueueOverused", text, ssn.world.dims.describe(queue.used))
        line.turn_down(lambda job: ssn.say(job, verdict))


def _placeable(task: Task) -> bool:
    return not task.cls.best_effort and (not task.gated or waits_for_queue(task))
