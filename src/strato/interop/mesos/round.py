"""One run of the allocator: which free resources are offered to which framework, for which role.

Two stages over the agents in a random order. The first meets guarantees of quota; the second gives everything else
away. A framework takes all that may be given of an agent, so that most agents are visited by one. Orders of roles and
frameworks are those at the begin of an agent's visit; shares change as soon as it ends.

What a visit reads is looked up once: frameworks of a role that may have the same (`Terms`) have equal proposals, and an
agent of which nothing could be offered, whatever quotas leave, is passed over until something has changed that its
visit read (`idle`). With and without these the offers are equal.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strato.interop.mesos import quantities
from strato.interop.mesos.books import AgentBook, Books, FrameworkBook
from strato.interop.mesos.filters import OfferFilters, Refusal
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.quota import Headroom, charge, is_chargeable
from strato.interop.mesos.resources import NOTHING, Kind, Resources, ValueType
from strato.interop.mesos.specs import (
    GPU_RESOURCES,
    HIERARCHICAL_ROLE,
    MULTI_ROLE,
    REGION_AWARE,
    RESERVATION_REFINEMENT,
    REVOCABLE_RESOURCES,
    SHARED_RESOURCES,
    AgentId,
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
    """Without allocation roles; `Resources.allocated` adds them for the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRules:
    """What may be offered at all; flags of the master."""

    filter_gpus: bool = True
    """``--filter_gpu_resources``: whether agents with GPUs are hidden from frameworks without the capability."""
    domain: Domain | None = None
    """Where the master is: agents of other regions are for frameworks that are REGION_AWARE."""


Idle = dict[AgentId, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides, of a framework and one of its roles, which resources it may be offered."""

    shared: bool
    revocable: bool
    refined: bool
    minimum: tuple[Quantities, ...]

    def allow(self, kind: Kind) -> bool:
        """Whether the framework knows what to do with a resource."""
        if kind.shared and not self.shared:
            return False
        if kind.revocable and not self.revocable:
            return False
        return self.refined or len(kind.reservations) < 2


class TermsTable:
    """Terms of frameworks and roles; equal ones are the same number, so that looking one up costs little."""

    def __init__(self, books: Books, default_minimum: tuple[Quantities, ...]) -> None:
        self._books, self._default = books, default_minimum
        self._generation = -1
        self._numbers: dict[tuple[FrameworkId, str], int] = {}
        self._terms: list[Terms] = []
        self._known: dict[object, int] = {}

    def number(self, framework: FrameworkBook, role: str) -> int:
        """Return the number of a framework's terms for a role."""
        if self._generation != self._books.generation:
            self._generation, self._numbers, self._terms, self._known = self._books.generation, {}, [], {}
        number = self._numbers.get((framework.id, role))
        if number is None:
            has, minimum = framework.spec.capabilities, framework.spec.min_allocatable.get(role, self._default)
            terms = Terms(SHARED_RESOURCES in has, REVOCABLE_RESOURCES in has, RESERVATION_REFINEMENT in has, minimum)
            key = (terms.shared, terms.revocable, terms.refined, tuple(tuple(sorted(one.items())) for one in minimum))
            number = self._known.setdefault(key, len(self._terms))
            if number == len(self._terms):
                self._terms.append(terms)
            self._numbers[framework.id, role] = number
        return number

    def __getitem__(self, number: int) -> Terms:
        return self._terms[number]


class Round:
    """One run; `run` may be called once.

    Args:
        books: What there is, changed by what is given.
        filters: What was refused; those that have ended are dropped already.
        rules: What may be offered at all.
        terms: Of all frameworks, kept from run to run.
        idle: Agents of which nothing can be offered, with the generations of agent and frameworks that makes sure of;
            kept from run to run. None: every agent is visited.
    """

    def __init__(
        self, books: Books, filters: OfferFilters, rules: OfferRules, terms: TermsTable, idle: Idle | None
    ) -> None:
        self._books, self._filters, self._rules, self._terms, self._idle = books, filters, rules, terms, idle
        self._headroom = Headroom(books.quota)
        self._guaranteed = [role for role, quota in books.quota.quotas.items() if quota.guarantees]
        self._shared_offered: dict[AgentId, Resources] = {}
        self._made: list[Allotment] = []
        self._held_back = False
        """Whether something of the agent visited was kept from a framework by quotas alone."""

    def run(self, agents: Iterable[AgentBook], rng: random.Random) -> list[Allotment]:
        """Give away what is free of some agents, and return what was given to whom."""
        order = list(agents)
        if self._guaranteed:
            rng.shuffle(order)
            for agent in order:
                if any(map(self._headroom.unmet, self._guaranteed)):
                    self._visit(agent, to_guarantees=True)
        rng.shuffle(order)
        for agent in order:
            self._visit(agent, to_guarantees=False)
        return self._made

    def _visit(self, agent: AgentBook, to_guarantees: bool) -> None:
        """Offer what is free of an agent in the order of fairness until nothing is left."""
        if not agent.is_offerable:
            return
        state = (agent.generation, self._books.generation)
        if self._idle is not None and self._idle.get(agent.id) == state:
            return
        made, self._held_back = len(self._made), False
        for role in self._books.role_sorter:
            if to_guarantees and not self._headroom.unmet(role):
                continue
            if "/" in role and HIERARCHICAL_ROLE not in agent.spec.capabilities:
                continue
            self._serve(agent, role, to_guarantees)
            if not agent.is_offerable:
                break
        for one in self._made[made:]:
            self._books.count(agent, (one.framework, one.role), one.resources)
        if (
            self._idle is not None
            and not (to_guarantees or self._held_back or agent.shared)
            and made == len(self._made)
        ):
            self._idle[agent.id] = state

    def _serve(self, agent: AgentBook, role: str, to_guarantees: bool) -> None:
        """Offer what is left of an agent to a role's frameworks in the order of fairness."""
        frameworks, terms = self._books.frameworks, self._terms
        refusals = self._filters.on(agent.id, role)
        parts: dict[int, tuple[Resources, Resources]] = {}
        """By terms what is available, and what of it may be given; nothing where that is too little."""
        for name in self._books.framework_sorters[role]:
            framework = frameworks[FrameworkId(name)]
            number = terms.number(framework, role)
            if number not in parts:
                parts[number] = self._parts(agent, role, terms[number], to_guarantees)
            available, proposed = parts[number]
            if not available:
                continue
            refused = refusals.get(framework.id, ())
            # what is refused whole is refused however little of it quotas leave
            if refused and _is_refused(available, refused):
                continue
            if not self._is_capable(framework, agent, role):
                continue
            if not proposed or (proposed is not available and _is_refused(proposed, refused)):
                self._held_back = True
                continue
            self._give(agent, framework.id, role, proposed)
            if not agent.is_offerable:
                return
            parts.clear()

    def _give(self, agent: AgentBook, framework: FrameworkId, role: str, resources: Resources) -> None:
        """Give resources away; the sorters count them when the visit of the agent ends."""
        self._books.take(agent, (framework, role), resources)
        self._headroom.give(role, charge(resources))
        if agent.shared:
            offered = self._shared_offered.get(agent.id, NOTHING)
            self._shared_offered[agent.id] = offered + resources.shared()
        self._made.append(Allotment(framework, role, agent.id, resources))

    def _parts(self, agent: AgentBook, role: str, terms: Terms, to_guarantees: bool) -> tuple[Resources, Resources]:
        available = self._available(agent, role, terms)
        if not _is_enough(available, terms.minimum):
            return NOTHING, NOTHING
        proposed = self._within_quotas(available, role, to_guarantees)
        return available, proposed if _is_enough(proposed, terms.minimum) else NOTHING

    def _available(self, agent: AgentBook, role: str, terms: Terms) -> Resources:
        """Return what is free of an agent and may be offered for a role under some terms."""
        free = agent.free
        if terms.shared and agent.shared:  # one copy, however many are held, and once a run
            copies = Resources({kind: 1 for kind, _ in agent.shared})
            free = free + (copies - self._shared_offered.get(agent.id, NOTHING))
        return free.filter(lambda kind: kind.is_allocatable_to(role) and terms.allow(kind))

    def _within_quotas(self, available: Resources, role: str, to_guarantees: bool) -> Resources:
        """Return the part of what is available that quotas let a role have."""
        if not self._books.quota.quotas:
            return available
        metered = available.filter(_is_metered)
        helpful = NOTHING
        rest = metered
        if to_guarantees:
            helpful = metered.shrunk(self._headroom.unmet(role), unlimited=False)
            if not helpful:
                return NOTHING
            rest = metered - helpful
        rest = rest.shrunk(self._headroom.below_limit(role, helpful.scalars())).shrunk(self._headroom.surplus())
        if rest is metered:
            return available
        return available.filter(lambda kind: not _is_metered(kind)) + helpful + rest

    def _is_capable(self, framework: FrameworkBook, agent: AgentBook, role: str) -> bool:
        """Whether a framework understands what an agent is, and wants offers of it."""
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


def _is_enough(resources: Resources, minimum: tuple[Quantities, ...]) -> bool:
    """Whether resources are worth an offer: not nothing, and at least one alternative of the minimum."""
    if not resources:
        return False
    if not minimum:
        return True
    have = resources.quantities()
    return any(quantities.covers(have, one) for one in minimum)


def _is_refused(resources: Resources, refused: Sequence[Refusal]) -> bool:
    return any(refusal.resources.contains(resources) for refusal in refused)


def _is_metered(kind: Kind) -> bool:
    """Whether quotas bound how much of it is given."""
    return kind.type is ValueType.SCALAR and is_chargeable(kind)
