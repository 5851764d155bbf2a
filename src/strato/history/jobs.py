"""`facts_of`: reads from a job of any recorded kind what the history needs."""

from __future__ import annotations

from typing import Final, NamedTuple

from strato.advice.roles import template_of
from strato.api import catalog, frameworks
from strato.api.kubeflow import TrainingJob
from strato.api.meta import Object
from strato.api.trainer import TrainJob
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import QUEUE_ANNOTATION
from strato.clock import parse_time
from strato.history.rows import ABORTED, COMPLETED, FAILED, TEMPLATE_LABEL

_VOLCANO_ENDS: Final = {"Completed": COMPLETED, "Failed": FAILED, "Aborted": ABORTED, "Terminated": ABORTED}
_TRAINING_ENDS: Final = {"Succeeded": COMPLETED, "Complete": COMPLETED, "Failed": FAILED}
_DEFAULT_QUEUE: Final = "default"
_KINDS: Final = (catalog.VCJOB, *(one.kind for one in frameworks.FRAMEWORKS), catalog.TRAINJOB)
_NAMES: Final = {kind.view: f"{kind.api_version}/{kind.name}" for kind in _KINDS}
KINDS: Final[tuple[type[Object], ...]] = tuple(_NAMES)
"""Views of the kinds whose runs are recorded."""


class JobFacts(NamedTuple):
    """The facts of a job that the history needs."""

    uid: str
    namespace: str
    name: str
    kind: str
    """Group, version and kind: ``batch.volcano.sh/v1alpha1/Job``."""
    template: str
    queue: str
    submitted: float
    attempt: int
    min_available: int
    """Number of pods that the job needs to start."""
    phase: str
    """How the job ended, one of `strato.history.rows.ENDED`; empty while it has not."""
    ended: float | None


def facts_of(job: Object) -> JobFacts:
    """Return the facts of a job of one of `KINDS`."""
    meta = job.metadata
    template = meta.label(TEMPLATE_LABEL) or template_of(meta.name)
    submitted = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    if isinstance(job, Job):
        state = job.status.state
        phase = _VOLCANO_ENDS.get(state.phase, "")
        ended = parse_time(state.last_transition_time) if phase and state.last_transition_time else None
        queue, attempt, least = job.spec.queue, job.status.retry_count, job.spec.min_available
    else:
        assert isinstance(job, TrainingJob | TrainJob)
        phase, ended = "", None
        for condition in job.status.conditions:
            if condition.type in _TRAINING_ENDS and condition.status == "True":
                phase = _TRAINING_ENDS[condition.type]
                ended = parse_time(condition.last_transition_time) if condition.last_transition_time else None
        queue, least = _asked(job)
        attempt = 0
    names = (meta.uid, meta.namespace, meta.name, _NAMES[type(job)], template, queue or _DEFAULT_QUEUE)
    return JobFacts(*names, submitted, attempt, least, phase, ended)


def _asked(job: TrainingJob | TrainJob) -> tuple[str, int]:
    """Return the queue that a training job names, and how many pods it needs to start: its minimum, else all."""
    if isinstance(job, TrainJob):
        return job.metadata.annotation(QUEUE_ANNOTATION), job.spec.trainer.num_nodes or 1
    policy = job.spec.run_policy.scheduling_policy
    total = sum(role.replicas or 1 for role in job.spec.replica_specs.values() if role is not None)
    asked = policy.min_available if policy is not None else None
    return policy.queue if policy is not None else "", asked or total
