"""enqueue: let waiting PodGroups into their queues (spec volcano-actions 1)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from strato.scheduler.actions.base import Action
from strato.scheduler.actions.lines import lines_of
from strato.scheduler.model.jobs import PHASE_INQUEUE, Queue
from strato.scheduler.reporting.refusals import refusal

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Enqueue(Action):
    """Move PodGroups from Pending to Inqueue as long as plugins admit them."""

    name = "enqueue"
    args_type = None

    def execute(self, ssn: Session) -> None:
        """Admit jobs queue by queue, one job per queue and turn."""
        room = ssn.room("waiting")
        jobs = [
            job
            for job in (ssn.world.waiting_for_queue if room is None else room.loose).values()
            if job.queue is not None and job.queue.view is not None and job.group is not None
        ]
        waiting = lines_of(ssn, room, jobs)
        queues: list[tuple[Any, str, Queue]] = []
        for name in waiting:
            queue = ssn.world.queues[name]
            queues.append((ssn.queue_key(queue), name, queue))
        heapify(queues)
        while queues:
            _, name, queue = heappop(queues)
            place = waiting[name].pop()
            if place is None:
                continue
            job = place.job
            with ssn.isolated(job):
                if job.min_resources is None or ssn.job_enqueueable(job):
                    ssn.job_enqueued(job)
                    ssn.world.set_phase(job, PHASE_INQUEUE)
                else:
                    ssn.note(job).condition = refusal(ssn, job)
            waiting[name].visited(place, again=False)
            heappush(queues, (ssn.queue_key(queue) if queues else (), name, queue))  # the only one needs no order
