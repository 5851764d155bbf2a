"""One run of the allocator: which free resources are offered to which framework, for which role.

A run visits the agents in a random order in two stages: the first serves guarantees of quota, the second offers
everything else. A framework is offered all that it may get of an agent, so most agents go to one framework. Roles and
frameworks are ordered by their shares at the begin of an agent's visit; offers count in the shares when the visit ends.

Two caches save work without changing the offers: frameworks of a role with equal `OfferTerms` share one computation of
their proposal; and a role to which nothing of an agent can be offered, even without quotas, is skipped on that agent
until an input of that decision has changed (`Closed`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from strato.interop.mesos import quantities
from strato.interop.mesos.books import AgentBook, Books, FrameworkBook
from strato.interop.mesos.filters import OfferFilters, Refusals
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.quota import Bounds, Headroom, charge, is_chargeable
from strato.interop.mesos.resources import NOTHING, ResourceKind, Resources, ValueType
from strato.interop.mesos.specs import (
    GPU_RESOURCES,
    HIERARCHICAL_ROLE,
    MULTI_ROLE,
    REGION_AWARE,
    RESERVATION_REFINEMENT,
    REVOCABLE_RESOURCES,
    SHARED_RESOURCES,
    AgentId,
    AgentSpec,
    Domain,
    FrameworkId,
)


@dataclass(frozen=True, slots=True)
class Allotment:
    """Resources of one agent that are offered to a framework for one of its roles."""

    framework: FrameworkId
    role: str
    agent: AgentId
    resources: Resources
    """Offered resources without allocation roles; `Resources.allocated` adds these for the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRules:
    """Flags of the master on what may be offered."""

    filter_gpus: bool = True
    """``--filter_gpu_resources``: whether agents with GPUs are hidden from frameworks without the capability."""
    domain: Domain | None = None
    """The master's domain: agents of other regions are offered only to frameworks that are REGION_AWARE."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class OfferTerms:
    """Properties of a framework that decide what it may be offered for a role. Equal terms are one object."""

    shared: bool
    revocable: bool
    refined: bool
    minimum: tuple[Quantities, ...]

    def allow(self, kind: ResourceKind) -> bool:
        """Whether the framework's capabilities allow a kind of resource."""
        if kind.shared and not self.shared:
            return False
        if kind.revocable and not self.revocable:
            return False
        return self.refined or len(kind.reservations) < 2


class TermsTable:
    """Terms of frameworks and roles, kept from run to run."""

    def __init__(self, books: Books, default_minimum: tuple[Quantities, ...]) -> None:
        self._books, self._default = books, default_minimum
        self._known: WeakValueDictionary[object, OfferTerms] = WeakValueDictionary()
        self._roles: dict[str, tuple[int, dict[str, OfferTerms], bool]] = {}

    def of_role(self, role: str) -> tuple[dict[str, OfferTerms], bool]:
        """Return the terms of a role's frameworks, and whether they are all equal."""
        changed = self._books.changed.get(role, 0)
        known = self._roles.get(role)
        if known is None or known[0] != changed:
            if len(self._roles) > 2 * len(self._books.framework_sorters):  # most entries are of roles that are gone
                self._roles.clear()
            active = self._books.framework_sorters[role].order()
            made = {name: self._make(self._books.frameworks[FrameworkId(name)], role) for name in active}
            known = self._roles[role] = (changed, made, len(set(made.values())) == 1)
        return known[1:]

    def _make(self, framework: FrameworkBook, role: str) -> OfferTerms:
        has, minimum = framework.spec.capabilities, framework.spec.min_allocatable.get(role, self._default)
        flags = (SHARED_RESOURCES in has, REVOCABLE_RESOURCES in has, RESERVATION_REFINEMENT in has)
        key = (flags, tuple(tuple(sorted(one.items())) for one in minimum))
        return self._known.setdefault(key, OfferTerms(*flags, minimum))


@dataclass(slots=True)
class Closed:
    """Roles to which nothing of an agent can be offered, even without quotas, while its free resources do not grow.

    Changes of the agent or of the role's frameworks, and ended refusals, open a role again.
    """

    free: Resources
    spec: AgentSpec
    generation: int
    """Generation of the books whose changes of frameworks have been applied."""
    roles: set[str]
    is_complete: bool = False
    """Whether all roles are closed."""

    def holds(self, agent: AgentBook) -> bool:
        """Whether this still describes the agent's present state."""
        return self.spec is agent.spec and self.free.contains(agent.free)

    def open_changed(self, books: Books) -> None:
        """Open the roles whose frameworks have changed."""
        if self.generation != books.generation:
            self.roles = {role for role in self.roles if books.changed.get(role, books.generation) <= self.generation}
            self.generation, self.is_complete = books.generation, False


ClosedRoles = dict[AgentId, Closed]


class Proposals:
    """Computes, for one run, the part of available resources that quotas allow."""

    def __init__(self) -> None:
        self._last_split = (NOTHING, NOTHING, NOTHING)
        self._hold_minimum: dict[tuple[Bounds, OfferTerms], bool] = {}

    def within(self, bounds: Bounds, available: Resources, terms: OfferTerms, to_guarantees: bool) -> Resources:
        """Return the part of available resources that a role may have; nothing if that is below the minimum."""
        if not to_guarantees:
            if not bounds:
                return available
            if available.is_plain and not self._holds_minimum(bounds, terms):  # too little, however much is available
                return NOTHING
        metered, kept = self._split(available)
        allowed = bounds.apply(metered, to_guarantees)
        if allowed is metered:
            return available
        if to_guarantees and not allowed:
            return NOTHING
        proposed = kept + allowed
        return proposed if _is_enough(proposed, terms.minimum) else NOTHING

    def _holds_minimum(self, bounds: Bounds, terms: OfferTerms) -> bool:
        key = (bounds, terms)
        known = self._hold_minimum.get(key)
        if known is None:
            known = self._hold_minimum[key] = bounds.hold_one_of(terms.minimum)
        return known

    def _split(self, available: Resources) -> tuple[Resources, Resources]:
        """Split into metered and other resources; caches one result, as most roles of a visit ask for the same."""
        if self._last_split[0] is not available:
            metered = available.filter(_is_metered)
            self._last_split = (available, metered, available - metered)
        return self._last_split[1:]


class AllocationRound:
    """One run; `run` may be called once.

    Args:
        books: Agents and frameworks; updated with the offers.
        filters: Refusals, without those that have ended.
        rules: Flags on what may be offered.
        terms: Terms of all frameworks, kept from run to run.
        closed: Closed roles by agent, kept from run to run; None visits every agent for every role.
    """

    def __init__(
        self, books: Books, filters: OfferFilters, rules: OfferRules, terms: TermsTable, closed: ClosedRoles | None
    ) -> None:
        self._books, self._filters, self._rules, self._terms, self._closed = books, filters, rules, terms, closed
        self._headroom = Headroom(books.quota)
        self._shared_offered: dict[AgentId, Resources] = {}
        self._made: list[Allotment] = []
        self._proposals = Proposals()
        self._open_roles()

    def _open_roles(self) -> None:
        """Open the roles whose refusals have ended since the last run."""
        for agent, role in self._filters.opened:
            closed = self._closed and self._closed.get(agent)
            if closed:
                closed.roles.discard(role)
                closed.is_complete = False
        self._filters.opened.clear()

    def run(self, agents: Iterable[AgentBook], rng: random.Random) -> list[Allotment]:
        """Offer the free resources of some agents, and return the allotments."""
        order = list(agents)
        if any(quota.guarantees for quota in self._books.quota.quotas.values()):
            rng.shuffle(order)
            for agent in order:
                if not self._headroom.unmet:
                    break
                self._visit(agent, to_guarantees=True)
        rng.shuffle(order)
        for agent in order:
            self._visit(agent, to_guarantees=False)
        return _joined(self._made)

    def _visit(self, agent: AgentBook, to_guarantees: bool) -> None:
        """Offer the free resources of an agent to roles in the order of fairness until nothing is left."""
        if not agent.is_offerable:
            return
        closed = self._closed_roles(agent)
        if closed.is_complete:
            return
        made, is_open = len(self._made), to_guarantees
        for role in self._books.role_sorter:
            if role in closed.roles or (to_guarantees and role not in self._headroom.unmet):
                continue
            if "/" in role and HIERARCHICAL_ROLE not in agent.spec.capabilities:
                continue
            if self._serve(agent, role, to_guarantees):
                is_open = True
                if not agent.is_offerable:
                    break
            elif made == len(self._made):  # after an offer, less is free than `closed.free` says
                closed.roles.add(role)
        closed.is_complete = not is_open
        for one in self._made[made:]:
            self._books.count(agent, (one.framework, one.role), one.resources)

    def _closed_roles(self, agent: AgentBook) -> Closed:
        """Return the closed roles of an agent in its present state, to which the visit adds."""
        known = None if self._closed is None else self._closed.get(agent.id)
        roles: set[str] = set()
        if known is not None and known.holds(agent):
            known.open_changed(self._books)
            if known.is_complete or known.free == agent.free:
                return known
            roles = set(known.roles)
        closed = Closed(agent.free, agent.spec, self._books.generation, roles)
        if self._closed is not None and not agent.shared:  # shared resources stay available while they are held
            self._closed[agent.id] = closed
        return closed

    def _serve(self, agent: AgentBook, role: str, to_guarantees: bool) -> bool:
        """Offer the rest of an agent to a role's frameworks in the order of fairness.

        Returns:
            Whether the role is open: resources were offered, or only quotas prevented that.
        """
        frameworks, (terms, are_equal) = self._books.frameworks, self._terms.of_role(role)
        refusals = self._filters.on(agent.id, role)
        parts: dict[OfferTerms, tuple[Resources, Resources, Collection[FrameworkId]]] = {}
        """By terms: the available resources, the part that quotas allow, and frameworks that refuse all."""
        is_open = False
        for name in self._books.framework_sorters[role]:
            own = terms[name]
            part = parts.get(own)
            if part is None:
                part = parts[own] = self._parts(agent, role, own, to_guarantees, refusals)
            available, proposed, refusing = part
            # a refusal of all available resources also covers any part of them
            if not available or name in refusing:
                continue
            if is_open and not proposed:  # quotas allow nothing for these terms
                if are_equal:
                    break
                continue
            framework = frameworks[FrameworkId(name)]
            if not self._is_capable(framework, agent, role):
                continue
            is_open = True
            if not proposed or (proposed is not available and framework.id in refusals.refusing(proposed)):
                continue
            self._give(agent, framework.id, role, proposed)
            if not agent.is_offerable:
                break
            parts.clear()
        return is_open

    def _give(self, agent: AgentBook, framework: FrameworkId, role: str, resources: Resources) -> None:
        """Allocate resources; the sorters count them when the agent's visit ends."""
        self._books.take(agent, (framework, role), resources)
        self._headroom.give(role, charge(resources))
        if agent.shared:
            offered = self._shared_offered.get(agent.id, NOTHING)
            self._shared_offered[agent.id] = offered + resources.shared()
        self._made.append(Allotment(framework, role, agent.id, resources))

    def _parts(
        self, agent: AgentBook, role: str, terms: OfferTerms, to_guarantees: bool, refusals: Refusals
    ) -> tuple[Resources, Resources, Collection[FrameworkId]]:
        available = self._available(agent, role, terms)
        if not _is_enough(available, terms.minimum):
            return NOTHING, NOTHING, ()
        proposed = available
        if self._books.quota.quotas:
            proposed = self._proposals.within(self._headroom.bounds(role), available, terms, to_guarantees)
        return available, proposed, refusals.refusing(available) if refusals.by_framework else ()

    def _available(self, agent: AgentBook, role: str, terms: OfferTerms) -> Resources:
        """Return the free resources of an agent that may be offered for a role under some terms."""
        free = agent.free
        if terms.shared and agent.shared:  # one copy of each shared resource per run, however many are held
            copies = Resources({kind: 1 for kind, _ in agent.shared})
            free = free + (copies - self._shared_offered.get(agent.id, NOTHING))
        return free if free.is_plain else free.filter(lambda k: k.is_allocatable_to(role) and terms.allow(k))

    def _is_capable(self, framework: FrameworkBook, agent: AgentBook, role: str) -> bool:
        """Whether a framework's capabilities match an agent, and its constraints admit the agent."""
        has, spec = framework.spec.capabilities, agent.spec
        if self._rules.filter_gpus and agent.has_gpus and GPU_RESOURCES not in has:
            return False
        if MULTI_ROLE in has and MULTI_ROLE not in spec.capabilities:
            return False
        home = self._rules.domain
        if home and spec.domain and spec.domain.region != home.region and REGION_AWARE not in has:
            return False
        constraints = framework.spec.offer_constraints.get(role)
        return constraints is None or constraints.admit(spec)


def _joined(made: Iterable[Allotment]) -> list[Allotment]:
    """Join the allotments of both stages for the same agent, framework and role into one offer."""
    joined: dict[tuple[FrameworkId, str, AgentId], Allotment] = {}
    for one in made:
        key = (one.framework, one.role, one.agent)
        before = joined.get(key)
        joined[key] = one if before is None else Allotment(*key, before.resources + one.resources)
    return list(joined.values())


def _is_enough(resources: Resources, minimum: tuple[Quantities, ...]) -> bool:
    """Whether resources suffice for an offer: not empty, and at least one alternative of the minimum."""
    if not resources:
        return False
    if not minimum:
        return True
    have = resources.quantities()
    for one in minimum:  # noqa: SIM110 - the loop takes half the time of any()
        if quantities.covers(have, one):
            return True
    return False


def _is_metered(kind: ResourceKind) -> bool:
    """Whether quotas bound the amount of a kind."""
    return kind.type is ValueType.SCALAR and is_chargeable(kind)
