"""What the plan of one training job is made from, and the plan: values only."""

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
    """Name of the scheduler of gangs; pods that name none get it."""
    priority_of: Callable[[str], int]
    """Returns the value of a priority class."""
    enforces_timeout: bool = False
    """Whether a job fails that waits for longer than its ``scheduleTimeoutSeconds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """An object that a job has beside its pods."""

    kind: Kind
    body: Json
    """The object, without the members of ``made_once``."""
    member: str = ""
    """The member to bring up to date when the object exists; empty changes no existing object."""
    made_once: Callable[[], Json] | None = None
    """Returns members that only a new object gets: keys, which must not change."""
    may_be_others: bool = False
    """Whether an existing object of that name is used as it is, whoever owns it."""


CompanionsOf = Callable[[JobShape, Sequence[Pod]], Sequence[Companion]]
"""Returns the companions of a job with these pods, without owner references, which `Companions` adds."""


def no_companions(shape: JobShape, pods: Sequence[Pod]) -> Sequence[Companion]:
    """Return the companions of most jobs: none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """One job and the objects that it owns."""

    framework: Framework
    judge: Judge
    job: TrainingJob
    shape: JobShape
    pods: Sequence[Pod]
    """Pods that the job owns, terminating ones included."""
    terminating: frozenset[str]
    """Uids of terminating pods, also of those whose deletion the watch has not shown yet."""
    services: Sequence[Service]
    group: PodGroup | None
    gang: Gang | None
    """None when pods are scheduled one by one."""
    now: float
    companions_of: CompanionsOf = no_companions
    while_it_runs: Sequence[Kind] = ()
    """Kinds of companions with the job's name that exist only while the job runs and asks for them."""
    launcher: Job | None = None
    """The launcher of an MPI job of v2beta1, if it exists."""
    launcher_pods: Sequence[Pod] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a role, which has a pod and a service."""

    role: str
    index: int


class LauncherPlan(Enum):
    """What to do with the Job of a launcher."""

    CREATE = "create"
    CREATE_SUSPENDED = "create suspended"
    RESUME = "resume"
    SUSPEND = "suspend"


@dataclass(slots=True)
class TrainingPlan:
    """The writes to make, in the order of the members."""

    group: PodGroupSpec | None = None
    """The desired spec of the PodGroup; None when there is to be none."""
    status: TrainingJobStatus | None = None
    """The new status; None when it is unchanged."""
    delete_pods: list[Pod] = field(default_factory=list)
    delete_services: list[Service] = field(default_factory=list)
    delete_group: bool = False
    companions: Sequence[Companion] = ()
    """Objects that must exist before the pods are created."""
    delete_companions: Sequence[Kind] = ()
    """Kinds of companions with the job's name to delete."""
    create_services: list[Replica] = field(default_factory=list)
    create_pods: list[Replica] = field(default_factory=list)
    launch: LauncherPlan | None = None
    """What to do with the Job of the launcher."""
    events: list[JobEvent] = field(default_factory=list)
    """Events about changes, recorded each time."""
    observations: list[JobEvent] = field(default_factory=list)
    """Events about lasting states, recorded once per job."""
    delete_job: bool = False
    again_seconds: float | None = None
    """Seconds until a step is due by time; None for no such step."""
    problem: str = ""
    """Why the job cannot be run as specified."""
