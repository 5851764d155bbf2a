"""Rows of the store. A row is the state of one thing at an event; the newest row of a thing is what is known of it."""

from __future__ import annotations

import msgspec

COMPLETED = "Completed"
FAILED = "Failed"
ABORTED = "Aborted"
RUNNING = "Running"
PENDING = "Pending"
ENDED = (COMPLETED, FAILED, ABORTED)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job. Instants are seconds since the epoch, None while they lie ahead."""

    run_id: str
    """The job's uid and the number of the attempt."""
    job_uid: str
    namespace: str
    job: str
    kind: str
    """Group, version and kind of the job: ``batch.volcano.sh/v1alpha1/Job``."""
    template: str
    """What the job's runs have in common: label `TEMPLATE_LABEL`, or its name without the run's suffix."""
    queue: str
    priority: int = 0
    submitted: float
    inqueue: float | None = None
    ready: float | None = None
    """When as many pods were bound as the job needs to start."""
    started: float | None = None
    """When so many of them ran."""
    ended: float | None = None
    phase: str = PENDING
    predicted: float = -1.0
    """When it was expected to be ready, by the first prediction while it waited; -1 without one."""
    predicted_low: float = -1.0
    predicted_high: float = -1.0
    """Between when, with a share of four in five; the later bound is -1 where none was foreseen."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One container of one pod of a run."""

    run_id: str
    role: str
    index: str
    pod: str
    """Uid."""
    container: str
    containers: int = 1
    """Of the pod."""
    attempt: int = 0
    """How many pods had this place in the run before."""
    node: str = ""
    bound: float | None = None
    started: float | None = None
    ended: float | None = None
    seen: float = 0.0
    """The instant of the newest sample."""
    exit: int | None = None
    cpu_req: int = 0
    """Millicores."""
    mem_req: int = 0
    """Bytes."""
    cpu_core_s: float = 0.0
    mem_peak: float = 0.0
    """Bytes."""
    oom: int = 0
    """How often it was killed for lack of memory."""
    throttled: int = 0
    """Samples with more than a quarter of all periods throttled."""
    cpu_samples: dict[int, int] = msgspec.field(default_factory=dict)
    """Samples of the CPU by bucket of `strato.advice.histogram.CPU`."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Five minutes of a node."""

    ts: float
    """Start, a multiple of five minutes."""
    node: str
    selected: bool = True
    """Whether it counts in statistics."""
    cpu_capacity: float
    """Cores, without overcommitment."""
    cpu_used: float
    """Cores, on average."""
    cpu_allocatable: float = 0.0
    """Cores that are offered to pods, with overcommitment; 0: not known."""
    mem_capacity: float = 0.0
    mem_used: float = 0.0


TEMPLATE_LABEL = "strato.io/template"
"""Label of jobs that are runs of the same thing."""
