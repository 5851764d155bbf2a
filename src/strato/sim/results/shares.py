"""Shares of queues over time: held, deserved by weight, and under dominant resource fairness (DRF); how fair they are.

The deserved shares come from the water-filling of the plugin proportion, called at sampled instants. The DRF share is
the dominant share of a queue under dominant resource fairness as published (Ghodsi et al., NSDI 2011, section 4.1): all
dominant shares grow together, by weight, until a queue's demand is met or a resource that it needs is used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from strato.api.volcano.scheduling import Queue as QueueView
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Dimensions
from strato.scheduler.plugins.waterfilling import attributes_of, water_fill
from strato.sim.results.columns import Floats, RunColumns
from strato.sim.results.overtime import demand_by_queue, use_by_queue

SAMPLES: Final = 100
"""Number of instants at which shares are compared."""
_NEGLIGIBLE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class QueueShares:
    """Dominant shares of the cluster over time, [instant, queue]."""

    names: tuple[str, ...]
    instants: Floats
    held: Floats
    deserved: Floats
    """Dominant share of the amounts that the water-filling gives the queue."""
    drf: Floats
    """Dominant share under dominant resource fairness."""

    def distance(self) -> Floats:
        """Return per queue the mean absolute difference of held and DRF share."""
        return np.asarray(np.abs(self.held - self.drf).mean(axis=0))

    def shortfall(self) -> Floats:
        """Return per queue by how much the held share was below the DRF share, mean over time."""
        return np.asarray(np.maximum(self.drf - self.held, 0.0).mean(axis=0))

    def fairness(self) -> float:
        """Return Jain's index over the queues' ratios of held to DRF share, each summed over time."""
        due = self.drf.sum(axis=0)
        had = due > _NEGLIGIBLE
        return jain(self.held.sum(axis=0)[had] / due[had])


def jain(values: Floats | Sequence[float]) -> float:
    """Return Jain's index: 1 if all values are equal, 1/n if one of n values is not zero; 1 for no values."""
    array = np.asarray(values, np.float64)
    squares = float((array * array).sum())
    return float(array.sum()) ** 2 / (len(array) * squares) if squares else 1.0


def queue_shares(run: RunColumns, queues: Sequence[Mapping[str, Any]] = (), samples: int = SAMPLES) -> QueueShares:
    """Return the shares of a run's queues.

    Args:
        run: The run.
        queues: Their manifests; a queue without one has weight 1.
        samples: Instants, in the middle of as many equal steps of the makespan.
    """
    step = run.makespan_seconds / samples
    instants: Floats = (np.arange(samples, dtype=np.float64) + 0.5) * step
    names = run.queues.names
    total = np.array([run.capacity[name] for name in run.resources], np.float64)
    used = _stacked(use_by_queue(run, instants), run.resources, (samples, len(names)))
    demand = np.maximum(used, _stacked(demand_by_queue(run, instants), run.resources, used.shape[:2]))
    views = _views(queues)
    scale = _Cluster(run, views)
    deserved = np.stack([scale.deserved(used[at], demand[at]) for at in range(samples)])
    weights = np.array([float(views[name].spec.weight) if name in views else 1.0 for name in names])
    drf = np.stack([drf_shares(demand[at], weights, total) for at in range(samples)])
    return QueueShares(names, instants, _dominant(used, total), _dominant(deserved, total), drf)


def drf_shares(demand: Floats, weights: Floats, total: Floats) -> Floats:
    """Return the dominant share of each queue under weighted dominant resource fairness.

    Args:
        demand: float64[queues, resources], the most that a queue can use; it uses resources in this proportion.
        weights: Weight per queue.
        total: Capacity per resource.

    Source: Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), section 4.1, in the limit of small tasks.
    """
    part = demand / np.maximum(total, _NEGLIGIBLE)
    most = part.max(axis=1, initial=0.0)
    along = np.divide(part, most[:, None], out=np.zeros_like(part), where=most[:, None] > 0)
    shares = np.zeros(len(demand))
    grows = most > _NEGLIGIBLE
    room = np.ones(len(total))
    while grows.any():
        rates = weights[grows] @ along[grows]
        until_full = np.divide(room, rates, out=np.full_like(room, np.inf), where=rates > _NEGLIGIBLE)
        until_met = ((most - shares)[grows] / weights[grows]).min()
        step = float(min(until_full.min(), until_met))
        shares[grows] += weights[grows] * step
        room = np.maximum(room - rates * step, 0.0)
        full = (room <= _NEGLIGIBLE) & (rates > _NEGLIGIBLE)
        grows = grows & (shares < most - _NEGLIGIBLE) & ~(along[:, full] > 0).any(axis=1)
    return shares


class _Cluster:
    """The run's cluster in the scheduler's units, as its water-filling needs it."""

    def __init__(self, run: RunColumns, views: Mapping[str, QueueView]) -> None:
        self._dims = Dimensions()
        self._columns = [self._dims.column(name) for name in run.resources]
        parsed = {
            name: (self._dims.parse(view.spec.capability), self._dims.parse(view.spec.guarantee.resource))
            for name, view in views.items()
        }
        self._factors = np.array([1.0 if name in ("cpu", "memory") else 1000.0 for name in run.resources])
        self._total = self._vector(np.array([run.capacity[name] for name in run.resources], np.float64))
        self._queues = [Queue(name, self._dims) for name in run.queues.names]
        for queue in self._queues:
            queue.view = views.get(queue.name)
            queue.capability, queue.guarantee = parsed.get(queue.name, ({}, {}))
        self._guaranteed = np.zeros(self._dims.width)
        for _, guarantee in parsed.values():
            for column, amount in guarantee.items():
                self._guaranteed[column] += amount

    def deserved(self, used: Floats, demand: Floats) -> Floats:
        """Return what each queue deserves: [queue, resource], in the units of the run."""
        for row, queue in enumerate(self._queues):
            queue.used = self._vector(used[row]).astype(np.int64)
            queue.pending_request = self._vector(demand[row] - used[row]).astype(np.int64)
        left, nothing = np.maximum(self._total - self._guaranteed, 0.0), np.zeros(self._dims.width)
        parts = [attributes_of(queue, left, nothing) for queue in self._queues]
        water_fill(parts, self._total)
        return np.array([part.deserved[self._columns] / self._factors for part in parts]).reshape(used.shape)

    def _vector(self, amounts: Floats) -> Floats:
        out = np.zeros(self._dims.width)
        out[self._columns] = amounts * self._factors
        return out


def _views(queues: Sequence[Mapping[str, Any]]) -> dict[str, QueueView]:
    return {str(one["metadata"]["name"]): msgspec.convert(dict(one), QueueView) for one in queues}


def _stacked(by_resource: Mapping[str, Floats], resources: Sequence[str], shape: tuple[int, ...]) -> Floats:
    if not resources:
        return np.zeros((*shape, 0))
    return np.stack([by_resource[name] for name in resources], axis=-1)


def _dominant(amounts: Floats, total: Floats) -> Floats:
    return np.asarray((amounts / np.maximum(total, _NEGLIGIBLE)).max(axis=-1, initial=0.0))
