"""Choose the action that answers a request: the lifecycle policies of tasks and jobs.

The first of these that applies decides: the action of a command; a sync, for events that always cause one and for
requests from another incarnation or an older version of the job; the policies of the task; those of the job; a sync.

Source: volcano-controllers A2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from strato.controllers.job.requests import Request
from strato.controllers.job.terms import JobAction, JobEvent
from strato.units import duration_seconds

_ALWAYS_SYNC = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})


class PolicyLike(Protocol):
    """The fields of a ``LifecyclePolicy`` we read."""

    @property
    def action(self) -> str:
        """The action."""

    @property
    def event(self) -> str:
        """The event that the policy matches, if it names a single one."""

    @property
    def events(self) -> Sequence[str]:
        """Further events that the policy matches."""

    @property
    def exit_code(self) -> int | None:
        """The exit code that the policy matches, None if it matches events."""

    @property
    def timeout(self) -> str | None:
        """How long to wait before the action, as a Go duration; None for no delay."""


@dataclass(frozen=True, slots=True)
class PreparedPolicy:
    """One lifecycle policy, prepared for matching."""

    action: str
    events: frozenset[str]
    exit_code: int | None
    delay_seconds: float
    has_timeout: bool

    @classmethod
    def from_view(cls, view: PolicyLike) -> PreparedPolicy:
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
        """Return whether the policy matches a request, by event or by exit code."""
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
class PolicyDecision:
    """An action, and how long to wait before it."""

    action: str
    delay_seconds: float = 0.0


SYNC = PolicyDecision(JobAction.SYNC_JOB)


class JobPolicies:
    """All policies of one job, prepared once per spec.

    `may_match` tells by a set lookup whether a request could lead to anything but a sync, so that a pod event of a job
    without policies, the common case, needs no matching.
    """

    __slots__ = ("_exit_codes", "_job", "_listened", "_tasks", "delayed")

    def __init__(self, job: Iterable[PolicyLike], tasks: Iterable[tuple[str, Iterable[PolicyLike]]]) -> None:
        self._job = tuple(PreparedPolicy.from_view(p) for p in job)
        self._tasks = {
            name: ready for name, views in tasks if (ready := tuple(PreparedPolicy.from_view(p) for p in views))
        }
        every = [*self._job, *(p for ready in self._tasks.values() for p in ready)]
        self._listened = frozenset(event for p in every for event in p.events)
        self._exit_codes = frozenset(p.exit_code for p in every if p.exit_code is not None)
        self.delayed = any(p.delay_seconds > 0 for p in every)
        """Whether some policy has a timeout; then pod events have to become requests, as they may cancel its action."""

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

    def match(self, request: Request, *, job_uid: str, job_version: int) -> PolicyDecision:
        """Return the action that answers a request, given the job's present uid and version."""
        if request.action:
            return PolicyDecision(request.action)
        if request.event in _ALWAYS_SYNC:
            return SYNC
        if request.job_uid and request.job_uid != job_uid:
            return SYNC
        if request.job_version < job_version:
            return SYNC
        for policies in (self._tasks.get(request.task, ()), self._job):
            for policy in policies:
                if policy.applies_to(request):
                    return PolicyDecision(policy.action, policy.delay_seconds)
        return SYNC
