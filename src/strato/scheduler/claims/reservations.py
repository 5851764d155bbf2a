"""Which tasks hold volumes and devices that the API does not show yet.

A reservation stands while its task stands where it was made for. Nobody has to take it back: a task that is pending
again, elsewhere or gone no longer stands behind it, and is passed over. So a statement that is undone undoes its
reservations too, and after a bind they bridge the time until the API shows what was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.reservation import Reservation


class Reservations:
    """All reservations that may stand."""

    def __init__(self) -> None:
        self._holders: dict[Task, None] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, task: Task, reservation: Reservation) -> None:
        """Let a task hold a reservation, in place of one it may have."""
        task.reservation = reservation
        self._holders[task] = None

    def standing(self) -> Iterator[tuple[Task, Reservation]]:
        """Yield those that stand with their holders, and forget the others."""
        if not self._holders:
            return
        self._holders = dict.fromkeys([task for task in self._holders if stands(task, task.reservation)])
        for task in self._holders:
            assert task.reservation is not None
            yield task, task.reservation


def stands(task: Task | None, given: Reservation | None) -> bool:
    """Whether a task holds a reservation and is where it was made for."""
    if task is None or given is None:
        return False
    return task.reservation is given and task.row == given.row and ON_NODE[task.status]
