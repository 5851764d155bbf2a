"""What is known of one training job when it is planned, and the plan: values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from strato.api.batch import Job
from strato.api.core import Pod, Service
from strato.api.frameworks import Framework, JobShape
from strato.api.kinds import Kind
from strato.api.kubeflow import TrainingJob, TrainingJobStatus
from strato.api.meta import Json
from strato.api.volcano.scheduling import PodGroup, PodGroupSpec
from strato.controllers.training.events import JobEvent
from strato.controllers.training.verdicts import Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """How jobs are scheduled as gangs."""

    scheduler: str
    """Name of the scheduler: pods that name none get it."""
    priority_of: Callable[[str], int]
    """Returns the value of a priority class."""
    enforces_timeout: bool = False
    """Whether a job fails that waits for longer than its ``scheduleTimeoutSeconds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """An object that a job has beside its pods."""

    kind: Kind
    body: Json
    """Without what is made once."""
    member: str = ""
    """Brought up to date in an object that exists; empty leaves that as it is."""
    made_once: Callable[[], Json] | None = None
    """Returns further members of a new object: keys, which must not change."""
    may_be_others: bool = False
    """Whether one that is there is taken as it is, whoever made it."""


CompanionsOf = Callable[[JobShape, Sequence[Pod]], Sequence[Companion]]
"""Returns the companions of a job with these pods; their owner is filled in by whoever writes them."""


def no_companions(shape: JobShape, pods: Sequence[Pod]) -> Sequence[Companion]:
    """Return the companions of most jobs: none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """One job and what it has."""

    framework: Framework
    judge: Judge
    job: TrainingJob
    shape: JobShape
    pods: Sequence[Pod]
    """Those it owns, terminating ones included."""
    terminating: frozenset[str]
    """Uids of pods that are being deleted, by us or others."""
    services: Sequence[Service]
    group: PodGroup | None
    gang: Gang | None
    """None: pods are scheduled one by one."""
    now: float
    companions_of: CompanionsOf = no_companions
    while_it_runs: Sequence[Kind] = ()
    """Kinds of companions, called like the job, that it has only while it runs and asks for them."""
    launcher: Job | None = None
    """Of a job whose launcher is a Job."""
    launcher_pods: Sequence[Pod] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """One place for a pod and its service."""

    role: str
    index: int


class Launch(Enum):
    """What is done about the Job of a launcher."""

    CREATE = "create"
    CREATE_SUSPENDED = "create suspended"
    RESUME = "resume"
    SUSPEND = "suspend"


@dataclass(slots=True)
class TrainingPlan:
    """What to do; the writes are made in the order of the members."""

    group: PodGroupSpec | None = None
    """What the PodGroup has to say."""
    status: TrainingJobStatus | None = None
    """None when it stays as it is."""
    delete_pods: list[Pod] = field(default_factory=list)
    delete_services: list[Service] = field(default_factory=list)
    delete_group: bool = False
    companions: Sequence[Companion] = ()
    """What has to be there before the pods."""
    delete_companions: Sequence[Kind] = ()
    """Kinds of those, called like the job, that are not to be there."""
    create_services: list[Replica] = field(default_factory=list)
    create_pods: list[Replica] = field(default_factory=list)
    launch: Launch | None = None
    """What to do about the Job of the launcher."""
    events: list[JobEvent] = field(default_factory=list)
    """What has changed."""
    observations: list[JobEvent] = field(default_factory=list)
    """What is so, and is reported once."""
    delete_job: bool = False
    again_seconds: float | None = None
    """When time alone will change something."""
    problem: str = ""
    """Why the job cannot be handled as it should."""
