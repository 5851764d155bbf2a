"""The journal's files: its lock, the copy of the WAL that is kept during checks, and checks for missing files."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strato.server.journal.errors import REMEDY, JournalError, in_use
from strato.server.journal.mark import Marked, mark_path, read_mark

_LOCK_POLL_SECONDS = 0.05


def take_lock(path: Path, wait_seconds: float) -> int:
    """Lock a journal, and return the descriptor of its lock file; closing that releases the lock.

    Raises:
        JournalError: Another process has the lock.
    """
    fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    tries = max(1, round(wait_seconds / _LOCK_POLL_SECONDS))
    for _ in range(tries):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            threading.Event().wait(_LOCK_POLL_SECONDS)
            continue
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        return fd
    holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
    os.close(fd)
    raise in_use(path, holder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a journal, so that no other process can open it.

    Raises:
        JournalError: Another process has the lock.
    """
    lock = take_lock(path, 0)
    try:
        yield
    finally:
        os.close(lock)


def wal_path(path: Path) -> Path:
    """Return the path of a database's write-ahead log."""
    return path.with_name(path.name + "-wal")


def look_at_files(path: Path) -> Marked | None:
    """Return the mark's content; create the database file if it is missing and nothing was acknowledged.

    To be called before SQLite opens the database, because SQLite deletes the WAL of a missing or empty one.

    Raises:
        JournalError: There was a journal, and its database is gone.
    """
    restore_kept_wal(path)
    marked = read_mark(mark_path(path))
    if not path.exists() or path.stat().st_size == 0:
        what = "missing" if not path.exists() else "empty"
        if marked is not None and marked.revision > 1:
            raise JournalError(f"{path} is {what}, but revision {marked.revision} was acknowledged; {REMEDY}")
        wal = wal_path(path)
        if wal.exists() and wal.stat().st_size:
            raise JournalError(f"{path} is {what}, but its write-ahead log {wal.name} is there; {REMEDY}")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return marked


def _kept_wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal.found")


def keep_wal(path: Path) -> None:
    """Hard-link the WAL under a second name until all of it is checked.

    When a database is closed, SQLite checkpoints the WAL up to the first damaged frame and deletes it, with all frames
    behind that one. The link keeps them for `salvage`.
    """
    wal = wal_path(path)
    if wal.exists() and wal.stat().st_size:
        os.link(wal, _kept_wal_path(path))


def drop_kept_wal(path: Path) -> None:
    """Delete the link to the WAL, after all of it has been read."""
    _kept_wal_path(path).unlink(missing_ok=True)


def restore_kept_wal(path: Path) -> None:
    """Restore the WAL as it was found by this attempt to open the journal, or by an earlier one that was killed."""
    wal, kept = wal_path(path), _kept_wal_path(path)
    if kept.exists() and not wal.exists():
        kept.rename(wal)
    else:
        kept.unlink(missing_ok=True)
