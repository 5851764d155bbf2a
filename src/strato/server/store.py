"""The store: objects in memory, one global revision, a ring of events per resource, durable through a journal.

A write is checked for conflicts against the newest state (`latest`), made durable by the journal, and only then
published. So readers and watchers never see a change that a crash could roll back, and responses wait for the commit
(`wait_durable`). Without a journal a write is published at once.

Clients that die with this process (the cluster's own controllers, scheduler and nodes) may read uncommitted: their
watchers get a change when it is written. Their writes because of that change come later in the journal, so a crash
that rolls back a change rolls back everything that followed from it.

Bodies are JSON bytes with their ``resourceVersion`` inside, shared by readers, watchers and the journal.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from strato.errors import ApiError, Gone, InvariantError
from strato.server.snapshot import AnyRow, Change, PackedRow, Packer, Row, Snapshot
from strato.server.sortedkeys import SortedKeys

_log = logging.getLogger(__name__)

EVENTS_KEPT = 32_768
"""Most watch events kept per resource; a watch from before the oldest is answered with 410, as after a compaction."""

EVENTS_KEPT_BYTES = 256 << 20
"""Most bytes of the kept events of a resource, so that many writes of one large object do not fill the memory."""
_SHARED_BYTES = 4 << 20
"""Largest chunk of encoded events that `Watcher.shared` keeps for the next watcher."""


class Journal(Protocol):
    """Makes changes durable in order, and then calls `Store.committed`."""

    def append(self, change: Change) -> None:
        """Queue a change for the next commit."""


def _ignore() -> None:
    """Do nothing."""


class Watcher:
    """Buffers one resource's changes for a reader; a reader that lets more than `LIMIT` pile up is cut off."""

    LIMIT = 65_536

    def __init__(self, group: dict[Watcher, None], bucket: Bucket) -> None:
        self._group, self._bucket = group, bucket
        self._events: list[Change] = []
        self.on_change: Callable[[], None] = _ignore
        """Called when there are changes to `take`, or the watcher has been cut off."""
        self.is_cut_off = False
        """Whether changes were dropped because the reader was too slow; it has to list again."""
        group[self] = None

    def push_all(self, events: Sequence[Change]) -> None:
        """Add changes to the buffer."""
        if len(self._events) + len(events) > self.LIMIT:
            self.cut_off()
        else:
            self._events.extend(events)
            self.on_change()

    def push(self, change: Change) -> None:
        """Add one change, as `push_all` does."""
        if len(self._events) >= self.LIMIT:
            self.cut_off()
        else:
            self._events.append(change)
            self.on_change()

    def cut_off(self) -> None:
        """Drop the buffer and stop; the reader must list again."""
        self.is_cut_off = True
        self._events.clear()
        self.close()
        self.on_change()

    @property
    def has_events(self) -> bool:
        """Whether there are changes to `take`."""
        return bool(self._events)

    def take(self, limit: int = LIMIT) -> list[Change]:
        """Remove and return the oldest changes; none after the watcher was cut off."""
        events = self._events
        if len(events) > limit:
            self._events = events[limit:]
            return events[:limit]
        if events:
            self._events = []
        return events

    def shared(self, events: Sequence[Change], make: Callable[[], bytes]) -> bytes:
        """Return the chunk that ``make`` encodes of ``events``, encoded once for all watchers that took the same ones.

        Watchers of a resource are woken together and take the same events, so the bucket keeps only the last chunk.
        """
        span = (events[0].revision, events[-1].revision)
        known, chunk = self._bucket.last_chunk
        if known != span:
            chunk = make()
            if len(chunk) <= _SHARED_BYTES:
                self._bucket.last_chunk = (span, chunk)
        return chunk

    def close(self) -> None:
        """Stop receiving changes."""
        self._group.pop(self, None)


class Bucket:
    """The objects of one resource."""

    def __init__(self, resource: str, revision: int) -> None:
        self.resource = resource
        self.objects: dict[str, AnyRow] = {}
        """The durable objects, which readers see. An object with no kept event may be packed."""
        self._packer = Packer()
        self.pending: dict[str, Change] = {}
        """The newest change that is not durable yet, by key; writes are checked for conflicts against it."""
        self.events: deque[Change] = deque()
        self.compacted = revision
        """Events up to this revision are no longer kept."""
        self.newest = 0
        """Revision of the newest event."""
        self.written = 0
        """Revision of the newest change, durable or not. Caches of the bucket's content hold while this and ``newest``
        are the same."""
        self.watchers: dict[Watcher, None] = {}
        """Watchers of durable changes, oldest first, so that equal runs notify them in the same order."""
        self.uncommitted: dict[Watcher, None] = {}
        """Watchers of uncommitted changes."""
        self.last_chunk: tuple[tuple[int, int], bytes] = ((0, 0), b"")
        self._events_bytes = 0
        self._snapshot: weakref.ref[Snapshot] | None = None
        """The newest snapshot, while someone reads it."""
        self._keys = SortedKeys()
        """The keys of ``objects``."""

    def load(self, key: str, row: Row) -> None:
        """Put back an object read from the journal."""
        self.objects[key] = self._packer.pack(row) if len(self.objects) > EVENTS_KEPT else row
        self._keys.add(key)

    def latest(self, key: str) -> bytes | None:
        """Return the newest state of an object, durable or not; the identical bytes object until it changes."""
        found = self.pending.get(key) or self.objects.get(key)
        if isinstance(found, PackedRow):
            found = self.objects[key] = Row(found.body, found.revision)
        return None if found is None else found.body

    def durable(self, key: str) -> AnyRow | None:
        """Return the durable state of an object, which readers see."""
        return self.objects.get(key)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Iterate in order the keys that start with ``prefix``, whatever changes meanwhile."""
        view = self._keys.view()
        return view.slice(*view.span(prefix))

    def newest_keys(self, prefix: str = "") -> list[str]:
        """Return the keys of the newest state: durable ones in order, then those whose creation is not durable yet."""
        pending = {key: change.body for key, change in self.pending.items() if key.startswith(prefix)}
        keys = [key for key in self.keys(prefix) if pending.get(key, b"") is not None]
        return keys + [key for key, body in pending.items() if body is not None and key not in self.objects]

    def count(self, prefix: str) -> int:
        """Return the number of durable objects whose keys start with ``prefix``."""
        low, high = self._keys.view().span(prefix)
        return high - low

    def snapshot(self, published: int, revision: int = 0) -> Snapshot:
        """Return a snapshot of the objects at a revision.

        Args:
            published: The newest revision that readers can see.
            revision: 0 is ``published``.

        Raises:
            Gone: Events since the revision are no longer kept.
        """
        undone: dict[str, bytes | None] = {}
        if revision and revision < max(self.newest, self.compacted):
            for event in self.events_after(revision):
                undone.setdefault(event.key, event.previous)
        newest = self._snapshot() if self._snapshot is not None else None
        if newest is None or not newest.is_newest:
            older, newest = newest, Snapshot(self.objects, self._keys.view(), published)
            if older is not None:
                older.newer = newest
            self._snapshot = weakref.ref(newest)
        return Snapshot(self.objects, self._keys.view(), revision, undone, newest) if undone else newest

    def publish(self, change: Change) -> None:
        """Make a durable change visible."""
        key, body = change.key, change.body
        if body is None:
            if self.objects.pop(key, None) is None:
                raise InvariantError(f"{self.resource} {key} is deleted but was not there")
            self._keys.remove(key)
        else:
            if key not in self.objects:
                self._keys.add(key)
            self.objects[key] = Row(body, change.revision)
        if self.pending.get(key) is change:
            del self.pending[key]
        if self._snapshot is not None:
            snapshot = self._snapshot()
            if snapshot is None:
                self._snapshot = None
            else:
                snapshot.changed(change)
        self.newest = change.revision
        events = self.events
        events.append(change)
        self._events_bytes += len(body or change.tombstone or b"")
        while len(events) > EVENTS_KEPT or (self._events_bytes > EVENTS_KEPT_BYTES and len(events) > 1):
            oldest = events.popleft()
            self._events_bytes -= len(oldest.body or oldest.tombstone or b"")
            self.compacted = oldest.revision
            row = self.objects.get(oldest.key)
            if row is not None and row.revision == oldest.revision and isinstance(row, Row):
                self.objects[oldest.key] = self._packer.pack(row)

    def events_after(self, revision: int) -> list[Change]:
        """Return the kept events newer than ``revision``.

        Raises:
            Gone: Some of them are no longer kept.
        """
        if revision < self.compacted:
            raise Gone(f"too old resource version: {revision} ({self.compacted})")
        newer: list[Change] = []
        for event in reversed(self.events):
            if event.revision <= revision:
                break
            newer.append(event)
        newer.reverse()
        return newer


class Store:
    """All buckets, the global revision and the order of writes."""

    def __init__(self) -> None:
        revision = 1
        self.revision = revision
        """The newest revision, durable or not."""
        self.published = revision
        """The newest revision that readers can see."""
        self._first_revision = revision
        self._buckets: dict[str, Bucket] = {}
        self._journal: Journal | None = None
        self._undurable: deque[Change] = deque()
        self._waiters: deque[tuple[int, Callable[[ApiError | None], None]]] = deque()
        self._failure: ApiError | None = None
        self._publishing: deque[Change] = deque()
        self._subscribers: dict[str, list[Callable[[str, Change], None]]] = {}

    def use_journal(self, journal: Journal) -> None:
        """Make every further write durable before it is published."""
        self._journal = journal

    def on_publish(self, resource: str, subscriber: Callable[[str, Change], None]) -> None:
        """Call ``subscriber(resource, change)`` for every published change, before the write is answered."""
        self._subscribers.setdefault(resource, []).append(subscriber)

    @property
    def failure(self) -> ApiError | None:
        """The error with which every write is refused while the journal cannot be written; else None."""
        return self._failure

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
        """Add an object read from the journal; only before the first write."""
        self.bucket(resource).load(key, Row(body, revision))

    def begin_at(self, revision: int) -> None:
        """Set the revision to the last one in the journal. Watches from before it are answered with 410."""
        self.revision = self.published = self._first_revision = revision
        for bucket in self._buckets.values():
            bucket.compacted = revision

    def next_revision(self) -> int:
        """Return the revision of the next `write`, which the caller must encode into the body."""
        return self.revision + 1

    def write(self, resource: str, key: str, body: bytes | None, tombstone: bytes | None = None) -> None:
        """Write an object, or delete it if ``body`` is None; `wait_durable` waits until that is durable and visible.

        ``body`` must carry `next_revision`; nothing may await between that call and this one.

        Raises:
            ApiError: The journal cannot be written now; what is already stored can still be read.
        """
        if self._failure is not None:
            raise self._failure
        self.revision += 1
        bucket = self._buckets.get(resource) or self.bucket(resource)
        change = Change(resource, key, self.revision, body, bucket.latest(key), tombstone)
        bucket.written = self.revision
        if self._journal is None:
            self._publish((change,))
            return
        bucket.pending[key] = change
        self._undurable.append(change)
        self._journal.append(change)
        if bucket.uncommitted:
            for watcher in tuple(bucket.uncommitted):
                watcher.push(change)

    async def wait_durable(self) -> ApiError | None:
        """Wait until all writes so far are durable and visible; return the error if the commit fails."""
        if not self._undurable:
            return None
        future: asyncio.Future[ApiError | None] = asyncio.get_running_loop().create_future()
        self.when_durable(lambda failure: None if future.done() else future.set_result(failure))
        return await future

    def when_durable(self, callback: Callable[[ApiError | None], None]) -> None:
        """Call ``callback`` with the result of `wait_durable`, at once or when it is known."""
        if self._undurable and self._failure is None:
            self._waiters.append((self.revision, callback))
        else:
            callback(self._failure if self._undurable else None)

    def committed(self, changes: Sequence[Change]) -> None:
        """Publish changes that the journal has made durable, and notify the writers; called on the loop's thread."""
        for _ in changes:
            self._undurable.popleft()
        self._publish(changes)
        last = changes[-1].revision
        while self._waiters and self._waiters[0][0] <= last:
            self._notify(self._waiters.popleft()[1], None)

    def _notify(self, callback: Callable[[ApiError | None], None], failure: ApiError | None) -> None:
        try:
            callback(failure)
        except Exception:
            _log.exception("a callback that waited for the journal failed")

    def failed(self, error: ApiError) -> None:
        """Refuse writes until `recovered`, because the journal cannot be written; waiting writers get ``error``.

        Their changes stay pending, because the journal still has them: it commits them once that is possible, or they
        are lost with this process. Writes are checked for conflicts against them, but no client is told that they are
        durable.
        """
        self._failure = error
        waiters = tuple(self._waiters)
        self._waiters.clear()
        for _, callback in waiters:
            self._notify(callback, error)

    def recovered(self) -> None:
        """Accept writes again: the journal has committed the changes that were pending when it failed."""
        self._failure = None

    def _publish(self, changes: Sequence[Change]) -> None:
        """Make changes visible in order; changes that a subscriber writes meanwhile are published after them."""
        queue = self._publishing
        queue.extend(changes)
        if len(queue) > len(changes):
            return  # called by a subscriber: the loop below is running
        by_bucket: dict[str, list[Change]] = {}
        while queue:
            change = queue[0]
            resource = change.resource
            self._buckets[resource].publish(change)
            self.published = change.revision
            batch = by_bucket.get(resource)
            if batch is None:
                batch = by_bucket[resource] = []
            batch.append(change)
            for subscriber in self._subscribers.get(resource, ()):
                try:
                    subscriber(resource, change)
                except Exception:
                    _log.exception("a subscriber failed: resource=%s key=%s", resource, change.key)
            queue.popleft()
        for resource, events in by_bucket.items():
            for watcher in tuple(self._buckets[resource].watchers):
                watcher.push_all(events)

    def watch(self, resource: str, revision: int, *, uncommitted: bool = False) -> tuple[Watcher, list[Change]]:
        """Return a watcher and the changes since ``revision``; with ``uncommitted`` also those not durable yet.

        Raises:
            Gone: These changes are no longer kept, or the revision is greater than any so far.
        """
        if revision > self.revision:
            raise Gone(f"too large resource version: {revision} ({self.published})")
        bucket = self.bucket(resource)
        missed = bucket.events_after(revision)
        if not uncommitted or self._journal is None:
            return Watcher(bucket.watchers, bucket), missed
        missed += [change for change in self._undurable if change.resource == resource and change.revision > revision]
        return Watcher(bucket.uncommitted, bucket), missed
