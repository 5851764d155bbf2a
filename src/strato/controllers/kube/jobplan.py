"""Decide for a batch/v1 Job: count its pods, whether it has ended, which pods to create and delete. Pure.

Source: batch/v1 Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from strato.api.batch import Job, JobSpec, JobStatus, UncountedTerminatedPods
from strato.api.core import Pod
from strato.api.meta import Condition
from strato.controllers.kube.jobpolicies import Failures, index_of, parse_indexes, replaces_only_failed, succeeds_early
from strato.controllers.kube.jobtracking import has_failed, is_tracked

FIRST_BACKOFF_SECONDS: Final = 10.0
LONGEST_BACKOFF_SECONDS: Final = 600.0
_LONGEST_TEXT: Final = 10_000
"""Most characters of ``completedIndexes``; the rest is cut off, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The counts of a job's pods."""

    active: tuple[Pod, ...]
    terminating: int
    succeeded: int
    failed: int
    ready: int
    restarts: int
    """Container restarts of live pods."""
    indexes: frozenset[int]
    """Completed indexes."""
    failures: Failures = field(default_factory=Failures)
    held: frozenset[int | None] = frozenset()
    """Indexes of terminating pods that get no replacement before they have ended."""
    tracked: tuple[Pod, ...] = ()
    """Pods with the tracking finalizer, ended or not."""
    terminating_uids: frozenset[str] = frozenset()

    @property
    def served_indexes(self) -> frozenset[int | None]:
        """Indexes that have an active pod, or need none any more."""
        return frozenset((*map(index_of, self.active), *self.indexes, *self.failures.indexes))

    def without_active(self) -> PodCounts:
        """Return the counts after the deletion of all active pods has begun."""
        return replace(self, active=(), ready=0, terminating=self.terminating + len(self.active))


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The end of a job."""

    complete: bool
    reason: str
    message: str


@dataclass(slots=True)
class Steps:
    """Pods to create and delete."""

    create: list[int | None] = field(default_factory=list)
    """One entry per pod: its completion index, or None."""
    delete: list[Pod] = field(default_factory=list)


def tally(job: Job, pods: Iterable[Pod], terminating_uids: Iterable[str]) -> PodCounts:
    """Count a job's pods. Those that its status includes already have no tracking finalizer, or are listed there.

    Args:
        job: The job; its status holds what was counted before.
        pods: Its pods.
        terminating_uids: Uids of terminating pods.
    """
    spec, old = job.spec, job.status
    terminating_pods = frozenset(terminating_uids)
    listed = old.uncounted_terminated_pods or UncountedTerminatedPods()
    listed_uids = frozenset((*listed.succeeded, *listed.failed))
    active: list[Pod] = []
    leaving: list[Pod] = []
    tracked: list[Pod] = []
    ready = restarts = 0
    succeeded, limit = old.succeeded + len(listed.succeeded), spec.completions or 0
    failures = Failures(counted=old.failed + len(listed.failed))
    done = set(parse_indexes(old.completed_indexes, limit))
    failures.indexes.update(parse_indexes(old.failed_indexes or "", limit))
    indexed = is_indexed(spec)
    for pod in pods:
        is_leaving = pod.metadata.uid in terminating_pods
        is_new = False
        if is_tracked(pod):
            tracked.append(pod)
            is_new = pod.metadata.uid not in listed_uids
        if pod.status.phase == "Succeeded":
            succeeded += is_new
            if indexed and is_new and (index := index_of(pod)) is not None:
                done.add(index)
        elif has_failed(spec, pod, is_leaving):
            failures.add(spec, pod, is_new=is_new)
            if pod.status.phase != "Failed":
                leaving.append(pod)
        elif is_leaving:
            leaving.append(pod)
        else:
            active.append(pod)
            ready += pod.is_ready
            for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
                restarts += status.restart_count
    if indexed:
        done = {index for index in done if index < limit}
        succeeded = len(done)
    return PodCounts(
        active=tuple(active),
        terminating=len(leaving),
        succeeded=succeeded,
        failed=failures.counted,
        ready=ready,
        restarts=restarts,
        indexes=frozenset(done),
        failures=failures,
        held=frozenset(map(index_of, leaving)) if replaces_only_failed(spec) else frozenset(),
        tracked=tuple(tracked),
        terminating_uids=terminating_pods,
    )


def verdict(job: Job, counted: PodCounts, now: float, started: float | None) -> JobVerdict | None:
    """Return how the job ends, None while it goes on."""
    spec = job.spec
    failures = counted.failures
    if failures.message:
        return JobVerdict(False, "PodFailurePolicy", failures.message)
    restarted = spec.template.spec.restart_policy == "OnFailure" and (
        counted.restarts > 0 if spec.backoff_limit == 0 else counted.restarts >= spec.backoff_limit
    )
    if counted.failed > spec.backoff_limit or restarted:
        return JobVerdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = spec.active_deadline_seconds
    if deadline is not None and started is not None and not spec.suspend and now - started >= deadline:
        return JobVerdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    per_index = spec.backoff_limit_per_index is not None
    if per_index and spec.max_failed_indexes is not None and len(failures.indexes) > spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return JobVerdict(False, "MaxFailedIndexesExceeded", message)
    if early := succeeds_early(spec, counted.indexes):
        return JobVerdict(True, "SuccessPolicy", early)
    if per_index and failures.indexes and len(failures.indexes | counted.indexes) >= (spec.completions or 0):
        return JobVerdict(False, "FailedIndexes", "Job has failed indexes") if not counted.active else None
    if spec.completions is None:
        over = counted.succeeded > 0 and not counted.active
    else:
        over = counted.succeeded >= spec.completions and not counted.active
    if over and not (spec.suspend and counted.succeeded < (spec.completions or 1)):
        return JobVerdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def decided(status: JobStatus) -> JobVerdict | None:
    """Return the end that a status has announced, which is final even if the counts have changed since."""
    for condition in status.conditions:
        if condition.type in ("SuccessCriteriaMet", "FailureTarget") and condition.status == "True":
            return JobVerdict(condition.type == "SuccessCriteriaMet", condition.reason, condition.message)
    return None


def steps(job: Job, counted: PodCounts, order: Sequence[Pod]) -> Steps:
    """Return the pods to create and to delete.

    Args:
        job: The job.
        counted: The counts of its pods.
        order: Its active pods, in the order in which surplus ones are deleted.
    """
    spec, planned = job.spec, Steps()
    if spec.suspend:
        planned.delete = list(order)
        return planned
    wanted = spec.parallelism
    if spec.completions is not None:
        failed = len(counted.failures.indexes - counted.indexes) if spec.backoff_limit_per_index is not None else 0
        wanted = min(wanted, spec.completions - counted.succeeded - failed)
    elif counted.succeeded > 0:
        wanted = min(wanted, len(counted.active))  # one pod of a work queue has succeeded: create no further pods
    if replaces_only_failed(spec):
        wanted = min(wanted, max(len(counted.active), spec.parallelism - counted.terminating))
    if is_indexed(spec):
        return _indexed_steps(spec, counted, order, max(0, wanted))
    surplus = len(counted.active) - max(0, wanted)
    if surplus > 0:
        planned.delete = list(order[:surplus])
    else:
        planned.create = [None] * -surplus
    return planned


def _indexed_steps(spec: JobSpec, counted: PodCounts, order: Sequence[Pod], wanted: int) -> Steps:
    planned = Steps()
    kept: set[int | None] = set()
    for pod in reversed(order):
        index = index_of(pod)
        taken = kept | counted.failures.indexes if counted.failures.indexes else kept
        if index is None or index in taken or index in counted.indexes or len(kept) >= wanted:
            planned.delete.append(pod)
        else:
            kept.add(index)
    free = wanted - len(kept)
    kept |= counted.indexes | counted.failures.indexes | counted.held
    for index in range(spec.completions or 0):
        if free <= 0:
            break
        if index not in kept:
            planned.create.append(index)
            free -= 1
    return planned


def backoff_seconds(failures: int) -> float:
    """Return how many seconds after the n-th failure in a row new pods may be created."""
    if failures <= 0:
        return 0.0
    return float(min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS))


def is_indexed(spec: JobSpec) -> bool:
    """Return whether pods have completion indexes."""
    return spec.completion_mode == "Indexed"


def format_indexes(indexes: Iterable[int]) -> str:
    """Write ``completedIndexes``, such as ``1,3-5,7``; a range has at least three indexes."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    text = ",".join(parts)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT].rpartition(",")[0]


def condition_true(conditions: Iterable[Condition], *types: str) -> bool:
    """Return whether one of these conditions holds."""
    return any(condition.type in types and condition.status == "True" for condition in conditions)
