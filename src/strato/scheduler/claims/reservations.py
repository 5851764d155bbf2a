"""Reservations of volumes and devices by tasks, which the API does not show yet.

A reservation is valid while its task is on the row it was made for. It need not be released: once the task is pending
again, on another row or gone, `standing` drops it. So undoing a statement also undoes its reservations. After a bind,
reservations hold until the API shows what was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.reservation import Reservation


class Reservations:
    """All reservations that may be valid."""

    def __init__(self) -> None:
        self._holders: dict[Task, None] = {}

    def add(self, task: Task, reservation: Reservation) -> None:
        """Give a task a reservation; it replaces one it may have."""
        task.reservation = reservation
        self._holders[task] = None

    def standing(self) -> Iterator[tuple[Task, Reservation]]:
        """Yield the valid reservations with their tasks, and forget the others."""
        if not self._holders:
            return
        self._holders = dict.fromkeys([task for task in self._holders if stands(task, task.reservation)])
        for task in self._holders:
            assert task.reservation is not None
            yield task, task.reservation


def stands(task: Task | None, given: Reservation | None) -> bool:
    """Whether a task has this reservation and is on the row it was made for."""
    if task is None or given is None:
        return False
    return task.reservation is given and task.row == given.row and ON_NODE[task.status]
