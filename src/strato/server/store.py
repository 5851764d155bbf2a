"""The store: objects in memory, one global revision, a ring of events per resource, durable through a journal.

A write is decided against the newest state (`latest`), made durable by the journal, and only then published:
readers and watchers never see what a crash could take back, and whoever waited for the write is answered after
its commit. Without a journal publishing follows at once.

Bodies are JSON bytes with their ``resourceVersion`` inside, shared by readers, watchers and the journal.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from strato.errors import Gone, InvariantError

_log = logging.getLogger(__name__)

EVENTS_KEPT = 32_768
"""Events kept per resource; a watch from before the oldest is answered 410, as after a compaction."""

_SHARED_BYTES = 4 << 20
"""Larger chunks of frames are not kept for the next watcher."""
_FEW = 64
"""Up to so many changed keys are put into the sorted list one by one; more are sorted in."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One stored object. Like events and changes no work for the garbage collector, which would walk them all."""

    body: bytes
    revision: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """One published change; ``body`` is None for a deletion, ``previous`` None for a creation."""

    revision: int
    key: str
    body: bytes | None
    previous: bytes | None
    tombstone: bytes | None
    """The last state of a deleted object, with the revision of its deletion."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write on its way: what the journal makes durable."""

    resource: str
    key: str
    revision: int
    body: bytes | None
    tombstone: bytes | None


class Journal(Protocol):
    """Makes changes durable, in order."""

    def append(self, change: Change) -> None:
        """Take a change; ``on_commit`` hears of it once it is durable."""
        ...


class Watcher:
    """A reader of one resource's events. Buffers a bounded number; a reader too slow for that is cut off."""

    LIMIT = 65_536

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._events: list[Event] = []
        self._ready = asyncio.Event()
        self.overflowed = False

    def offer(self, events: Sequence[Event]) -> None:
        """Take published events."""
        if len(self._events) + len(events) > self.LIMIT:
            self.overflowed = True
            self._events.clear()
            self._bucket.watchers.discard(self)
        else:
            self._events.extend(events)
        self._ready.set()

    async def take(self) -> list[Event]:
        """Wait for events and return all there are; empty after an overflow."""
        await self._ready.wait()
        self._ready.clear()
        events, self._events = self._events, []
        return events

    def shared(self, events: Sequence[Event], make: Callable[[], bytes]) -> bytes:
        """Return what ``make`` makes of events of this resource, made once for all watchers that read the same ones.

        Watchers woken together read together, so that remembering the last is enough.
        """
        span = (events[0].revision, events[-1].revision)
        known, chunk = self._bucket.last_chunk
        if known != span:
            chunk = make()
            if len(chunk) <= _SHARED_BYTES:
                self._bucket.last_chunk = (span, chunk)
        return chunk

    def wake(self) -> None:
        """Make `take` return what there is, also nothing."""
        self._ready.set()

    def close(self) -> None:
        """Stop receiving."""
        self._bucket.watchers.discard(self)


class Bucket:
    """The objects of one resource."""

    def __init__(self, resource: str, revision: int) -> None:
        self.resource = resource
        self.objects: dict[str, Row] = {}
        """What is durable: all that readers see."""
        self.pending: dict[str, tuple[int, bytes | None]] = {}
        """Newest undurable state by key: what conflicts are decided on."""
        self.events: deque[Event] = deque()
        self.compacted = revision
        """Events up to here are no longer kept."""
        self.newest = 0
        """Revision of the newest event there was."""
        self.watchers: set[Watcher] = set()
        self.last_chunk: tuple[tuple[int, int], bytes] = ((0, 0), b"")
        self._sorted: list[str] = []
        self._changed: dict[str, None] = {}
        """Keys that came or went since ``_sorted`` was brought up to date."""

    def load(self, key: str, row: Row) -> None:
        """Put back an object read from the journal."""
        self.objects[key] = row
        self._changed[key] = None

    def latest(self, key: str) -> bytes | None:
        """Return the newest state of an object, durable or not."""
        found = self.pending.get(key)
        if found is not None:
            return found[1]
        row = self.objects.get(key)
        return None if row is None else row.body

    def keys(self, prefix: str = "") -> Sequence[str]:
        """Return the keys that begin with ``prefix`` in order."""
        keys, low, high = self.span(prefix)
        return keys[low:high] if prefix else keys

    def span(self, prefix: str = "") -> tuple[Sequence[str], int, int]:
        """Return all keys in order, and where those with ``prefix`` begin and end."""
        if self._changed:
            self._sort()
        keys = self._sorted
        if not prefix:
            return keys, 0, len(keys)
        low = bisect_left(keys, prefix)
        return keys, low, bisect_right(keys, prefix + "\U0010ffff", low)

    def _sort(self) -> None:
        """Bring the sorted keys up to date; a new list, because callers may still walk the old one."""
        live, changed = self.objects, self._changed
        if len(changed) <= _FEW:
            keys = self._sorted.copy()
            for key in changed:
                position = bisect_left(keys, key)
                known = position < len(keys) and keys[position] == key
                if key not in live:
                    if known:
                        del keys[position]
                elif not known:
                    keys.insert(position, key)
        else:
            # Two sorted runs merge in one pass.
            keys = [key for key in self._sorted if key in live and key not in changed]
            keys += sorted(key for key in changed if key in live)
            keys.sort()
        self._sorted = keys
        self._changed = {}

    def at(self, revision: int, prefix: str = "") -> tuple[Sequence[str], Callable[[str], bytes]]:
        """Return the keys and bodies as they were at a revision, undoing the kept events since.

        Raises:
            Gone: Events since then are no longer kept.
        """
        keys, objects = self.keys(prefix), self.objects
        before: dict[str, bytes | None] = {}
        for event in self.events_after(revision):
            if event.key.startswith(prefix):
                before.setdefault(event.key, event.previous)
        if not before:
            return keys, lambda key: objects[key].body
        then = set(keys)
        then.difference_update(key for key, body in before.items() if body is None)
        then.update(key for key, body in before.items() if body is not None)

        def body_of(key: str) -> bytes:
            return before.get(key) or objects[key].body

        return sorted(then), body_of

    def publish(self, change: Change) -> Event:
        """Make a durable change visible."""
        key, body = change.key, change.body
        row = self.objects.get(key)
        if body is None:
            if row is None:
                raise InvariantError(f"{self.resource} {key} is deleted but was not there")
            del self.objects[key]
            self._changed[key] = None
        else:
            self.objects[key] = Row(body, change.revision)
            if row is None:
                self._changed[key] = None
        waiting = self.pending.get(key)
        if waiting is not None and waiting[0] == change.revision:
            del self.pending[key]
        self.newest = change.revision
        event = Event(change.revision, key, body, row.body if row else None, change.tombstone)
        self.events.append(event)
        if len(self.events) > EVENTS_KEPT:
            self.compacted = self.events.popleft().revision
        return event

    def events_after(self, revision: int) -> list[Event]:
        """Return the kept events newer than ``revision``.

        Raises:
            Gone: Some of them are no longer kept.
        """
        if revision < self.compacted:
            raise Gone(f"too old resource version: {revision} ({self.compacted})")
        newer: list[Event] = []
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            newer.append(event)
        newer.reverse()
        return newer


class _Waiter(msgspec.Struct, gc=False):
    revision: int
    future: asyncio.Future[None]


class Store:
    """All buckets, the global revision and the order of writes.

    Args:
        revision: Where to go on; restarting from a journal passes the last durable one.
    """

    def __init__(self, revision: int = 1) -> None:
        self.revision = revision
        """The newest revision given out."""
        self.published = revision
        """The newest revision readers can see."""
        self._first_revision = revision
        self._buckets: dict[str, Bucket] = {}
        self._journal: Journal | None = None
        self._waiters: deque[_Waiter] = deque()
        self._failure: Exception | None = None
        self._publishing: deque[Change] = deque()
        self._subscribers: dict[str, list[Callable[[str, Event], None]]] = {}

    def use_journal(self, journal: Journal) -> None:
        """Make every further write durable before it is published."""
        self._journal = journal

    def on_publish(self, resource: str, subscriber: Callable[[str, Event], None]) -> None:
        """Call ``subscriber(resource, event)`` for every published change of a resource, before it is answered."""
        self._subscribers.setdefault(resource, []).append(subscriber)

    @property
    def has_failed(self) -> bool:
        """Whether the journal can be written no more, and every write is refused."""
        return self._failure is not None

    def bucket(self, resource: str) -> Bucket:
        """Return the bucket of a resource (``pods``, ``jobs.batch.volcano.sh``), made on first use."""
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket(resource, self._first_revision)
        return bucket

    def buckets(self) -> Iterator[Bucket]:
        """Iterate all buckets."""
        return iter(list(self._buckets.values()))

    def load(self, resource: str, key: str, body: bytes, revision: int) -> None:
        """Put back an object read from the journal; only before the first write."""
        self.bucket(resource).load(key, Row(body, revision))

    def next_revision(self) -> int:
        """Return the revision that the next `write` will carry; encode it into the body."""
        return self.revision + 1

    def write(
        self, resource: str, key: str, body: bytes | None, tombstone: bytes | None = None
    ) -> asyncio.Future[None]:
        """Write an object (None deletes) and return a future that ends when it is durable and visible.

        ``body`` must carry `next_revision`; nothing may await between that call and this one.

        Raises:
            ApiError: The journal has failed; what is already stored can still be read.
        """
        if self._failure is not None:
            raise self._failure
        self.revision += 1
        change = Change(resource, key, self.revision, body, tombstone)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._journal is None:
            self._publish((change,))
            future.set_result(None)
            return future
        self.bucket(resource).pending[key] = (self.revision, body)
        self._waiters.append(_Waiter(self.revision, future))
        self._journal.append(change)
        return future

    async def settled(self, resource: str, key: str) -> None:
        """Wait until the newest state of an object is durable: whoever answers with it must not tell too much."""
        waiting = self.bucket(resource).pending.get(key)
        if waiting is not None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            insort(self._waiters, _Waiter(waiting[0], future), key=lambda waiter: waiter.revision)
            await future

    def committed(self, changes: Sequence[Change]) -> None:
        """Publish what the journal has made durable and answer the writers; called on the loop's thread."""
        self._publish(changes)
        last = changes[-1].revision
        while self._waiters and self._waiters[0].revision <= last:
            future = self._waiters.popleft().future
            if not future.done():
                future.set_result(None)

    def failed(self, error: Exception) -> None:
        """Answer every waiting writer with an error, and every later one: the journal cannot be written any more."""
        self._failure = error
        for bucket in self._buckets.values():
            bucket.pending.clear()
        for waiter in self._waiters:
            if not waiter.future.done():
                waiter.future.set_exception(error)
        self._waiters.clear()

    def _publish(self, changes: Sequence[Change]) -> None:
        """Make changes visible in order. A subscriber may write: what it wrote is published after them."""
        queue = self._publishing
        queue.extend(changes)
        if len(queue) > len(changes):
            return  # called by a subscriber: the loop below is running
        by_bucket: dict[str, list[Event]] = {}
        while queue:
            change = queue[0]
            event = self.bucket(change.resource).publish(change)
            self.published = change.revision
            by_bucket.setdefault(change.resource, []).append(event)
            for subscriber in self._subscribers.get(change.resource, ()):
                try:
                    subscriber(change.resource, event)
                except Exception:
                    _log.exception("a subscriber failed: resource=%s key=%s", change.resource, change.key)
            queue.popleft()
        for resource, events in by_bucket.items():
            for watcher in list(self._buckets[resource].watchers):
                watcher.offer(events)

    def watch(self, resource: str, revision: int) -> tuple[Watcher, list[Event]]:
        """Return a watcher and the events it missed since ``revision``.

        Raises:
            Gone: Those are no longer kept, or the revision has never been given out.
        """
        if revision > self.revision:
            raise Gone(f"too large resource version: {revision} ({self.published})")
        bucket = self.bucket(resource)
        missed = bucket.events_after(revision)
        watcher = Watcher(bucket)
        bucket.watchers.add(watcher)
        return watcher, missed
