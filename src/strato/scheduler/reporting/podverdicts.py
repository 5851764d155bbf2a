"""Decides when the verdict on a pod is written, for a scheduler's reports and for simulations without an API."""

from __future__ import annotations

from typing import Final, NamedTuple

from strato.clock import is_due
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict
from strato.scheduler.model.tasks import BINDING, PENDING
from strato.scheduler.reporting.growth import GrowthTracker

SETTLE_SECONDS: Final = 0.2
"""How long a verdict must last before it is written, because most pods are placed within milliseconds."""
_REPEAT_SECONDS: Final = 5.0
"""Shortest time between two writes for a pod that differ in the message only."""
BIND_FAILED: Final = "SchedulerError"
"""The reason of a pod that could not be bound."""


class VerdictContent(NamedTuple):
    """Content of a verdict on a pod; the uid tells it from a later pod of the same name, which has no verdict yet."""

    uid: str
    reason: str
    message: str
    nominated: str


class Written(NamedTuple):
    """The content written last for a pod, and when, in seconds of a monotonic clock."""

    content: VerdictContent
    at: float


def content_of(verdict: PodVerdict) -> VerdictContent:
    """Return the content of a verdict."""
    return VerdictContent(verdict.task.uid, verdict.reason, verdict.message, verdict.nominated)


def due_at(verdict: PodVerdict, growth: GrowthTracker, now: float) -> float:
    """Return when a verdict that was made at ``now`` may be written."""
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
    """Return the content to write for a pod now, or when to call again; None if nothing is to be written any more.

    Args:
        world: The scheduler's view of the cluster.
        growth: Tells which gangs are still being created.
        verdict: The latest verdict on the pod.
        reported: Reason and message of the pod's condition in the API.
        written: What was written last for a pod of this name.
        now: Seconds, by the clock of ``written``.
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
