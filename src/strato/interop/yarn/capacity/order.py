"""Sort keys for the order in which queues and applications are served; the smallest is served first."""

from __future__ import annotations

import math
from dataclasses import dataclass

QueueKey = tuple[bool, bool, bool, int, float, float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """The numbers by which a queue is ordered among its siblings on a partition."""

    name: str
    priority: int
    capacity: float
    """Configured share of the parent; 0 for a queue without a guarantee."""
    absolute_capacity: float
    used_capacity: float
    """Used share of its guarantee."""
    absolute_used: float
    """Used share of the partition."""
    has_access: bool = True
    """Whether the queue may use the partition's label."""


def queue_key(policy: str, queue: QueueStanding) -> QueueKey:
    """Return a queue's key under its parent's policy, `utilization` or `priority-utilization`.

    Queues without a guarantee come after those with one. Under `priority-utilization`, queues below their guarantee
    come before those that have reached it. Of equal queues the one with the larger guarantee comes first.
    """
    has_none = queue.capacity == 0 and queue.absolute_capacity == 0
    used = queue.absolute_used if has_none else queue.used_capacity
    by_priority = policy == "priority-utilization"
    over = by_priority and used >= 1
    priority = -queue.priority if by_priority else 0
    return not queue.has_access, has_none, over, priority, used, -queue.absolute_capacity, queue.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStanding:
    """The values by which an application is ordered within its queue."""

    name: str
    priority: int
    submitted: str
    """Time of submission, as text that sorts by time."""
    used_memory_mb: int = 0
    demand_memory_mb: int = 0
    """Memory that it uses and requests."""
    is_recovered: bool = False


def application_key(
    policy: str, application: ApplicationStanding, *, size_based: bool = False, is_pending: bool = False
) -> tuple[object, ...]:
    """Return an application's key under its queue's policy.

    Args:
        policy: `fifo`, `fair` or another one that is first come, first served.
        application: The application.
        size_based: Whether `fair` weighs large applications more.
        is_pending: Whether the applications are not activated yet: recovered ones come first, then by priority.
    """
    if is_pending:
        recovered = not application.is_recovered
        return recovered, -application.priority, application.submitted, application.name
    if policy != "fair":
        return -application.priority, application.submitted, application.name
    used = float(application.used_memory_mb)
    if size_based:
        used /= max(1e-9, math.log2(1 + application.demand_memory_mb))
    return used, application.submitted, application.demand_memory_mb == 0, application.name
