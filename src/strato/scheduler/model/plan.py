"""`Plan`: what a cycle decided, as data; the binder and the reports carry it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.reasons import FitErrors, Verdict
from strato.scheduler.model.resources import FloatArray, Vector


class Bind(NamedTuple):
    """Put a pod on a node."""

    task: Task
    node: str


_bind = partial(tuple.__new__, Bind)


def binds(tasks: Sequence[Task], names: Sequence[str]) -> Iterable[Bind]:
    """Return the binds of tasks to the nodes of their rows; ``names`` are the nodes by row.

    Built by `map`, because calling `Bind` from Python for each of 20,000 pods costs more than choosing their nodes.
    """
    return map(_bind, zip(tasks, [names[task.row] for task in tasks], strict=True))


class Eviction(NamedTuple):
    """Evict a pod for the pod with key ``beneficiary``; ``moves_to`` is the node kept for the victim's successor."""

    task: Task
    reason: str
    action: str
    beneficiary: str = ""
    moves_to: str = ""


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """A PodGroup condition to set (spec scheduler-core 9.3)."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def content(self) -> tuple[str, str, str]:
        """Status, reason and message, to compare with the existing condition of this type."""
        return self.status, self.reason, self.message


class GroupStatus(NamedTuple):
    """Status a PodGroup should have. ``condition`` replaces the one of its type; None changes no condition.

    ``hyper_node`` is the domain the job lies in, for the annotation; None leaves that as it is.
    """

    job: Job
    phase: str
    running: int
    succeeded: int
    failed: int
    condition: GroupCondition | None = None
    hyper_node: str | None = None

    @property
    def is_news(self) -> bool:
        """Whether it has to be written: phase, counters, condition or domain differ from what the group has."""
        job, wanted = self.job, self.condition
        assert job.group is not None
        have = job.group.status
        if have.phase != self.phase or have.running != self.running:
            return True
        if have.succeeded != self.succeeded or have.failed != self.failed:
            return True
        if self.hyper_node is not None and job.layout is not None and self.hyper_node != job.layout.written:
            return True
        return wanted is not None and job.conditions.get(wanted.type) != wanted.content


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What a queue holds and deserves, for its status and metrics."""

    name: str
    allocated: Mapping[str, str]
    deserved: Mapping[str, str] = field(default_factory=dict)
    share: float = 0.0
    overused: bool = False
    vectors: Mapping[str, Vector | FloatArray] = field(default_factory=dict, compare=False)
    """For metrics: by family (``deserved``, ``capacity``, ``real_capacity``) amounts in internal units."""


class Failure(NamedTuple):
    """A plugin (or an action) raised and was left out for the rest of the cycle."""

    plugin: str
    point: str
    error: str


@dataclass(slots=True)
class Plan:
    """The outcome of one cycle.

    Attributes:
        session: Identity of the session.
        binds, evictions: In the order decided.
        enqueued: Jobs that were enqueued.
        phases: By key of the jobs whose phase changed, the phase before the cycle.
        admitted: By pod key, tasks whose queue has room: the binder removes their queue-admission gate.
        pipelined: ``pod key -> node`` of tasks that were pipelined.
        groups: Statuses of the PodGroups that changed or were tried.
        pods: Verdicts on the pods that were not placed.
        verdicts: By job key, why it waits; events, conditions and explanations all render these.
        queues: Status of every queue that has jobs or is known.
        queue_annotations: By queue, the annotations that plugins set on it; an empty value removes one.
        choices: By pod key, the reason for the node of a bind, as an object whose ``str`` is a sentence.
        failures: Plugins and actions that raised and were left out for the rest of the cycle.
        again_seconds: Time until a job may evict that waits after evictions in vain; 0 when no job waits for that.
        quiet_pods: Number of pods in jobs that were refused with the same verdicts as before, which are not reported
            again.
    """

    session: str = ""
    binds: list[Bind] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    enqueued: list[Job] = field(default_factory=list)
    phases: dict[str, str] = field(default_factory=dict)
    admitted: dict[str, Task] = field(default_factory=dict)
    pipelined: dict[str, str] = field(default_factory=dict)
    groups: list[GroupStatus] = field(default_factory=list)
    pods: list[PodVerdict] = field(default_factory=list)
    verdicts: dict[str, Sequence[Verdict]] = field(default_factory=dict)
    queues: list[QueueStatus] = field(default_factory=list)
    queue_annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    choices: dict[str, object] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    again_seconds: float = 0.0
    quiet_pods: int = 0


class Notes:
    """A session's notes on a job it tried.

    Attributes:
        errors: Why its tasks fit nowhere, by number of their class (by key for a task that uses claims).
        failed_roles: Roles of those tasks.
        verdicts: Why the job was not placed.
        condition: The PodGroup condition to set.
        fit_error: Why the job does not fit, as text; set when the session is closed.
    """

    __slots__ = ("condition", "errors", "failed_roles", "fit_error", "verdicts")

    def __init__(self) -> None:
        self.errors: dict[int | str, FitErrors] = {}
        self.failed_roles: set[str] = set()
        self.verdicts: list[Verdict] = []
        self.condition: GroupCondition | None = None
        self.fit_error = ""


class Transaction(NamedTuple):
    """The place a discarded statement had for a task; only messages and the nominated node use it."""

    status: int
    row: int
    evicted: bool
