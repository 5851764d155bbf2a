"""Events are forgotten an hour after they were last written, as by a real API server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from strato.api import catalog
from strato.clock import parse_time
from strato.server.objects import at_revision
from strato.server.rest.state import State
from strato.server.store import Change

LIFE_SECONDS = 3600.0
_AT_LEAST_SECONDS = 30.0
"""Shortest pause between two rounds: many events end together."""
AT_ONCE = 64
"""Events deleted before others are served."""
_BETWEEN_SECONDS = 0.005

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class _Due(NamedTuple):
    instant: float
    """When the event's life ends, unless it is written again."""
    resource: str
    key: str
    revision: int


class EventExpiry:
    """Deletes events whose time is up; must be made on the server's event loop. Costs nothing without events."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._due: deque[_Due] = deque(sorted(self._stored()))
        self._timer: asyncio.TimerHandle | None = None
        self._are_left = False
        """Whether more have ended than were deleted at once."""
        for kind in (catalog.EVENT, catalog.EVENTS_EVENT):
            state.store.on_publish(kind.resource, self._observe)
        self._arm()

    def _stored(self) -> list[_Due]:
        found = []
        for kind in (catalog.EVENT, catalog.EVENTS_EVENT):
            for key, row in self._state.bucket(kind).objects.items():
                event = _decode(row.body)
                text = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
                found.append(_Due(parse_time(text) + LIFE_SECONDS, kind.resource, key, row.revision))
        return found

    def _observe(self, resource: str, event: Change) -> None:
        if event.body is not None:
            self._due.append(_Due(self._state.clock.now() + LIFE_SECONDS, resource, event.key, event.revision))
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._due:
            pause = max(_AT_LEAST_SECONDS, self._due[0].instant - self._state.clock.now())
            if self._are_left:
                pause = _BETWEEN_SECONDS
            self._timer = asyncio.get_running_loop().call_later(pause, self._expire)

    def _expire(self) -> None:
        self._timer = None
        store, now = self._state.store, self._state.clock.now()
        for _ in range(AT_ONCE):
            if not self._due or self._due[0].instant > now or store.failure is not None:
                break
            due = self._due.popleft()
            bucket = store.bucket(due.resource)
            row = bucket.objects.get(due.key)
            # Whoever has written it since has given it another hour.
            if row is not None and row.revision == due.revision and due.key not in bucket.pending:
                last = at_revision(row.body, store.next_revision())
                store.write(due.resource, due.key, None, last)
        self._are_left = bool(self._due) and self._due[0].instant <= now and store.failure is None
        self._arm()
