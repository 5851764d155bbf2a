"""Nodes and containers of the engine: what is used and reserved where, and who is waiting for what was taken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strato.interop.yarn.fair.tree import FairApp, FairQueue
from strato.interop.yarn.resources import Amounts, add, is_zero, smallest, sub0, subtract

ANYWHERE = "*"
NODE_LOCAL, RACK_LOCAL, OFF_SWITCH = range(3)
"""Levels of locality, the best first."""


@dataclass(slots=True)
class Ask:
    """Containers of one size and priority that an application asks for."""

    priority: int
    size: Amounts
    counts: dict[str, int]
    """How many by place: a node's name, a rack's, and `ANYWHERE`, which is the number still wanted in all."""
    relaxed: bool = True
    """Whether other places do when the named ones have no room."""
    chances: int = 0
    """Opportunities since the level was last changed."""
    level: int | None = None
    """The level of locality allowed; None before the first visit."""
    since_ms: float | None = None
    """When the level was last changed, where time decides."""

    @property
    def count(self) -> int:
        """How many containers are still wanted."""
        return self.counts.get(ANYWHERE, 0)

    @property
    def places(self) -> int:
        """How many places are named, `ANYWHERE` among them."""
        return len(self.counts)

    def take(self, node: ClusterNode, level: int) -> None:
        """Count one container less, at the level it was placed and at those above."""
        names = {NODE_LOCAL: (node.name, node.rack, ANYWHERE), RACK_LOCAL: (node.rack, ANYWHERE)}
        for name in names.get(level, (ANYWHERE,)):
            if name in self.counts:
                self.counts[name] -= 1


@dataclass(slots=True, eq=False)
class Container:
    """One running container."""

    number: int
    app: EngineApp
    node: ClusterNode
    size: Amounts
    is_master: bool = False


@dataclass(slots=True, eq=False)
class ClusterNode:
    """One node."""

    name: str
    rack: str
    total: Amounts
    used: Amounts
    containers: dict[int, Container] = field(default_factory=dict)
    reserved: tuple[EngineApp, Ask] | None = None
    """Who holds the whole node until its next container fits."""
    marked: set[int] = field(default_factory=set)
    """Containers that are to be killed."""
    claims: dict[EngineApp, Amounts] = field(default_factory=dict)
    """What was taken for whom and is not used by them yet, oldest first."""

    @property
    def free(self) -> Amounts:
        """What is not used."""
        return subtract(self.total, self.used)

    @property
    def spoken_for(self) -> Amounts:
        """What is reserved or was taken for somebody."""
        amounts = (0,) * len(self.total)
        for claim in self.claims.values():
            amounts = add(amounts, claim)
        return add(amounts, self.reserved[1].size) if self.reserved is not None else amounts

    def claim(self, app: EngineApp, containers: Iterable[Container]) -> None:
        """Keep what some containers will leave for an application."""
        for container in containers:
            if container.number not in self.marked:
                self.marked.add(container.number)
                self.claims[app] = add(self.claims.get(app, (0,) * len(self.total)), container.size)

    def fulfil(self, app: EngineApp, size: Amounts) -> None:
        """Count a new container against an application's claim."""
        claim = self.claims.get(app)
        if claim is None:
            return
        left = subtract(claim, smallest(claim, size))
        if is_zero(left):
            del self.claims[app]
        else:
            self.claims[app] = left

    def drop_claims(self) -> None:
        """Forget claims of applications that have ended or want nothing more."""
        for app in [app for app in self.claims if app.is_stopped or is_zero(app.unmet)]:
            del self.claims[app]


class EngineApp(FairApp):
    """An application of the engine, with its asks, containers and what preemption remembers of it."""

    def __init__(self, name: str, user: str, queue: FairQueue, start_time: float) -> None:
        super().__init__(name, user, queue, start_time)
        zero = self.usage
        self.asks: list[Ask] = []
        self.containers: dict[int, Container] = {}
        self.reservations: list[ClusterNode] = []
        self.marked: dict[int, Container] = {}
        self.blacklist: frozenset[str] = frozenset()
        self.is_managed = False
        """Whether its first container is an application master, for which the queue's share of masters counts."""
        self.has_master = False
        self.master_size: Amounts = zero
        self.is_stopped = False
        self.fair_starvation: Amounts = zero
        self.min_starvation: Amounts = zero
        self.satisfied_ms = start_time
        self.next_check_ms = 0.0

    @property
    def starvation(self) -> Amounts:
        """What it lacks, by fair share and by the queue's minimum."""
        return add(self.fair_starvation, self.min_starvation)

    @property
    def leaving(self) -> Amounts:
        """What its marked containers hold."""
        amounts = (0,) * len(self.usage)
        for container in self.marked.values():
            amounts = add(amounts, container.size)
        return amounts

    def count_pending(self) -> None:
        """Sum up what its asks still want."""
        amounts = (0,) * len(self.usage)
        for ask in self.asks:
            amounts = add(amounts, tuple(number * max(0, ask.count) for number in ask.size))
        self.pending = amounts

    def remaining_unmet(self) -> Amounts:
        """Return its unmet demand, nothing below 0."""
        return sub0(self.demand, self.usage)
