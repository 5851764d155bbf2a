"""The tree of queues with the applications in it: demand, activity and shares, level by level (spec yarn A4).

Only queues and applications are mutable here; the formulas are in `shares` and `order`. The caller counts usage and
pending requests (the engine by containers, the plugin by pods) and writes them into the applications: usage by
`FairApp.use`, pending requests into `FairApp.pending`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from strato.interop.yarn.fair.allocation import ROOT, QueueSettings
from strato.interop.yarn.fair.notation import Limit
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.fair.shares import Claim, fair_shares
from strato.interop.yarn.resources import (
    MOST,
    Amounts,
    add,
    fits,
    float32,
    largest,
    smallest,
    subtract,
)


class FairApp:
    """One application, in a leaf queue.

    Args:
        name: Orders applications that started at the same time, as text.
        user: The application's user.
        queue: The application's leaf queue.
        start_time: Time of submission, in any unit that orders.
    """

    weight = 1.0
    """Weight of the application; replaced by `size_weight` if weights follow demand."""

    def __init__(self, name: str, user: str, queue: FairQueue, start_time: float = 0) -> None:
        zero = (0,) * len(queue.cluster())
        self.name = name
        self.user = user
        self.queue = queue
        self.start_time = start_time
        self.usage: Amounts = zero
        self.pending: Amounts = zero
        """Present requests for containers that have not been allocated."""
        self.demand: Amounts = zero
        """Usage and pending at the last `QueueTree.update_demand`."""
        self.fair_share: Amounts = zero
        self.min_share: Amounts = zero
        """Always 0: applications have no minimum."""

    def use(self, amounts: Amounts) -> None:
        """Add an amount, which may be negative, to the usage of the application and all queues above it."""
        self.usage = add(self.usage, amounts)
        for queue in self.queue.lineage():
            queue.usage = add(queue.usage, amounts)

    @property
    def unmet(self) -> Amounts:
        """Demand at the last update less present usage."""
        return subtract(self.demand, self.usage)


def size_weight(demand: Amounts) -> float:
    """Return an application's weight by demand (``sizebasedweight``): log2 of 1 + its memory demand in MB."""
    return float32(math.log1p(demand[0]) / math.log(2))


class FairQueue:
    """One queue. Only leaves have applications, only parents children."""

    start_time = 0.0
    """Always 0, so that age does not order queues."""

    def __init__(self, settings: QueueSettings, tree: QueueTree, parent: FairQueue | None, *, is_leaf: bool) -> None:
        zero = (0,) * len(tree.cluster)
        self.name = settings.name
        self.is_leaf = is_leaf
        self.parent = parent
        self.children: list[FairQueue] = []
        self.runnable: list[FairApp] = []
        self.waiting: list[FairApp] = []
        """Applications that wait because of a limit on running ones."""
        self.runnable_count = 0
        """Number of runnable applications in the queue and those below."""
        self.usage: Amounts = zero
        self.demand: Amounts = zero
        self.fair_share: Amounts = zero
        self.steady_share: Amounts = zero
        """The fair share if every queue were active; only displayed."""
        self.am_usage: Amounts = zero
        self.dynamic = True
        """Whether the queue is not declared by the file."""
        self.policy = settings.policy
        self._tree = tree
        self.configure(settings)

    def configure(self, settings: QueueSettings) -> None:
        """Apply settings without the policy, which is set separately since the parent's policy must allow it."""
        self.settings = settings
        self.limit: Limit = settings.max_share

    def cluster(self) -> Amounts:
        """Return the resources of the cluster."""
        return self._tree.cluster

    def lineage(self) -> Iterator[FairQueue]:
        """Yield the queue and its ancestors, up to the root."""
        queue: FairQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @property
    def weight(self) -> float:
        """Weight among the queue's siblings."""
        return self.settings.weight

    @property
    def min_share(self) -> Amounts:
        """Minimum of the queue."""
        return self.settings.min_share

    @property
    def max_share(self) -> Amounts:
        """Maximum of the queue on this cluster, at least its minimum."""
        return largest(self.limit.on(self._tree.cluster), self.settings.min_share)

    @property
    def is_active(self) -> bool:
        """Whether the queue has runnable applications."""
        return self.runnable_count > 0

    @property
    def apps(self) -> list[FairApp]:
        """The queue's own applications, running and waiting."""
        return [*self.runnable, *self.waiting]

    @property
    def is_empty(self) -> bool:
        """Whether neither the queue nor any below has an application."""
        return not self.runnable and not self.waiting and all(child.is_empty for child in self.children)

    @property
    def preemptable(self) -> bool:
        """Whether the queue's applications may be preempted, which any ancestor may forbid."""
        return all(queue.settings.preemptable for queue in self.lineage())

    @property
    def min_timeout_ms(self) -> int:
        """Time below the minimum after which the queue is starved."""
        return next((q.settings.min_timeout_ms for q in self.lineage() if q.settings.min_timeout_ms != -1), MOST)

    @property
    def fair_timeout_ms(self) -> int:
        """Time below the fair share after which an application is starved."""
        return next((q.settings.fair_timeout_ms for q in self.lineage() if q.settings.fair_timeout_ms != -1), MOST)

    @property
    def fair_threshold(self) -> float:
        """Fraction of the fair share below which an application is starved."""
        return next((q.settings.fair_threshold for q in self.lineage() if q.settings.fair_threshold >= 0), 0.5)

    def over_maximum(self, extra: Amounts) -> FairQueue | None:
        """Return the nearest queue, this one or an ancestor, whose maximum ``extra`` more usage would exceed."""
        return next((q for q in self.lineage() if not fits(add(q.usage, extra), q.max_share)), None)

    def add_app(self, app: FairApp, *, runnable: bool) -> None:
        """Add an application with its usage."""
        app.queue = self
        (self.runnable if runnable else self.waiting).append(app)
        for queue in self.lineage():
            queue.runnable_count += runnable
            queue.usage = add(queue.usage, app.usage)

    def remove_app(self, app: FairApp) -> bool:
        """Remove an application with its usage; return whether it was runnable."""
        was_runnable = app in self.runnable
        (self.runnable if was_runnable else self.waiting).remove(app)
        for queue in self.lineage():
            queue.runnable_count -= was_runnable
            queue.usage = subtract(queue.usage, app.usage)
        return was_runnable

    def am_limit(self, free: Amounts) -> Amounts | None:
        """Return the limit on the resources of the queue's application masters; None for no limit.

        Args:
            free: Unused resources of the cluster, which replace types that the fair share leaves out.
        """
        if abs(self.settings.max_am_share + 1.0) < 1e-4:
            return None
        base = (
            share or min(unused, most)
            for share, unused, most in zip(self.fair_share, free, self.max_share, strict=True)
        )
        return tuple(math.ceil(number * self.settings.max_am_share) for number in base)


class QueueTree:
    """All queues, and the resources of the cluster."""

    def __init__(self, root: QueueSettings, cluster: Amounts) -> None:
        self.cluster = cluster
        self.root = FairQueue(root, self, None, is_leaf=False)
        self.root.dynamic = False
        self.queues: dict[str, FairQueue] = {ROOT: self.root}

    def add_queue(self, settings: QueueSettings, *, is_leaf: bool) -> FairQueue:
        """Add a queue below its parent, which must exist and allow the queue's policy."""
        parent = self.queues[settings.name.rpartition(".")[0]]
        queue = FairQueue(settings, self, parent, is_leaf=is_leaf)
        parent.children.append(queue)
        self.queues[queue.name] = queue
        return queue

    def remove_queue(self, queue: FairQueue) -> None:
        """Remove a queue and all below it."""
        for child in list(queue.children):
            self.remove_queue(child)
        if queue.parent is not None:
            queue.parent.children.remove(queue)
        del self.queues[queue.name]

    def leaves(self) -> list[FairQueue]:
        """Return the leaf queues."""
        return [queue for queue in self.queues.values() if queue.is_leaf]

    # -- demand and shares ---------------------------------------------------------------------------------------------

    def update_demand(self, *, by_size: bool = False) -> None:
        """Compute the demand of applications and queues.

        Args:
            by_size: Whether the weight of applications follows their demand.
        """
        for queue in self._bottom_up():
            wanted = (0,) * len(self.cluster)
            if queue.is_leaf:
                for app in queue.apps:
                    app.demand = add(app.usage, app.pending)
                    wanted = add(wanted, app.demand)
                    app.weight = size_weight(app.demand) if by_size else 1.0
            else:
                for child in queue.children:
                    wanted = add(wanted, child.demand)
                wanted = (*wanted[:2], *((0,) * (len(wanted) - 2)))  # parents sum up memory and vcores only, as in YARN
            queue.demand = smallest(wanted, queue.max_share)

    def update_shares(self) -> None:
        """Compute fair shares, from the whole cluster at the root down to applications."""
        self.root.fair_share = self.cluster
        for queue in self._top_down():
            if queue.is_leaf:
                self._share_apps(queue)
            else:
                for child, share in self._shares_of(queue, queue.fair_share, steady=False):
                    child.fair_share = share

    def update_steady_shares(self) -> None:
        """Compute the steady shares: the shares if every queue were active."""
        self.root.steady_share = self.cluster
        for queue in self._top_down():
            for child, share in self._shares_of(queue, queue.steady_share, steady=True):
                child.steady_share = share

    def _share_apps(self, queue: FairQueue) -> None:
        """Divide a leaf's fair share among its runnable applications."""
        if not queue.runnable:
            return
        if queue.policy is QueuePolicy.FIFO:
            min(queue.runnable, key=lambda app: app.start_time).fair_share = queue.fair_share
            return
        for column in self._columns(queue.policy):
            claims = [Claim(app.weight) for app in queue.runnable]
            for app, share in zip(queue.runnable, fair_shares(queue.fair_share[column], claims), strict=True):
                app.fair_share = _with(app.fair_share, column, share)

    def _shares_of(self, queue: FairQueue, total: Amounts, *, steady: bool) -> list[tuple[FairQueue, Amounts]]:
        """Return the children's shares; types that the policy ignores keep their values."""
        children = queue.children
        shares = [child.steady_share if steady else child.fair_share for child in children]
        maxima = [child.max_share for child in children]
        for column in self._columns(queue.policy):
            claims = [
                Claim(child.weight, child.min_share[column], most[column], steady or child.is_active)
                for child, most in zip(children, maxima, strict=True)
            ]
            found = fair_shares(total[column], claims)
            shares = [_with(share, column, number) for share, number in zip(shares, found, strict=True)]
        return list(zip(children, shares, strict=True))

    def _columns(self, policy: QueuePolicy) -> range:
        return range(len(self.cluster)) if policy is QueuePolicy.DRF else range(1)

    def _top_down(self) -> list[FairQueue]:
        """Return queues, every parent before its children."""
        found = [self.root]
        for queue in found:  # the loop extends the list it iterates over
            found += queue.children
        return found

    def _bottom_up(self) -> list[FairQueue]:
        return self._top_down()[::-1]


def _with(amounts: Amounts, column: int, number: int) -> Amounts:
    return (*amounts[:column], number, *amounts[column + 1 :])
