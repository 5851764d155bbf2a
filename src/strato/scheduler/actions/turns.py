"""Whose turn it is among queues, when evictions for one change where the others stand."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import TYPE_CHECKING, Any

from strato.scheduler.model.jobs import Queue

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Turns:
    """Queues to serve, the first in the plugins' order first; they are compared anew when something was decided.

    Args:
        ssn: The session, which orders.
        names: Names of known queues.
    """

    def __init__(self, ssn: Session, names: Iterable[str]) -> None:
        self._ssn = ssn
        self._decided = self._count()
        self._heap: list[tuple[Any, str]] = [self._entry(name) for name in names]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> Queue:
        """Remove and return the queue whose turn it is."""
        if self._count() != self._decided:
            self._decided = self._count()
            self._heap = [self._entry(name) for _, name in self._heap]
            heapify(self._heap)
        return self._ssn.world.queues[heappop(self._heap)[1]]

    def _entry(self, name: str) -> tuple[Any, str]:
        return self._ssn.queue_key(self._ssn.world.queues[name]), name

    def _count(self) -> int:
        """Return a number that grows whenever a queue got or lost anything."""
        return len(self._ssn.plan.evictions) + len(self._ssn.temporary)
