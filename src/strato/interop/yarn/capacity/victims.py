"""The selectors of inter-queue preemption, which choose containers.

Every selector knows the choices of those before it, and takes no more than the round may still take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strato.interop.yarn.capacity.arithmetic import Arithmetic, scaled
from strato.interop.yarn.capacity.idealassignment import Assignments, IdealRules, QueueAssignment
from strato.interop.yarn.capacity.preemptionmodel import Application, Container, PreemptionQueue
from strato.interop.yarn.resources import Amounts, add, largest, subtract


@dataclass(slots=True)
class Selection:
    """The choices of a round so far, and the amount that may still be taken."""

    allowed: Amounts
    chosen: dict[str, Container] = field(default_factory=dict)
    """Chosen containers by key, in the order of choice."""
    dropped_reservations: dict[str, Container] = field(default_factory=dict)
    """Reservations that are dropped at once, without a wait."""

    def has(self, container: Container) -> bool:
        """Return whether a container is chosen already."""
        return container.key in self.chosen

    def add(self, container: Container) -> None:
        """Choose a container."""
        self.chosen[container.key] = container


@dataclass(frozen=True, slots=True)
class Taker:
    """Chooses containers until the wanted amount per partition is reached."""

    arithmetic: Arithmetic
    total: Amounts
    none: Amounts

    def take(
        self, container: Container, wanted: dict[str, Amounts], selection: Selection, *, conservative: bool
    ) -> bool:
        """Choose a container if that reduces a wanted amount; return whether it was chosen.

        Args:
            container: The container.
            wanted: Amounts still wanted, by partition; satisfied partitions are removed.
            selection: The choices so far.
            conservative: Whether to stop as soon as one resource type is satisfied.
        """
        if selection.has(container) or container.partition not in wanted:
            return False
        # A type of which nothing was wanted must not count as one that this container has satisfied.
        goal = tuple(number or -1 for number in wanted[container.partition])
        wanted[container.partition] = goal
        arithmetic = self.arithmetic
        if not arithmetic.less(self.total, self.none, goal):
            return False
        if not arithmetic.fits(container.amounts, selection.allowed):
            return False
        left = subtract(goal, container.amounts)
        if conservative:
            helps = not arithmetic.has_none_left(goal)
        else:
            helps = arithmetic.less(self.total, largest(left, self.none), largest(goal, self.none))
        if not helps:
            return False
        selection.allowed = subtract(selection.allowed, container.amounts)
        wanted[container.partition] = left
        if arithmetic.less_or_equal(self.total, left, self.none):
            del wanted[container.partition]
        selection.add(container)
        return True


def by_importance(containers: Iterable[Container]) -> list[Container]:
    """Return running containers in preemption order: the least important requests first, then the newest."""
    return sorted(containers, key=lambda one: (-one.priority, -one.sequence))


def obtainable(assignments: Assignments, queue: PreemptionQueue) -> dict[str, Amounts]:
    """Return the amounts that this round takes from a leaf, by partition."""
    return {
        each.partition: each.to_obtain
        for each in assignments.of_leaf(queue.path)
        if not queue.disabled and assignments.arithmetic.less(assignments.state.total, assignments.none, each.to_obtain)
    }


def deduct_chosen(assignments: Assignments, selection: Selection) -> None:
    """Subtract the choices of earlier selectors from the amounts to take from their queues."""
    for container in selection.chosen.values():
        queue = assignments.by_key.get((container.queue, container.partition))
        if queue is None:
            continue
        whole = assignments.state.partitions[container.partition]
        # The last container is not deducted, so that one more than needed may be taken; YARN does so too.
        if assignments.arithmetic.less(whole, container.amounts, queue.to_obtain):
            queue.to_obtain = subtract(queue.to_obtain, container.amounts)


class QueueOrderSelector:
    """Selects containers of queues above their ideal assignment; the last applications in serving order lose first."""

    def __init__(self, assignments: Assignments, rules: IdealRules) -> None:
        self._assignments = assignments
        self._rules = rules
        self._taker = Taker(assignments.arithmetic, assignments.state.total, assignments.none)
        self._conservative = assignments.settings.conservative_drf

    def select(self, selection: Selection) -> None:
        """Choose containers for the amounts that the pass has computed."""
        assignments = self._assignments
        assignments.compute(self._rules, selection.allowed)
        deduct_chosen(assignments, selection)
        for leaf in assignments.leaves:
            if not leaf.disabled:
                self._select_from(leaf, selection)

    def _select_from(self, leaf: PreemptionQueue, selection: Selection) -> None:
        wanted = obtainable(self._assignments, leaf)
        applications = self._assignments.state.applications.get(leaf.path, ())
        self._take_guests(applications, wanted, selection)
        skipped: list[Container] = []
        for application in reversed(applications):
            if not wanted:
                break
            self._take_from(application, wanted, selection, skipped)
        self._take_ams(leaf, skipped, wanted, selection)

    def _take_guests(
        self, applications: tuple[Application, ...], wanted: dict[str, Amounts], selection: Selection
    ) -> None:
        """Choose containers on shared partitions that did not request the partition, newest first."""
        for partition in list(wanted):
            guests = [
                one
                for application in applications
                for one in application.containers
                if one.ignores_exclusivity and one.partition == partition and not one.is_reserved
            ]
            for container in sorted(guests, key=lambda one: -one.sequence):
                if selection.has(container):
                    continue
                if not self._taker.take(container, wanted, selection, conservative=self._conservative):
                    break

    def _take_from(
        self, application: Application, wanted: dict[str, Amounts], selection: Selection, skipped: list[Container]
    ) -> None:
        for container in application.containers:
            if not container.is_reserved or selection.has(container):
                continue
            if not wanted:
                return
            self._taker.take(container, wanted, selection, conservative=self._conservative)
            selection.dropped_reservations[container.key] = container
        for container in by_importance(one for one in application.containers if not one.is_reserved):
            if not wanted:
                return
            if selection.has(container) or container.is_killable:
                continue
            if container.is_am:
                skipped.append(container)
                continue
            self._taker.take(container, wanted, selection, conservative=self._conservative)

    def _take_ams(
        self, leaf: PreemptionQueue, skipped: list[Container], wanted: dict[str, Amounts], selection: Selection
    ) -> None:
        """Choose AMs if no other containers are left, down to the amount that the queue's AMs may keep."""
        assert leaf.leaf is not None, "leaf queues carry a leaf's numbers"
        total = self._assignments.state.total
        kept = scaled(scaled(total, leaf.leaf.absolute_capacity), leaf.leaf.am_percent)
        held = self._assignments.none
        for container in skipped:
            held = add(held, container.amounts)
        for container in skipped:
            if not wanted or self._assignments.arithmetic.less_or_equal(total, held, kept):
                break
            if self._taker.take(container, wanted, selection, conservative=self._conservative):
                held = subtract(held, container.amounts)


class ReservedSelector:
    """Selects containers on reserved nodes if ending them makes room for the reservation."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._arithmetic = assignments.arithmetic

    def select(self, selection: Selection) -> None:
        """Choose containers, on the nodes with the lowest cost first."""
        assignments = self._assignments
        assignments.compute(IdealRules(counts_reserved=True), selection.allowed)
        quotas = {leaf.path: obtainable(assignments, leaf) for leaf in assignments.leaves}
        costs: list[tuple[float, int]] = []
        reservations = self.reservations()
        for at, reservation in enumerate(reservations):
            found = self._room_for(reservation, quotas, selection)
            if found is not None:
                gained = assignments.none
                for container in found:
                    if not selection.has(container):
                        gained = add(gained, container.amounts)
                costs.append((self._arithmetic.ratio(gained, reservation.amounts), at))
        for _, at in sorted(costs):
            found = self._room_for(reservations[at], quotas, selection) or []
            for container in found:
                quotas[container.queue][container.partition] = subtract(
                    quotas[container.queue][container.partition], container.amounts
                )
                selection.allowed = subtract(selection.allowed, container.amounts)
                selection.add(container)

    def reservations(self) -> list[Container]:
        """Return one reservation per node, in the order of nodes."""
        by_node = {one.node: one for one in all_containers(self._assignments) if one.is_reserved}
        return [by_node[node.name] for node in self._assignments.state.nodes if node.name in by_node]

    def _room_for(
        self, reservation: Container, quotas: dict[str, dict[str, Amounts]], selection: Selection
    ) -> list[Container] | None:
        """Return containers whose end makes room for a reservation; None if it has room, or cannot get it."""
        node = next(one for one in self._assignments.state.nodes if one.name == reservation.node)
        room = add(subtract(node.total, node.used), node.killable)
        if self._arithmetic.fits(reservation.amounts, room):
            return None
        allowed = selection.allowed
        spent: dict[str, Amounts] = {}
        found: list[Container] = []
        running = [one for one in all_containers(self._assignments) if one.node == node.name and not one.is_reserved]
        for container in sorted(running, key=lambda one: -one.sequence):
            if container.is_killable or container.is_am:
                continue
            quota = quotas.get(container.queue, {}).get(node.partition)
            if quota is None:
                continue
            quota = subtract(quota, spent.get(container.queue, self._assignments.none))
            fits = self._arithmetic.fits
            if not (fits(container.amounts, quota) and fits(container.amounts, allowed)):
                continue
            spent[container.queue] = add(spent.get(container.queue, self._assignments.none), container.amounts)
            allowed = subtract(allowed, container.amounts)
            found.append(container)
            room = add(room, container.amounts)
            if fits(reservation.amounts, room):
                return found
        return None


def all_containers(assignments: Assignments) -> Iterable[Container]:
    """Yield the containers and reservations of all applications."""
    for leaf in assignments.leaves:
        for application in assignments.state.applications.get(leaf.path, ()):
            yield from application.containers


def guarantee_met(queue: QueueAssignment, extra: Amounts, arithmetic: Arithmetic, total: Amounts) -> bool:
    """Return whether a queue reaches its guarantee, without its reservations and with what is already taken for it."""
    has = add(subtract(queue.numbers.used, queue.numbers.reserved), extra)
    return arithmetic.less_or_equal(total, queue.numbers.guaranteed, has)
