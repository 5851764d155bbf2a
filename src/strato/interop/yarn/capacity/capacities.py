"""The guaranteed and the maximum capacity of every queue, per partition of the cluster.

Percentages and weights are shares of the parent, so amounts follow from products of 32-bit fractions, cut to whole
numbers. Absolute capacities are amounts, scaled down together where the cluster has less; their fractions follow from
the amounts. In a capacity vector each resource type may use a unit of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from strato.interop.yarn.capacity.arithmetic import Arithmetic, scaled, single
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.notation import Capacity, Part, Unit, everything
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION
from strato.interop.yarn.resources import Amounts, is_zero, smallest

NO_WEIGHT = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCapacity:
    """A queue's capacities on one partition; fractions are 0-1, as 32 bits hold them."""

    capacity: float
    """Fraction of the parent's capacity; 0 for queues with a weight."""
    absolute: float
    """Fraction of the cluster."""
    maximum: float
    absolute_maximum: float
    weight: float = NO_WEIGHT
    normalised_weight: float = 0.0
    """The weight divided by the sum of all siblings' weights."""
    effective_minimum: Amounts
    effective_maximum: Amounts


Capacities = Mapping[str, Mapping[str, QueueCapacity]]
"""Capacities by the queue's path, then by partition."""


def compute(configuration: CapacityConfiguration, partitions: Mapping[str, Amounts]) -> Capacities:
    """Return the capacities of all queues.

    Args:
        configuration: The queues.
        partitions: Resources of the cluster's nodes, by label; nodes without a label form the default partition.
    """
    found: dict[str, dict[str, QueueCapacity]] = {queue.path: {} for queue in configuration.root.walk()}
    for partition in {DEFAULT_PARTITION: None, **dict.fromkeys(partitions)}:
        cluster = partitions.get(partition, configuration.types.filled(0))
        root = QueueCapacity(
            capacity=1.0,
            absolute=1.0,
            maximum=1.0,
            absolute_maximum=1.0,
            effective_minimum=cluster,
            effective_maximum=cluster,
        )
        found[configuration.root.path][partition] = root
        levels = _Levels(configuration, partition, cluster, found)
        levels.compute_below(configuration.root, root)
    return found


@dataclass(frozen=True, slots=True)
class _Levels:
    configuration: CapacityConfiguration
    partition: str
    cluster: Amounts
    found: dict[str, dict[str, QueueCapacity]]

    def compute_below(self, parent: QueueConfiguration, own: QueueCapacity) -> None:
        children = list(parent.children)
        given = {child.path: self._given(child.capacities) for child in children}
        if not self.configuration.is_legacy:
            computed = self._vectors(children, given, own)
        elif any(given[child.path].unit is Unit.ABSOLUTE and given[child.path].is_vector for child in children):
            computed = self._absolutes(children, given, own)
        else:
            computed = self._shares(children, given, own)
        for child in children:
            self.found[child.path][self.partition] = computed[child.path]
            self.compute_below(child, computed[child.path])

    def _given(self, capacities: Mapping[str, Capacity]) -> Capacity:
        found = capacities.get(self.partition)
        return found or everything(self.configuration.types, Unit.PERCENT, 0.0)

    def _maximum(self, child: QueueConfiguration) -> Capacity:
        return self._given(child.maximums)

    # 1. Percentages and weights

    def _shares(
        self, children: list[QueueConfiguration], given: Mapping[str, Capacity], own: QueueCapacity
    ) -> dict[str, QueueCapacity]:
        weights = 0.0
        for child in children:
            if given[child.path].unit is Unit.WEIGHT:
                weights = single(weights + given[child.path].parts[0].value)
        found = {}
        for child in children:
            capacity = given[child.path]
            weight, normalised, fraction = NO_WEIGHT, 0.0, 0.0
            if capacity.unit is Unit.WEIGHT:
                weight = capacity.parts[0].value
                normalised = single(weight / weights) if weights else 0.0
            else:
                fraction = capacity.fraction
            absolute = single(own.absolute * (normalised if weight >= 0 else fraction))
            maximum, absolute_maximum, most = self._largest(child, own)
            found[child.path] = QueueCapacity(
                capacity=fraction,
                absolute=absolute,
                maximum=maximum,
                absolute_maximum=absolute_maximum,
                weight=weight,
                normalised_weight=normalised,
                effective_minimum=scaled(self.cluster, absolute),
                effective_maximum=most,
            )
        return found

    def _largest(self, child: QueueConfiguration, own: QueueCapacity) -> tuple[float, float, Amounts]:
        """Return a maximum as a fraction of the parent's, as one of the cluster, and as an amount."""
        given = self._maximum(child)
        if given.unit is Unit.ABSOLUTE and given.is_vector:
            most = self._bounded(given, own)
            maximum = self._arithmetic.divide(self.cluster, most, own.effective_maximum)
            maximum = maximum if not is_zero(own.effective_maximum) else 0.0
            return maximum, single(own.absolute_maximum * maximum), most
        fraction = given.fraction
        absolute = single(own.absolute_maximum * fraction)
        return fraction, absolute, scaled(self.cluster, absolute)

    @property
    def _arithmetic(self) -> Arithmetic:
        return self.configuration.arithmetic

    # 2. Absolute capacities

    def _absolutes(
        self, children: list[QueueConfiguration], given: Mapping[str, Capacity], own: QueueCapacity
    ) -> dict[str, QueueCapacity]:
        types = range(len(self.cluster))
        total = [sum(int(given[child.path].parts[at].value) for child in children) for at in types]
        scales = [
            single(own.effective_minimum[at] / total[at]) if total[at] > own.effective_minimum[at] else 1.0
            for at in types
        ]
        found = {}
        for child in children:
            least = tuple(int(given[child.path].parts[at].value * scales[at]) for at in types)
            maximum = self._maximum(child)
            most = own.effective_maximum
            if maximum.unit is Unit.ABSOLUTE and maximum.is_vector:
                most = self._bounded(maximum, own)
            elif maximum.fraction < 1:
                most = scaled(own.effective_maximum, maximum.fraction)
            found[child.path] = self._derived(least, most, own)
        return found

    @staticmethod
    def _bounded(maximum: Capacity, own: QueueCapacity) -> Amounts:
        """Return an absolute maximum bounded by the parent's; a maximum of 0 means that none is set."""
        return own.effective_maximum if is_zero(maximum.amounts) else smallest(maximum.amounts, own.effective_maximum)

    def _derived(self, least: Amounts, most: Amounts, own: QueueCapacity) -> QueueCapacity:
        """Return capacities whose fractions follow from amounts."""
        capacity = self._fraction(least, own.effective_minimum)
        maximum = self._fraction(most, own.effective_maximum)
        return QueueCapacity(
            capacity=capacity,
            absolute=single(own.absolute * capacity),
            maximum=maximum,
            absolute_maximum=single(own.absolute_maximum * maximum),
            effective_minimum=least,
            effective_maximum=most,
        )

    def _fraction(self, part: Amounts, whole: Amounts) -> float:
        if is_zero(part) or not self._arithmetic.has_positive(whole):
            return 0.0
        quotient = self._arithmetic.divide(self.cluster, part, whole)
        return quotient if quotient < float("inf") else 0.0

    # 3. Vectors

    def _vectors(
        self, children: list[QueueConfiguration], given: Mapping[str, Capacity], own: QueueCapacity
    ) -> dict[str, QueueCapacity]:
        columns = [
            _shared_out([given[child.path].parts[at] for child in children], own.effective_minimum[at])
            for at in range(len(self.cluster))
        ]
        found = {}
        for at_child, child in enumerate(children):
            least = tuple(column[at_child] for column in columns)
            if least and least[0] == 0:
                least = (0,) * len(least)
            most = self._vector_maximum(self._maximum(child), own)
            derived = self._derived(least, most, own)
            capacity = given[child.path]
            if capacity.unit is Unit.WEIGHT and not capacity.is_vector:
                weights = sum(
                    given[other.path].parts[0].value for other in children if given[other.path].unit is Unit.WEIGHT
                )
                weight = capacity.parts[0].value
                normalised = single(weight / weights) if weights else 0.0
                derived = replace(derived, weight=weight, normalised_weight=normalised)
            found[child.path] = derived
        return found

    @staticmethod
    def _vector_maximum(maximum: Capacity, own: QueueCapacity) -> Amounts:
        return tuple(
            min(int(part.value), limit) if part.unit is Unit.ABSOLUTE else int(limit * single(part.value / 100))
            for part, limit in zip(maximum.parts, own.effective_maximum, strict=True)
        )


def _shared_out(parts: list[Part], whole: int) -> list[int]:
    """Distribute one type among siblings: absolute amounts first, then percentages of the rest, then weights."""
    absolute = sum(int(part.value) for part in parts if part.unit is Unit.ABSOLUTE)
    scale = single(whole / absolute) if absolute > whole else 1.0
    found = [int(part.value * scale) if part.unit is Unit.ABSOLUTE else 0 for part in parts]
    rest = whole - sum(found)
    for at, part in enumerate(parts):
        if part.unit is Unit.PERCENT:
            found[at] = int(rest * single(part.value / 100))
    left = whole - sum(found)
    weights = sum(part.value for part in parts if part.unit is Unit.WEIGHT)
    weighted = [at for at, part in enumerate(parts) if part.unit is Unit.WEIGHT]
    remaining = left
    for at in weighted:
        last = at == weighted[-1]
        share = remaining if last else min(remaining, int(left * parts[at].value / weights + 0.5) if weights else 0)
        found[at] = share if weights else 0
        remaining -= found[at]
    return found
