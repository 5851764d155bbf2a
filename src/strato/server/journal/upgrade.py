"""Convert a journal of an earlier layout when it is opened, in one transaction.

Layout 1 had no checksums and no mark, and its first version had no table ``log``. So SQLite's own check is the only one
possible.
"""

from __future__ import annotations

import logging
import sqlite3
import uuid
from pathlib import Path

from strato.decoding import UNDECODABLE
from strato.server.journal import records
from strato.server.journal.errors import JournalDamaged, ends_early
from strato.server.journal.layout import add_tables
from strato.server.journal.mark import Marked, make_mark, mark_path
from strato.server.journal.records import Folded, Row

_log = logging.getLogger(__name__)


def upgrade(path: Path, db: sqlite3.Connection, layout: int, marked: Marked | None) -> Marked:
    """Convert an open database of an earlier layout to the current one; return its mark.

    Raises:
        JournalDamaged: It cannot be read, or is an older copy of a journal that was upgraded before.
    """
    found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise JournalDamaged(path, " ".join(str(found).split()))
    has_log = db.execute("SELECT count(*) FROM sqlite_master WHERE name='log'").fetchone()[0] == 1
    last, newest = _read_log(path, db) if has_log else (1, {})
    stored = db.execute("SELECT value FROM state WHERE name='revision'").fetchone()
    last = max(last, int(stored[0]) if stored else 1)
    if marked is not None and marked.revision > last:
        raise ends_early(path, last, marked.revision)
    _log.info("upgrading the journal %s from layout %d", path, layout)
    identity = marked.identity if marked is not None else uuid.uuid4().hex
    # the mark first, because a journal of this layout without a mark is an error
    made = Marked(identity, 0, last, records.START)
    make_mark(mark_path(path), made)
    _rewrite(db, identity, last, newest, has_log=has_log)
    db.execute("VACUUM")
    return made


def _read_log(path: Path, db: sqlite3.Connection) -> tuple[int, dict[tuple[str, str], Row]]:
    """Return the newest revision and record of each object in the log."""
    newest: dict[tuple[str, str], Row] = {}
    last = 1
    for revision, changes in db.execute("SELECT revision, changes FROM log ORDER BY revision"):
        try:
            newest.update({(record[0], record[1]): record for record in records.decode(changes)})
        except UNDECODABLE as error:
            raise JournalDamaged(path, f"the writes up to revision {revision} cannot be decoded ({error})") from error
        last = revision
    return last, newest


def _rewrite(
    db: sqlite3.Connection, identity: str, last: int, newest: dict[tuple[str, str], Row], *, has_log: bool
) -> None:
    db.create_function("row_checksum", 4, records.row_checksum, deterministic=True)
    db.execute("BEGIN")
    db.execute("ALTER TABLE objects RENAME TO objects_1")
    db.execute("DROP TABLE state")
    if has_log:
        db.execute("DROP TABLE log")
    add_tables(db)
    db.execute(
        "INSERT INTO objects SELECT resource, key, revision, body, row_checksum(resource, key, revision, body)"
        " FROM objects_1"
    )
    db.execute("DROP TABLE objects_1")
    for resource, key, revision, body in newest.values():
        if body is None:
            db.execute("DELETE FROM objects WHERE resource=? AND key=?", (resource, key))
        else:
            row = (resource, key, revision, body, records.row_checksum(resource, key, revision, body))
            db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", row)
    count, total = db.execute("SELECT count(*), coalesce(sum(checksum), 0) FROM objects").fetchone()
    folded = Folded(identity=identity, revision=last, chain=records.START.hex(), count=count, sum=total)
    db.execute("INSERT INTO state VALUES ('folded', ?)", (folded.to_text(),))
    db.execute("COMMIT")
