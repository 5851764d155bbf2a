"""What a placed pod holds besides room on its node: volumes picked for its claims, devices allocated to it.

A reservation stands while its task stands where it was made for. Nobody has to take it back: a task that is pending
again, elsewhere or gone no longer stands behind it, and whoever looks at reservations passes it over. So a statement
that is undone undoes them too, and after a bind they bridge the time until the API shows what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strato.scheduler.model.ledger import ON_NODE

if TYPE_CHECKING:
    from strato.scheduler.model.tasks import Task


@dataclass(slots=True, eq=False)
class Reservation:
    """What one task was given on one row.

    Attributes:
        task: Who holds it.
        row: Where.
        volumes: PersistentVolume by claim key, for claims that get an existing volume.
        provisions: Keys of claims whose volume is to be made for the node.
        devices: Allocation (as ``status.allocation`` of the claim) by claim key, for claims allocated here.
        claims: Keys of all resource claims the task uses; each is reserved for it.
        timeout_seconds: How long its volumes may take to be bound.
    """

    task: Task
    row: int
    volumes: Mapping[str, str] = field(default_factory=dict)
    provisions: tuple[str, ...] = ()
    devices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    timeout_seconds: float = 600.0

    @property
    def stands(self) -> bool:
        """Whether the task still is where this was reserved for it."""
        task = self.task
        return task.reservation is self and task.row == self.row and ON_NODE[task.status]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write before the pod is bound."""
        return not (self.volumes or self.provisions or self.claims)


class Reservations:
    """All reservations that may stand."""

    def __init__(self) -> None:
        self._all: list[Reservation] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, reservation: Reservation) -> None:
        """Take one in; its task holds it from now on."""
        reservation.task.reservation = reservation
        self._all.append(reservation)

    def standing(self) -> Iterator[Reservation]:
        """Yield those that stand, and forget the others."""
        if not self._all:
            return
        self._all = [reservation for reservation in self._all if reservation.stands]
        yield from self._all
