"""Nodes, containers and applications of the engine: usage, reservations, and claims on preempted resources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strato.interop.yarn.fair.tree import FairApp, FairQueue
from strato.interop.yarn.resources import Amounts, add, is_zero, smallest, sub0, subtract

ANYWHERE = "*"
NODE_LOCAL, RACK_LOCAL, OFF_SWITCH = range(3)
"""Levels of locality, the best first."""


@dataclass(slots=True)
class ResourceAsk:
    """Containers of one size and priority that an application asks for."""

    priority: int
    size: Amounts
    counts: dict[str, int]
    """Containers wanted by place: node names, rack names, and `ANYWHERE` with the total still wanted."""
    relaxed: bool = True
    """Whether other places are acceptable when the named ones have no room."""
    chances: int = 0
    """Scheduling opportunities skipped since the level was last changed."""
    level: int | None = None
    """The level of locality allowed; None before the first visit."""
    since_ms: float | None = None
    """When the level was last changed, for delays in time; None before the first visit."""

    @property
    def count(self) -> int:
        """How many containers are still wanted."""
        return self.counts.get(ANYWHERE, 0)

    @property
    def places(self) -> int:
        """Number of named places, including `ANYWHERE`."""
        return len(self.counts)

    def take(self, node: ClusterNode, level: int) -> None:
        """Reduce the counts by one container, at its level of locality and all wider ones."""
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
    reserved: tuple[EngineApp, ResourceAsk] | None = None
    """Application and ask for which the whole node is reserved until a container fits."""
    marked: set[int] = field(default_factory=set)
    """Containers that are to be killed."""
    claims: dict[EngineApp, Amounts] = field(default_factory=dict)
    """Amounts that preemption frees for each application and that it has not used yet, oldest first."""

    @property
    def free(self) -> Amounts:
        """Resources that no container uses."""
        return subtract(self.total, self.used)

    @property
    def spoken_for(self) -> Amounts:
        """Amounts reserved or claimed by applications."""
        amounts = (0,) * len(self.total)
        for claim in self.claims.values():
            amounts = add(amounts, claim)
        return add(amounts, self.reserved[1].size) if self.reserved is not None else amounts

    def claim(self, app: EngineApp, containers: Iterable[Container]) -> None:
        """Add the resources of containers to be preempted to an application's claim."""
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
        """Drop claims of applications that have ended or have no pending requests."""
        for app in [app for app in self.claims if app.is_stopped or is_zero(app.unmet)]:
            del self.claims[app]


class EngineApp(FairApp):
    """An application of the engine, with its asks, its containers and its state of preemption."""

    def __init__(self, name: str, user: str, queue: FairQueue, start_time: float) -> None:
        super().__init__(name, user, queue, start_time)
        zero = self.usage
        self.asks: list[ResourceAsk] = []
        self.containers: dict[int, Container] = {}
        self.reservations: list[ClusterNode] = []
        self.marked: dict[int, Container] = {}
        self.blacklist: frozenset[str] = frozenset()
        self.is_managed = False
        """Whether its first container is an application master, to which the queue's maxAMShare applies."""
        self.has_master = False
        self.master_size: Amounts = zero
        self.is_stopped = False
        self.fair_starvation: Amounts = zero
        self.min_starvation: Amounts = zero
        self.satisfied_ms = start_time
        self.next_check_ms = 0.0

    @property
    def starvation(self) -> Amounts:
        """The amount it is starved of, by its fair share and by the queue's minimum."""
        return add(self.fair_starvation, self.min_starvation)

    @property
    def leaving(self) -> Amounts:
        """Resources of its marked containers."""
        amounts = (0,) * len(self.usage)
        for container in self.marked.values():
            amounts = add(amounts, container.size)
        return amounts

    def count_pending(self) -> None:
        """Recompute `pending` from the asks."""
        amounts = (0,) * len(self.usage)
        for ask in self.asks:
            amounts = add(amounts, tuple(number * max(0, ask.count) for number in ask.size))
        self.pending = amounts

    def remaining_unmet(self) -> Amounts:
        """Return its unmet demand, at least 0 per type."""
        return sub0(self.demand, self.usage)
