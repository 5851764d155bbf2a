"""What rows have for those who evict, remembered while nothing moves.

Who waits in a full cluster asks every node whom it may evict there, and is refused; jobs that differ in size only would
ask the same again. What a row offered at most to one of them it offers to none of the others more of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from strato.lru import LruCache
from strato.scheduler.actions.surplus import Surplus
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.resources import Vector
from strato.scheduler.session import Session

_BYTES: Final = 64 << 20
_EVERYTHING: Final = np.iinfo(np.int64).max


class Room:
    """At most that much is free on rows once all whom an evictor may evict have gone."""

    __slots__ = ("amounts", "version")

    def __init__(self, rows: int, width: int, version: int) -> None:
        self.amounts: Vector = np.full((rows, width), _EVERYTHING, np.int64)
        self.version = version

    def note(self, row: int, free: Sequence[int], victims: Sequence[Task]) -> None:
        """Note what a row offers."""
        self.amounts[row] = free
        for victim in victims:
            self.amounts[row] += victim.cls.request


class Offers:
    """The rooms of an action, by what tells evictors apart.

    Args:
        point: The extension point that names victims, ``preemptable`` or ``reclaimable``.
    """

    def __init__(self, ssn: Session, point: str) -> None:
        self._facts = _facts_of(plugin for tier in ssn.tiers[point] for plugin, _ in tier)
        self._world = ssn.world
        self.surplus = Surplus(ssn)
        """What elastic jobs give back."""
        self._rooms: LruCache[Hashable, Room] = LruCache(_BYTES, lambda _key, room: room.amounts.nbytes)

    def room(self, task: Task) -> Room | None:
        """Return what is known of the rows for a task; None when a plugin looks at more of it than it says."""
        job, nodes = task.job, self._world.nodes
        if self._facts is None or job is None:
            return None
        own = job.key if job.used.any() else ""  # its own pods are no candidates, or others than another job's
        key = (self._facts(task), job.queue_name, job.priority, task.cls.best_effort, own)
        room = self._rooms.get(key)
        if room is None or room.version != self._world.version:
            room = self._rooms.put(key, Room(nodes.size, nodes.allocatable.shape[1], self._world.version))
        return room


def _facts_of(plugins: Iterable[Plugin]) -> Callable[[Task], Hashable] | None:
    """Return what of an evictor counts for some plugins; None when one of them does not say."""
    named = [vars(type(plugin)).get("evictor_facts") for plugin in plugins]
    if None in named:
        return None
    names = sorted({name for facts in named for name in facts or ()})
    return attrgetter(*names) if names else lambda task: ()
