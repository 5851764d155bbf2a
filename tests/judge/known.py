"""Differences that are judged: by case and path, why ours is as it is."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from tests.judge.comparison import Difference

_PER_POD = "nothing is reported for each pod and service that is made or deleted: they are there to be seen"
_WAITS = "that a job waits for its PodGroup is reported"
_LIMIT = "their client drops what is beyond 25 events of one job, and events of each pass use these up"
_ELASTIC = "an elastic job begins with its fewest workers, and gives back what it has beyond them"
_OURS = "what we remember of pods that are gone stands in fields of our own"
_EVICTED = "an evicted worker ends the job whole: completionTime, clean-up, the launcher with it"
_LATER = "the gang of a launcher that is made when the workers are ready is the workers"
_ALWAYS = "completionTime is there whenever a job has failed"
_CLAIM = "selector is there for every role, whether or not the job ended while they looked at another"

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    ("*:Events.Normal SuccessfulCreate*", _PER_POD),
    ("*:Events.Normal SuccessfulDeletePod", _PER_POD),
    ("*:Events.Normal SuccessfulDeleteService", _PER_POD),
    ("*:Events.Normal WaitingForPodGroup", _WAITS),
    ("*:Events.Warning FailedCreateService", "they make a service again before its old one has gone, and report that"),
    ("tf-worker-deleted:Service/train-worker-1", "services go with their pods"),
    ("*-born-suspended:Events.Normal *", "they report the deletion of a PodGroup that never was"),
    ("*:Events.Normal TFJobFailed", "a failure is reported once; they report a permanent exit code twice"),
    ("*-exit-code-permanent:*.status.completionTime", _ALWAYS),
    (
        "pytorch-exit-code-permanent:Events.Warning PyTorchJobRestarting",
        "a job that fails does not say that it restarts",
    ),
    ("*:*.status.replacedPods", _OURS),
    ("*.succeededIndexes", _OURS),
    ("*:*.status.replicaStatuses.*.selector", _CLAIM),
    ("pytorch-*:PodGroup/train.spec.min*", _ELASTIC),
    ("pytorch-*:PodGroup/train.metadata.annotations*", _ELASTIC),
    ("pytorch-*:Pod/train-worker-0.metadata.annotations.volcano.sh/preemptable", _ELASTIC),
    ("mpi-v1-*:Events.Normal * is exist", "what is there already is not reported"),
    ("mpi-v1-*:Events.Warning SettedPodTemplateSchedulerName", "they warn of the name that they set themselves"),
    ("mpi-v1-*:Events.Normal MPIJobRunning", "the condition says that a job runs"),
    ("mpi-v1-*:Events.Warning MPIJobFailed", "they report each try to make a launcher that is there already"),
    ("mpi-v1-*:Events.Normal *", _LIMIT),
    ("mpi-v1-*:Role/train-launcher.rules*", "kubectl asks for commands by WebSocket since 1.31: with get, not create"),
    (
        "mpi-v1-*:MPIJob/train.status.conditions.[[]Failed].reason",
        "their reason has the kind twice: MPIJobMPIJobFailed",
    ),
    ("mpi-v1-*:MPIJob/train.status.replicaStatuses.Worker", "workers are counted after the launcher's end, too"),
    ("mpi-v2-*:Job/train-launcher.spec.template.metadata.ownerReferences", "nobody reads owners in a template"),
    ("mpi-v2-worker-evicted:*", _EVICTED),
    ("mpi-v2-waits-for-workers:PodGroup/train.spec.min*", _LATER),
)
"""Patterns of ``CASE:PATH`` with ``*``, and the reason; the first that fits counts."""


def reason_for(difference: Difference) -> str:
    """Return why a difference is meant; empty when nobody knows."""
    return next((why for pattern, why in KNOWN if fnmatchcase(difference.place, pattern)), "")
