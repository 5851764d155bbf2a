"""Maintenance in the allocator: inverse offers ask frameworks to leave agents before their maintenance windows."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from strato.interop.mesos.filters import Moment
from strato.interop.mesos.specs import AgentId, FrameworkId, Unavailability


class InverseOfferStatus(enum.Enum):
    """Answer of a framework, by its name on the wire."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    DECLINE = "DECLINE"


@dataclass(frozen=True, slots=True)
class InverseAllotment:
    """An inverse offer: it asks a framework to leave an agent during its maintenance window."""

    framework: FrameworkId
    agent: AgentId
    unavailability: Unavailability


@dataclass(slots=True)
class _Window:
    unavailability: Unavailability
    outstanding: set[FrameworkId] = field(default_factory=set)
    """Frameworks with an unanswered inverse offer."""
    answers: dict[FrameworkId, InverseOfferStatus] = field(default_factory=dict)
    waiting: dict[FrameworkId, tuple[Moment, float]] = field(default_factory=dict)
    """For frameworks that have answered: since when and until when they get no further inverse offer."""


class Maintenance:
    """Inverse offers of all agents."""

    def __init__(self) -> None:
        self._windows: dict[AgentId, _Window] = {}

    def set(self, agent: AgentId, unavailability: Unavailability | None) -> None:
        """Announce, move or cancel an agent's window; drop inverse offers and answers about the old one."""
        if unavailability is None:
            self._windows.pop(agent, None)
        else:
            self._windows[agent] = _Window(unavailability)

    def unavailability(self, agent: AgentId) -> Unavailability | None:
        """Return when an agent will be unavailable, for its offers."""
        window = self._windows.get(agent)
        return None if window is None else window.unavailability

    def ask(self, agent: AgentId, frameworks: Iterable[FrameworkId], now: Moment) -> list[InverseAllotment]:
        """Make inverse offers to those frameworks on an agent that have no unanswered one and whose wait is over."""
        window = self._windows.get(agent)
        if window is None:
            return []
        asked = []
        for framework in frameworks:
            since, deadline = window.waiting.get(framework, (now, now.seconds))
            if framework in window.outstanding or (framework in window.waiting and not _is_over(since, deadline, now)):
                continue
            window.waiting.pop(framework, None)
            window.outstanding.add(framework)
            asked.append(InverseAllotment(framework, agent, window.unavailability))
        return asked

    def answer(
        self, agent: AgentId, framework: FrameworkId, status: InverseOfferStatus | None, now: Moment, seconds: float
    ) -> None:
        """Record an answer, or a rescinded inverse offer (None); the next one is made after ``seconds``."""
        window = self._windows.get(agent)
        if window is None or framework not in window.outstanding:
            return
        window.outstanding.discard(framework)
        if status is not None:
            window.answers[framework] = status
        if seconds > 0:
            window.waiting[framework] = (now, now.seconds + seconds)

    def clear_filters(self, framework: FrameworkId) -> None:
        """End a framework's wait for further inverse offers, as when it revives offers."""
        for window in self._windows.values():
            window.waiting.pop(framework, None)

    def forget(self, framework: FrameworkId) -> None:
        """Drop inverse offers and waits of a framework that is gone or disconnected; keep its answers."""
        for window in self._windows.values():
            window.outstanding.discard(framework)
            window.waiting.pop(framework, None)

    def answers(self) -> dict[AgentId, dict[FrameworkId, InverseOfferStatus]]:
        """Return the answers by agent; UNKNOWN for unanswered inverse offers."""
        return {
            agent: dict.fromkeys(sorted(window.outstanding), InverseOfferStatus.UNKNOWN) | window.answers
            for agent, window in self._windows.items()
        }


def _is_over(since: Moment, deadline: float, now: Moment) -> bool:
    return now.seconds >= deadline and now.batches > since.batches
