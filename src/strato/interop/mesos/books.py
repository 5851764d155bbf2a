"""The allocator's bookkeeping of agents, frameworks and their allocations, which are changed only here."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strato.errors import InvariantError
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.quota import QuotaSums
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.resourcetext import to_text
from strato.interop.mesos.sorter import ClusterTotals, Sorter
from strato.interop.mesos.specs import AgentId, AgentSpec, FrameworkId, FrameworkSpec

Holder = tuple[FrameworkId, str]
"""A framework, and the role for which it holds resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Flags of the master on the order of frameworks and roles."""

    excluded: frozenset[str] = frozenset()
    """``--fair_sharing_excluded_resource_names``: scalars that shares ignore."""
    random_roles: bool = False
    """``--role_sorter=random``."""
    random_frameworks: bool = False
    """``--framework_sorter=random``."""


class AgentBook:
    """One agent: its resources, their holders, and the free rest."""

    __slots__ = ("_free", "_held_in_all", "generation", "has_gpus", "held", "id", "is_active", "shared", "spec")

    def __init__(self, agent: AgentId, spec: AgentSpec) -> None:
        self.id, self.is_active = agent, True
        self.replace_spec(spec)
        self.held: dict[Holder, Resources] = {}
        """Offered and used resources by holder; no entry is empty."""
        self.generation = 0
        """Grows with each change."""
        self._held_in_all = NOTHING
        self._free: Resources | None = None

    @property
    def free(self) -> Resources:
        """Resources that no holder has, without shared ones, which several holders may have at once."""
        if self._free is None:
            self._free = self.spec.resources.non_shared() - self._held_in_all
        return self._free

    @property
    def is_offerable(self) -> bool:
        """Whether there are free or shared resources to offer."""
        return bool(self.shared) or bool(self.free)

    def change(self, holder: Holder, given: Resources, taken: Resources) -> None:
        """Add resources to, and subtract others from, a holder's."""
        now = self.held.get(holder, NOTHING) - taken + given
        if now:
            self.held[holder] = now
        else:
            self.held.pop(holder, None)
        self._held_in_all = self._held_in_all - taken + given
        self.touch()

    def replace_spec(self, spec: AgentSpec) -> None:
        """Replace the agent's spec."""
        self.spec = spec
        self.shared = spec.resources.shared()
        self.has_gpus = bool(spec.resources.scalars().get("gpus"))

    def touch(self) -> None:
        """Increase `generation`."""
        self._free = None
        self.generation += 1


class FrameworkBook:
    """One framework: its spec, and whether it gets offers."""

    __slots__ = ("id", "is_active", "spec", "suppressed")

    def __init__(self, framework: FrameworkId, spec: FrameworkSpec) -> None:
        self.id, self.spec, self.is_active = framework, spec, True
        self.suppressed = set(spec.suppressed_roles)

    def wants(self, role: str) -> bool:
        """Whether the framework may get offers for a role: it is active and does not suppress the role."""
        return self.is_active and role in self.spec.roles and role not in self.suppressed


class Books:
    """Agents, frameworks, sorters and sums of quota, changed together."""

    def __init__(self, order: Order, rng: random.Random) -> None:
        self.agents: dict[AgentId, AgentBook] = {}
        self.frameworks: dict[FrameworkId, FrameworkBook] = {}
        self.quota = QuotaSums()
        self.totals = ClusterTotals()
        self._order, self._rng = order, rng
        self.role_sorter = Sorter(self.totals, order.excluded, rng if order.random_roles else None)
        self.framework_sorters: dict[str, Sorter] = {}
        """Framework sorter of each role; a role is in the role sorter if and only if it has one."""
        self.generation = 0
        """Grows with each change of frameworks after which a role may accept offers that it did not accept before."""
        self.changed: dict[str, int] = {}
        """For each role with frameworks, the generation at which one of them last changed."""

    # --- agents

    def add_agent(self, agent: AgentId, spec: AgentSpec, used: Mapping[Holder, Resources]) -> None:
        """Add an agent with the resources used there; the frameworks may be added later."""
        book = self.agents[agent] = AgentBook(agent, spec)
        self._count_total(agent, NOTHING, spec.resources)
        for holder, resources in used.items():
            self.take(book, holder, resources)
            self.count(book, holder, resources)

    def update_agent(self, agent: AgentId, spec: AgentSpec) -> None:
        """Replace an agent's spec."""
        book = self.agents[agent]
        old = book.spec
        book.replace_spec(spec)
        if old.resources != spec.resources:
            self._count_total(agent, old.resources, spec.resources)
        book.touch()

    def remove_agent(self, agent: AgentId) -> None:
        """Remove an agent with its allocations."""
        book = self.agents[agent]
        for holder, resources in list(book.held.items()):
            self.release(agent, holder, resources)
        del self.agents[agent]
        self._count_total(agent, book.spec.resources, NOTHING)
        self.totals.remove_agent(agent)

    def _count_total(self, agent: AgentId, old: Resources, new: Resources) -> None:
        self.quota.count_total(old, -1)
        self.quota.count_total(new, 1)
        self.totals.set_agent(agent, new.scalars())

    # --- frameworks

    def add_framework(self, framework: FrameworkId, spec: FrameworkSpec) -> None:
        """Add a framework, with resources that it holds already."""
        self.frameworks[framework] = FrameworkBook(framework, spec)
        for book in self.agents.values():
            for (holder, role), resources in book.held.items():
                if holder == framework:
                    self.count(book, (holder, role), resources)
        self.refresh_framework(framework)

    def remove_framework(self, framework: FrameworkId) -> None:
        """Remove a framework and release all it holds."""
        for book in list(self.agents.values()):
            for holder, resources in list(book.held.items()):
                if holder[0] == framework:
                    self.release(book.id, holder, resources)
        del self.frameworks[framework]
        self.generation += 1
        for role in [role for role, sorter in self.framework_sorters.items() if framework in sorter]:
            self.changed[role] = self.generation
            self._untrack(framework, role)

    def refresh_framework(self, framework: FrameworkId) -> None:
        """Update the sorters to a framework's subscribed roles, suppressed roles and allocations."""
        book = self.frameworks[framework]
        self.generation += 1
        for role in book.spec.roles:
            self._track(framework, role)
        for role, sorter in list(self.framework_sorters.items()):
            if framework not in sorter:
                continue
            self.changed[role] = self.generation
            if book.wants(role):
                sorter.activate(framework)
            else:
                sorter.deactivate(framework)
            if role not in book.spec.roles and not self._holds(framework, role):
                self._untrack(framework, role)

    def _track(self, framework: FrameworkId, role: str) -> Sorter:
        sorter = self.framework_sorters.get(role)
        if sorter is None:
            rng = self._rng if self._order.random_frameworks else None
            sorter = self.framework_sorters[role] = Sorter(self.totals, self._order.excluded, rng)
            self.role_sorter.add(role)
            self.role_sorter.activate(role)
        if framework not in sorter:
            sorter.add(framework)
        return sorter

    def _untrack(self, framework: FrameworkId, role: str) -> None:
        sorter = self.framework_sorters[role]
        sorter.remove(framework)
        if not len(sorter):
            del self.framework_sorters[role]
            self.changed.pop(role, None)
            self.role_sorter.remove(role)

    def _holds(self, framework: FrameworkId, role: str) -> bool:
        return any((framework, role) in book.held for book in self.agents.values())

    # --- allocations

    def take(self, book: AgentBook, holder: Holder, resources: Resources) -> None:
        """Allocate resources of an agent; `count` then adds them to the shares."""
        book.change(holder, resources, NOTHING)
        self.quota.count_held(holder[1], resources, 1)

    def count(self, book: AgentBook, holder: Holder, resources: Resources) -> None:
        """Add resources allocated by `take` to the shares of their framework and role."""
        framework, role = holder
        if framework in self.frameworks:
            self._track(framework, role).allocated(framework, book.id, resources)
            self.role_sorter.allocated(role, book.id, resources)

    def release(self, agent: AgentId, holder: Holder, resources: Resources) -> None:
        """Free resources.

        Raises:
            InvariantError: The holder does not hold them.
        """
        framework, role = holder
        book = self.agents[agent]
        self._check_held(book, holder, resources)
        book.change(holder, NOTHING, resources)
        self.quota.count_held(role, resources, -1)
        known = self.frameworks.get(framework)
        if known is None:
            return
        self.framework_sorters[role].unallocated(framework, agent, resources)
        self.role_sorter.unallocated(role, agent, resources)
        if role not in known.spec.roles and not self._holds(framework, role):
            self._untrack(framework, role)

    def convert(self, agent: AgentId, holder: Holder | None, old: Resources, new: Resources) -> None:
        """Convert resources of an agent (reserve, create a volume, …), a holder's or, without a holder, free ones.

        Raises:
            InvariantError: The holder does not hold them, or they are not free.
        """
        book = self.agents[agent]
        total = book.spec.resources
        if holder is None:
            if not book.free.contains(old.non_shared()):
                raise InvariantError(f"agent {agent}: {to_text(old)} is not free; {to_text(book.free)} is")
        else:
            self._check_held(book, holder, old)
            book.change(holder, new, old)
            self.quota.count_held(holder[1], old, -1)
            self.quota.count_held(holder[1], new, 1)
            if holder[0] in self.frameworks:
                self.framework_sorters[holder[1]].updated(holder[0], agent, old, new)
                self.role_sorter.updated(holder[1], agent, old, new)
        self.update_agent(agent, _with_resources(book.spec, total - old + new))

    def _check_held(self, book: AgentBook, holder: Holder, resources: Resources) -> None:
        held = book.held.get(holder, NOTHING)
        if not held.contains(resources):
            text = f"framework {holder[0]}, role {holder[1]}, does not hold {to_text(resources)} of agent {book.id}"
            raise InvariantError(f"{text}; it holds {to_text(held) or 'nothing'}")

    def held_by(self, framework: FrameworkId) -> Iterable[tuple[AgentId, str, Resources]]:
        """Yield a framework's allocations: agent, role, resources."""
        for book in self.agents.values():
            for (holder, role), resources in book.held.items():
                if holder == framework:
                    yield book.id, role, resources

    def capacity(self) -> Quantities:
        """Return the scalars of all agents."""
        return dict(self.totals.millis)


def _with_resources(spec: AgentSpec, resources: Resources) -> AgentSpec:
    return AgentSpec(spec.hostname, resources, spec.attributes, spec.capabilities, spec.domain)
