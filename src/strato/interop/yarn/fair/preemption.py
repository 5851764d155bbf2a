"""Preemption: find starved applications, and for each victims on one node whose owners keep their fair share (A8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from strato.interop.yarn.fair import starvation
from strato.interop.yarn.fair.cluster import ANYWHERE, ClusterNode, Container, EngineApp, ResourceAsk
from strato.interop.yarn.fair.state import FairState
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.resources import MOST_INT, Amounts, add, fits, is_zero, sub0


@dataclass(slots=True)
class NodeVictims:
    """Victims on one node."""

    containers: list[Container] = field(default_factory=list)
    masters: int = 0


class _Starved:
    """An application in the queue of starved ones; the one starved of more comes first."""

    __slots__ = ("app",)

    def __init__(self, app: EngineApp) -> None:
        self.app = app

    def __lt__(self, other: _Starved) -> bool:
        return not starvation.comes_after(self.app.starvation, other.app.starvation)


class Preemptor:
    """Preempts for one scheduler."""

    def __init__(self, scheduler: FairState) -> None:
        self._of = scheduler
        self.due: list[tuple[float, list[Container]]] = []
        """Milliseconds left, and the containers to kill then."""
        self.satisfied: dict[str, float] = {}
        """When each leaf queue last had its minimum."""
        self.chosen: list[tuple[EngineApp, list[Container]]] = []
        """Containers marked at the last update, by beneficiary."""

    # -- starved applications
    # ------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Find starved applications, and mark containers for them, the most starved one first."""
        self.chosen = []
        if not self._is_needed():
            return
        starved = {app: None for queue in self._of.tree.leaves() for app in self._starved_in(queue)}
        for app in self._most_starved_first(starved):
            victims = self._victims_for(app)
            if victims:
                self.chosen.append((app, victims))
                self.due.append((self._of.options.wait_before_kill_ms, victims))
            app.next_check_ms = self._of.now_ms + self._of.options.check_delay_ms

    def _is_needed(self) -> bool:
        options, cluster, used = self._of.options, self._of.tree.cluster, self._of.used
        shares = [use / of for use, of in zip(used[:2], cluster[:2], strict=True) if of]
        return options.preemption and max(shares, default=0.0) > options.utilization_threshold

    def _starved_in(self, queue: FairQueue) -> list[EngineApp]:
        now, cluster, calculator = self._of.now_ms, self._of.tree.cluster, queue.policy.calculator
        apps = [app for app in queue.runnable if isinstance(app, EngineApp) and not is_zero(app.unmet)]
        apps = sorted((app for app in apps if now >= app.next_check_ms), key=self._of.key(queue.policy))
        starved: dict[EngineApp, None] = {}
        in_all: Amounts = self._of.zero
        for app in apps:
            found = starvation.of_fair_share(
                app.usage,
                app.demand,
                app.fair_share,
                threshold=queue.fair_threshold,
                timeout_ms=queue.fair_timeout_ms,
                calculator=calculator,
                cluster=cluster,
                now_ms=now,
                satisfied_ms=app.satisfied_ms,
            )
            app.fair_starvation, app.satisfied_ms = found.lacking, found.satisfied_ms
            if is_zero(found.lacking):
                break
            starved[app] = None
            in_all = add(in_all, found.lacking)
        least = starvation.of_min_share(
            queue.usage,
            queue.demand,
            queue.min_share,
            timeout_ms=queue.min_timeout_ms,
            now_ms=now,
            satisfied_ms=self.satisfied.get(queue.name, 0.0),
        )
        self.satisfied[queue.name] = least.satisfied_ms
        unmet = [(app.remaining_unmet(), app.fair_starvation) for app in apps]
        parts = starvation.spread_min_share(sub0(least.lacking, in_all), unmet, calculator, cluster)
        for app, part in zip(apps, parts, strict=True):
            app.min_starvation = self._of.zero if part is None else part
            if part is not None:
                starved[app] = None
        return list(starved)

    @staticmethod
    def _most_starved_first(apps: Iterable[EngineApp]) -> Iterator[EngineApp]:
        """Yield applications in the order of YARN's heap; a sort would differ, as amounts are ordered partially."""
        waiting: list[_Starved] = []
        for app in apps:
            heappush(waiting, _Starved(app))
        while waiting:
            yield heappop(waiting).app

    # -- victims -------------------------------------------------------------------------------------------------------

    def _victims_for(self, app: EngineApp) -> list[Container]:
        victims: list[Container] = []
        for ask, place, count in self._starved_asks(app):
            nodes = self._nodes_of(place)
            for _ in range(count):
                found = self._for_one(nodes, ask.size)
                if found is not None and found.masters and place != ANYWHERE and ask.relaxed:
                    found = self._for_one(list(self._of.nodes.values()), ask.size)
                if found is not None and found.containers:
                    found.containers[0].node.claim(app, found.containers)
                    for container in found.containers:
                        container.app.marked[container.number] = container
                    victims += found.containers
        return victims

    def _starved_asks(self, app: EngineApp) -> list[tuple[ResourceAsk, str, int]]:
        """Return asks with a place and a count, up to the application's starvation; no container is counted twice."""
        left = app.starvation
        out: list[tuple[ResourceAsk, str, int]] = []
        for ask in app.asks:
            wanted = max(0, ask.count)
            named = [name for name in ask.counts if name in self._of.nodes]
            named += [name for name in ask.counts if name not in self._of.nodes and name != ANYWHERE]
            for place in [*named, ANYWHERE]:
                if is_zero(left):
                    return out
                fitting = left[0] // ask.size[0] if ask.size[0] else (MOST_INT if left[0] else 0)
                count = min(fitting, wanted, ask.counts[place])
                if count > 0:
                    out.append((ask, place, count))
                    wanted -= count
                    left = sub0(left, tuple(number * count for number in ask.size))
        return out

    def _nodes_of(self, place: str) -> list[ClusterNode]:
        if place == ANYWHERE:
            return list(self._of.nodes.values())
        return [self._of.nodes[place]] if place in self._of.nodes else self._of.nodes_in(place)

    def _for_one(self, nodes: list[ClusterNode], size: Amounts) -> NodeVictims | None:
        """Return victims for one container, on the first node needing no application master, else the fewest."""
        best: NodeVictims | None = None
        for node in nodes:
            found = self._on(node, size, MOST_INT if best is None else best.masters)
            if found is not None:
                best = found
                if not best.masters:
                    break
        return best

    def _on(self, node: ClusterNode, size: Amounts, most_masters: int) -> NodeVictims | None:
        """Return victims on a node; None if they do not suffice or would include too many application masters."""
        found = NodeVictims()
        room = sub0(node.free, node.spoken_for)
        considered: dict[EngineApp, Amounts] = {}
        unmarked = [one for number, one in node.containers.items() if number not in node.marked]
        for container in sorted(unmarked, key=lambda one: one.is_master):
            if self.may_take(container, considered.get(container.app, self._of.zero)):
                if container.is_master:
                    found.masters += 1
                    if found.masters >= most_masters:
                        return None
                considered[container.app] = add(considered.get(container.app, self._of.zero), container.size)
                found.containers.append(container)
                room = add(room, container.size)
            if fits(size, room):
                return found
        return None

    def may_take(self, container: Container, considered: Amounts) -> bool:
        """Return whether a container may be preempted, given the amount that its application loses already."""
        app = container.app
        if not app.queue.preemptable or container.number in app.marked:
            return False
        if container.is_master and not self._of.options.may_take_masters_of(app.queue.name):
            return False
        return starvation.keeps_fair_share(
            app.usage,
            add(app.leaving, considered),
            container.size,
            app.fair_share,
            app.queue.policy.calculator,
            self._of.tree.cluster,
        )

    # -- the kill ------------------------------------------------------------------------------------------------------

    def kill_after(self, milliseconds: float) -> int:
        """Advance time, kill the containers that are due, and return their number."""
        waiting, killed = [], 0
        for left, containers in self.due:
            if left > milliseconds:
                waiting.append((left - milliseconds, containers))
                continue
            for container in containers:
                killed += container.number in container.app.containers
                self._of.complete(container)
        self.due = waiting
        return killed
