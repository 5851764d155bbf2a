"""From a request to an action: the lifecycle policies of tasks and jobs.

Order, first hit wins: a command's own action; events that always sync; requests from another life of the job
(other uid, older version); the policies of the task; those of the job; sync.

Source: volcano-controllers A2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from strato.controllers.job.requests import Request
from strato.controllers.job.terms import Action, JobEvent
from strato.units import duration_seconds

_ALWAYS_SYNC = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})


class PolicyLike(Protocol):
    """The fields of a ``LifecyclePolicy`` we read."""

    @property
    def action(self) -> str:
        """What to do."""

    @property
    def event(self) -> str:
        """A single event it answers."""

    @property
    def events(self) -> Sequence[str]:
        """Further events it answers."""

    @property
    def exit_code(self) -> int | None:
        """The exit code it answers."""

    @property
    def timeout(self) -> str | None:
        """A Go duration to wait, or None."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, made ready for matching."""

    action: str
    events: frozenset[str]
    exit_code: int | None
    delay_seconds: float
    has_timeout: bool

    @classmethod
    def from_view(cls, view: PolicyLike) -> Policy:
        """Read a policy of a manifest. An unreadable timeout counts as none."""
        events = set(view.events)
        if view.event:
            events.add(view.event)
        delay = _timeout_seconds(view.timeout)
        return cls(
            action=view.action,
            events=frozenset(events),
            exit_code=view.exit_code,
            delay_seconds=max(0.0, delay or 0.0),
            has_timeout=delay is not None,
        )

    def applies_to(self, request: Request) -> bool:
        """Return whether this policy answers the request, by event or by exit code."""
        event = request.event
        if event and (event in self.events or JobEvent.ANY in self.events):  # noqa: SIM102 - the two questions differ
            if event != JobEvent.POD_PENDING or self.has_timeout:
                return True
        return self.exit_code is not None and self.exit_code == request.exit_code


def _timeout_seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return duration_seconds(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and when to do it."""

    action: str
    delay_seconds: float = 0.0


SYNC = Decision(Action.SYNC_JOB)


class JobPolicies:
    """All policies of one job, prepared once per spec.

    `may_match` answers in a set lookup whether a request could lead to anything but a sync; a job without
    policies (the common one) therefore pays nothing per pod event.
    """

    __slots__ = ("_exit_codes", "_job", "_listened", "_tasks", "delayed")

    def __init__(self, job: Iterable[PolicyLike], tasks: Iterable[tuple[str, Iterable[PolicyLike]]]) -> None:
        self._job = tuple(Policy.from_view(p) for p in job)
        self._tasks = {name: ready for name, views in tasks if (ready := tuple(Policy.from_view(p) for p in views))}
        every = [*self._job, *(p for ready in self._tasks.values() for p in ready)]
        self._listened = frozenset(event for p in every for event in p.events)
        self._exit_codes = frozenset(p.exit_code for p in every if p.exit_code is not None)
        self.delayed = any(p.delay_seconds > 0 for p in every)
        """Whether some policy waits; then pod events must be seen to cancel what waits."""

    @property
    def is_empty(self) -> bool:
        """Whether the job has no policies at all."""
        return not self._job and not self._tasks

    def may_match(self, event: str, exit_code: int = 0) -> bool:
        """Return whether a request of that event could match some policy."""
        if exit_code in self._exit_codes:
            return True
        if not event or event in _ALWAYS_SYNC:
            return False
        return event in self._listened or JobEvent.ANY in self._listened

    def match(self, request: Request, *, job_uid: str, job_version: int) -> Decision:
        """Decide what a request leads to, at the job's present uid and version."""
        if request.action:
            return Decision(request.action)
        if request.event in _ALWAYS_SYNC:
            return SYNC
        if request.job_uid and request.job_uid != job_uid:
            return SYNC
        if request.job_version < job_version:
            return SYNC
        for policies in (self._tasks.get(request.task, ()), self._job):
            for policy in policies:
                if policy.applies_to(request):
                    return Decision(policy.action, policy.delay_seconds)
        return SYNC
