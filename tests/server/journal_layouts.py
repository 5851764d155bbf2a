"""Journals as earlier versions wrote them; frozen, so that what those left on disks is read for ever."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

_OBJECTS = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL,
    key      TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_LOG = "CREATE TABLE IF NOT EXISTS log (revision INTEGER PRIMARY KEY, changes BLOB NOT NULL);"

WANTED = {"a": (b'{"a":7}', 7), "b": (b'{"b":3}', 3), "d": (b'{"d":9}', 9)}
"""Body and revision by key, of resource ``things``."""
LAST = 10


def _open(path: Path, schema: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(schema)
    db.execute("INSERT INTO state VALUES ('layout', '1')")
    return db


def objects_only(path: Path) -> None:
    """Write the first layout "1": the newest state of each object, the last revision in ``state``."""
    db = _open(path, _OBJECTS)
    rows = [("things", key, revision, body) for key, (body, revision) in WANTED.items()]
    db.executemany("INSERT INTO objects VALUES (?, ?, ?, ?)", rows)
    db.execute("INSERT INTO state VALUES ('revision', ?)", (str(LAST),))
    db.close()


def objects_and_log(path: Path) -> None:
    """Write the second layout "1": older objects, and a log of MessagePack lists of changes."""
    db = _open(path, _OBJECTS + _LOG)
    rows = [("things", "a", 2, b"old"), ("things", "b", 3, b'{"b":3}'), ("things", "c", 4, b"deleted later")]
    db.executemany("INSERT INTO objects VALUES (?, ?, ?, ?)", rows)
    db.execute("INSERT INTO state VALUES ('revision', '4')")
    commits = (
        (7, [("things", "d", 6, b"older"), ("things", "a", 7, b'{"a":7}')]),
        (LAST, [("things", "d", 9, b'{"d":9}'), ("things", "c", LAST, None)]),
    )
    for revision, changes in commits:
        db.execute("INSERT INTO log VALUES (?, ?)", (revision, msgspec.msgpack.encode(changes)))
    db.close()


FORMATS: dict[str, Callable[[Path], None]] = {"1, objects only": objects_only, "1, with a log": objects_and_log}
