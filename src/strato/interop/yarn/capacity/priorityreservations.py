"""Preemption for reservations of higher-priority queues from lower-priority ones, even within their guarantee.

A reservation that has been held for long by a queue below its guarantee may take containers of lower-priority queues on
the reserved node. If these do not suffice and moving is allowed, the reservation may move to another node.
"""

from __future__ import annotations

import functools

from strato.interop.yarn.capacity.idealassignment import Assignments, QueueAssignment
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION, Container, NodeNumbers
from strato.interop.yarn.capacity.victims import Selection, all_containers, guarantee_met
from strato.interop.yarn.resources import Amounts, add, subtract


class PriorityReservationSelector:
    """Selects containers for reservations of higher-priority queues."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._none = assignments.none
        self._above = _priorities(assignments)
        self._touched: set[str] = set()
        self._promised: dict[tuple[str, str], Amounts] = {}
        self.moved: dict[str, str] = {}
        """For reservations to be moved: the new node, by the reservation's key."""

    def select(self, selection: Selection) -> None:
        """Choose containers for reservations, those of more important queues and older ones first."""
        state, settings = self._assignments.state, self._assignments.settings
        demanding = {above for above, _ in self._above}
        reservations = [one for one in all_containers(self._assignments) if one.is_reserved and one.queue in demanding]
        nodes = {node.name: node for node in state.nodes}
        for reservation in self._by_creation(reservations):
            node = nodes.get(reservation.node)
            if node is None or state.now_ms - reservation.created_ms < settings.reserved_container_delay_ms:
                continue
            if self._is_satisfied(reservation.queue, node.partition):
                continue
            found = self._room_on(node, reservation, selection)
            if found is None and settings.allow_move_reservation:
                for other in state.nodes:
                    if other.name == node.name or other.partition != node.partition:
                        continue
                    if any(one.is_reserved and one.node == other.name for one in all_containers(self._assignments)):
                        continue
                    found = self._room_on(other, reservation, selection)
                    if found is not None:
                        self.moved[reservation.key] = other.name
                        node = other
                        break
            if found is not None:
                self._choose(found, reservation, node, selection)

    def _choose(self, found: list[Container], reservation: Container, node: NodeNumbers, selection: Selection) -> None:
        self._touched.add(node.name)
        for container in found:
            selection.add(container)
            selection.allowed = subtract(selection.allowed, container.amounts)
        key = reservation.queue, node.partition
        self._promised[key] = add(self._promised.get(key, self._none), reservation.amounts)

    def _is_satisfied(self, path: str, partition: str) -> bool:
        queue = self._assignments.by_key.get((path, partition))
        if queue is None:
            return False
        promised = self._promised.get((path, partition), self._none)
        return guarantee_met(queue, promised, self._assignments.arithmetic, self._assignments.state.total)

    def _room_on(self, node: NodeNumbers, reservation: Container, selection: Selection) -> list[Container] | None:
        """Return the containers to preempt on a node for a reservation; None if they cannot suffice."""
        if node.name in self._touched:
            return None
        arithmetic, total = self._assignments.arithmetic, self._assignments.state.total
        lacking = subtract(reservation.amounts, subtract(node.total, node.used))
        running = [one for one in all_containers(self._assignments) if one.node == node.name and not one.is_reserved]
        for container in running:
            if selection.has(container):
                lacking = subtract(lacking, container.amounts)
        found: list[Container] = []
        allowed = selection.allowed
        for container in self._by_creation(running):
            if arithmetic.fits(lacking, self._none):
                break
            below = (reservation.queue, container.queue) in self._above
            if selection.has(container) or container.is_am or not below:
                continue
            if arithmetic.less_or_equal(total, container.amounts, allowed):
                allowed = subtract(allowed, container.amounts)
                lacking = subtract(lacking, container.amounts)
                found.append(container)
        return found if arithmetic.fits(lacking, self._none) else None

    def _by_creation(self, containers: list[Container]) -> list[Container]:
        """Return containers of more important queues first, then by age."""

        def compare(left: Container, right: Container) -> int:
            if (left.queue, right.queue) in self._above:
                return -1
            if (right.queue, left.queue) in self._above:
                return 1
            return (left.created_ms, left.sequence) > (right.created_ms, right.sequence) or -1

        return sorted(containers, key=functools.cmp_to_key(compare))


def _priorities(assignments: Assignments) -> set[tuple[str, str]]:
    """Return pairs of leaf queues; the first has the higher priority at the level where their paths diverge."""
    leaves: list[tuple[str, tuple[QueueAssignment, ...]]] = []

    def collect(queue: QueueAssignment, above: tuple[QueueAssignment, ...]) -> None:
        way = (*above, queue)
        if queue.is_leaf:
            leaves.append((queue.path, way))
        for child in queue.children:
            collect(child, way)

    collect(assignments.roots[DEFAULT_PARTITION], ())
    found: set[tuple[str, str]] = set()
    for path, way in leaves:
        for other_path, other_way in leaves:
            parting = next(
                ((mine, theirs) for mine, theirs in zip(way, other_way, strict=False) if mine.path != theirs.path), None
            )
            if parting and parting[0].queue.priority > parting[1].queue.priority:
                found.add((path, other_path))
    return found
