"""Count every pod of a Job exactly once, even if users delete it or the controller restarts at any point. Pure.

A pod keeps a finalizer until the stored status includes how it ended. One pass lists the uids of ended pods under
``uncountedTerminatedPods``, stores that, and then removes their finalizers; the next pass adds the uids whose
finalizers are gone to the counters. For indexed jobs ``completedIndexes`` records the pods that succeeded instead.

Source: batch/v1 ``status.uncountedTerminatedPods``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from strato.api.batch import Job, JobSpec, JobStatus, UncountedTerminatedPods
from strato.api.core import Pod
from strato.controllers.kube.jobpolicies import FAILURES_KEY, index_of, judge, replaces_only_failed

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_MOST_STRIPPED: Final = 500
"""Most pods that one pass counts: their uids take 20 KB of the status, and other jobs have to be served too."""


@dataclass(slots=True)
class Tracking:
    """What the next status says about ended pods, and what to do once it is stored."""

    succeeded: int
    failed: int
    listed_succeeded: list[str]
    listed_failed: list[str]
    strip: list[Pod] = field(default_factory=list)
    """Pods whose finalizer is removed once the status is stored."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to count."""
        return not (self.listed_succeeded or self.listed_failed or self.strip)

    @property
    def listed(self) -> dict[str, list[str] | None]:
        """``uncountedTerminatedPods`` as a merge patch writes it."""
        return _patch_of(self.listed_succeeded, self.listed_failed)


def listed_in(status: JobStatus) -> dict[str, list[str] | None]:
    """Return the ``uncountedTerminatedPods`` of a status, in the form of `Tracking.listed`."""
    listed = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return _patch_of(listed.succeeded, listed.failed)


def _patch_of(succeeded: Iterable[str], failed: Iterable[str]) -> dict[str, list[str] | None]:
    return {"succeeded": [*succeeded] or None, "failed": [*failed] or None}


def is_tracked(pod: Pod) -> bool:
    """Return whether a pod has the finalizer."""
    finalizers = pod.metadata.finalizers
    return finalizers is not None and FINALIZER in finalizers


def has_failed(spec: JobSpec, pod: Pod, is_leaving: bool) -> bool:
    """Return whether a pod counts as failed: a terminating one does, unless its job replaces only ended pods."""
    phase = pod.status.phase
    return phase == "Failed" or (is_leaving and phase != "Succeeded" and not replaces_only_failed(spec))


def track(
    job: Job, tracked: Collection[Pod], terminating: Collection[str], kept: Collection[str], *, ends: bool, fails: bool
) -> Tracking:
    """Decide what the next status says about ended pods.

    Args:
        job: The job, with the stored status.
        tracked: Its pods with the finalizer.
        terminating: Uids of its terminating pods.
        kept: Uids of ended pods that keep the finalizer for now (see `carriers`).
        ends: Whether the job has ended or is being deleted, so that all its pods lose the finalizer.
        fails: Whether the job ends as failed, so that its running pods count as failed.
    """
    spec, old = job.spec, job.status
    listed = old.uncounted_terminated_pods or UncountedTerminatedPods()
    uids = {pod.metadata.uid for pod in tracked}
    succeeded = [uid for uid in listed.succeeded if uid in uids]
    failed = [uid for uid in listed.failed if uid in uids]
    next_ = Tracking(
        succeeded=old.succeeded + len(listed.succeeded) - len(succeeded),
        failed=old.failed + len(listed.failed) - len(failed),
        listed_succeeded=succeeded,
        listed_failed=failed,
    )
    known = frozenset((*succeeded, *failed))
    for pod in tracked:
        uid = pod.metadata.uid
        phase, lost = pod.status.phase, has_failed(spec, pod, uid in terminating)
        if not (ends or phase == "Succeeded" or (lost and uid not in kept)):
            continue
        if len(next_.strip) >= _MOST_STRIPPED:
            break  # the next pass does the rest
        next_.strip.append(pod)
        if uid in known:
            continue
        if phase == "Succeeded":
            if spec.completion_mode != "Indexed":
                succeeded.append(uid)
        elif (phase == "Failed" or fails or (lost and not ends)) and judge(spec, pod).counts:
            failed.append(uid)
    return next_


def carriers(
    spec: JobSpec, tracked: Collection[Pod], terminating: Collection[str], running: Collection[int | None]
) -> set[str]:
    """Return the uids of the failed pods that must be kept for their annotation `FAILURES_KEY`.

    The number of failures of an index is stored only in that annotation of its last failed pod, until the index's next
    pod exists and has it.

    Args:
        spec: The job's spec.
        tracked: Its pods with the finalizer.
        terminating: Uids of its terminating pods.
        running: Indexes that have an active pod, or need none any more.
    """
    if spec.backoff_limit_per_index is None:
        return set()
    last: dict[int, Pod] = {}
    for pod in tracked:
        index = index_of(pod)
        if index is None or index in running or not has_failed(spec, pod, pod.metadata.uid in terminating):
            continue
        if index not in last or _failures_of(last[index]) < _failures_of(pod):
            last[index] = pod
    return {pod.metadata.uid for pod in last.values()}


def _failures_of(pod: Pod) -> int:
    text = pod.metadata.annotation(FAILURES_KEY)
    return int(text) if text.isdecimal() else 0
