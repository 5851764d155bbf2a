"""The Fair Scheduler as a whole, over plain numbers: submissions, heartbeats, reloads, moves (spec yarn A6-A9).

Tests compare the engine with recorded behaviour of YARN, and simulations of YARN clusters run it. The other modules
decide; the engine applies their decisions to queues, applications, nodes and containers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from strato.errors import StateError, UsageError
from strato.interop.yarn.fair import assignment, catalogue, preemption, runnable
from strato.interop.yarn.fair.allocation import Allocations
from strato.interop.yarn.fair.cluster import ANYWHERE, ClusterNode, EngineApp, ResourceAsk
from strato.interop.yarn.fair.options import FairOptions
from strato.interop.yarn.fair.placement import full_name
from strato.interop.yarn.fair.state import FairState
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.resources import (
    Amounts,
    add,
    fits,
    largest,
    raised,
    smallest,
    subtract,
    times,
)


class RequestRejected(UsageError):
    """A request is refused for its size."""


class MoveRefused(StateError):
    """An application cannot go to another queue."""


class FairScheduler(FairState):
    """One Fair Scheduler.

    Args:
        allocations: The allocation file.
        options: The options of ``yarn-site.xml``.
    """

    def __init__(self, allocations: Allocations, options: FairOptions) -> None:
        super().__init__(options, allocations.settings_of("root"))
        self.allocations = allocations
        self.catalogue = catalogue.Catalogue(self.tree, allocations)
        self.running: Counter[str] = Counter()
        self.waiting_of: dict[str, list[EngineApp]] = {}
        self.preemptor = preemption.Preemptor(self)
        self.assigner = assignment.Assigner(self)

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def add_node(self, name: str, rack: str, total: Amounts) -> ClusterNode:
        """Add a node."""
        node = self.nodes[name] = ClusterNode(name, rack, total, self.zero)
        self.tree.cluster = add(self.tree.cluster, total)
        self.tree.update_steady_shares()
        return node

    # -- applications --------------------------------------------------------------------------------------------------

    def submit(self, name: str, user: str, queue: str) -> EngineApp | None:
        """Add an application; return None if its leaf queue cannot be created.

        Args:
            name: Decides ties between applications of one age.
            user: The application's user.
            queue: Full name of its leaf queue, which is created if it does not exist.
        """
        leaf = self.catalogue.leaf(full_name(queue))
        if leaf is None:
            return None
        app = EngineApp(name, user, leaf, self.now_ms)
        self.apps[name] = app
        self._put(app, leaf, may_run=not runnable.binding_limit(leaf, user, self.running, self._most_of))
        return app

    def request(
        self,
        app: EngineApp,
        size: Amounts,
        count: int,
        *,
        priority: int = 1,
        places: dict[str, int] | None = None,
        relaxed: bool = True,
    ) -> None:
        """Add a request for containers.

        Args:
            app: The application.
            size: Amount per container, before it is normalised.
            count: Number of containers.
            priority: Requests with smaller numbers are served first.
            places: Containers wanted by name of node or rack.
            relaxed: Whether other places are acceptable.

        Raises:
            RequestRejected: The queue's maximum of a requested type is 0.
        """
        most = app.queue.max_share
        lacking = [name for name, need, of in zip(self.types.names, size, most, strict=True) if need > 0 and of == 0]
        if lacking:
            raise RequestRejected(f"queue {app.queue.name} has a maximum of 0 {', '.join(lacking)}, which is asked for")
        ask = ResourceAsk(priority, self.normalized(size, app.queue), {**(places or {}), ANYWHERE: count}, relaxed)
        app.asks.append(ask)
        app.asks.sort(key=lambda one: one.priority)
        app.count_pending()

    def normalized(self, size: Amounts, queue: FairQueue) -> Amounts:
        """Return a request raised to the minimum and to whole increments, at most the largest container."""
        most = self.options.maximum
        for above in queue.lineage():
            most = smallest(most, above.settings.max_container)
        return smallest(raised(largest(self.options.minimum, size), self.options.increment), most)

    def finish(self, app: EngineApp) -> None:
        """End an application."""
        if app.is_stopped:
            return
        for node in list(app.reservations):
            self.unreserve(node)
        for container in list(app.containers.values()):
            self.complete(container)
        app.is_stopped = True
        app.asks.clear()
        app.count_pending()
        self._take_out(app, app.queue)

    def move(self, app: EngineApp, target: str) -> None:
        """Move an application to another leaf queue.

        Raises:
            MoveRefused: There is no such leaf, or the application exceeds its limits.
        """
        if app.is_stopped:
            raise MoveRefused(f"application {app.name} has ended")
        queue = self.tree.queues.get(full_name(target))
        if queue is None or not queue.is_leaf:
            raise MoveRefused(f"queue {target}: there is none, or it is no leaf")
        source = app.queue
        if queue is source:
            return
        was_runnable = app in source.runnable
        if was_runnable:
            self._check_move(app, source, queue)
        source.remove_app(app)
        if was_runnable:
            self.running[app.user] -= 1
        else:
            self.waiting_of[app.user].remove(app)
        if app.has_master:
            source.am_usage = subtract(source.am_usage, app.master_size)
            queue.am_usage = add(queue.am_usage, app.master_size)
        limit = runnable.binding_limit(queue, app.user, self.running, self._most_of)
        self._put(app, queue, may_run=not limit)
        if was_runnable:
            self._start_waiting(source, app.user)

    def _check_move(self, app: EngineApp, source: FairQueue, target: FairQueue) -> None:
        common = {queue.name for queue in source.lineage()}
        for queue in target.lineage():
            if queue.name in common:
                return
            if queue.runnable_count >= queue.settings.max_apps:
                raise MoveRefused(f"queue {queue.name} runs {queue.runnable_count} applications, all it may")
            if not fits(add(queue.usage, app.usage), queue.max_share):
                most = self.types.text(queue.max_share)
                raise MoveRefused(f"queue {queue.name} may have {most}; application {app.name} would exceed that")

    def _most_of(self, user: str) -> int:
        return self.allocations.max_apps_of_user(user)

    def _put(self, app: EngineApp, queue: FairQueue, *, may_run: bool) -> None:
        queue.add_app(app, runnable=may_run)
        if may_run:
            self.running[app.user] += 1
        else:
            self.waiting_of.setdefault(app.user, []).append(app)

    def _take_out(self, app: EngineApp, queue: FairQueue) -> None:
        if app.has_master:
            queue.am_usage = subtract(queue.am_usage, app.master_size)
        if queue.remove_app(app):
            self.running[app.user] -= 1
            self._start_waiting(queue, app.user)
        else:
            self.waiting_of[app.user].remove(app)

    def _start_waiting(self, queue: FairQueue, user: str) -> None:
        waiting = self.waiting_of.get(user, [])
        lists = runnable.lists_after_removal(queue, user, self.running, self._most_of, waiting)
        self._start_from(lists, len(lists))

    def _start_from(self, lists: list[Any], most: int) -> None:
        """Let at most ``most`` waiting applications run, the earliest first."""
        started = 0
        before = None
        for app in runnable.by_start_time(lists):
            if started >= most:
                return
            if app is before or app in app.queue.runnable:
                continue
            if not runnable.binding_limit(app.queue, app.user, self.running, self._most_of):
                app.queue.remove_app(app)
                self.waiting_of[app.user].remove(app)
                self._put(app, app.queue, may_run=True)
                started += 1
            before = app

    # -- configuration -------------------------------------------------------------------------------------------------

    def reload(self, allocations: Allocations) -> None:
        """Apply a new allocation file at once; no container is killed because of it."""
        self.allocations = allocations
        self.catalogue.reload(allocations)
        self.tree.update_steady_shares()
        lists: list[Any] = []
        runnable.gather(self.tree.root, lists)
        self._start_from(lists, len(self.apps))

    def check_queues(self) -> None:
        """Remove dynamic queues without applications, and carry out postponed changes of leaves into parents."""
        self.catalogue.clean()

    # -- time ----------------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Compute demand, shares and starvation, and mark containers for starved applications."""
        for app in self.apps.values():
            app.count_pending()
        self.tree.update_demand(by_size=self.options.size_based_weight)
        self.tree.update_shares()
        self.preemptor.update()

    def heartbeat(self, node: ClusterNode) -> int:
        """Process a node's heartbeat; return the number of containers assigned to it."""
        before = len(node.containers)
        self.assigner.serve_claims(node)
        if not self.assigner.serve_reservation(node):
            self._assign(node)
        return len(node.containers) - before

    def _assign(self, node: ClusterNode) -> None:
        options, assigned, count = self.options, self.zero, 0
        half = times(node.free, 0.5)
        while node.reserved is None:
            got = self.assigner.assign(self.tree.root, node)
            if not got:
                return
            count, assigned = count + 1, add(assigned, got)
            if not options.assign_multiple:
                return
            if options.dynamic_max_assign:
                if not fits(assigned, half):
                    return
            elif 0 < options.max_assign <= count:
                return
