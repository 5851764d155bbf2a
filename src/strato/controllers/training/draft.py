"""The status of a job while a plan is being made."""

from __future__ import annotations

from strato.api.frameworks import JobShape
from strato.api.kubeflow import ReplacedPods, ReplicaStatus, TrainingJob, TrainingJobStatus
from strato.clock import format_time
from strato.controllers.training.conditions import Conditions
from strato.controllers.training.events import JobEvent


class StatusDraft:
    """The status that verdicts and limits change.

    Args:
        shape: The job with its defaults.
        job: The job as it was read.
        now: Seconds since the epoch.
    """

    def __init__(self, shape: JobShape, job: TrainingJob, now: float) -> None:
        status = job.status
        self.shape = shape
        self.kind = shape.framework.kind.name
        self.now = format_time(now)
        self.conditions = Conditions(status.conditions, self.now)
        self.replicas: dict[str, ReplicaStatus] = dict(status.replica_statuses)
        self.start_time = status.start_time
        self.completion_time = status.completion_time
        self.last_reconcile_time = status.last_reconcile_time
        self.replaced = status.replaced_pods or ReplacedPods()
        self.events: list[JobEvent] = []

    def count(self, role: str) -> ReplicaStatus:
        """Return the counters of a role's pods."""
        return self.replicas.get(role) or ReplicaStatus()

    def note(self, type_: str, status: str, reason: str, message: str, event: str = "") -> None:
        """Set a condition; if that changes it, add an event of the type ``event``."""
        reason = f"{self.kind}{reason}"
        if self.conditions.set(type_, status, reason, message) and event:
            self.events.append(JobEvent(event, reason, message))

    @property
    def qualified_name(self) -> str:
        """The job's name, after that of its namespace."""
        return f"{self.shape.namespace}/{self.shape.name}"

    def finish(self, type_: str, message: str, event: str = "Normal", *, reason: str = "") -> None:
        """End the job, unless it has ended: the first verdict counts."""
        if not self.conditions.is_finished:
            self.completion_time = self.completion_time or self.now
            reason = reason or f"{self.kind}{type_}"
            self.conditions.set(type_, "True", reason, message)
            self.events.append(JobEvent(event, reason, message))

    def to_status(self) -> TrainingJobStatus:
        """Return the status to write."""
        return TrainingJobStatus(
            conditions=self.conditions.to_tuple(),
            replica_statuses=self.replicas,
            start_time=self.start_time,
            completion_time=self.completion_time,
            last_reconcile_time=self.last_reconcile_time,
            replaced_pods=self.replaced if self.replaced.count else None,
        )
