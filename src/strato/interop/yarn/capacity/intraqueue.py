"""Intra-queue preemption: waiting applications take containers from others of the same queue.

The queue's usage (without its AMs and without the amount that other queues preempt) is assigned anew: applications of
the highest priority first (or of the users who use least), each user up to the user limit. Usage beyond an
application's ideal assignment may go to applications that have less and come before it. Between applications of one
user only priority decides; between two users, if the policy puts user limits first, only a user above the limit loses
containers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from strato.interop.yarn.capacity.arithmetic import Arithmetic, less_down_to_none, scaled
from strato.interop.yarn.capacity.idealassignment import Assignments, QueueAssignment
from strato.interop.yarn.capacity.preemptionmodel import (
    DEFAULT_PARTITION,
    Application,
    Container,
    IntraQueueOrder,
    LeafNumbers,
)
from strato.interop.yarn.capacity.victims import Selection, Taker, by_importance
from strato.interop.yarn.resources import Amounts, add, is_zero, subtract


@dataclass(slots=True)
class UserAssignment:
    """A user of a queue on a partition; mutable state of one round's computation."""

    limit: Amounts
    """The user limit less the usage of the user's AMs."""
    used: Amounts
    am_used: Amounts
    selected: Amounts
    ideal: Amounts
    excess_given: bool = False
    """Whether the user's usage above the limit has already been assigned to others."""


@dataclass(slots=True)
class ApplicationAssignment:
    """An application on a partition; mutable state of one round's computation."""

    application: Application
    used: Amounts
    am_used: Amounts
    pending: Amounts
    ideal: Amounts
    selected: Amounts
    to_preempt: Amounts
    to_obtain: Amounts
    wanted_from_others: Amounts

    @property
    def without_am(self) -> Amounts:
        """The application's usage without its AM."""
        return subtract(self.used, self.am_used)


@dataclass(slots=True)
class QueueReassignment:
    """Ideal assignments of a queue's applications and users on one partition; applications in reverse serving order."""

    applications: list[ApplicationAssignment]
    users: dict[str, UserAssignment]


class IntraQueueSelector:
    """Selects containers within queues whose demand could not be met from other queues."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments
        self._settings = assignments.settings
        self._none = assignments.none
        self._taker = Taker(assignments.arithmetic, assignments.state.total, assignments.none)
        self.reassigned: dict[tuple[str, str], QueueReassignment] = {}
        """Assignments by queue and partition, kept for explanations."""

    @property
    def _arithmetic(self) -> Arithmetic:
        return self._assignments.arithmetic

    def select(self, selection: Selection) -> None:
        """Choose containers to preempt within queues."""
        for partition in self._assignments.roots:
            for queue in self._underserved(partition):
                self._reassign(queue, selection)
        self._deduct_chosen(selection)
        for partition in self._assignments.roots:
            for queue in self._underserved(partition):
                self._select_from(queue, selection)

    def _underserved(self, partition: str) -> list[QueueAssignment]:
        paths = self._assignments.underserved.get(partition, {})
        queues = [self._assignments.by_key[path, partition] for path in paths]
        return [queue for queue in queues if queue.queue.leaf is not None]

    # 1. Ideal assignments of applications

    def _reassign(self, queue: QueueAssignment, selection: Selection) -> None:
        leaf = _leaf(queue)
        if leaf.used_capacity.get(queue.partition, 0.0) < self._settings.intra_queue_minimum_threshold:
            return
        applications = self._assignments.state.applications.get(queue.path, ())
        if len(applications) == 1:
            return
        left = subtract(queue.numbers.used, queue.to_obtain)
        ams: dict[str, Amounts] = {}
        for application in applications:
            am = application.am_used.get(queue.partition, self._none)
            ams[application.user] = add(ams.get(application.user, self._none), am)
            left = subtract(left, am)
        found = QueueReassignment([], {user: self._user(queue, user, am) for user, am in ams.items()})
        ordered = self._in_order([self._application(queue, one) for one in applications], found, leaf)
        for one in ordered:
            left = self._assign(one, found.users[one.application.user], left, selection, queue.partition)
        found.applications = ordered[::-1]
        self._find_surplus(found, leaf, self._limit(queue, selection))
        self._match(found)
        self.reassigned[queue.path, queue.partition] = found

    def _user(self, queue: QueueAssignment, user: str, am_used: Amounts) -> UserAssignment:
        leaf, none = _leaf(queue), self._none
        limit = leaf.user_limits.get(queue.partition, {}).get(user, none)
        used = leaf.user_used.get(queue.partition, {}).get(user, none)
        return UserAssignment(subtract(limit, am_used), used, am_used, none, none)

    def _application(self, queue: QueueAssignment, application: Application) -> ApplicationAssignment:
        none, at = self._none, queue.partition
        used, pending = application.used.get(at, none), application.pending.get(at, none)
        am_used = application.am_used.get(at, none)
        return ApplicationAssignment(application, used, am_used, pending, none, none, none, none, none)

    def _in_order(
        self, applications: list[ApplicationAssignment], found: QueueReassignment, leaf: LeafNumbers
    ) -> list[ApplicationAssignment]:
        """Return applications in serving order."""
        if not (leaf.orders_fairly and self._settings.intra_queue_order is IntraQueueOrder.USER_LIMIT_FIRST):
            return sorted(applications, key=lambda one: (-one.application.priority, one.application.sequence))
        total, calculator = self._assignments.state.total, self._arithmetic.calculator

        def compare(left: ApplicationAssignment, right: ApplicationAssignment) -> int:
            mine, theirs = left.application, right.application
            if mine.user == theirs.user:
                by_use = calculator.compare(total, left.without_am, right.without_am)
            else:
                user, other = found.users[mine.user], found.users[theirs.user]
                by_use = calculator.compare(
                    total, subtract(user.used, user.am_used), subtract(other.used, other.am_used)
                )
            return by_use or mine.sequence - theirs.sequence

        return sorted(applications, key=functools.cmp_to_key(compare))

    def _assign(
        self, one: ApplicationAssignment, user: UserAssignment, left: Amounts, selection: Selection, partition: str
    ) -> Amounts:
        """Set an application's ideal assignment from the rest; return the new rest."""
        total, arithmetic = self._assignments.state.total, self._arithmetic
        if arithmetic.less_or_equal(total, left, self._none):
            return left
        for container in one.application.containers:
            if selection.has(container) and container.partition == partition:
                one.selected = add(one.selected, container.amounts)
        user.selected = add(user.selected, one.selected)
        if not arithmetic.less(total, user.ideal, user.limit):
            return left
        wanted = subtract(add(one.without_am, one.pending), one.selected)
        wanted = arithmetic.smaller(total, wanted, subtract(user.limit, user.ideal))
        one.ideal = arithmetic.smaller(total, left, wanted)
        user.ideal = add(user.ideal, one.ideal)
        kept = subtract(one.without_am, one.selected)
        if arithmetic.less(total, kept, one.ideal):
            one.wanted_from_others = subtract(one.ideal, kept)
        return less_down_to_none(left, one.ideal)

    # 2. Amounts to preempt from each application

    def _limit(self, queue: QueueAssignment, selection: Selection) -> Amounts:
        """Return the most that may be taken within the queue in this round."""
        total = self._assignments.state.total
        most = scaled(queue.numbers.guaranteed, self._settings.intra_queue_max_allowable_limit)
        more = self._arithmetic.less(total, queue.to_obtain, most)
        most = subtract(most, queue.to_obtain) if more else self._none
        return self._arithmetic.smaller(total, most, selection.allowed)

    def _find_surplus(self, found: QueueReassignment, leaf: LeafNumbers, limit: Amounts) -> None:
        total, arithmetic = self._assignments.state.total, self._arithmetic
        by_user_limit = self._settings.intra_queue_order is IntraQueueOrder.USER_LIMIT_FIRST
        for one in found.applications:
            nothing = arithmetic.less_or_equal(total, one.used, self._none)
            if nothing or arithmetic.less_or_equal(total, limit, self._none):
                continue
            surplus = subtract(one.used, one.ideal)
            surplus = less_down_to_none(less_down_to_none(surplus, one.selected), one.am_used)
            if by_user_limit:
                surplus = less_down_to_none(surplus, leaf.minimum_allocation)
            surplus = arithmetic.larger(total, surplus, self._none)
            one.to_preempt = arithmetic.smaller(total, surplus, limit)
            limit = less_down_to_none(limit, one.to_preempt)

    def _match(self, found: QueueReassignment) -> None:
        """Assign surplus of applications to those that have too little and precede them in serving order."""
        total, arithmetic = self._assignments.state.total, self._arithmetic
        for taker in reversed(found.applications):
            if not arithmetic.less(total, self._none, taker.wanted_from_others):
                continue
            for giver in found.applications:
                if arithmetic.less(total, self._none, giver.to_preempt):
                    self._promise(giver, taker, found.users[giver.application.user])

    def _promise(self, giver: ApplicationAssignment, taker: ApplicationAssignment, user: UserAssignment) -> None:
        total, arithmetic = self._assignments.state.total, self._arithmetic
        mine, theirs = giver.application, taker.application
        if mine.user == theirs.user and mine.priority >= theirs.priority:
            return
        spent = arithmetic.less_or_equal(total, giver.to_preempt, giver.to_obtain)
        if spent or is_zero(taker.wanted_from_others):
            return
        by_user_limit = self._settings.intra_queue_order is IntraQueueOrder.USER_LIMIT_FIRST
        held = subtract(subtract(user.used, user.am_used), user.selected)
        if mine.user != theirs.user and by_user_limit and not arithmetic.less(total, user.limit, held):
            return
        offered = subtract(giver.to_preempt, giver.to_obtain)
        if mine.user != theirs.user and by_user_limit and mine.priority == theirs.priority:
            # Take from a user once, and only down to the user limit.
            excess = self._none if user.excess_given else subtract(held, user.limit)
            if arithmetic.less(total, excess, offered):
                user.excess_given = True
                offered = excess
        if arithmetic.less(total, offered, taker.wanted_from_others):
            taker.wanted_from_others = subtract(taker.wanted_from_others, offered)
            giver.to_obtain = add(giver.to_obtain, offered)
        else:
            giver.to_obtain = add(giver.to_obtain, taker.wanted_from_others)
            taker.wanted_from_others = self._none

    # 3. Containers to preempt

    def _deduct_chosen(self, selection: Selection) -> None:
        """Subtract the choices of other selectors from the amounts to take of the queue and each application."""
        for container in list(selection.chosen.values()):
            key = container.queue, container.partition
            queue = self._assignments.by_key.get(key)
            if queue is None:
                continue
            whole = self._assignments.state.partitions[container.partition]
            queue.to_obtain = self._less(whole, queue.to_obtain, container.amounts)
            found = self.reassigned.get(key)
            for one in found.applications if found else ():
                one.to_obtain = self._less(whole, one.to_obtain, container.amounts)

    def _less(self, whole: Amounts, wanted: Amounts, chosen: Amounts) -> Amounts:
        return subtract(wanted, chosen) if self._arithmetic.less(whole, chosen, wanted) else wanted

    def _select_from(self, queue: QueueAssignment, selection: Selection) -> None:
        found = self.reassigned.get((queue.path, queue.partition))
        leaf = self._assignments.by_key[queue.path, DEFAULT_PARTITION].queue.leaf
        if found is None or leaf is None or leaf.intra_queue_disabled:
            return
        wanted: dict[str, Amounts] = {}
        for one in found.applications:
            if self._arithmetic.less(self._assignments.state.total, self._none, one.to_obtain):
                wanted[queue.partition] = add(wanted.get(queue.partition, self._none), one.to_obtain)
        used = dict(leaf.user_used.get(queue.partition, {}))
        for one in found.applications:
            if not is_zero(one.to_obtain):
                self._take_from(one.application, wanted, used, selection)

    def _take_from(
        self, application: Application, wanted: dict[str, Amounts], used: dict[str, Amounts], selection: Selection
    ) -> None:
        by_user_limit = self._settings.intra_queue_order is IntraQueueOrder.USER_LIMIT_FIRST
        running = [one for one in application.containers if not one.is_reserved]
        for container in by_importance(running):
            if not wanted:
                return
            if selection.has(container) or container.is_killable or container.is_am:
                continue
            held = used.get(application.user, self._none)
            if by_user_limit and self._would_fall_to_limit(container, application.user, held):
                return
            conservative = self._settings.intra_queue_conservative_drf
            if self._taker.take(container, wanted, selection, conservative=conservative) and by_user_limit:
                used[application.user] = subtract(held, container.amounts)

    def _would_fall_to_limit(self, container: Container, user: str, used: Amounts) -> bool:
        """Return whether ending this container would bring a user from above the limit to it or below."""
        found = self.reassigned.get((container.queue, container.partition))
        assigned = found.users.get(user) if found else None
        if assigned is None:
            return False
        total, arithmetic = self._assignments.state.total, self._arithmetic
        limit = add(assigned.limit, assigned.am_used)
        after = subtract(used, container.amounts)
        return arithmetic.less_or_equal(total, after, limit) and arithmetic.less(total, limit, used)


def _leaf(queue: QueueAssignment) -> LeafNumbers:
    assert queue.queue.leaf is not None, "only leaf queues are reassigned"
    return queue.queue.leaf
