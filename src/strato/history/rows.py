"""Rows of the store. A row is the state of a run, replica or host after an event; only its newest row is valid."""

from __future__ import annotations

import msgspec

COMPLETED = "Completed"
FAILED = "Failed"
ABORTED = "Aborted"
RUNNING = "Running"
PENDING = "Pending"
ENDED = (COMPLETED, FAILED, ABORTED)


class JobRun(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job. Instants are seconds since the epoch; None before the event has happened."""

    run_id: str
    """The job's uid and the number of the attempt."""
    job_uid: str
    namespace: str
    job: str
    kind: str
    """Group, version and kind of the job: ``batch.volcano.sh/v1alpha1/Job``."""
    template: str
    """Name that all runs of the same job share: label `TEMPLATE_LABEL`, or the job's name without the run's suffix."""
    queue: str
    priority: int = 0
    submitted: float
    inqueue: float | None = None
    ready: float | None = None
    """When the minimum number of pods was bound."""
    started: float | None = None
    """When the minimum number of pods was running."""
    ended: float | None = None
    phase: str = PENDING
    predicted: float = -1.0
    """The first prediction of ``ready`` while the job waited; -1 without one."""
    predicted_low: float = -1.0
    predicted_high: float = -1.0
    """Bounds of that prediction, between which four of five jobs become ready; the upper bound is -1 for none."""


class PodContainer(msgspec.Struct, frozen=True, kw_only=True):
    """One container of one pod of a run."""

    run_id: str
    role: str
    index: str
    pod: str
    """Uid of the pod."""
    container: str
    containers: int = 1
    """Number of the pod's containers."""
    attempt: int = 0
    """Number of earlier pods in the run with the same role and index."""
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
    """How often the container was killed for lack of memory."""
    throttled: int = 0
    """Number of samples in which more than a quarter of the quota periods were throttled."""
    cpu_samples: dict[int, int] = msgspec.field(default_factory=dict)
    """Bucket of `strato.advice.histogram.CPU` → number of CPU samples in it."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a node in five minutes."""

    ts: float
    """Beginning of the five minutes, a multiple of five minutes."""
    node: str
    selected: bool = True
    """Whether the node counts in statistics."""
    cpu_capacity: float
    """Cores, without overcommitment."""
    cpu_used: float
    """Mean number of cores used."""
    cpu_allocatable: float = 0.0
    """Cores that are offered to pods, with overcommitment; 0 if not known."""
    mem_capacity: float = 0.0
    mem_used: float = 0.0


TEMPLATE_LABEL = "strato.io/template"
"""Label with a common name for jobs that are runs of the same work."""
