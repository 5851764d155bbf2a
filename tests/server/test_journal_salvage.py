"""Salvage: what is readable of damaged files is kept, deletions included, and what is not is listed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from strato.server.journal import open_store
from strato.server.journal import writer as journals
from strato.server.journal.files import wal_path
from strato.server.journal.mark import mark_path
from strato.server.journal.rebuild import REVISION_STEP
from strato.server.journal.salvage import read_damaged, salvage
from strato.server.snapshot import Row

Objects = dict[str, Row]


async def left_behind(path: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> tuple[dict[str, bytes], Objects]:
    """Leave a journal as a killed process does: rows in both tables, database and WAL; return its files and objects."""
    monkeypatch.setattr(journals, "_LOG_LIMIT_BYTES", 30_000)
    monkeypatch.setattr(journals, "_FOLD_BYTES", 8_000)
    rng = random.Random(seed)
    store, journal = open_store(path)
    assert journal is not None
    journal.file.db.execute("PRAGMA wal_autocheckpoint=60")
    journal.start(store)
    bucket = store.bucket("things")
    for _ in range(150):
        for _ in range(rng.randrange(1, 4)):
            key = f"default/{rng.randrange(40)}"
            deletes = bucket.latest(key) is not None and rng.random() < 0.3
            body = None if deletes else b"%d " % store.next_revision() + rng.randbytes(rng.choice((10, 300, 6000)))
            store.write("things", key, body, b"gone" if deletes else None)
        assert await store.wait_durable() is None
    files = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    objects = dict(bucket.objects)
    await asyncio.to_thread(journal.close)
    monkeypatch.undo()
    return files, objects


def put(path: Path, files: dict[str, bytes]) -> None:
    for one in path.parent.iterdir():
        if one.is_file():
            one.unlink()
    for name, content in files.items():
        (path.parent / name).write_bytes(content)


def kept(path: Path) -> Objects:
    return {key: Row(body, revision) for (_, key), (_, _, revision, body) in read_damaged(path).objects.items()}


@pytest.mark.parametrize("seed", range(3))
async def test_all_is_kept_of_a_journal_that_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    path = tmp_path / "journal.db"
    files, objects = await left_behind(path, monkeypatch, seed)
    assert len(files["journal.db"]) > 40_000
    assert len(files["journal.db-wal"]) > 100_000
    put(path, files)
    assert kept(path) == objects
    assert read_damaged(path).lost == []
    _, journal = open_store(path)  # the same without a WAL
    assert journal is not None
    journal.close()
    assert not wal_path(path).exists()
    assert (kept(path), read_damaged(path).lost) == (objects, [])


async def test_a_damaged_frame_of_the_wal_costs_what_it_held_and_not_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    files, objects = await left_behind(path, monkeypatch)
    wal = bytearray(files["journal.db-wal"])
    wal[32 + 4120 * 8 + 2000] ^= 1
    put(path, files | {"journal.db-wal": bytes(wal)})
    found = kept(path)
    assert sum(found.get(key) == row for key, row in objects.items()) >= len(objects) - 3
    assert max(row.revision for row in found.values()) == max(row.revision for row in objects.values())
    result, aside = salvage(path)
    assert aside is not None
    assert {one.name for one in aside.iterdir()} >= {"journal.db", "journal.db-wal", "journal.db.mark"}
    store, journal = open_store(path)
    assert journal is not None
    assert store.bucket("things").objects == found
    assert store.revision == result.revision + REVISION_STEP
    journal.close()


async def test_a_zeroed_page_costs_its_rows_which_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    _, objects = await left_behind(path, monkeypatch)
    _, journal = open_store(path)
    assert journal is not None
    while journal.file.log_bytes:
        journal.file.fold(1 << 20)
    journal.close()
    database = path.read_bytes()
    pages = len(database) // 4096
    several = 0
    for number in range(pages):
        path.write_bytes(database[: number * 4096] + bytes(4096) + database[(number + 1) * 4096 :])
        result, found = read_damaged(path), kept(path)
        assert all(found[key] == objects[key] for key in found), "nothing old comes back, nothing is invented"
        missing = len(objects) - len(found)
        several += missing > 0
        if missing:
            assert result.lost, number
    assert several > 3


async def test_a_mark_that_is_ahead_names_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    files, _ = await left_behind(path, monkeypatch)
    put(path, files | {"journal.db-wal": b""})
    result = read_damaged(path)
    assert any("up to" in line for line in result.lost)
    store, journal = open_store(None)
    put(path, {"journal.db.mark": files["journal.db.mark"]})
    result = read_damaged(path)
    assert result.objects == {}
    assert len(result.lost) == 2
    mark_path(path).write_bytes(b"")
    assert any("no readable mark" in line for line in read_damaged(path).lost)
    assert journal is None
    assert store.revision == 1
