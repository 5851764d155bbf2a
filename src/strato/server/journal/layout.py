"""The tables of the journal's database, and the version of their layout."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from strato.server.journal import records
from strato.server.journal.errors import JournalDamaged, JournalError
from strato.server.journal.records import Folded

LAYOUT = 2
APPLICATION_ID = 0x5354524F
"""``STRO``, in the database's header, by which programs such as `file` recognise it."""
_SCHEMA = """
CREATE TABLE objects (
    resource TEXT NOT NULL,
    key      TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    changes  BLOB NOT NULL,
    previous BLOB NOT NULL,
    checksum BLOB NOT NULL
);
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def new_folded(identity: str) -> Folded:
    """Return the description of an empty journal."""
    return Folded(identity=identity, revision=1, chain=records.START.hex(), count=0, sum=0)


def create_tables(db: sqlite3.Connection, folded: Folded) -> None:
    """Create the tables of a new journal, in one transaction."""
    db.execute("BEGIN")
    add_tables(db)
    db.execute("INSERT INTO state VALUES ('folded', ?)", (folded.to_text(),))
    db.execute("COMMIT")


def add_tables(db: sqlite3.Connection) -> None:
    """Create the tables without the row ``folded``, in the caller's transaction."""
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={LAYOUT}")
    # earlier versions of Strato read this row, and refuse newer layouts with a message
    db.execute("INSERT INTO state VALUES ('layout', ?)", (str(LAYOUT),))


def layout_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the layout of an open database; 0 if it is empty.

    Raises:
        JournalError: It is not a journal of ours, or of a later version.
    """
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    if not tables:
        return 0
    if "state" not in tables:
        raise JournalError(f"{path} is not a journal of strato, but another SQLite database; choose another --data-dir")
    layout = int(db.execute("PRAGMA user_version").fetchone()[0])
    owner = int(db.execute("PRAGMA application_id").fetchone()[0])
    named = db.execute("SELECT value FROM state WHERE name='layout'").fetchone()
    if layout == 0 and owner == 0 and named == ("1",):
        return 1
    if named is None or owner != APPLICATION_ID or named[0] != str(layout):
        raise JournalDamaged(path, "its header does not match its table 'state'")
    if layout > LAYOUT:
        raise JournalError(
            f"{path}: written by a newer version (layout {layout}, this one reads up to {LAYOUT}); use that version"
        )
    return layout
