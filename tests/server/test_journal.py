"""The journal: what was acknowledged survives whatever happens to the process."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from strato.errors import ApiError, Unavailable
from strato.server.journal import JournalError, SqliteJournal, open_store
from strato.server.journal import layout as layouts
from strato.server.journal import writer as journals
from strato.server.journal.errors import JournalDamaged
from strato.server.journal.mark import Marked, make_mark, mark_path
from strato.server.journal.records import START
from strato.server.snapshot import Change, Row
from strato.server.store import Store
from tests.server.journal_layouts import FORMATS, LAST, WANTED
from tests.server.journal_writer import kill_and_judge


def contents(path: Path) -> tuple[dict[str, Row], int]:
    """Return what a restart finds."""
    store, journal = open_store(path)
    assert journal is not None
    journal.close()
    return store.bucket("things").objects, store.revision


def test_kill_in_the_middle_of_writes_and_folds_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path, rng = tmp_path / "journal.db", random.Random(3)
    last_revision = 1
    for seed in range(6):
        wrong, last_revision = kill_and_judge(path, seed, rng.randrange(20, 400), last_revision)
        assert wrong == []


async def write_all(path: Path, count: int, size: int = 100) -> None:
    store, journal = open_store(path)
    assert journal is not None
    journal.start(store)
    try:
        for number in range(count):
            store.write("things", f"k{number:06}", b"%d " % store.next_revision() + b"x" * size)
        await store.wait_durable()
    finally:
        await asyncio.to_thread(journal.close)


async def test_a_restart_finds_what_was_written_folded_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    monkeypatch.setattr(journals, "_LOG_LIMIT_BYTES", 1)
    monkeypatch.setattr(journals, "_FOLD_BYTES", 1)
    await write_all(path, 50)
    monkeypatch.undo()
    await write_all(path, 70)
    rows, revision = contents(path)
    assert len(rows) == 70
    assert revision == 121
    assert all(row.body.split()[0] == str(row.revision).encode() for row in rows.values())


def test_a_fold_keeps_what_the_log_holds(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    assert list(journal.read()) == []
    for start in (2, 12, 22):
        journal._commit(
            [Change("things", f"k{number % 15}", number, b"%d" % number, None) for number in range(start, start + 10)]
        )
    journal._commit([Change("things", "k3", 32, None, b"")])
    before = set(journal.read()), journal.last_revision
    assert before[1] == 32
    assert len(before[0]) == 14
    for folds in range(1, 6):  # the fifth has nothing to do
        journal.file.fold(1)
        assert (set(journal.read()), journal.last_revision) == before
        left = journal.file.db.execute("SELECT count(*) FROM log").fetchone()[0]
        assert left == max(0, 4 - folds)
    journal.close()
    assert contents(path)[1] == 32


async def commits_of(path: Path, write: Callable[[Store], Awaitable[None]]) -> list[int]:
    """Return how many changes went into each commit until ``write`` was done."""
    store, journal = open_store(path)
    assert journal is not None
    sizes: list[int] = []
    commit = journal._commit

    def counted(batch: list[Change]) -> None:
        sizes.append(len(batch))
        commit(batch)

    journal._commit = counted  # type: ignore[method-assign]  # to look over its shoulder
    journal.start(store)
    try:
        await write(store)
    finally:
        await asyncio.to_thread(journal.close)
    return sizes


async def test_what_is_written_together_is_one_commit(tmp_path: Path) -> None:
    async def chain(store: Store, name: str) -> None:
        for step in range(3):  # each hears of its write in the same turn as the others, and writes again
            store.write("things", f"{name}{step}", b"1")
            await store.wait_durable()

    async def many(store: Store) -> None:
        await asyncio.gather(*(chain(store, f"{number}-") for number in range(10)))

    assert await commits_of(tmp_path / "journal.db", many) == [10, 10, 10]


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        pytest.param("_COMMIT_CHANGES", 3, id="by their number"),
        pytest.param("_COMMIT_BYTES", 30, id="by their size"),
    ],
)
async def test_commits_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    async def many(store: Store) -> None:
        for number in range(8):
            store.write("things", f"k{number}", b"x" * 10)
        await store.wait_durable()

    monkeypatch.setattr(journals, limit, value)
    assert await commits_of(tmp_path / "journal.db", many) == [3, 3, 2]


async def test_a_large_commit_is_published_in_order_and_leaves_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_PUBLISHED_AT_ONCE", 4)
    events: list[str] = []
    loop = asyncio.get_running_loop()

    async def many(store: Store) -> None:
        def published(resource: str, change: Change) -> None:
            if change.key.endswith("0"):
                loop.call_soon(events.append, f"turn {change.key}")
            events.append(change.key)

        def answered(number: int, failure: ApiError | None) -> None:
            events.append(f"answer {number} {failure}")

        store.on_publish("things", published)
        for number in range(10):
            store.write("things", f"k{number}", b"1")
            store.when_durable(partial(answered, number))
        await store.wait_durable()

    assert await commits_of(tmp_path / "journal.db", many) == [10]
    assert [event for event in events if event.startswith("k")] == [f"k{number}" for number in range(10)]
    assert [event for event in events if event.startswith("answer")] == [f"answer {n} None" for n in range(10)]
    assert events.index("k3") < events.index("answer 0 None") < events.index("turn k0") < events.index("k4")


async def test_what_was_committed_before_a_failure_is_answered_as_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_PUBLISHED_AT_ONCE", 2)
    store, journal = open_store(tmp_path / "journal.db")
    assert journal is not None
    committed = journal._committed

    def then_fail(part: list[Change], is_last: bool, begun_with: int) -> None:
        committed(part, is_last, begun_with)
        assert journal._durable, "seven are not published yet"
        journal._fail(Unavailable("the next commit"))

    journal._committed = then_fail  # type: ignore[method-assign]  # the thread has the next failure at once
    journal.start(store)
    answers: list[bool] = []
    for number in range(9):
        store.write("things", f"k{number}", b"1")
        store.when_durable(lambda failure: answers.append(failure is None))
    await until(lambda: journal.failure is not None)
    assert answers == [True] * 9
    assert len(store.bucket("things").objects) == 9
    await asyncio.to_thread(journal.close)


async def test_closing_writes_what_no_commit_has_taken_yet(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path / "journal.db")
    assert journal is not None
    journal.start(store)
    for number in range(3):
        store.write("things", f"k{number}", b"1")
    journal.close()
    assert len(contents(tmp_path / "journal.db")[0]) == 3


async def failing(journal: SqliteJournal) -> str:
    """Wait until the journal fails; return why."""
    await journal.failed.wait()
    return str(journal.failure)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("folds", [False, True])
async def test_a_full_disk_refuses_writes_until_there_is_room_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folds: bool
) -> None:
    monkeypatch.setattr(journals, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(journals, "_LOG_LIMIT_BYTES", 1 if folds else 1 << 30)
    monkeypatch.setattr(journals, "_COMMIT_CHANGES", 2)
    path = tmp_path / "journal.db"
    store, journal = open_store(path)
    assert journal is not None
    pages = journal.file.db.execute("PRAGMA page_count").fetchone()[0]
    journal.file.db.execute(f"PRAGMA max_page_count={pages + 40}")
    journal.start(store)
    watcher, _ = store.watch("things", store.revision)
    acknowledged, number = [], 0
    while True:
        store.write("things", f"k{number}", b"x" * 5000)
        store.write("things", f"l{number}", None if store.bucket("things").latest(f"l{number}") else b"1")
        failure = await store.wait_durable()
        if failure is not None:
            break
        acknowledged.append(number)
        number += 1
    assert "database or disk is full" in await failing(journal)
    assert failure.retry_after_seconds is not None
    with pytest.raises(Unavailable, match="disk is full"):
        store.write("things", "refused", b"1")
    for one in acknowledged:
        assert f"k{one}" in store.bucket("things").objects
    journal.file.db.execute("PRAGMA max_page_count=100000")
    await until(lambda: journal.failure is None)
    assert not journal.failed.is_set()
    assert await store.wait_durable() is None
    store.write("things", "after", b"1")
    assert await store.wait_durable() is None
    told = [change.revision for change in watcher.take()]
    assert told == sorted(set(told)), "nothing is applied twice"
    memory, revision = store.bucket("things").objects, store.revision
    await asyncio.to_thread(journal.close)
    assert contents(path) == (memory, revision)
    assert {f"k{one}" for one in range(number + 1)} <= set(memory)


async def test_a_journal_closed_while_it_fails_keeps_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_RETRY_SECONDS", 60)
    path = tmp_path / "journal.db"
    store, journal = open_store(path)
    assert journal is not None
    journal.start(store)
    store.write("things", "a", b"1")
    assert await store.wait_durable() is None
    journal.file.db.execute("PRAGMA max_page_count=1")  # SQLite takes no less than there is
    store.write("things", "b", b"x" * 100_000)
    assert "disk is full" in str(await store.wait_durable())
    await asyncio.to_thread(journal.close)
    assert set(contents(path)[0]) == {"a"}


@pytest.mark.parametrize("is_idle", [False, True])
async def test_a_journal_damaged_while_it_is_written_is_written_no_more(tmp_path: Path, is_idle: bool) -> None:
    path = tmp_path / "journal.db"
    store, journal = open_store(path)
    assert journal is not None
    if is_idle:
        journal._commit([Change("things", "b", 2, b"x" * 100_000)])  # to be folded
    else:
        journal.file.log_bytes = 0
    database = journal.file.db
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("PRAGMA cache_size=0")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    database.execute("PRAGMA shrink_memory")
    journal.start(store)
    if not is_idle:
        store.write("things", "a", b"1")
    why = await failing(journal)
    assert "is damaged" in why
    assert "strato doctor --salvage" in why
    with pytest.raises(JournalError, match="not written any more"):
        await journal.copy_to(tmp_path / "copy")
    await asyncio.to_thread(journal.close)


async def test_a_journal_that_cannot_be_written_says_so_to_every_writer(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path / "journal.db")
    assert journal is not None
    journal.file.db.execute("DROP TABLE log")
    journal.file.db.execute("CREATE VIEW log AS SELECT 1 AS revision, x'' AS changes")  # reads as empty, refuses writes
    journal.start(store)
    store.write("things", "a", b"1")
    assert "cannot be written" in str(await store.wait_durable())
    with pytest.raises(Unavailable):
        store.write("things", "b", b"2")
    assert "cannot be written" in await failing(journal)
    await asyncio.to_thread(journal.close)


def test_a_full_disk_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_SCHEMA", "PRAGMA max_page_count=1; CREATE TABLE state (name, value);")
    path = tmp_path / "journal.db"
    with pytest.raises(JournalError) as caught:
        SqliteJournal(path)
    words = "free some room there, or choose another place with --data-dir"
    assert str(caught.value) == f"{path}: database or disk is full; {words}"


async def test_copies_made_while_much_is_written_are_each_the_state_of_one_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LOG_LIMIT_BYTES", 100_000)
    monkeypatch.setattr(journals, "_FOLD_BYTES", 20_000)
    store, journal = open_store(tmp_path / "journal.db")
    assert journal is not None
    journal.file.db.execute("PRAGMA wal_autocheckpoint=20")
    journal.start(store)
    history: list[tuple[int, str, bytes | None]] = []
    stopped = False

    async def write(rng: random.Random, writer: int) -> None:
        while not stopped:
            key = f"{writer}/{rng.randrange(6)}"
            body = None if store.bucket("things").latest(key) and rng.random() < 0.3 else rng.randbytes(500)
            history.append((store.next_revision(), key, body))
            store.write("things", key, body, b"gone" if body is None else None)
            assert await store.wait_durable() is None

    writers = [asyncio.ensure_future(write(random.Random(number), number)) for number in range(5)]
    revisions = []
    for number in range(8):
        path = tmp_path / f"copy-{number}" / "journal.db"
        path.parent.mkdir()
        marked = await journal.copy_to(path)
        make_mark(mark_path(path), marked)
        wanted: dict[str, Row] = {}
        for revision, key, body in history:
            if revision <= marked.revision:
                wanted.pop(key, None)
                if body is not None:
                    wanted[key] = Row(body, revision)
        assert contents(path) == (wanted, marked.revision)
        revisions.append(marked.revision)
        written = len(history)
        await until(lambda written=written: len(history) > written + 50)  # type: ignore[misc]  # a default binds it
    assert revisions == sorted(set(revisions))
    stopped = True
    await asyncio.gather(*writers)
    await asyncio.to_thread(journal.close)
    assert contents(tmp_path / "journal.db")[1] == store.revision


def test_a_file_in_use_is_refused_and_who_has_it_is_named(tmp_path: Path) -> None:
    first = SqliteJournal(tmp_path / "journal.db")
    with pytest.raises(JournalError, match=f"in use by process {os.getpid()} .*python"):
        SqliteJournal(tmp_path / "journal.db", wait_seconds=0)
    first.close()
    SqliteJournal(tmp_path / "journal.db", wait_seconds=0).close()


def test_a_file_another_program_has_locked_is_refused_and_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    locks = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('BEGIN EXCLUSIVE'); print('locked')"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{locks}; sys.stdout.flush(); sys.stdin.read()", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    with pytest.raises(JournalError, match=f"in use by process {child.pid} .*stop that cluster"):
        SqliteJournal(path, wait_seconds=0)
    child.communicate()
    SqliteJournal(path, wait_seconds=0).close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("no database at all" * 100, "file is not a database", id="a file of another kind"),
        pytest.param("", "", id="an empty file is a new journal"),
    ],
)
def test_files_that_are_no_journal(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "journal.db"
    path.write_text(text)
    if not words:
        assert contents(path) == ({}, 1)
        return
    with pytest.raises(JournalError, match=words):
        SqliteJournal(path)
    assert path.read_text() == text


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    with pytest.raises(JournalError, match="not a journal of strato"):
        SqliteJournal(path)


def test_a_journal_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    journal.file.db.execute("UPDATE state SET value='99' WHERE name='layout'")
    journal.file.db.execute("PRAGMA user_version=99")
    journal.close()
    with pytest.raises(JournalError, match="written by a newer version"):
        SqliteJournal(path)


@pytest.mark.parametrize("layout", FORMATS)
def test_a_journal_of_an_earlier_layout_is_upgraded_when_it_is_opened(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "journal.db"
    FORMATS[layout](path)
    wanted = {key: Row(body, revision) for key, (body, revision) in WANTED.items()}
    for _ in range(2):
        assert contents(path) == (wanted, LAST)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


@pytest.mark.parametrize("layout", FORMATS)
def test_an_upgrade_that_was_killed_is_done_again_and_an_older_copy_is_refused(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "journal.db"
    FORMATS[layout](path)
    mark = mark_path(path)
    make_mark(mark, Marked("00" * 16, 0, LAST, START))
    contents(path)
    path.unlink()
    FORMATS[layout](path)
    make_mark(mark, Marked("00" * 16, 0, LAST + 1, START))
    with pytest.raises(JournalDamaged, match=f"ends at revision {LAST}, but {LAST + 1} was acknowledged"):
        open_store(path)


async def unclean(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Leave a journal as a killed process does: with rows in both tables and in the WAL; return its files."""
    monkeypatch.setattr(journals, "_LOG_LIMIT_BYTES", 20_000)
    monkeypatch.setattr(journals, "_FOLD_BYTES", 5_000)
    store, journal = open_store(path)
    assert journal is not None
    journal.start(store)
    for number in range(60):
        store.write("things", f"k{number % 25:03}", b"%d " % store.next_revision() + b"x" * 900)
        assert await store.wait_durable() is None
    files = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    await asyncio.to_thread(journal.close)
    monkeypatch.undo()
    return files


def put(path: Path, files: dict[str, bytes]) -> None:
    for one in path.parent.iterdir():
        one.unlink()
    for name, content in files.items():
        (path.parent / name).write_bytes(content)


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]


async def test_a_journal_is_never_read_as_one_that_ended_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    files = await unclean(path, monkeypatch)
    wal = files["journal.db-wal"]
    put(path, files)
    assert contents(path)[1] == 61
    damages = {
        "a flipped byte": flipped(wal, 32 + 24 + 4096 + 100),
        "a shorter WAL": wal[: len(wal) - 2 * 4120],
        "an empty WAL": b"",
    }
    for what, damaged in damages.items():
        put(path, files | {"journal.db-wal": damaged})
        before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.name != "journal.db"}
        for _ in range(2):  # the second time too: nothing is mended by looking
            with pytest.raises(JournalError, match=r"acknowledged.*strato restore.*strato doctor --salvage"):
                open_store(path)
            after = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.name != "journal.db"}
            for name in ("journal.db-wal", "journal.db.mark"):
                assert before[name] == after.get(name, b""), what


async def test_a_process_killed_between_a_commit_and_its_mark_leaves_a_sound_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store, journal = open_store(path)
    assert journal is not None
    journal.start(store)
    store.write("things", "a", b"1")
    assert await store.wait_durable() is None
    await asyncio.to_thread(journal.close)
    before = mark_path(path).read_bytes()
    journal = SqliteJournal(path)
    list(journal.read())
    journal._commit([Change("things", "b", 3, b"2")])
    journal.close()
    mark_path(path).write_bytes(before)
    for _ in range(2):
        journal = SqliteJournal(path)
        assert len(list(journal.read())) == 2
        journal.file.fold(1 << 20)  # nothing was written since
        journal.close()
    assert contents(path)[1] == 3


async def test_what_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    older = await unclean(path, monkeypatch)
    await unclean(path, monkeypatch)
    contents(path)
    files = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert contents(path)[1] == 121
    db, mark = files["journal.db"], files["journal.db.mark"]
    at = db.index(b"x" * 900)
    wrong: dict[str, tuple[dict[str, bytes], str]] = {
        "a flipped byte in an object": (files | {"journal.db": flipped(db, at)}, "match"),
        "a missing database": ({"journal.db.mark": mark}, "is missing, but revision 121 was acknowledged"),
        "an empty database": (files | {"journal.db": b""}, "is empty, but revision 121 was acknowledged"),
        "a shorter database": (files | {"journal.db": db[: 4096 * 3]}, "is damaged"),
        "no mark": ({"journal.db": db}, "mark is damaged: it is missing"),
        "an empty mark": (files | {"journal.db.mark": b""}, "mark is damaged: it holds no readable"),
        "an older copy of the database": ({**older, "journal.db.mark": mark}, "but 121 was acknowledged"),
    }
    for what, (damaged, words) in wrong.items():
        put(path, damaged)
        with pytest.raises(JournalError, match=words):
            open_store(path)
        assert (path.exists(), what) == ("journal.db" in damaged, what), "refusing makes no file"
    for offset in (0, 4096):  # the other slot is there
        put(path, files | {"journal.db.mark": flipped(mark, offset + 20)})
        assert contents(path)[1] == 121


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "journal.db"
    contents(path)
    path.chmod(0o644)
    contents(path)
    assert {one.name: one.stat().st_mode & 0o777 for one in (path.parent, *path.parent.iterdir())} == {
        "data": 0o700, "journal.db": 0o600, "journal.db.mark": 0o600, "journal.db.lock": 0o600,
    }  # fmt: skip


def test_nothing_is_kept_without_a_path() -> None:
    store, journal = open_store(None)
    assert isinstance(store, Store)
    assert journal is None
