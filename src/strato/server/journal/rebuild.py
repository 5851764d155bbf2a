"""Write a new journal from objects that were read from a backup or a damaged journal."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterable
from pathlib import Path

from strato.server.journal import records
from strato.server.journal.errors import from_sqlite
from strato.server.journal.layout import add_tables
from strato.server.journal.mark import Marked, make_mark, mark_path, sync_directory
from strato.server.journal.records import Folded, Stored

REVISION_STEP = 1_000_000_000
"""How much is added to the newest known revision of a restored journal.

The lost journal may have given out later revisions. They have to be less than those of the restored one, so that
watches which resume from them get 410 and list again. A cluster under full load needs half a day for so many writes.
"""


def write_journal(path: Path, objects: Iterable[Stored], revision: int) -> int:
    """Write a journal and its mark, and replace existing ones; return the number of objects.

    Raises:
        JournalError: It cannot be written.
    """
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    identity = uuid.uuid4().hex
    db = sqlite3.connect(new, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("PRAGMA synchronous=OFF")  # the complete file is flushed once, before it is renamed
        db.execute("BEGIN")
        add_tables(db)
        db.executemany(
            "INSERT INTO objects VALUES (?, ?, ?, ?, ?)", ((*one, records.row_checksum(*one)) for one in objects)
        )
        count, total = db.execute("SELECT count(*), coalesce(sum(checksum), 0) FROM objects").fetchone()
        folded = Folded(identity=identity, revision=revision, chain=records.START.hex(), count=count, sum=total)
        db.execute("INSERT INTO state VALUES ('folded', ?)", (folded.to_text(),))
        db.execute("COMMIT")
    except sqlite3.Error as error:
        new.unlink()
        raise from_sqlite(new, error) from error
    finally:
        db.close()
    fd = os.open(new, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    make_mark(mark_path(path), Marked(identity, 0, revision, records.START))
    new.replace(path)
    sync_directory(path.parent)
    return int(count)
