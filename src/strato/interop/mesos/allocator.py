"""Mesos' hierarchical allocator: a state machine over agents and frameworks that returns offers as values.

It neither waits nor reads a clock: callers pass the time, and the random generator that shuffles agents. The allocator
notes changes that make offers possible at once; `allocate_pending` then runs over all agents that have changed since
the last run. `allocate` is the batch run over all agents, to be called every `AllocatorOptions.interval_seconds`.

Offered resources are held by the framework until the caller recovers them: after it declined the offer, after the offer
was rescinded, or when its tasks end.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from strato.interop.mesos import filters, roles
from strato.interop.mesos.books import AgentBook, Books, Holder, Order
from strato.interop.mesos.filters import Moment, OfferFilter, OfferFilters
from strato.interop.mesos.maintenance import InverseAllotment, InverseOfferStatus, Maintenance
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.quota import Quota
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.round import AllocationRound, Allotment, ClosedRoles, OfferRules, TermsTable
from strato.interop.mesos.specs import AgentId, AgentSpec, Domain, FrameworkId, FrameworkSpec, Unavailability

DEFAULT_MINIMUM: tuple[Quantities, ...] = ({"cpus": 10}, {"mem": 32_000})
"""``--min_allocatable_resources=cpus:0.01|mem:32``."""
RECOVERY_AGENTS_RATIO = 0.8
RECOVERY_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorOptions:
    """Flags of the master that concern the allocator; the names in quotes are Mesos'."""

    interval_seconds: float = 1.0
    """``--allocation_interval``: time between batch runs, and the least that a refusal holds. More than 0."""
    min_allocatable: tuple[Quantities, ...] = DEFAULT_MINIMUM
    """``--min_allocatable_resources``: alternatives; an offer must contain one of them. Empty: no minimum."""
    filter_gpus: bool = True
    """``--filter_gpu_resources``: whether agents with GPUs are hidden from frameworks without GPU_RESOURCES."""
    order: Order = field(default_factory=Order)
    """The order in which roles and frameworks are served."""
    domain: Domain | None = None
    """The master's domain: agents of other regions are offered only to frameworks that are REGION_AWARE."""
    skip_closed: bool = True
    """Whether a run skips roles known to have nothing to offer of an agent. Offers are the same either way."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The result of one run."""

    offers: tuple[Allotment, ...] = ()
    """One per framework, agent and role, in the order they were decided."""
    inverse_offers: tuple[InverseAllotment, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.offers or self.inverse_offers)

    def by_framework(self) -> dict[FrameworkId, list[Allotment]]:
        """Return the offers of each framework: one OFFERS event each."""
        found: dict[FrameworkId, list[Allotment]] = {}
        for offer in self.offers:
            found.setdefault(offer.framework, []).append(offer)
        return found


class Allocator:
    """The allocator of one master.

    Calls may be late or repeated: a method that names an unknown agent or framework changes nothing, and `add_agent`
    and `add_framework` replace one that exists.
    """

    def __init__(self, options: AllocatorOptions, rng: random.Random) -> None:
        self._options, self._rng = options, rng
        self._books = Books(options.order, rng)
        self._filters, self._maintenance = OfferFilters(), Maintenance()
        self._rules = OfferRules(filter_gpus=options.filter_gpus, domain=options.domain)
        self._terms = TermsTable(self._books, options.min_allocatable)
        is_drawn = options.order.random_roles or options.order.random_frameworks  # skipping would change random draws
        self._closed: ClosedRoles | None = {} if options.skip_closed and not is_drawn else None
        self._whitelist: frozenset[str] | None = None
        self._pending: set[AgentId] = set()
        self._all_pending = False
        self._batches = 0
        self._latest = Moment(0.0, 0)  # shared by all refusals between two runs
        self._paused_until: float | None = None
        self._agents_awaited = 0

    # --- agents

    def add_agent(self, agent: AgentId, spec: AgentSpec, used: Mapping[Holder, Resources] | None = None) -> None:
        """Add an agent, with the resources used there by framework and role; these frameworks may be added later."""
        self.remove_agent(agent)
        self._books.add_agent(agent, spec, used or {})
        self._pending.add(agent)
        if self._paused_until is not None and len(self._books.agents) >= self._agents_awaited:
            self.resume()

    def update_agent(self, agent: AgentId, spec: AgentSpec) -> None:
        """Replace an agent's spec; if its attributes have changed, drop all refusals of it."""
        book = self._books.agents.get(agent)
        if book is None or book.spec == spec:
            return
        if book.spec.attributes != spec.attributes:
            self._filters.clear_agent(agent)
        self._books.update_agent(agent, spec)
        self._pending.add(agent)

    def remove_agent(self, agent: AgentId) -> None:
        """Remove an agent with its allocations, refusals and inverse offers."""
        if agent in self._books.agents:
            self._books.remove_agent(agent)
        self._filters.clear_agent(agent)
        self._maintenance.set(agent, None)
        self._pending.discard(agent)
        if self._closed is not None:
            self._closed.pop(agent, None)

    def activate_agent(self, agent: AgentId) -> None:
        """Offer an agent again, from the next batch run on."""
        self._set_active(agent, True)

    def deactivate_agent(self, agent: AgentId) -> None:
        """Stop offering an agent; the caller rescinds outstanding offers."""
        self._set_active(agent, False)

    def _set_active(self, agent: AgentId, is_active: bool) -> None:
        if book := self._books.agents.get(agent):
            book.is_active = is_active

    def update_whitelist(self, hostnames: Collection[str] | None) -> None:
        """Offer only agents of these host names, or, for None, all."""
        self._whitelist = None if hostnames is None else frozenset(hostnames)

    def update_unavailability(self, agent: AgentId, unavailability: Unavailability | None) -> None:
        """Announce, move or cancel an agent's maintenance window; its frameworks get new inverse offers."""
        if agent in self._books.agents and self._maintenance.unavailability(agent) != unavailability:
            self._maintenance.set(agent, unavailability)
            self._pending.add(agent)

    # --- frameworks

    def add_framework(self, framework: FrameworkId, spec: FrameworkSpec, active: bool = True) -> None:
        """Add a framework; resources that agents already use for it count as its allocation."""
        if framework in self._books.frameworks:
            self.update_framework(framework, spec)
        else:
            self._books.add_framework(framework, spec)
        self._set_framework_active(framework, active)
        self._all_pending |= active

    def update_framework(self, framework: FrameworkId, spec: FrameworkSpec) -> None:
        """Replace a framework's spec, including suppressed roles; allocations of roles that it has left remain.

        Drop refusals of roles that it has left or no longer suppresses.
        """
        book = self._books.frameworks.get(framework)
        if book is None:
            return
        revived = book.suppressed - spec.suppressed_roles
        left = set(book.spec.roles) - set(spec.roles)
        self._filters.clear(framework, sorted(revived | left))
        book.spec, book.suppressed = spec, set(spec.suppressed_roles)
        self._books.refresh_framework(framework)

    def remove_framework(self, framework: FrameworkId) -> None:
        """Remove a framework and free its allocations."""
        if framework in self._books.frameworks:
            self._drop_answers(framework)
            self._books.remove_framework(framework)

    def activate_framework(self, framework: FrameworkId) -> None:
        """Start making offers to a framework, which has connected."""
        if framework in self._books.frameworks:
            self._set_framework_active(framework, True)
            self._all_pending = True

    def deactivate_framework(self, framework: FrameworkId) -> None:
        """Stop making offers to a framework; drop its refusals, keep its allocations."""
        if framework in self._books.frameworks:
            self._set_framework_active(framework, False)
            self._drop_answers(framework)

    def suppress(self, framework: FrameworkId, suppressed: Iterable[str] = ()) -> None:
        """Stop making offers for some roles of a framework, or for all; roles that it does not have are ignored."""
        if book := self._books.frameworks.get(framework):
            book.suppressed.update(self._own_roles(framework, suppressed))
            self._books.refresh_framework(framework)

    def revive(self, framework: FrameworkId, revived: Iterable[str] = ()) -> None:
        """Resume offers for some roles of a framework, or for all, and drop their refusals."""
        if book := self._books.frameworks.get(framework):
            own = self._own_roles(framework, revived)
            book.suppressed.difference_update(own)
            self._filters.clear(framework, own)
            self._maintenance.clear_filters(framework)
            self._books.refresh_framework(framework)
            self._all_pending = True

    def _own_roles(self, framework: FrameworkId, named: Iterable[str]) -> list[str]:
        own, named = self._books.frameworks[framework].spec.roles, list(named)
        return [role for role in own if not named or role in named]

    def _set_framework_active(self, framework: FrameworkId, is_active: bool) -> None:
        self._books.frameworks[framework].is_active = is_active
        self._books.refresh_framework(framework)

    def _drop_answers(self, framework: FrameworkId) -> None:
        self._filters.clear(framework, self._filters.roles_of(framework))
        self._maintenance.forget(framework)

    # --- allocations

    def recover_resources(
        self,
        framework: FrameworkId,
        agent: AgentId,
        role: str,
        resources: Resources,
        *,
        now: float,
        refuse_seconds: float | None = None,
    ) -> None:
        """Free resources of a framework: of a declined offer, the rest of an accepted one, or of an ended task.

        Args:
            framework: The framework that held them.
            agent: Their agent.
            role: The role to which they were allocated.
            resources: The resources to free.
            now: The instant.
            refuse_seconds: How long the framework's role refuses offers of this agent that are contained in these
                resources; None or 0 for no such filter. See `filters.refuse_seconds` for what a call's ``filters``
                mean.

        Raises:
            InvariantError: The framework does not hold these resources.
        """
        resources = resources.allocated(None)
        if not resources or agent not in self._books.agents:
            return
        self._books.release(agent, (framework, role), resources)
        book = self._books.frameworks.get(framework)
        if refuse_seconds and book is not None and book.is_active and role in book.spec.roles:
            deadline = now + max(min(refuse_seconds, filters.LONGEST_SECONDS), self._options.interval_seconds)
            self._filters.add(framework, role, agent, OfferFilter(resources, self._moment(now), deadline))

    def convert_held(self, framework: FrameworkId, agent: AgentId, role: str, old: Resources, new: Resources) -> None:
        """Convert resources of an agent that a framework holds: reserve them, create a volume on them, or undo that.

        Raises:
            InvariantError: The framework does not hold ``old``.
        """
        self._books.convert(agent, (framework, role), old.allocated(None), new.allocated(None))

    def convert_free(self, agent: AgentId, old: Resources, new: Resources) -> None:
        """Convert free resources of an agent, for an operator.

        Raises:
            InvariantError: ``old`` is not free.
        """
        self._books.convert(agent, None, old, new)

    def answer_inverse_offer(
        self,
        framework: FrameworkId,
        agent: AgentId,
        status: InverseOfferStatus | None,
        *,
        now: float,
        refuse_seconds: float = filters.DEFAULT_SECONDS,
    ) -> None:
        """Record the answer to an inverse offer (None: rescinded); the next one is made after the filter's time."""
        seconds = max(refuse_seconds, self._options.interval_seconds) if refuse_seconds > 0 else 0.0
        self._maintenance.answer(agent, framework, status, self._moment(now), seconds)

    # --- quota, weights

    def set_quota(self, role: str, quota: Quota) -> None:
        """Set the quota of a top-level role; an empty one removes it. Callers check it by `quota.check` first."""
        self._books.quota.set(role, quota)

    def set_weight(self, role: str, weight: float) -> None:
        """Set a role's weight among its siblings. More than 0."""
        if not weight > 0:
            raise ValueError(f"weight {weight} of role {role!r} is not allowed: Weights must be positive")
        self._books.role_sorter.set_weight(role, weight)

    # --- runs

    @property
    def has_pending(self) -> bool:
        """Whether a change since the last run makes offers possible, so that `allocate_pending` should be called."""
        return self._all_pending or bool(self._pending)

    def allocate(self, now: float) -> Offered:
        """Make a batch run over all agents."""
        self._all_pending = True
        offered = self.allocate_pending(now)
        self._batches += 1
        return offered

    def allocate_pending(self, now: float) -> Offered:
        """Make one run over the agents that have changed since the last one; no run while the allocator is paused."""
        if self._paused_until is not None and now >= self._paused_until:
            self.resume()
        if self._paused_until is not None or not self.has_pending:
            return Offered()
        everything = self._books.agents
        agents = list(everything.values()) if self._all_pending else [everything[a] for a in sorted(self._pending)]
        self._all_pending, self._pending = False, set()
        moment = self._moment(now)
        self._filters.drop_ended(moment)
        run = AllocationRound(self._books, self._filters, self._rules, self._terms, self._closed)
        made = run.run([agent for agent in agents if self._is_offered(agent)], self._rng)
        return Offered(tuple(made), tuple(self._inverse_offers(agents, moment)))

    def _is_offered(self, agent: AgentBook) -> bool:
        return agent.is_active and (self._whitelist is None or agent.spec.hostname in self._whitelist)

    def _inverse_offers(self, agents: Iterable[AgentBook], now: Moment) -> Iterable[InverseAllotment]:
        for agent in agents:
            if self._maintenance.unavailability(agent.id) is not None:
                there = dict.fromkeys(framework for framework, _ in agent.held)
                known = [name for name in there if name in self._books.frameworks]
                active = [name for name in known if self._books.frameworks[name].is_active]
                yield from self._maintenance.ask(agent.id, active, now)

    def _moment(self, now: float) -> Moment:
        if self._latest.seconds != now or self._latest.batches != self._batches:
            self._latest = Moment(now, self._batches)
        return self._latest

    # --- recovery

    def recover(self, agents: int, now: float) -> None:
        """Begin after a master's failover: if there are quotas, pause until most of the agents have come back.

        Args:
            agents: Number of agents before the failover.
            now: The time; the pause ends ten minutes later at the latest.
        """
        self._agents_awaited = int(agents * RECOVERY_AGENTS_RATIO)
        if self._books.quota.quotas and len(self._books.agents) < self._agents_awaited:
            self._paused_until = now + RECOVERY_SECONDS

    def resume(self) -> None:
        """End a pause; the next run is over all agents."""
        self._paused_until = None
        self._all_pending = True

    # --- questions

    @property
    def is_paused(self) -> bool:
        """Whether the allocator makes no offers until agents have come back."""
        return self._paused_until is not None

    def unavailability(self, agent: AgentId) -> Unavailability | None:
        """Return an agent's maintenance window, for its offers."""
        return self._maintenance.unavailability(agent)

    def inverse_offer_answers(self) -> dict[AgentId, dict[FrameworkId, InverseOfferStatus]]:
        """Return the frameworks' answers to inverse offers by agent, for the maintenance status."""
        return self._maintenance.answers()

    def free(self, agent: AgentId) -> Resources:
        """Return the resources of an agent that no framework holds, without shared ones."""
        book = self._books.agents.get(agent)
        return NOTHING if book is None else book.free

    def held(self, framework: FrameworkId) -> list[tuple[AgentId, str, Resources]]:
        """Return a framework's allocations, offered and used: agent, role, resources."""
        return list(self._books.held_by(framework))

    def quotas(self) -> Mapping[str, Quota]:
        """Return the quotas by role."""
        return dict(self._books.quota.quotas)

    def quota_consumed(self, role: str) -> Quantities:
        """Return the consumption of quota by a top-level role's subtree, in thousandths."""
        return dict(self._books.quota.consumed(roles.top_level(role)))

    def capacity(self) -> Quantities:
        """Return the scalars of all agents, in thousandths."""
        return self._books.capacity()
