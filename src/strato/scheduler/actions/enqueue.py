"""enqueue: admit pending PodGroups to their queues (spec volcano-actions 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strato.scheduler.actions.base import Action
from strato.scheduler.ordering.jobclasses import WAITING
from strato.scheduler.ordering.jobqueue import JobQueues
from strato.scheduler.reporting.refusals import refusal

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Enqueue(Action):
    """Move PodGroups from Pending to Inqueue as long as plugins admit them."""

    name = "enqueue"
    args_type = None

    def execute(self, ssn: Session) -> None:
        """Visit queues in order, and enqueue one job of each at a visit."""
        queues = JobQueues(ssn, ssn.job_classes, WAITING, lambda job: job.group is not None)
        while (queue := queues.pop()) is not None:
            entry = queue.pop()
            job = entry.job
            with ssn.isolated(job):
                if job.min_resources is None or ssn.job_enqueueable(job):
                    ssn.job_enqueued(job)
                    ssn.let_in(job)
                else:
                    ssn.note(job).condition = refusal(ssn, job)
            queue.done(entry)
            queues.push(queue)
