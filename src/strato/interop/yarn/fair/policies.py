"""The three policies by which a queue shares among its children or applications, and their names."""

from __future__ import annotations

import enum

from strato.errors import UsageError
from strato.interop.yarn.resources import DOMINANT, MEMORY_ONLY, Calculator

_PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.policies."


class Policy(enum.Enum):
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
        return DOMINANT if self is Policy.DRF else MEMORY_ONLY

    def allows_child(self, child: Policy) -> bool:
        """Return whether a queue of this policy may have a child of the other."""
        if self is Policy.FIFO:
            return False
        return not (self is Policy.FAIR and child is Policy.DRF)


_BY_NAME = {
    "fair": Policy.FAIR,
    "drf": Policy.DRF,
    "fifo": Policy.FIFO,
    (_PACKAGE + "FairSharePolicy").lower(): Policy.FAIR,
    (_PACKAGE + "DominantResourceFairnessPolicy").lower(): Policy.DRF,
    (_PACKAGE + "FifoPolicy").lower(): Policy.FIFO,
}


def policy_of(text: str) -> Policy:
    """Return the policy by its name or its Hadoop class name.

    Raises:
        UsageError: No policy has that name.
    """
    found = _BY_NAME.get(text.strip().lower())
    if found is None:
        raise UsageError(f"{text.strip()!r} is no policy; expected fair, drf or fifo")
    return found
