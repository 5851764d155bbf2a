"""Apply a Job's policies to its failed pods and completed indexes. Pure.

Source: batch/v1 ``podFailurePolicy``, ``backoffLimitPerIndex`` and ``successPolicy``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strato.api.batch import JobSpec, PodFailureRule
from strato.api.core import Pod

INDEX_KEY: Final = "batch.kubernetes.io/job-completion-index"
FAILURES_KEY: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod: how often its index had failed before the pod was made."""


class Judgement(NamedTuple):
    """What the failure of a pod means for its job."""

    counts: bool = True
    """Whether it counts towards the limits."""
    fails_index: bool = False
    message: str = ""
    """Why the whole job fails, empty when it does not."""


def judge(spec: JobSpec, pod: Pod) -> Judgement:
    """Apply the pod failure policy: the first rule that matches decides."""
    for number, rule in enumerate(spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else ()):
        why = _matched(rule, pod)
        if why:
            message = f"{why} matching {rule.action} rule at index {number}" if rule.action == "FailJob" else ""
            return Judgement(rule.action != "Ignore", rule.action == "FailIndex", message)
    return Judgement()


def _matched(rule: PodFailureRule, pod: Pod) -> str:
    """Return a text about what of a failed pod matches a rule; empty when the rule does not match."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    wanted = rule.on_exit_codes
    if wanted is None:
        for condition in pod.status.conditions:
            if any((one.type, one.status) == (condition.type, condition.status) for one in rule.on_pod_conditions):
                return f"Pod {name} has condition {condition.type}"
        return ""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or wanted.container_name not in (None, status.name):
            continue
        if (ended.exit_code in wanted.values) == (wanted.operator == "In"):
            return f"Container {status.name} for pod {name} failed with exit code {ended.exit_code}"
    return ""


@dataclass(slots=True)
class Failures:
    """The failures of a job's pods, as its limits count them."""

    counted: int = 0
    """Failures that count towards ``backoffLimit``."""
    message: str = ""
    """Why a rule of the pod failure policy fails the job; empty when none does."""
    by_index: dict[int, int] = field(default_factory=dict)
    """How many failures of each index count towards ``backoffLimitPerIndex``."""
    indexes: set[int] = field(default_factory=set)
    """Indexes that have failed for good and get no further pod."""

    def add(self, spec: JobSpec, pod: Pod, *, is_new: bool = True) -> None:
        """Add a failed pod; ``is_new`` is False for one that the status has counted already."""
        judged = judge(spec, pod)
        self.counted += judged.counts and is_new
        self.message = self.message or judged.message
        index = index_of(pod)
        if index is None:
            return
        before = pod.metadata.annotation(FAILURES_KEY)
        count = (int(before) if before.isdecimal() else 0) + judged.counts
        self.by_index[index] = max(self.by_index.get(index, 0), count)
        limit = spec.backoff_limit_per_index
        if limit is not None and (judged.fails_index or (judged.counts and count > limit)):
            self.indexes.add(index)


def succeeds_early(spec: JobSpec, done: Collection[int]) -> str:
    """Return which rule of the success policy the completed indexes fulfil, as text; empty when none."""
    for number, rule in enumerate(spec.success_policy.rules if spec.success_policy is not None and done else ()):
        wanted = set(parse_indexes(rule.succeeded_indexes, spec.completions or 0)) if rule.succeeded_indexes else None
        found = len(done if wanted is None else wanted.intersection(done))
        if found and (
            found == len(wanted or ()) or (rule.succeeded_count is not None and found >= rule.succeeded_count)
        ):
            return f"Matched rules at index {number}"
    return ""


def replaces_only_failed(spec: JobSpec) -> bool:
    """Return whether a terminating pod gets a replacement only after it has ended."""
    return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None


def index_of(pod: Pod) -> int | None:
    """Return a pod's completion index."""
    text = pod.metadata.annotation(INDEX_KEY)
    return int(text) if text.isdecimal() else None


def parse_indexes(text: str, limit: int) -> list[int]:
    """Read indexes below ``limit``: ``0,2-4``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            found.extend(range(int(first), min(limit, int(last if last.isdecimal() else first) + 1)))
    return found


def failure_annotations(spec: JobSpec, failures: Mapping[int, int], index: int) -> dict[str, str]:
    """Return the annotations with which the next pod of an index records the index's failures so far."""
    return {FAILURES_KEY: str(failures.get(index, 0))} if spec.backoff_limit_per_index is not None else {}
