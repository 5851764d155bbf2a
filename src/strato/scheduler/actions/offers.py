"""`Offers`: upper bounds of what evictions can free on each row, cached until a task moves.

In a full cluster an evicting task has the plugins choose victims on every node, often in vain. For tasks that differ in
size only, plugins would choose the same victims, so what is free on a row plus what those hold bounds the room for all
of them.
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


class FreeableResources:
    """By row, the most that can be free once all tasks are evicted that the evicting task may evict."""

    __slots__ = ("amounts", "version")

    def __init__(self, rows: int, width: int, version: int) -> None:
        self.amounts: Vector = np.full((rows, width), _EVERYTHING, np.int64)
        self.version = version

    def note(self, row: int, free: Sequence[int], victims: Sequence[Task]) -> None:
        """Record for a row what is free there and what the possible victims hold."""
        self.amounts[row] = free
        for victim in victims:
            self.amounts[row] += victim.cls.request


class Offers:
    """The rooms of an action, by the attributes of evicting tasks that the choice of victims depends on.

    Args:
        point: The extension point that chooses victims, ``preemptable`` or ``reclaimable``.
    """

    def __init__(self, ssn: Session, point: str) -> None:
        self._facts = _facts_of(plugin for tier in ssn.tiers[point] for plugin, _ in tier)
        self._world = ssn.world
        self.surplus = Surplus(ssn)
        """The tasks that elastic jobs give back."""
        self._rooms: LruCache[Hashable, FreeableResources] = LruCache(_BYTES, lambda _key, room: room.amounts.nbytes)

    def room(self, task: Task) -> FreeableResources | None:
        """Return the room that a task shares with its equals; None when a plugin does not declare what it reads."""
        job, nodes = task.job, self._world.nodes
        if self._facts is None or job is None:
            return None
        own = job.key if job.used.any() else ""  # a job's running pods count differently for itself than for others
        key = (self._facts(task), job.queue_name, job.priority, task.cls.best_effort, own)
        room = self._rooms.get(key)
        if room is None or room.version != self._world.version:
            room = self._rooms.put(key, FreeableResources(nodes.size, nodes.allocatable.shape[1], self._world.version))
        return room


def _facts_of(plugins: Iterable[Plugin]) -> Callable[[Task], Hashable] | None:
    """Return a getter of the attributes that plugins read of an evicting task; None when one declares none."""
    named = [vars(type(plugin)).get("evictor_facts") for plugin in plugins]
    if None in named:
        return None
    names = sorted({name for facts in named for name in facts or ()})
    return attrgetter(*names) if names else lambda task: ()
