"""The store against a plain dictionary: whatever happens in whatever order, readers see one consistent history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strato.errors import ApiError, Gone, Unavailable
from strato.server import store as stores
from strato.server.snapshot import Change, PackedRow, Packer, Row
from strato.server.store import Store
from tests.profiles import examples

T = TypeVar("T")
KEYS = st.sampled_from([f"{namespace}/{name}" for namespace in "xy" for name in "abc"])
EVENTS_KEPT = 6
SIMILAR = [b'{"a":"%s","n":%d}' % (b"abcdefgh" * 100, number) for number in range(3)]
"""Worth packing."""


class Slow:
    """A journal that makes durable what it is told to, when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Change] = []

    def append(self, change: Change) -> None:
        self.waiting.append(change)


def replayed(contents: dict[str, bytes], events: list[Change]) -> dict[str, bytes]:
    """Return what a reader has who saw ``contents`` and then the events."""
    seen = dict(contents)
    for event in events:
        assert (event.previous is not None) == (event.key in seen)
        assert event.previous == seen.get(event.key)
        if event.body is None:
            del seen[event.key]
        else:
            seen[event.key] = event.body
    return seen


class StoreMachine(RuleBasedStateMachine):
    """Writes, commits and reads in any order; ``history`` is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store, self.journal = Store(), Slow()
        self.store.use_journal(self.journal)
        self.first = self.store.revision
        self.latest: dict[str, bytes] = {}
        self.history: dict[int, dict[str, bytes]] = {self.first: {}}
        """Durable contents by revision."""
        self.written: dict[int, None] = {}
        """Revisions of all changes, durable or not."""
        self.changed: list[int] = []
        """Revisions of durable changes."""
        self.waiting: list[tuple[int, asyncio.Task[ApiError | None]]] = []
        self.watchers: list[tuple[stores.Watcher, bool, dict[str, bytes]]] = []
        """With whether they run ahead, and what they have seen."""
        self.snapshots: list[tuple[stores.Snapshot, str, dict[str, bytes]]] = []
        """With the prefix they are read by, and what they show."""

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(main)

    @initialize()
    def keep_few_events(self) -> None:
        self.kept, stores.EVENTS_KEPT = stores.EVENTS_KEPT, EVENTS_KEPT

    def teardown(self) -> None:
        for _, waiting in self.waiting:
            waiting.cancel()
        self.run(asyncio.sleep(0))
        stores.EVENTS_KEPT = self.kept
        self.loop.close()

    # writes

    @rule(key=KEYS, value=st.sampled_from([b"{}", b"[]", *SIMILAR]))
    def put(self, key: str, value: bytes) -> None:
        self._write(key, value)

    @precondition(lambda self: self.latest)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self._write(data.draw(st.sampled_from(sorted(self.latest))), None)

    def _write(self, key: str, body: bytes | None) -> None:
        async def write() -> asyncio.Task[ApiError | None]:
            self.store.write("things", key, body, b"last" if body is None else None)
            waiting = asyncio.ensure_future(self.store.wait_durable())
            await asyncio.sleep(0)
            return waiting

        revision = self.store.next_revision()
        self.waiting.append((revision, self.run(write())))
        self.written[revision] = None
        if body is None:
            del self.latest[key]
        else:
            self.latest[key] = body

    @precondition(lambda self: self.journal.waiting)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.journal.waiting)))
        batch, self.journal.waiting = self.journal.waiting[:count], self.journal.waiting[count:]
        now = dict(self.history[max(self.history)])
        for change in batch:
            if change.body is None:
                del now[change.key]
            else:
                now[change.key] = change.body
            self.history[change.revision] = dict(now)
            self.changed.append(change.revision)

        async def commit() -> None:
            self.store.committed(batch)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        self.run(commit())

    # reads

    @rule(key=KEYS)
    def newest_state_is_what_was_written_last(self, key: str) -> None:
        assert self.store.bucket("things").latest(key) == self.latest.get(key)

    @rule(data=st.data(), prefix=st.sampled_from(["", "x/", "y/"]))
    def list_at_any_revision(self, data: st.DataObject, prefix: str) -> None:
        revision = data.draw(st.sampled_from(sorted(self.history)))
        wanted = {key: body for key, body in self.history[revision].items() if key.startswith(prefix)}
        try:
            snapshot = self.store.bucket("things").snapshot(self.store.published, revision)
        except Gone:
            assert self._is_compacted(revision)
            return
        assert not self._is_compacted(revision)
        self._check(snapshot, prefix, wanted)
        self.snapshots.append((snapshot, prefix, wanted))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data(), is_kept=st.booleans())
    def a_snapshot_stays_as_it_was(self, data: st.DataObject, is_kept: bool) -> None:
        position = data.draw(st.integers(0, len(self.snapshots) - 1))
        self._check(*self.snapshots[position])
        if not is_kept:
            del self.snapshots[position]

    def _check(self, snapshot: stores.Snapshot, prefix: str, wanted: dict[str, bytes]) -> None:
        keys = sorted(wanted)
        assert list(snapshot.items(prefix)) == [(key, wanted[key]) for key in keys]
        assert snapshot.count(prefix) == len(keys)
        for position, key in enumerate(keys):
            assert list(snapshot.keys(prefix, key)) == keys[position + 1 :]
            assert snapshot.count(prefix, key) == len(keys) - position - 1

    @rule(data=st.data(), uncommitted=st.booleans())
    def watch_from_any_revision(self, data: st.DataObject, uncommitted: bool) -> None:
        revision = data.draw(st.sampled_from(sorted(self.history)))
        try:
            watcher, missed = self.store.watch("things", revision, uncommitted=uncommitted)
        except Gone:
            assert self._is_compacted(revision)
            return
        assert not self._is_compacted(revision)
        on_change = list(self.written) if uncommitted else self.changed
        assert [event.revision for event in missed] == [one for one in on_change if one > revision]
        self.watchers.append((watcher, uncommitted, replayed(self.history[revision], missed)))

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def a_watcher_reads(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.watchers) - 1))
        watcher, uncommitted, seen = self.watchers[position]
        now = replayed(seen, watcher.take())
        self.watchers[position] = (watcher, uncommitted, now)
        assert now == (self.latest if uncommitted else self.history[max(self.history)])

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def a_watcher_leaves(self, data: st.DataObject) -> None:
        watcher, _, _ = self.watchers.pop(data.draw(st.integers(0, len(self.watchers) - 1)))
        watcher.close()

    @rule(uncommitted=st.integers(1, 3))
    def a_revision_of_the_future_cannot_be_watched(self, uncommitted: int) -> None:
        with pytest.raises(Gone):
            self.store.watch("things", self.store.revision + uncommitted)

    def _is_compacted(self, revision: int) -> bool:
        dropped = self.changed[:-EVENTS_KEPT]
        return bool(dropped) and revision < dropped[-1]

    @invariant()
    def readers_see_what_is_durable_and_no_more(self) -> None:
        durable = self.history[max(self.history)]
        bucket = self.store.bucket("things")
        assert self.store.published == max(self.history)
        assert {key: row.body for key, row in bucket.objects.items()} == durable
        assert list(bucket.keys()) == sorted(durable)

    @invariant()
    def writers_are_answered_when_their_write_is_durable(self) -> None:
        for revision, waiting in self.waiting:
            assert waiting.done() == (revision <= self.store.published)

    @invariant()
    def nobody_is_kept_who_has_left(self) -> None:
        bucket = self.store.bucket("things")
        assert bucket.watchers.keys() == {watcher for watcher, uncommitted, _ in self.watchers if not uncommitted}
        assert bucket.uncommitted.keys() == {watcher for watcher, uncommitted, _ in self.watchers if uncommitted}


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=examples(50), stateful_step_count=40, deadline=None)


async def test_a_watcher_that_does_not_read_is_cut_off_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.Watcher, "LIMIT", 3)
    store = Store()
    watcher, _ = store.watch("things", store.revision)
    for number in range(4):
        store.write("things", f"k{number}", b"v")
    assert watcher.take() == []
    assert watcher.is_cut_off
    assert not store.bucket("things").watchers


async def test_a_journal_that_fails_refuses_writes_until_it_has_committed_what_it_was_given() -> None:
    store, journal = Store(), Slow()
    store.use_journal(journal)
    store.write("things", "a", b"1")
    kept = asyncio.ensure_future(store.wait_durable())
    await asyncio.sleep(0)
    store.committed(journal.waiting)
    journal.waiting = []
    watcher, _ = store.watch("things", store.revision)
    uncommitted, _ = store.watch("things", store.revision, uncommitted=True)
    store.write("things", "b", b"2")
    unknown = asyncio.ensure_future(store.wait_durable())
    await asyncio.sleep(0)
    store.failed(Unavailable("disk full"))
    assert await kept is None
    assert isinstance(await unknown, Unavailable)
    assert isinstance(await store.wait_durable(), Unavailable), "what is pending may never be durable"
    with pytest.raises(Unavailable):
        store.write("things", "c", b"3")
    assert "b" not in store.bucket("things").objects
    assert store.bucket("things").latest("b") == b"2"
    assert [change.key for change in uncommitted.take()] == ["b"]
    store.recovered()
    store.committed(journal.waiting)
    journal.waiting = []
    assert await store.wait_durable() is None
    assert [change.key for change in watcher.take()] == ["b"], "told once, by the commit"
    assert not uncommitted.is_cut_off
    store.write("things", "c", b"3")
    assert [change.key for change in journal.waiting] == ["c"]


async def test_a_subscriber_that_writes_is_published_after_what_it_answers() -> None:
    store = Store()
    seen: list[tuple[str, str]] = []

    def echo(resource: str, event: Change) -> None:
        seen.append((resource, event.key))
        if resource == "things":
            store.write("echoes", event.key, event.body)

    for resource in ("things", "echoes"):
        store.on_publish(resource, echo)
    store.write("things", "a", b"1")
    assert seen == [("things", "a"), ("echoes", "a")]
    assert store.bucket("echoes").latest("a") == b"1"


async def test_a_subscriber_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    seen: list[str] = []

    def fail(resource: str, event: Change) -> None:
        raise ValueError(resource)

    store.on_publish("things", fail)
    store.on_publish("things", lambda _resource, event: seen.append(event.key))
    store.write("things", "a", b"1")
    assert seen == ["a"]
    assert "a subscriber failed" in caplog.text


def test_what_no_kept_event_is_about_is_packed_and_reads_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "EVENTS_KEPT", EVENTS_KEPT)
    store = Store()
    bodies = {f"x/{number}": b'{"a":"%s","n":%d}' % (b"abcdefgh" * 100, number) for number in range(20)}
    for key, body in bodies.items():
        store.write("things", key, body)
    bucket = store.bucket("things")
    packed = [key for key in bodies if isinstance(bucket.durable(key), PackedRow)]
    assert len(packed) == 20 - EVENTS_KEPT - 1, "but for the model, and what events are kept of"
    assert dict(bucket.snapshot(store.published).items()) == bodies
    first = bucket.latest(packed[0])
    assert first == bodies[packed[0]]
    assert bucket.latest(packed[0]) is first, "conflicts are decided by identity"
    store.write("things", packed[1], b"{}")
    assert bucket.latest(packed[1]) == b"{}"


def test_what_was_loaded_is_packed_where_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "EVENTS_KEPT", EVENTS_KEPT)
    store = Store()
    for number in range(20):
        store.load("things", f"x/{number}", SIMILAR[number % 3], number + 2)
    rows = [store.bucket("things").durable(f"x/{number}") for number in range(20)]
    assert [row.body for row in rows if row is not None] == [SIMILAR[number % 3] for number in range(20)]
    assert sum(isinstance(row, PackedRow) for row in rows) > 10


@given(st.lists(st.binary(max_size=40).map(lambda part: b"0123456789abcdef" * 40 + part), min_size=1, max_size=20))
def test_what_is_packed_is_what_it_was(bodies: list[bytes]) -> None:
    packer = Packer()
    rows = [packer.pack(Row(body, revision)) for revision, body in enumerate(bodies)]
    assert [row.body for row in rows] == bodies
    assert [row.revision for row in rows] == list(range(len(bodies)))


def test_bodies_of_many_kinds_find_their_model_and_odd_ones_stay_whole() -> None:
    packer = Packer()
    kinds = [random.Random(seed).randbytes(1200) for seed in range(3)]
    rows = [packer.pack(Row(kind + b"%d" % number, number)) for number in range(10) for kind in kinds]
    assert sum(isinstance(row, Row) for row in rows) == len(kinds)
    assert all(isinstance(packer.pack(Row(b"x" * size, 1)), Row) for size in (10, 10_000))
