"""When the verdict on a pod is written: one rule, for the reports of a scheduler and for simulations without an API."""

from __future__ import annotations

from typing import Final, NamedTuple

from strato.clock import is_due
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict
from strato.scheduler.model.tasks import BINDING, PENDING
from strato.scheduler.reporting.growth import GrowthTracker

SETTLE_SECONDS: Final = 0.2
"""How long a verdict must stand before it is written: most are gone in milliseconds."""
_REPEAT_SECONDS: Final = 5.0
"""Shortest time between two texts of the same reason for the same pod."""
BIND_FAILED: Final = "SchedulerError"
"""The reason of a pod that could not be bound."""


class VerdictContent(NamedTuple):
    """What a verdict says of a pod; one made anew under the pod's name was given none."""

    uid: str
    reason: str
    message: str
    nominated: str


class Written(NamedTuple):
    """What was written of a pod last, and when, by a monotonic clock."""

    content: VerdictContent
    at: float


def content_of(verdict: PodVerdict) -> VerdictContent:
    """Return what a verdict says."""
    return VerdictContent(verdict.task.uid, verdict.reason, verdict.message, verdict.nominated)


def due_at(verdict: PodVerdict, growth: GrowthTracker, now: float) -> float:
    """Return when a verdict of this instant may be written."""
    at = now + SETTLE_SECONDS
    job = verdict.task.job
    return at if job is None else max(at, growth.stalled_at(job))


def next_step(
    world: World,
    growth: GrowthTracker,
    verdict: PodVerdict,
    *,
    reported: tuple[str, str] | None,
    written: Written | None,
    now: float,
) -> VerdictContent | float | None:
    """Return what to write of a pod now, or when to ask again; None if there is nothing to write any more.

    Args:
        world: What is known.
        growth: Says which gangs are still being created.
        verdict: The latest.
        reported: Reason and message that the pod has already.
        written: What was written last under the pod's name.
        now: By the clock of ``written``, in seconds.
    """
    task = verdict.task
    is_failure = verdict.reason == BIND_FAILED
    if world.tasks.get(task.key) is not task:
        return None
    if task.status != PENDING and not (task.status == BINDING and is_failure):
        return None
    if task.job is not None and not is_failure:
        stalled_at = growth.stalled_at(task.job)
        if not is_due(stalled_at, now):
            return stalled_at
    is_nominated = not verdict.nominated or verdict.nominated == task.pod.status.nominated_node_name
    if is_nominated and reported == (verdict.reason, verdict.message):
        return None
    content = content_of(verdict)
    if written is not None and written.content != content and _differ_in_text_only(written.content, content):
        again_at = written.at + _REPEAT_SECONDS
        if not is_due(again_at, now):
            return again_at
    return content


def _differ_in_text_only(one: VerdictContent, other: VerdictContent) -> bool:
    return one._replace(message="") == other._replace(message="")
