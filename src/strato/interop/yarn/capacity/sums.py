"""Check that the queues of one parent agree on the unit of capacities, and that these sum up to the whole."""

from __future__ import annotations

from strato.errors import Problem
from strato.interop.yarn.capacity.arithmetic import single
from strato.interop.yarn.capacity.configuration import ROOT, CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.notation import Capacity, Unit
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION
from strato.interop.yarn.resources import add, fits

_TOLERANCE = 0.001
"""Allowed difference between 1 and the sum of the capacities of one parent's queues."""


def problems(configuration: CapacityConfiguration) -> list[Problem]:
    """Return the problems of siblings' capacities, over the whole tree."""
    found: list[Problem] = []
    for queue in configuration.root.walk():
        if queue.auto_creation.is_managed and any(not child.is_auto_created for child in queue.children):
            message = "creates its queues itself and cannot have queues of its own; remove its `queues`"
            found.append(Problem(_where(queue), message))
        if not configuration.is_legacy:
            continue
        for label in queue.capacities:
            found += _problems_of(queue, label)
    return found


def _where(queue: QueueConfiguration) -> str:
    return f"line {queue.line}: {queue.path}" if queue.line else queue.path


def _problems_of(parent: QueueConfiguration, label: str) -> list[Problem]:
    children = [child for child in parent.children if label in child.capacities and not child.is_auto_created]
    if not children or parent.auto_creation.is_managed:
        return []
    named = f" on label {label!r}" if label else ""
    units = {child.capacities[label].unit for child in children if label == DEFAULT_PARTITION or _counts(child, label)}
    if len(units) > 1:
        kinds = ", ".join(f"{child.path} in {child.capacities[label].unit}" for child in children[:6])
        message = f"its queues count capacity in different ways{named}: {kinds}; use one way below a parent"
        return [Problem(_where(parent), message)]
    unit = units.pop() if units else Unit.PERCENT
    if unit is Unit.ABSOLUTE:
        return _absolute_problems(parent, children, label, named)
    if unit is Unit.WEIGHT:
        return []
    if parent.path != ROOT and parent.capacities[label].unit is Unit.ABSOLUTE:
        message = f"has an absolute capacity{named}, so its queues need absolute ones too"
        return [Problem(_where(parent), message)]
    total = 0.0
    for child in children:
        total = single(total + child.capacities[label].fraction)
    if abs(total - 1) <= _TOLERANCE:
        return []
    empty = parent.capacities[label]
    nothing = empty.unit is Unit.PERCENT and empty.fraction == 0
    may_be_zero = parent.allows_zero_sum or nothing or label != DEFAULT_PARTITION
    if total == 0 and (may_be_zero or empty.unit is Unit.WEIGHT):
        return []
    message = f"the capacities of its queues sum up to {total * 100:g} %{named}, expected 100 %"
    return [Problem(_where(parent), message)]


def _counts(queue: QueueConfiguration, label: str) -> bool:
    capacity: Capacity = queue.capacities[label]
    return any(part.value for part in capacity.parts)


def _absolute_problems(
    parent: QueueConfiguration, children: list[QueueConfiguration], label: str, named: str
) -> list[Problem]:
    if parent.path == ROOT:
        return []
    own = parent.capacities[label]
    if own.unit is not Unit.ABSOLUTE:
        return [Problem(_where(parent), f"its queues have absolute capacities{named}, so it needs one too")]
    total = (0,) * len(own.parts)
    for child in children:
        total = add(total, child.capacities[label].amounts)
    if not fits(total, own.amounts):
        return [Problem(_where(parent), f"its queues' capacities sum up to {total}{named}, it has {own.amounts}")]
    return []
