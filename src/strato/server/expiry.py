"""Delete Events an hour after their last write, as kube-apiserver does, or earlier if there are too many."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from strato.api import catalog
from strato.clock import parse_time
from strato.server.preparation import at_revision
from strato.server.rest.state import State
from strato.server.snapshot import Change

TTL_SECONDS = 3600.0
MOST_BYTES = 64 << 20
"""Most bytes of all Events, about 100,000 usual ones, so that a busy hour does not fill the memory."""
AT_ONCE = 64
"""Events deleted in one turn of the loop."""
_AT_LEAST_SECONDS = 30.0
"""Shortest pause between two rounds, so that a round deletes many Events that expire close together."""
_OVER_LIMIT_SECONDS = 1.0
"""Pause between rounds while there are too many."""
_BETWEEN_SECONDS = 0.005

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class _Kept(msgspec.Struct, frozen=True, gc=False):
    end: float
    """When the Event expires, unless it is written again."""
    size: int


class EventExpiry:
    """Deletes expired Events, and the oldest ones while there are too many. Costs nothing without Events.

    Must be made on the server's event loop.
    """

    def __init__(self, state: State, most_bytes: int = MOST_BYTES) -> None:
        self._state, self._most_bytes = state, most_bytes
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        """By resource and key, in the order of the last write."""
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over_limit = False
        for kept, resource, key in sorted(self._stored(), key=lambda stored: stored[0].end):
            self._keep(resource, key, kept)
        for kind in (catalog.EVENT, catalog.EVENTS_EVENT):  # events.k8s.io: of earlier versions
            state.store.on_publish(kind.resource, self._observe)
        self._arm()

    def _stored(self) -> list[tuple[_Kept, str, str]]:
        found = []
        for kind in (catalog.EVENT, catalog.EVENTS_EVENT):
            for key, row in self._state.bucket(kind).objects.items():
                event = _decode(row.body)
                text = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
                found.append((_Kept(parse_time(text) + TTL_SECONDS, len(row.body)), kind.resource, key))
        return found

    def _observe(self, resource: str, event: Change) -> None:
        before = self._kept.pop((resource, event.key), None)
        if before is not None:
            self._bytes -= before.size
        if event.body is not None:
            self._keep(resource, event.key, _Kept(self._state.clock.now() + TTL_SECONDS, len(event.body)))
            if self._timer is None or (self._bytes > self._most_bytes and not self._is_over_limit):
                self._arm()

    def _keep(self, resource: str, key: str, kept: _Kept) -> None:
        self._kept[resource, key] = kept
        self._bytes += kept.size

    def _arm(self) -> None:
        """Schedule the next round for the first expiry; soon if there are too many."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_over_limit = self._bytes > self._most_bytes
        if self._kept:
            first = next(iter(self._kept.values())).end - self._state.clock.now()
            self._wake(_OVER_LIMIT_SECONDS if self._is_over_limit else max(_AT_LEAST_SECONDS, first))

    def _wake(self, pause: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(pause, self._expire)

    def _expire(self) -> None:
        for _ in range(AT_ONCE):
            if not self._is_one_due():
                return self._arm()
            (resource, key), kept = self._kept.popitem(last=False)
            self._bytes -= kept.size
            store = self._state.store
            bucket = store.bucket(resource)
            if key not in bucket.pending:  # otherwise `_observe` will be called for the pending write or deletion
                store.write(resource, key, None, at_revision(bucket.objects[key].body, store.next_revision()))
        return self._wake(_BETWEEN_SECONDS)

    def _is_one_due(self) -> bool:
        if not self._kept or self._state.store.failure is not None:
            return False
        return self._bytes > self._most_bytes or next(iter(self._kept.values())).end <= self._state.clock.now()
