"""The three policies by which a queue shares among its children or applications, and their names."""

from __future__ import annotations

import enum

from strato.errors import UsageError
from strato.interop.yarn.resources import DOMINANT, MEMORY_ONLY, Calculator

_PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.policies."


class QueuePolicy(enum.Enum):
    """How a queue shares; the value is YARN's name."""

    FAIR = "fair"
    """By memory alone."""
    DRF = "DRF"
    """By the dominant resource of each child or application."""
    FIFO = "FIFO"
    """The first application gets all it wants; only for leaf queues."""

    @property
    def calculator(self) -> Calculator:
        """The calculator that compares amounts under this policy."""
        return DOMINANT if self is QueuePolicy.DRF else MEMORY_ONLY

    def allows_child(self, child: QueuePolicy) -> bool:
        """Return whether a queue of this policy may have a child of the other."""
        if self is QueuePolicy.FIFO:
            return False
        return not (self is QueuePolicy.FAIR and child is QueuePolicy.DRF)


_BY_NAME = {
    "fair": QueuePolicy.FAIR,
    "drf": QueuePolicy.DRF,
    "fifo": QueuePolicy.FIFO,
    (_PACKAGE + "FairSharePolicy").lower(): QueuePolicy.FAIR,
    (_PACKAGE + "DominantResourceFairnessPolicy").lower(): QueuePolicy.DRF,
    (_PACKAGE + "FifoPolicy").lower(): QueuePolicy.FIFO,
}


def policy_of(text: str) -> QueuePolicy:
    """Return the policy by its name or its Hadoop class name.

    Raises:
        UsageError: No policy has that name.
    """
    found = _BY_NAME.get(text.strip().lower())
    if found is None:
        raise UsageError(f"{text.strip()!r} is no policy; expected fair, drf or fifo")
    return found
