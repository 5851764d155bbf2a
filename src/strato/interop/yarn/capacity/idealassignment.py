"""The ideal assignment of each queue, and the amount to preempt from it: the arithmetic of inter-queue preemption.

The partition's capacity is distributed down the tree. A queue's ideal assignment begins as its usage, up to its
guarantee; the rest is offered to queues with pending requests, those furthest below their guarantee first, in
proportion to their guarantees. Usage beyond the ideal assignment is preempted, scaled down to the round's limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from strato.interop.yarn.capacity.arithmetic import Arithmetic, less_down_to_none, scaled, single
from strato.interop.yarn.capacity.preemptionmodel import (
    DEFAULT_PARTITION,
    ClusterState,
    PreemptionQueue,
    PreemptionSettings,
    QueueNumbers,
)
from strato.interop.yarn.resources import Amounts, add, largest, smallest, subtract

_NEVER_FIRST = 2.0**31 - 1
"""Used share for queues without a guarantee, which orders them behind all others."""


@dataclass(slots=True)
class QueueAssignment:
    """A queue on one partition; mutable state of one round's computation."""

    queue: PreemptionQueue
    partition: str
    numbers: QueueNumbers
    children: list[QueueAssignment]
    ideal: Amounts
    to_preempt: Amounts
    to_obtain: Amounts
    """Amount that this round takes: `to_preempt` dampened, less what earlier selectors chose."""
    untouchable: Amounts
    preemptable: Amounts
    normalised: list[float] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The queue's path."""
        return self.queue.path

    @property
    def is_leaf(self) -> bool:
        """Whether it has no children."""
        return not self.children


@dataclass(frozen=True, slots=True, kw_only=True)
class IdealRules:
    """Rules that differ between the passes that compute ideal assignments."""

    counts_reserved: bool = False
    """Whether pending requests with reserved nodes count; if so, the amount to preempt is not dampened."""
    balances: bool = False
    """Whether queues at their guarantee may take from queues above theirs."""


class Assignments:
    """The assignments of all queues on all partitions; mutable state of one round's computation.

    Attributes:
        underserved: By partition, the paths of queues that wanted more, in serving order; kept across passes.
    """

    def __init__(self, state: ClusterState, settings: PreemptionSettings, arithmetic: Arithmetic) -> None:
        self.state = state
        self.settings = settings
        self.arithmetic = arithmetic
        self.none: Amounts = (0,) * len(state.total)
        self.step: Amounts = (1,) * len(state.total)
        self.roots = {partition: self._copied(state.root, partition) for partition in state.partitions}
        self.by_key = {(each.path, partition): each for partition, root in self.roots.items() for each in walk(root)}
        self.underserved: dict[str, dict[str, None]] = {}
        self.leaves = [each.queue for each in walk(self.roots[DEFAULT_PARTITION]) if each.is_leaf]

    def _copied(self, queue: PreemptionQueue, partition: str) -> QueueAssignment:
        none = self.none
        children = [self._copied(child, partition) for child in queue.children]
        return QueueAssignment(queue, partition, queue.numbers[partition], children, none, none, none, none, none)

    def of_leaf(self, path: str) -> list[QueueAssignment]:
        """Return a leaf's assignments, one per partition."""
        return [self.by_key[path, partition] for partition in self.roots]

    def compute(self, rules: IdealRules, allowed: Amounts) -> None:
        """Compute ideal assignments, the amounts to preempt from each queue, and the part that this round takes.

        Args:
            rules: The rules of this pass.
            allowed: The most that this round may still take.
        """
        for root in self.roots.values():
            self._find_extras(root)
            root.ideal = root.numbers.guaranteed
            self._distribute_down(root, rules, allowed)
        self._dampen(rules)

    # 1. Usage beyond the guarantee

    def _find_extras(self, queue: QueueAssignment) -> None:
        for child in queue.children:
            self._find_extras(child)
        whole = self.state.partitions[queue.partition]
        extra = subtract(queue.numbers.used, queue.numbers.guaranteed)
        if self.arithmetic.less(whole, extra, self.none):
            extra = self.none
        if queue.is_leaf:
            queue.untouchable, queue.preemptable = (extra, self.none) if queue.queue.disabled else (self.none, extra)
            return
        below = self.none
        for child in queue.children:
            below = add(below, child.preemptable)
        enough = self.arithmetic.less_or_equal(whole, extra, below)
        queue.untouchable = self.none if enough else subtract(extra, below)
        queue.preemptable = self.arithmetic.smaller(whole, below, extra)

    # 2. Ideal assignments

    def _distribute_down(self, parent: QueueAssignment, rules: IdealRules, allowed: Amounts) -> None:
        if not parent.children:
            return
        self._distribute(parent, rules, allowed)
        for child in parent.children:
            self._distribute_down(child, rules, allowed)

    def _distribute(self, parent: QueueAssignment, rules: IdealRules, allowed: Amounts) -> None:
        whole, queues, arithmetic = parent.ideal, parent.children, self.arithmetic
        guaranteed = [q for q in queues if arithmetic.less(whole, self.none, q.numbers.guaranteed)]
        others = [q for q in queues if not arithmetic.less(whole, self.none, q.numbers.guaranteed)]
        left = self._fill(guaranteed, whole, whole, rules, evenly=False)
        if others and arithmetic.less(whole, self.none, left):
            self._fill(others, left, whole, rules, evenly=True)
        needed = self.none
        for queue in queues:
            if arithmetic.less(whole, queue.ideal, queue.numbers.used):
                needed = add(needed, subtract(queue.numbers.used, queue.ideal))
        scale = 1.0
        if arithmetic.less(whole, allowed, needed):
            scale = arithmetic.divide(whole, allowed, needed)
        for queue in queues:
            self._find_surplus(queue, scale, whole)

    def _fill(
        self, queues: Sequence[QueueAssignment], left: Amounts, whole: Amounts, rules: IdealRules, *, evenly: bool
    ) -> Amounts:
        """Distribute ``left`` until no queue wants more or nothing remains; return the remainder."""
        arithmetic = self.arithmetic
        wanting: list[QueueAssignment] = []
        for queue in queues:
            used, guaranteed = queue.numbers.used, queue.numbers.guaranteed
            over = arithmetic.less(whole, guaranteed, used)
            queue.ideal = add(smallest(guaranteed, used), queue.untouchable) if over else used
            left = subtract(left, queue.ideal)
            if arithmetic.less(whole, queue.ideal, add(used, queue.numbers.pending)):
                wanting.append(queue)
        while wanting and arithmetic.less(whole, self.none, left):
            self._normalise(wanting, evenly=evenly)
            turn = self._take_most_underserved(wanting, whole)
            at_start = left
            for queue in turn:
                if not arithmetic.has_positive(left):
                    break
                offered = smallest(arithmetic.norm_up(at_start, queue.normalised, self.step), left)
                accepted = self._accept(queue, offered, whole, rules)
                if arithmetic.less(whole, self.none, accepted):
                    wanting.append(queue)
                left = largest(subtract(left, accepted), self.none)
        for queue in self._in_order(wanting, whole):
            self._note_underserved(queue)
        return left

    def _normalise(self, queues: Sequence[QueueAssignment], *, evenly: bool) -> None:
        """Set each queue's fraction of the rest, per type: its guarantee divided by those of all wanting queues."""
        types = range(len(self.none))
        if evenly:
            for queue in queues:
                queue.normalised = [1.0 / len(queues) for _ in types]
            return
        totals = [sum(queue.numbers.guaranteed[at] for queue in queues) for at in types]
        for queue in queues:
            of = queue.numbers.guaranteed
            queue.normalised = [single(single(of[at]) / single(totals[at])) if totals[at] else 0.0 for at in types]

    def _standing(self, queue: QueueAssignment, whole: Amounts) -> tuple[bool, int, float]:
        """Return a sort key: queues below their guarantee first, then by priority, then by used share of it."""
        share = _NEVER_FIRST
        if self.arithmetic.less(whole, self.none, queue.numbers.guaranteed):
            share = self.arithmetic.divide(whole, queue.ideal, queue.numbers.guaranteed)
        return share >= 1.0, -queue.queue.priority, share

    def _in_order(self, queues: Sequence[QueueAssignment], whole: Amounts) -> list[QueueAssignment]:
        return sorted(queues, key=lambda queue: self._standing(queue, whole))

    def _take_most_underserved(self, wanting: list[QueueAssignment], whole: Amounts) -> list[QueueAssignment]:
        """Remove from ``wanting``, and return, the queues whose sort key equals the first one's."""
        ordered = self._in_order(wanting, whole)
        first = self._standing(ordered[0], whole)
        turn = [queue for queue in ordered if self._standing(queue, whole) == first]
        for queue in turn:
            self._note_underserved(queue)
        wanting[:] = ordered[len(turn) :]
        return turn

    def _note_underserved(self, queue: QueueAssignment) -> None:
        self.underserved.setdefault(queue.partition, {}).setdefault(queue.path)

    def _accept(self, queue: QueueAssignment, offered: Amounts, whole: Amounts, rules: IdealRules) -> Amounts:
        """Add to a queue's ideal assignment the part of an offer that it can use; return that part."""
        arithmetic, numbers = self.arithmetic, queue.numbers
        pending = numbers.pending if rules.counts_reserved else numbers.pending_without_reserved
        wanted = subtract(add(numbers.used, pending), queue.ideal)
        room = less_down_to_none(numbers.maximum, queue.ideal)
        accepted = smallest(room, arithmetic.smaller(whole, offered, wanted))
        if queue.is_leaf and not rules.balances:
            # Without balancing, queues do not grow beyond their guarantee at others' expense.
            own = subtract(arithmetic.larger(whole, numbers.used, numbers.guaranteed), queue.ideal)
            own = arithmetic.larger(whole, own, self.none)
            accepted = arithmetic.smaller(whole, accepted, own)
        accepted = smallest(largest(accepted, self.none), offered)
        queue.ideal = add(queue.ideal, accepted)
        return accepted

    # 3. Amounts to preempt

    def _find_surplus(self, queue: QueueAssignment, scale: float, whole: Amounts) -> None:
        arithmetic, numbers = self.arithmetic, queue.numbers
        held = subtract(numbers.used, numbers.killable)
        entitled = arithmetic.smaller(whole, add(numbers.used, numbers.pending), numbers.guaranteed)
        kept = arithmetic.larger(whole, entitled, queue.ideal)
        surplus = arithmetic.less(whole, kept, held)
        queue.to_preempt = scaled(subtract(held, kept), scale) if surplus else self.none

    def _dampen(self, rules: IdealRules) -> None:
        total, arithmetic = self.state.total, self.arithmetic
        for leaf in self.leaves:
            if leaf.disabled:
                continue
            for queue in self.of_leaf(leaf.path):
                ignored = scaled(queue.numbers.guaranteed, 1.0 + self.settings.max_ignored_over_capacity)
                wanted = self.none
                if arithmetic.less(total, ignored, queue.numbers.used):
                    wanted = queue.to_preempt
                    if not rules.counts_reserved and arithmetic.less(total, self.none, wanted):
                        wanted = arithmetic.norm_up(wanted, self.settings.natural_termination_factor, self.step)
                queue.to_obtain = wanted


def walk(queue: QueueAssignment) -> Iterator[QueueAssignment]:
    """Yield a queue and all below it, parents first."""
    yield queue
    for child in queue.children:
        yield from walk(child)
