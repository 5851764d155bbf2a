"""Actions that wait for their policy's timeout, and the events and actions that cancel them.

An entry is data only: the job controller runs a timer for each, and when it expires calls `due` to learn whether the
action still holds. Events of a pod cancel only the action that was added last for its name (the empty name is for
events that are not about a pod). As in Volcano, an earlier and different one still waits: two policies with timeouts
may both match, and each is due at its own time unless an action at its level was carried out before.

Source: volcano-controllers A2, "Delayed actions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strato.controllers.job.requests import Request, Target
from strato.controllers.job.terms import INTERNAL_ACTIONS, JobAction, JobEvent


@dataclass(eq=False, slots=True)
class Delayed:
    """An action that waits for its policy's timeout."""

    action: str
    request: Request
    cancelled: bool = False

    @property
    def target(self) -> Target:
        """The part of the job it is about."""
        return Target(self.request.task, self.request.pod, self.request.partition)


_NO_ENTRIES: Final[dict[str, Delayed]] = {}
_NONE_WAITING: Final[dict[Delayed, None]] = {}
"""Shared by all jobs that have no delayed actions, to save memory; never changed."""


class DelayedActions:
    """The delayed actions of one job."""

    __slots__ = ("_latest", "_waiting")

    def __init__(self) -> None:
        self._latest = _NO_ENTRIES
        """The action that was added last for each pod name."""
        self._waiting = _NONE_WAITING
        """All actions whose timers run, in the order in which they were added."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, action: str, request: Request) -> Delayed | None:
        """Add an action and return its entry; None when it is the last one of that pod, and waits already."""
        known = self._latest.get(request.pod)
        if known is not None and known.action == action:
            return None
        if self._latest is _NO_ENTRIES:
            self._latest, self._waiting = {}, {}
        entry = self._latest[request.pod] = Delayed(action, request)
        self._waiting[entry] = None
        return entry

    def due(self, entry: Delayed) -> bool:
        """Remove an entry whose timer has expired; returns whether nothing has cancelled it."""
        self._forget(entry)
        return not entry.cancelled

    def observe(self, request: Request) -> None:
        """Cancel the pod's last delayed action if this event makes it pointless. Call before handling every request."""
        event = request.event
        entry = self._latest.get(request.pod) if request.pod else None
        if entry is None:
            return
        waits_for = entry.request.event
        if waits_for == JobEvent.POD_PENDING:
            moved_on = event in (JobEvent.POD_RUNNING, JobEvent.POD_FAILED, JobEvent.POD_EVICTED)
            if moved_on and entry.request.pod_uid == request.pod_uid:
                self._cancel(entry)
        elif waits_for in (JobEvent.POD_FAILED, JobEvent.POD_EVICTED) and event == JobEvent.POD_RUNNING:
            self._cancel(entry)

    def done(self, action: str, target: Target) -> None:
        """Cancel the delayed actions that an action just carried out makes pointless: those at its level."""
        if action in INTERNAL_ACTIONS:
            return
        for entry in list(self._waiting):
            if _same_level(action, target, entry):
                self._cancel(entry)

    def clear(self) -> None:
        """Cancel everything; the job is gone."""
        for entry in list(self._waiting):
            self._cancel(entry)

    def _cancel(self, entry: Delayed) -> None:
        entry.cancelled = True
        self._forget(entry)

    def _forget(self, entry: Delayed) -> None:
        self._waiting.pop(entry, None)
        if self._latest.get(entry.request.pod) is entry:
            del self._latest[entry.request.pod]


def _same_level(action: str, target: Target, entry: Delayed) -> bool:
    match action:
        case JobAction.RESTART_TASK:
            return entry.action == action and entry.target.task == target.task
        case JobAction.RESTART_POD:
            return entry.action == action and entry.target.pod == target.pod
        case JobAction.RESTART_PARTITION:
            return entry.action == action and entry.target.partition == target.partition
        case _:
            return entry.action not in (JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION)
