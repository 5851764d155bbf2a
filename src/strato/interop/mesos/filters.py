"""Offer filters: resources that a framework has declined are not offered to it again for a while."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strato.interop.mesos.resources import Resources
from strato.interop.mesos.specs import AgentId, FrameworkId

DEFAULT_SECONDS = 5.0
LONGEST_SECONDS = 365 * 24 * 3600.0
MOST_PER_AGENT = 64
"""Most refusals kept per framework, role and agent; beyond it, those that end first are dropped."""


def refuse_seconds(filters: Mapping[str, Any] | None) -> float:
    """Return how long a decline holds: ``filters.refuse_seconds``, or 5 where it is absent, negative or no number."""
    seconds = (filters or {}).get("refuse_seconds", DEFAULT_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds) or seconds < 0:
        return DEFAULT_SECONDS
    return min(float(seconds), LONGEST_SECONDS)


@dataclass(frozen=True, slots=True)
class Moment:
    """Time of a decision: the instant, and the number of batch runs made before."""

    seconds: float
    batches: int


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """Refused resources, and until when."""

    resources: Resources
    since: Moment
    deadline: float

    def has_ended(self, now: Moment) -> bool:
        """Whether the refusal has ended: its time is over, and at least one batch run has taken place since."""
        return now.seconds >= self.deadline and now.batches > self.since.batches

    def outlasts(self, other: OfferFilter) -> bool:
        """Whether this refusal never ends before the other one."""
        return self.deadline >= other.deadline and self.since.batches >= other.since.batches


class Refusals:
    """Refusals of one agent by the frameworks of one role."""

    def __init__(self) -> None:
        self.by_framework: dict[FrameworkId, list[OfferFilter]] = {}
        """Refusals by framework; no list is empty."""
        self._refusing: dict[Resources, set[FrameworkId]] = {}
        """Cache of `refusing`: frameworks by resources, updated on each change."""

    def refusing(self, resources: Resources) -> Collection[FrameworkId]:
        """Return the frameworks with a refusal that contains these resources."""
        refusing = self._refusing.get(resources)
        if refusing is None:
            if len(self._refusing) >= _MOST_REMEMBERED:
                self._refusing.clear()
            refusing = self._refusing[resources] = {
                name for name, refusals in self.by_framework.items() if _cover(refusals, resources)
            }
        return refusing

    def replace(self, framework: FrameworkId, refusals: list[OfferFilter]) -> None:
        """Replace a framework's refusals; an empty list removes the framework."""
        if refusals:
            self.by_framework[framework] = refusals
        else:
            self.by_framework.pop(framework, None)
        for resources, refusing in self._refusing.items():
            if _cover(refusals, resources):
                refusing.add(framework)
            else:
                refusing.discard(framework)


def _cover(refusals: Iterable[OfferFilter], resources: Resources) -> bool:
    for refusal in refusals:  # noqa: SIM110 - the loop takes half the time of any()
        if refusal.resources.contains(resources):
            return True
    return False


_NOBODY = Refusals()
_MOST_REMEMBERED = 8


class OfferFilters:
    """Refusals by agent, role and framework. A refusal holds until `drop_ended` removes it."""

    def __init__(self) -> None:
        self._agents: dict[AgentId, dict[str, Refusals]] = {}
        self._where: dict[tuple[FrameworkId, str], set[AgentId]] = {}
        """Agents that have refusals, by framework and role."""
        self._ends: list[tuple[float, int, FrameworkId, str, AgentId, OfferFilter]] = []
        """Heap by deadline; contains refusals dropped early, until these are the majority and it is rebuilt."""
        self._added = 0
        self._live = 0
        self.opened: set[tuple[AgentId, str]] = set()
        """Agents and roles whose refusals have ended since the reader last emptied this set."""

    def __len__(self) -> int:
        return self._live

    def add(self, framework: FrameworkId, role: str, agent: AgentId, refusal: OfferFilter) -> None:
        """Add a refusal; drop refusals that it covers."""
        there = self._agents.setdefault(agent, {}).setdefault(role, Refusals())
        refusals = there.by_framework.get(framework, [])
        self._where.setdefault((framework, role), set()).add(agent)
        if any(old.outlasts(refusal) and old.resources.contains(refusal.resources) for old in refusals):
            return
        kept = [r for r in refusals if not (refusal.outlasts(r) and refusal.resources.contains(r.resources))]
        if len(kept) >= MOST_PER_AGENT:
            kept.remove(min(kept, key=lambda r: r.deadline))
            self.opened.add((agent, role))
        self._live += len(kept) + 1 - len(refusals)
        there.replace(framework, [*kept, refusal])
        self._added += 1
        heapq.heappush(self._ends, (refusal.deadline, self._added, framework, role, agent, refusal))
        if len(self._ends) > 2 * self._live + 1000:
            self._ends = [end for end in self._ends if self._is_live(end)]
            heapq.heapify(self._ends)

    def on(self, agent: AgentId, role: str) -> Refusals:
        """Return the refusals of a role's frameworks on an agent."""
        roles = self._agents.get(agent)
        return _NOBODY if roles is None else roles.get(role, _NOBODY)

    def roles_of(self, framework: FrameworkId) -> list[str]:
        """Return the roles of a framework that have refused something."""
        return [role for name, role in self._where if name == framework]

    def drop_ended(self, now: Moment) -> None:
        """Drop refusals that have ended."""
        early = []
        while self._ends and self._ends[0][0] <= now.seconds:
            end = heapq.heappop(self._ends)
            _, _, framework, role, agent, refusal = end
            if not self._is_live(end):
                continue
            if not refusal.has_ended(now):
                early.append(end)
                continue
            there = self._agents[agent][role]
            left = [one for one in there.by_framework[framework] if one is not refusal]
            self._live -= 1
            self.opened.add((agent, role))
            there.replace(framework, left)
            if not left:
                self._forget(framework, role, agent)
        for end in early:
            heapq.heappush(self._ends, end)

    def clear(self, framework: FrameworkId, roles: Iterable[str]) -> None:
        """Drop all refusals of a framework's roles."""
        for role in roles:
            for agent in list(self._where.get((framework, role), ())):
                self._forget(framework, role, agent)

    def clear_agent(self, agent: AgentId) -> None:
        """Drop all refusals on an agent."""
        for role, frameworks in list(self._agents.get(agent, {}).items()):
            for framework in list(frameworks.by_framework):
                self._forget(framework, role, agent)

    def _is_live(self, end: tuple[float, int, FrameworkId, str, AgentId, OfferFilter]) -> bool:
        _, _, framework, role, agent, refusal = end
        return any(one is refusal for one in self.on(agent, role).by_framework.get(framework, ()))

    def _forget(self, framework: FrameworkId, role: str, agent: AgentId) -> None:
        roles = self._agents[agent]
        self._live -= len(roles[role].by_framework.get(framework, ()))
        roles[role].replace(framework, [])
        self.opened.add((agent, role))
        if not roles[role].by_framework:
            del roles[role]
        if not roles:
            del self._agents[agent]
        where = self._where[framework, role]
        where.discard(agent)
        if not where:
            del self._where[framework, role]
