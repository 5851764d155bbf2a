"""Actions that wait for their policy's timeout, and what cancels them.

Per job there is at most one entry per pod name (the empty name stands for events about no pod). The entries only
hold plans; the controller runs the timers and asks `due` when one rings.

Source: volcano-controllers A2, "Delayed actions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strato.controllers.job.requests import Request, Target
from strato.controllers.job.terms import INTERNAL_ACTIONS, Action, JobEvent


@dataclass(eq=False, slots=True)
class Delayed:
    """One action that waits."""

    action: str
    request: Request
    cancelled: bool = False

    @property
    def target(self) -> Target:
        """The part of the job it is about."""
        return Target(self.request.task, self.request.pod, self.request.partition)


_NO_ENTRIES: Final[dict[str, Delayed]] = {}
_NONE_WAITING: Final[dict[Delayed, None]] = {}
"""What nearly all jobs have; never changed."""


class DelayedActions:
    """What waits for one job."""

    __slots__ = ("_entries", "_waiting")

    def __init__(self) -> None:
        self._entries = _NO_ENTRIES
        self._waiting = _NONE_WAITING

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, action: str, request: Request) -> Delayed | None:
        """Remember an action; None when the same one waits for that pod already (its timer goes on).

        A different action takes the pod's entry, but the timer of the one before rings all the same.
        """
        known = self._entries.get(request.pod)
        if known is not None and known.action == action:
            return None
        if self._entries is _NO_ENTRIES:
            self._entries, self._waiting = {}, {}
        entry = self._entries[request.pod] = Delayed(action, request)
        self._waiting[entry] = None
        return entry

    def due(self, entry: Delayed) -> bool:
        """Return whether an entry whose timer rang is still wanted, and forget it."""
        self._forget(entry)
        return not entry.cancelled

    def observe(self, request: Request) -> None:
        """Cancel what a pod's event makes pointless. Call before handling every request."""
        event = request.event
        entry = self._entries.get(request.pod) if request.pod else None
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
        """Cancel what an action that was just carried out makes pointless: all that waits at its level."""
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
        if self._entries.get(entry.request.pod) is entry:
            del self._entries[entry.request.pod]


def _same_level(action: str, target: Target, entry: Delayed) -> bool:
    match action:
        case Action.RESTART_TASK:
            return entry.action == action and entry.target.task == target.task
        case Action.RESTART_POD:
            return entry.action == action and entry.target.pod == target.pod
        case Action.RESTART_PARTITION:
            return entry.action == action and entry.target.partition == target.partition
        case _:
            return entry.action not in (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
