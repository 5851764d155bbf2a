"""`Findings`: the differences that evaluations of a shadow policy have found, for publication and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from strato.metrics import Registry, Sample
from strato.scheduler.shadow.difference import CHANGES, PRESENT, Difference
from strato.scheduler.shadow.evaluation import Evaluation

KEPT_SECONDS: Final = 600.0
"""How long a difference in a decision that was carried out is shown."""
MOST_KEPT: Final = 2000
MOST_PUBLISHED: Final = 500
_MOST_TEXT: Final = 300
"""Most characters of a reason, as published."""


class DatedDifference(Difference, frozen=True, kw_only=True):
    """A difference with the time when it was last found, in seconds since the epoch."""

    at: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler publishes about its shadow policy.

    Attributes:
        scheduler: Name of the scheduler.
        policy: Where the shadow's configuration comes from.
        at: When the shadow last decided, in seconds since the epoch; 0 for never.
        compared: Number of cycles it has decided too.
        skipped: Number of cycles it has not decided, as there was no idle time or its share of CPU was used up.
        failed: Number of cycles in which it gave no answer.
        cpu_ratio: Its CPU over that of the scheduler's process, forks included.
        problem: Why it decides nothing at present, or the last error in it; empty without either.
        binds, first_binds: Pods that it, and that the policy in force, placed in the cycles compared.
        differences: The newest first.
        more: How many differences are not listed.
    """

    scheduler: str = ""
    policy: str = ""
    at: float = 0.0
    compared: int = 0
    skipped: int = 0
    failed: int = 0
    cpu_ratio: float = 0.0
    problem: str = ""
    binds: int = 0
    first_binds: int = 0
    differences: list[DatedDifference] = []
    more: int = 0


class Findings:
    """See the module.

    Attributes:
        cpu_seconds: CPU of all evaluations.
        fork_seconds: CPU that forks cost the scheduler, including the copying of pages afterwards.
        skipped: Cycles that were not compared.
        failed: Evaluations without an answer, by kind (see `ChildFailed`).
        problem: As in `Summary`.
        at: When the last evaluation was, in seconds since the epoch.
    """

    def __init__(self, registry: Registry) -> None:
        self.cpu_seconds = 0.0
        self.fork_seconds = 0.0
        self.skipped = 0
        self.failed: Counter[str] = Counter()
        self.problem = ""
        self.at = 0.0
        self._compared = 0
        self._binds = 0
        self._first_binds = 0
        self._pods: Counter[str] = Counter()
        self._found: dict[tuple[str, str], DatedDifference] = {}
        registry.collect(self._counters)
        registry.collect_gauges(self._gauges)

    def take(self, evaluation: Evaluation, now: float) -> None:
        """Take the result of an evaluation at ``now``."""
        self.at = now
        self._compared += 1
        self._binds += evaluation.binds
        self._first_binds += evaluation.first_binds
        self._pods.update(evaluation.pods)
        self.problem = f"left out of its decisions: {evaluation.failures[0]}" if evaluation.failures else ""
        kept = {
            key: found
            for key, found in self._found.items()
            if found.change not in PRESENT and now - found.at < KEPT_SECONDS
        }
        for difference in evaluation.differences:
            key = difference.job, difference.change
            kept.pop(key, None)  # the newest last
            kept[key] = DatedDifference(**msgspec.structs.asdict(difference), at=now)
        self._found = dict(list(kept.items())[-MOST_KEPT:])

    def fail(self, kind: str, problem: str) -> None:
        """Note an evaluation without an answer."""
        self.failed[kind] += 1
        self.problem = problem

    def forget(self) -> None:
        """Drop the differences found under another configuration; counters keep their values."""
        self._found = {}
        self.problem = ""

    def summary(self, scheduler: str, policy: str, scheduler_cpu_seconds: float) -> Summary:
        """Return the summary to publish."""
        newest = [_shortened(found) for found in reversed(self._found.values())]
        taken = self.cpu_seconds + self.fork_seconds
        return Summary(
            scheduler=scheduler,
            policy=policy,
            at=self.at,
            compared=self._compared,
            skipped=self.skipped,
            failed=sum(self.failed.values()),
            cpu_ratio=round(taken / scheduler_cpu_seconds, 4) if scheduler_cpu_seconds > 0 else 0.0,
            problem=self.problem[:_MOST_TEXT],
            binds=self._binds,
            first_binds=self._first_binds,
            differences=newest[:MOST_PUBLISHED],
            more=max(0, len(newest) - MOST_PUBLISHED),
        )

    def _counters(self) -> Iterable[Sample]:
        yield Sample("strato_shadow_cycles_total", {"outcome": "compared"}, self._compared)
        yield Sample("strato_shadow_cycles_total", {"outcome": "skipped"}, self.skipped)
        for kind in ("raised", "timeout", "died"):
            yield Sample("strato_shadow_cycles_total", {"outcome": kind}, self.failed[kind])
        for change in CHANGES:
            yield Sample("strato_shadow_differences_total", {"change": change}, self._pods[change])
        yield Sample("strato_shadow_binds_total", {"policy": "shadow"}, self._binds)
        yield Sample("strato_shadow_binds_total", {"policy": "in-force"}, self._first_binds)
        yield Sample("strato_shadow_cpu_seconds_total", {}, self.cpu_seconds)
        yield Sample("strato_shadow_fork_seconds_total", {}, self.fork_seconds)

    def _gauges(self) -> Iterable[Sample]:
        jobs = Counter(found.change for found in self._found.values())
        for change in CHANGES:
            yield Sample("strato_shadow_jobs", {"change": change}, jobs[change])


def _shortened(found: DatedDifference) -> DatedDifference:
    if len(found.reason) <= _MOST_TEXT:
        return found
    return msgspec.structs.replace(found, reason=found.reason[: _MOST_TEXT - 1] + "…")
