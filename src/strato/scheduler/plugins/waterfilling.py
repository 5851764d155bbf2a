"""Computes what queues deserve by weight: water-filling of the cluster, or of each group of nodes by itself.

Source: spec volcano-plugins 5, spec utilisation 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import CPU, MEMORY, PODS, FloatArray, Vector, share

_ROUNDS: Final = 8
"""Most rounds of dividing what pools have left; each serves demand that the last could not, and two mostly suffice."""


@dataclass(slots=True)
class QueueEntitlement:
    """What one queue is entitled to, in internal units; vectors of the width of the world.

    Attributes:
        real_capability: The most it may hold.
        deserved: What it gets of the cluster when all demand is served by weight.
        inqueue: What admitted jobs may still claim.
        elastic: What its jobs hold beyond their minima.
    """

    queue: Queue
    weight: float
    guarantee: FloatArray
    real_capability: FloatArray
    request: FloatArray
    inqueue: Vector
    elastic: Vector
    deserved: FloatArray = field(default_factory=lambda: np.zeros(0))
    _wanted: list[tuple[int, float]] | None = None

    @property
    def share(self) -> float:
        """Return the largest used fraction of what it deserves."""
        if self._wanted is None:  # cached, as every visit of a queue needs it and `deserved` is fixed for the session
            self._wanted = [(column, amount) for column, amount in enumerate(self.deserved.tolist()) if amount >= 0.1]
        used = self.queue.used
        return max([share(int(used[column]), amount) for column, amount in self._wanted], default=0.0)


def attributes_of(queue: Queue, left: FloatArray, nothing: FloatArray) -> QueueEntitlement:
    """Return a queue's attributes before water-filling (spec volcano-plugins 5.1).

    Args:
        queue: The queue.
        left: What the cluster has beyond all guarantees; queues without limits share it.
        nothing: Zeros, for all queues without a guarantee.
    """
    guarantee, real = nothing, left
    if queue.guarantee:
        guarantee = nothing.copy()
        for column, amount in queue.guarantee.items():
            guarantee[column] = amount
        real = left + guarantee
    if queue.capability:
        real = real.copy()
        for column, amount in queue.capability.items():
            if amount > 0 or column not in (CPU, MEMORY):
                real[column] = min(real[column], amount)
    request = (queue.used + queue.pending_request).astype(np.float64)
    return QueueEntitlement(
        queue, float(queue.weight), guarantee, real, request, queue.inqueue.copy(), queue.elastic.copy()
    )


def water_fill(queues: Sequence[QueueEntitlement], total: FloatArray) -> None:
    """Set ``deserved`` of every queue: weighted parts, capped by demand and capability, the rest shared again.

    Source: spec volcano-plugins 5.2.
    """
    remaining = total.copy()
    deserved = np.zeros((len(queues), len(total)))
    if queues:
        _fill(queues, remaining, deserved)
    for mine, amounts in zip(queues, deserved, strict=True):
        mine.deserved = amounts


def _fill(queues: Sequence[QueueEntitlement], remaining: FloatArray, deserved: FloatArray) -> None:
    """Fill the rows of ``deserved``, float64[queues, width], for all queues at once, which costs little more than one.

    Sums run over the queues in their order.
    """
    most = np.array([mine.real_capability for mine in queues])
    asked = np.array([mine.request for mine in queues])
    least = np.array([mine.guarantee for mine in queues])
    parts = np.array([mine.weight for mine in queues])[:, None]
    met = [False] * len(queues)
    while True:
        weights = sum(mine.weight for mine, done in zip(queues, met, strict=True) if not done)
        if weights == 0:
            return
        new = np.minimum(deserved + remaining * (parts / weights), most)
        new = np.maximum(np.minimum(new, asked), least)
        if any(met):
            new[met] = deserved[met]
        change = new - deserved
        met_now = (asked <= new + 0.1).all(axis=1) | ~change.any(axis=1)
        met = [done or now for done, now in zip(met, met_now.tolist(), strict=True)]
        if all(met):
            deserved[:] = new
            return
        grown = np.add.reduce(np.maximum(change, 0.0), axis=0)
        shrunk = np.add.reduce(np.maximum(-change, 0.0), axis=0)
        deserved[:] = new
        before, remaining = remaining, np.maximum(remaining + shrunk - grown, 0.0)
        nothing = remaining < 0.1
        nothing[PODS] = True
        if nothing.all() or (remaining == before).all():
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A group of nodes that some queues share."""

    total: FloatArray
    """The sum of its nodes' amounts."""
    members: Sequence[str]
    """Names of the queues that may use it."""


def fill_pools(queues: Mapping[str, QueueEntitlement], pools: Sequence[NodePool]) -> None:
    """Set ``deserved`` of every queue: the sum of its weighted parts of the pools that it may use.

    A queue's demand is split over its pools in proportion to what is left there. What one pool cannot give is demanded
    of the others in the next round.
    """
    left = [pool.total.copy() for pool in pools]
    for mine in queues.values():
        mine.deserved = np.zeros(len(left[0]) if left else 0)
    for _ in range(_ROUNDS):
        room = {name: sum(left[i] for i, pool in enumerate(pools) if name in pool.members) for name in queues}
        given: dict[str, FloatArray] = {}
        for i, pool in enumerate(pools):
            parts = {name: _part(queues[name], left[i], np.asarray(room[name])) for name in pool.members}
            water_fill(list(parts.values()), left[i])
            for name, part in parts.items():
                given[name] = given.get(name, np.zeros_like(part.deserved)) + part.deserved
            left[i] = np.maximum(left[i] - sum(part.deserved for part in parts.values()), 0.0)
        for name, amount in given.items():
            queues[name].deserved = queues[name].deserved + amount
        if all((amount < 0.1).all() for amount in given.values()):
            break
    for mine in queues.values():
        mine.deserved = np.maximum(mine.deserved, mine.guarantee)


def _part(mine: QueueEntitlement, left: FloatArray, room: FloatArray) -> QueueEntitlement:
    """Return a queue's attributes in one pool: what it still lacks, in proportion to the pool's part of its room."""
    ratio = np.divide(left, room, out=np.zeros_like(left), where=room > 0)
    return replace(
        mine,
        request=np.maximum(mine.request - mine.deserved, 0.0) * ratio,
        real_capability=np.maximum(mine.real_capability - mine.deserved, 0.0) * ratio,
        guarantee=np.maximum(mine.guarantee - mine.deserved, 0.0) * ratio,
    )
