"""Assign containers to a node: down the queues in their order, then by an application's requests (spec yarn A6, A7)."""

from __future__ import annotations

import math

from strato.interop.yarn.fair import starvation
from strato.interop.yarn.fair.cluster import (
    NODE_LOCAL,
    OFF_SWITCH,
    RACK_LOCAL,
    ClusterNode,
    EngineApp,
    ResourceAsk,
)
from strato.interop.yarn.fair.state import FairState
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.resources import Amounts, add, fits, is_zero, sub0

_RESERVED: Amounts = ()
"""Result when an application reserved the node: nothing was assigned, and no other application is tried."""


def next_level(level: int | None, waited: float, node_limit: float, rack_limit: float) -> tuple[int, bool]:
    """Return the level of locality an ask may use, and whether it has just been relaxed.

    Args:
        level: The ask's present level; None before the first visit.
        waited: Scheduling opportunities skipped, or time waited, since the level was last changed.
        node_limit: How long an ask waits for its nodes, in the same unit; negative: not at all.
        rack_limit: How much longer it waits for its racks; negative: not at all.
    """
    if node_limit < 0 or rack_limit < 0:
        return OFF_SWITCH, False
    if level is None:
        return NODE_LOCAL, False
    if level == OFF_SWITCH:
        return OFF_SWITCH, False
    relaxed = waited > (node_limit if level == NODE_LOCAL else rack_limit)
    return level + relaxed, relaxed


class Assigner:
    """Assigns containers of one scheduler."""

    def __init__(self, scheduler: FairState) -> None:
        self._of = scheduler

    # -- claims and reservations first ---------------------------------------------------------------------------------

    def serve_claims(self, node: ClusterNode) -> None:
        """Assign containers to the applications for which preemption freed resources of a node, up to their claims."""
        node.drop_claims()
        for app, claim in list(node.claims.items()):
            pending = claim
            while not app.is_stopped and not is_zero(pending):
                got = self._assign_app(app, node)
                if not got:  # nothing fits, or the application has reserved the node
                    break
                pending = sub0(pending, got)

    def serve_reservation(self, node: ClusterNode) -> bool:
        """Try to start the container for which a node is reserved; return whether the reservation was valid."""
        if node.reserved is None:
            return False
        app, ask = node.reserved
        if not self._is_possible(app, ask, node) or self._waits_for_master(app):
            self._of.unreserve(node)
            return False
        if fits(ask.size, node.free):
            self._try_ask(app, ask, node, reserved=True)
        return True

    # -- down the queues -----------------------------------------------------------------------------------------------

    def assign(self, queue: FairQueue, node: ClusterNode) -> Amounts | None:
        """Assign one container below a queue; return None if no application can use the node, () if one reserved it."""
        if node.reserved is not None or not fits(queue.usage, queue.max_share):
            return None
        key = self._of.key(queue.policy)
        if not queue.is_leaf:
            for child in sorted(queue.children, key=key):
                got = self.assign(child, node)
                if got is not None:
                    return got
            return None
        for app in sorted((app for app in queue.runnable if not is_zero(app.unmet)), key=key):
            assert isinstance(app, EngineApp)
            if node.name in app.blacklist or node.rack in app.blacklist:
                continue
            got = self._assign_app(app, node)
            if got is not None:
                return got
        return None

    # -- one application -----------------------------------------------------------------------------------------------

    def _assign_app(self, app: EngineApp, node: ClusterNode) -> Amounts | None:
        if self._waits_for_master(app):
            return None
        for ask in app.asks:
            if not self._is_possible(app, ask, node):
                continue
            tried, got = self._try_ask(app, ask, node, reserved=False)
            if tried:
                return got
        return None

    def _waits_for_master(self, app: EngineApp) -> bool:
        """Return whether an application must wait because the queue's limit on application masters is used up."""
        if not app.is_managed or app.has_master:
            return False
        first = next((ask for ask in app.asks if ask.count > 0), None)
        if first is None:
            return True
        limit = app.queue.am_limit(self._of.free())
        return limit is not None and not fits(add(app.queue.am_usage, first.size), limit)

    def _is_possible(self, app: EngineApp, ask: ResourceAsk, node: ClusterNode) -> bool:
        """Return whether an ask may use a node, and would fit if the node were empty."""
        on_rack, on_node = ask.counts.get(node.rack, 0) > 0, ask.counts.get(node.name, 0) > 0
        return (
            ask.count > 0
            and (ask.relaxed or on_rack or on_node)
            and (ask.relaxed or not on_rack or on_node or not self._names_nodes(ask))
            and ask.size[0] <= node.total[0]
            and app.queue.over_maximum(ask.size) is None
        )

    def _names_nodes(self, ask: ResourceAsk) -> bool:
        return any(name in self._of.nodes for name in ask.counts)

    def _try_ask(
        self, app: EngineApp, ask: ResourceAsk, node: ClusterNode, *, reserved: bool
    ) -> tuple[bool, Amounts | None]:
        """Try an ask at the best locality level allowed by its delay; return whether it was tried, and the result."""
        level = self._level(ask)
        on_rack, on_node = ask.counts.get(node.rack, 0) > 0, ask.counts.get(node.name, 0) > 0
        if on_rack and on_node:
            return True, self._try(app, ask, node, NODE_LOCAL, reserved=reserved)
        if not ask.relaxed and not on_rack:
            return False, None
        if on_rack and level >= RACK_LOCAL:
            return True, self._try(app, ask, node, RACK_LOCAL, reserved=reserved)
        if ask.relaxed and ask.count > 0 and (ask.places <= 1 or level == OFF_SWITCH):
            return True, self._try(app, ask, node, OFF_SWITCH, reserved=reserved)
        return False, None

    def _level(self, ask: ResourceAsk) -> int:
        options = self._of.options
        ask.chances += 1
        if options.continuous:
            if ask.since_ms is None:
                ask.since_ms = self._of.now_ms
            waited, node, rack = self._of.now_ms - ask.since_ms, options.node_delay_ms, options.rack_delay_ms
            level, relaxed = next_level(ask.level, waited, node, rack)
        else:
            count = len(self._of.nodes)
            limits = [
                -1.0 if part < 0 else count * min(part, 1.0)
                for part in (options.node_threshold, options.rack_threshold)
            ]
            level, relaxed = next_level(ask.level, ask.chances, *limits)
            if min(limits) < 0:
                return level
        ask.level = level
        if relaxed:
            ask.chances, ask.since_ms = 0, self._of.now_ms
        return level

    def _try(
        self, app: EngineApp, ask: ResourceAsk, node: ClusterNode, level: int, *, reserved: bool
    ) -> Amounts | None:
        """Start a container if it fits now; otherwise reserve the node, where that is allowed."""
        if fits(ask.size, node.free):
            if ask.level is not None and level < ask.level:
                ask.level = level
            if reserved:
                self._of.unreserve(node)
            self._of.start(app, ask, node, level)
            ask.chances = 0
            return ask.size
        if self._may_reserve(app, ask, node, level):
            self._of.reserve(app, ask, node)
            return _RESERVED
        return None

    def _may_reserve(self, app: EngineApp, ask: ResourceAsk, node: ClusterNode, level: int) -> bool:
        calculator, cluster, options = app.queue.policy.calculator, self._of.tree.cluster, self._of.options
        is_starved = starvation.below(calculator, cluster, app.usage, app.fair_share) or not is_zero(app.min_starvation)
        if not is_starved or calculator.compare(cluster, ask.size, options.reservation_threshold) < 0:
            return False
        if app in node.claims or (node.reserved is not None and node.reserved[0] is not app):
            return False
        if level == NODE_LOCAL:
            return True
        held = [one for one in app.reservations if level == OFF_SWITCH or one.rack == node.rack]
        nodes = len(self._of.nodes) if level == OFF_SWITCH else len(self._of.nodes_in(node.rack))
        return len(held) < math.ceil(nodes * options.reservable_nodes)
