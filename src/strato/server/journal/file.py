"""The journal's database: open it with every check, read it, commit to it and fold it. No threads here.

A commit is one row of table ``log``, a MessagePack list of changes. That is one call into SQLite instead of one per
change, each of which would release the interpreter lock and compete for it again. Folding moves the oldest rows of
``log`` into table ``objects``, which has one row per object. A restart reads both tables; the rows' checksums, the sum
in `Folded` and the mark tell whether an acknowledged write is missing or changed.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from strato.decoding import UNDECODABLE
from strato.server.journal import records
from strato.server.journal.errors import JournalDamaged, JournalError, ends_early, from_sqlite
from strato.server.journal.files import drop_kept_wal, keep_wal, look_at_files, restore_kept_wal, take_lock
from strato.server.journal.layout import LAYOUT, create_tables, layout_of, new_folded
from strato.server.journal.mark import Mark, Marked, make_mark, mark_path
from strato.server.journal.records import Folded, Row, Stored
from strato.server.journal.upgrade import upgrade

_CHECKPOINT_PAGES = 4000
_COPY_BYTES = 8 << 20
_REWRITE_BYTES = 64 << 20
_FIND_STORED = """
SELECT count(*), coalesce(sum(objects.checksum), 0) FROM json_each(?) AS wanted
JOIN objects ON resource = json_extract(wanted.value, '$[0]') AND objects.key = json_extract(wanted.value, '$[1]')
"""


class JournalFile:
    """An open journal. `read` checks it, and must have ended before the first commit.

    Args:
        wait_seconds: How long to wait for another process that is closing it.

    Raises:
        JournalError: The file is not a journal of ours, is damaged, or in use.
    """

    def __init__(self, path: Path, *, wait_seconds: float = 5) -> None:
        self.path = path
        self.log_bytes = 0
        self._chain = records.START
        """Checksum of the newest row of the log."""
        self._copy_fd: int | None = None
        self._lock = take_lock(path, wait_seconds)
        try:
            marked = look_at_files(path)
            keep_wal(path)
            self.db = _connect(path, wait_seconds)
            try:
                self._folded, self._mark = self._open(marked)
            except BaseException:
                self.db.close()
                raise
        except BaseException:
            self._restore_wal()
            raise

    def _open(self, marked: Marked | None) -> tuple[Folded, Mark]:
        try:
            layout = layout_of(self.db, self.path)
            if layout == 0:
                marked = self._create(marked)
            elif layout < LAYOUT:
                marked = upgrade(self.path, self.db, layout, marked)
            elif marked is None:
                raise JournalDamaged(mark_path(self.path), "it is missing, so that nothing shows what was acknowledged")
            folded = self._check_pages(marked)
            self.log_bytes = self.db.execute("SELECT coalesce(sum(length(changes)), 0) FROM log").fetchone()[0]
        except sqlite3.Error as error:
            raise from_sqlite(self.path, error) from error
        return folded, Mark(mark_path(self.path), marked)

    def _create(self, marked: Marked | None) -> Marked:
        """Create an empty journal; its mark is created first, so that a journal without a mark is always an error."""
        if marked is not None and marked.revision > 1:
            raise ends_early(self.path, 1, marked.revision)
        if marked is None:
            marked = Marked(uuid.uuid4().hex, 0, 1, records.START)
            make_mark(mark_path(self.path), marked)
        create_tables(self.db, new_folded(marked.identity))
        return marked

    def _check_pages(self, marked: Marked) -> Folded:
        """Have SQLite check the database's structure, and return the row that says what ``objects`` must hold."""
        found = self.db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise JournalDamaged(self.path, " ".join(str(found).split()))
        row = self.db.execute("SELECT value FROM state WHERE name='folded'").fetchone()
        folded = None if row is None else records.folded_from_text(row[0])
        if folded is None:
            raise JournalDamaged(self.path, "its table 'state' cannot be read")
        if folded.identity != marked.identity:
            raise JournalDamaged(mark_path(self.path), "it belongs to another journal than the one beside it")
        return folded

    def read(self) -> Iterator[Stored]:
        """Yield every stored object and check all rows; the caller must not use an object before the last one was read.

        Raises:
            JournalDamaged: An acknowledged write is missing or changed.
        """
        with self._refusing():
            newest = self._read_log()
        return self._read_all(newest)

    def _read_all(self, newest: dict[tuple[str, str], Row]) -> Iterator[Stored]:
        with self._refusing():
            yield from self._read_objects(newest)
        for resource, key, revision, body in newest.values():
            if body is not None:
                yield resource, key, revision, body
        drop_kept_wal(self.path)
        if self._mark.marked.revision < self.last_revision:
            # the process was killed between a commit and its mark; readers will see that commit, so mark it now
            self._mark.write(self.last_revision, self._chain)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """If the journal cannot be read, close it and restore its files as they were found."""
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise from_sqlite(self.path, error) from error
        except UNDECODABLE as error:
            self.close()
            raise JournalDamaged(self.path, f"its log cannot be decoded ({error})") from error
        except JournalDamaged:
            self.close()
            raise

    def _read_log(self) -> dict[tuple[str, str], Row]:
        """Return the newest record of each object in the log; check the chain and the mark."""
        folded, marked = self._folded, self._mark.marked
        newest: dict[tuple[str, str], Row] = {}
        chain, last = bytes.fromhex(folded.chain), folded.revision
        marked_chain = chain if marked.revision == last else None
        rows = self.db.execute("SELECT revision, changes, previous, checksum FROM log ORDER BY revision")
        for revision, changes, previous, checksum in rows:
            if previous != chain:
                raise JournalDamaged(self.path, f"writes between revisions {last} and {revision} are missing")
            if records.log_checksum(previous, revision, changes) != checksum:
                raise JournalDamaged(self.path, f"the writes up to revision {revision} do not match their checksum")
            newest.update({(record[0], record[1]): record for record in records.decode(changes)})
            chain, last = checksum, revision
            if revision == marked.revision:
                marked_chain = checksum
        self._chain, self.last_revision = chain, last
        if last < marked.revision:
            raise ends_early(self.path, last, marked.revision)
        if marked.revision < folded.revision:
            raise JournalDamaged(
                mark_path(self.path), f"it stops at revision {marked.revision}, before {folded.revision} was stored"
            )
        if marked_chain != marked.chain:
            raise JournalDamaged(self.path, f"its revision {marked.revision} is not the one that was acknowledged")
        return newest

    def _read_objects(self, newest: dict[tuple[str, str], Row]) -> Iterator[Stored]:
        """Yield the objects of table ``objects`` that the log does not change; check all of them."""
        count = total = 0
        rows = self.db.execute("SELECT resource, key, revision, body, checksum FROM objects")
        for resource, key, revision, body, checksum in rows:
            if records.row_checksum(resource, key, revision, body) != checksum:
                raise JournalDamaged(self.path, f"{resource} {key} does not match its checksum")
            count, total = count + 1, total + checksum
            if (resource, key) not in newest:
                yield resource, key, revision, body
        found = self._folded.plus(count - self._folded.count, total - self._folded.sum)
        if found != {"count": self._folded.count, "sum": self._folded.sum}:
            raise JournalDamaged(
                self.path, f"it holds {count} objects that are not the {self._folded.count} that were stored"
            )

    def commit(self, revision: int, changes: list[Row]) -> None:
        """Make changes durable as one row of the log, and then write their revision to the mark."""
        encoded = records.encode(changes)
        checksum = records.log_checksum(self._chain, revision, encoded)
        # REPLACE, because a commit that failed may have stored the row all the same
        self.db.execute("INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?)", (revision, encoded, self._chain, checksum))
        self._mark.write(revision, checksum)
        self._chain, self.last_revision = checksum, revision
        self.log_bytes += len(encoded)

    def sync_mark(self) -> None:
        """Flush the mark to the disk, so that it survives a power failure."""
        self._mark.sync()

    def fold(self, at_most_bytes: int) -> None:
        """Move the oldest rows of ``log``, up to a number of bytes, into ``objects``."""
        newest: dict[tuple[str, str], Row] = {}
        moved = last = 0
        chain = b""
        for revision, changes, checksum in self.db.execute(
            "SELECT revision, changes, checksum FROM log ORDER BY revision"
        ):
            newest.update({(record[0], record[1]): record for record in records.decode(changes)})
            moved, last, chain = moved + len(changes), revision, checksum
            if moved >= at_most_bytes:
                break
        if not moved:
            self.log_bytes = 0
            return
        self._mark.sync()  # the mark must never be older than the folded rows
        self._store(newest, last, chain)
        self.log_bytes = max(0, self.log_bytes - moved)

    def _store(self, newest: dict[tuple[str, str], Row], last: int, chain: bytes) -> None:
        """Write records into ``objects`` and delete the rows up to ``last`` from ``log``, in one transaction."""
        rows = [
            (resource, key, revision, body, records.row_checksum(resource, key, revision, body))
            for resource, key, revision, body in newest.values()
            if body is not None
        ]
        gone = [record[:2] for record in newest.values() if record[3] is None]
        database = self.db
        database.execute("BEGIN")
        replaced, their_sum = database.execute(_FIND_STORED, (msgspec.json.encode(list(newest)).decode(),)).fetchone()
        database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", rows)
        database.executemany("DELETE FROM objects WHERE resource=? AND key=?", gone)
        database.execute("DELETE FROM log WHERE revision <= ?", (last,))
        sums = self._folded.plus(len(rows) - replaced, sum(row[4] for row in rows) - their_sum)
        folded = msgspec.structs.replace(self._folded, revision=last, chain=chain.hex(), **sums)
        database.execute("INSERT OR REPLACE INTO state VALUES ('folded', ?)", (folded.to_text(),))
        database.execute("COMMIT")
        self._folded = folded

    def rewrite(self, rows: list[Stored]) -> None:
        """Replace stored bodies, and erase the old ones from the files."""
        while self.log_bytes:
            self.fold(_REWRITE_BYTES)
        newest: dict[tuple[str, str], Row] = {row[:2]: row for row in rows}
        self._store(newest, self._folded.revision, bytes.fromhex(self._folded.chain))
        self.db.execute("VACUUM")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def begin_copy(self) -> Marked:
        """Checkpoint the WAL into the database file, and stop checkpoints until `end_copy`; return the mark.

        Further commits go into the WAL, so the database file does not change and `copy_to` gets the mark's state.
        """
        self.db.execute("PRAGMA wal_autocheckpoint=0")
        blocked = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if blocked:
            self.end_copy()
            raise JournalError(f"{self.path} cannot be copied now: its write-ahead log is in use")
        return self._mark.marked._replace(
            identity=self._folded.identity, revision=self.last_revision, chain=self._chain
        )

    def copy_to(self, target: Path) -> None:
        """Copy the database, on any thread; between `begin_copy` and `end_copy`."""
        if self._copy_fd is None:
            # kept open: closing any descriptor of the file would release SQLite's POSIX locks on it
            self._copy_fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(self._copy_fd).st_size
        target.unlink(missing_ok=True)
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while done < size:
                done += os.sendfile(copy, self._copy_fd, done, min(size - done, _COPY_BYTES))
            os.fsync(copy)
        finally:
            os.close(copy)

    def end_copy(self) -> None:
        """Allow checkpoints again."""
        self.db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")

    def roll_back(self) -> None:
        """Roll back a failed transaction, unless SQLite has done so itself."""
        with suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the files; if the journal was not read to its end, it may be damaged, so restore the files as found."""
        if self._lock < 0:
            return  # closed already by `_refusing`
        self.db.close()
        if self._copy_fd is not None:
            os.close(self._copy_fd)
        self._mark.close()
        self._restore_wal()

    def _restore_wal(self) -> None:
        restore_kept_wal(self.path)
        os.close(self._lock)
        self._lock = -1


def _connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    db = None
    try:
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=wait_seconds)
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    except sqlite3.Error as error:
        if db is not None:
            db.close()
        raise from_sqlite(path, error) from error
    path.chmod(0o600)
    return db
