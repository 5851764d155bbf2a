"""The ledger: what a task holds of its node, its job and its queue, by status.

Only this table defines that. When a task gets another status or node, the sums change by the difference of two of its
rows, whether one task is moved, a batch of equal ones is, or a kernel places them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from strato.scheduler.model.tasks import (
    ALLOCATED,
    BINDING,
    BOUND,
    PENDING,
    PIPELINED,
    RELEASING,
    RUNNING,
    STATUS_COUNT,
    UNKNOWN,
)

ABSENT: Final = STATUS_COUNT
"""In place of a status: the task is not there yet, or no longer."""


class NodeCharge(NamedTuple):
    """How one task changes a node's columns: 1 adds its request, -1 subtracts it.

    ``requested`` applies to three columns: ``requested``, ``scored`` (by the class's ``scored_request``) and ``pods``.
    """

    idle: int = 0
    releasing: int = 0
    pipelined: int = 0
    requested: int = 0


class JobCharge(NamedTuple):
    """How one task changes the sums of its job and queue.

    ``pending`` also applies to the count of pending tasks that request nothing.
    """

    pending: int = 0
    used: int = 0


class Charge(NamedTuple):
    """What a task holds: on its node, and of its job and queue."""

    node: NodeCharge = NodeCharge()
    job: JobCharge = JobCharge()


UNCHARGED: Final = Charge()
HELD: Final = NodeCharge(idle=-1, requested=1)
PROMISED: Final = NodeCharge(pipelined=1, requested=1)
LEAVING: Final = NodeCharge(idle=-1, releasing=1)

_WAITING, _USING = JobCharge(pending=1), JobCharge(used=1)
_CHARGES: Final = {
    PENDING: Charge(job=_WAITING),
    ALLOCATED: Charge(HELD, _USING),
    BINDING: Charge(HELD, _USING),
    BOUND: Charge(HELD, _USING),
    RUNNING: Charge(HELD, _USING),
    PIPELINED: Charge(PROMISED, _USING),
    RELEASING: Charge(LEAVING),
    UNKNOWN: Charge(HELD),
}
"""What a task with a node holds; Succeeded and Failed ones hold nothing."""


def _between(old: int, new: int) -> Charge:
    before, after = _CHARGES.get(old, UNCHARGED), _CHARGES.get(new, UNCHARGED)
    node = NodeCharge(*[a - b for a, b in zip(after.node, before.node, strict=True)])
    job = JobCharge(*[a - b for a, b in zip(after.job, before.job, strict=True)])
    return Charge(node if any(node) else UNCHARGED.node, job if any(job) else UNCHARGED.job)


_STATUSES = range(STATUS_COUNT + 1)
NODE_MOVES: Final = tuple(tuple(_between(old, new).node for new in _STATUSES) for old in _STATUSES)
JOB_MOVES: Final = tuple(tuple(_between(old, new).job for new in _STATUSES) for old in _STATUSES)
"""By old and new status (or `ABSENT`), the change of the sums; where none, the very objects in `UNCHARGED`, so that
callers can test with ``is``."""
ON_NODE: Final = tuple(charge is not UNCHARGED.node for charge in NODE_MOVES[ABSENT][:ABSENT])
"""By status: whether a task that has a node is charged there."""
HOLDS_RESOURCES: Final = tuple(charge.used > 0 for charge in JOB_MOVES[ABSENT][:ABSENT])
"""By status: whether the task counts in its job's and queue's ``used``."""
