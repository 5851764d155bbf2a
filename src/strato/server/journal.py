"""The journal: one SQLite table written by group commit in a thread of its own.

Every change that is waiting when a commit ends goes into the next one (WAL, ``synchronous=FULL``), so that the cost
of a flush is shared. `Store` is told on the loop's thread what has become durable. The table always holds the newest
durable state of each object; reading it back is a restart.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from strato.errors import StratoError, Unavailable
from strato.server.store import Change, Store

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL,
    key      TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_LAYOUT = "1"
_BATCH = 20_000


class JournalError(StratoError):
    """The journal cannot be read or written; names the file and what to do."""


class SqliteJournal:
    """A journal in one file.

    Args:
        path: The file; its directory must exist and be writable.

    Raises:
        JournalError: The file is not a journal of ours, is damaged or in use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA wal_autocheckpoint=4000")
            self._db.executescript(_SCHEMA)
            layout = self._db.execute("SELECT value FROM state WHERE name='layout'").fetchone()
        except sqlite3.Error as error:
            raise JournalError(
                f"{path}: {error}; is another cluster using it? otherwise restore or delete the file"
            ) from error
        if layout is None:
            self._db.execute("INSERT INTO state VALUES ('layout', ?)", (_LAYOUT,))
        elif layout[0] != _LAYOUT:
            raise JournalError(f"{path}: written by another version (layout {layout[0]}, this one reads {_LAYOUT})")

    def read(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield resource, key, revision and body of every stored object, in key order."""
        yield from self._db.execute("SELECT resource, key, revision, body FROM objects")

    def last_revision(self) -> int:
        """Return the newest durable revision; 1 for a new journal."""
        found = self._db.execute("SELECT value FROM state WHERE name='revision'").fetchone()
        return int(found[0]) if found else 1

    def start(self, store: Store) -> None:
        """Begin to write the changes of ``store``; must be called on its event loop."""
        self._store, self._loop = store, asyncio.get_running_loop()
        store.use_journal(self)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def append(self, change: Change) -> None:
        """Queue a change."""
        self._changes.put(change)

    def close(self) -> None:
        """Write what is queued and close the file."""
        if self._thread is not None:
            self._changes.put(None)
            self._thread.join()
            self._thread = None
        self._db.close()

    def _run(self) -> None:
        assert self._store is not None
        assert self._loop is not None
        while True:
            batch, last = self._next_batch()
            if batch:
                try:
                    self._commit(batch)
                except sqlite3.Error as error:
                    _log.error("the journal %s cannot be written: %s", self.path, error)
                    failure = Unavailable(f"the journal {self.path} cannot be written: {error}")
                    self._tell(self._store.failed, failure)
                    return
                self._tell(self._store.committed, batch)
            if last:
                return

    def _tell(self, callback: object, argument: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, argument)  # type: ignore[arg-type]  # bound methods of Store
        except RuntimeError:
            _log.debug("the loop closed before a commit could be told")

    def _next_batch(self) -> tuple[list[Change], bool]:
        """Wait for a change and take everything queued behind it; the flag says that closing was asked for."""
        batch: list[Change] = []
        item = self._changes.get()
        while item is not None:
            batch.append(item)
            if len(batch) >= _BATCH:
                return batch, False
            try:
                item = self._changes.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[Change]) -> None:
        newest = {(change.resource, change.key): change for change in batch}
        puts = [(c.resource, c.key, c.revision, c.body) for c in newest.values() if c.body is not None]
        deletes = [(c.resource, c.key) for c in newest.values() if c.body is None]
        database = self._db
        database.execute("BEGIN")
        database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", puts)
        database.executemany("DELETE FROM objects WHERE resource=? AND key=?", deletes)
        database.execute("INSERT OR REPLACE INTO state VALUES ('revision', ?)", (str(batch[-1].revision),))
        database.execute("COMMIT")


def open_store(path: Path | None) -> tuple[Store, SqliteJournal | None]:
    """Return a store with what the journal holds; without a path an empty one that keeps nothing."""
    if path is None:
        return Store(), None
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = SqliteJournal(path)
    store = Store(journal.last_revision())
    for resource, key, revision, body in journal.read():
        store.load(resource, key, body, revision)
    return store, journal
