"""The journal's files: the lock, a copy of the WAL while it is checked, and which files are missing."""

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
    """Return the descriptor of the lock file of a journal, locked until it is closed.

    Raises:
        JournalError: Another process has it.
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
    """Keep everybody else from opening a journal.

    Raises:
        JournalError: Another process has it.
    """
    lock = take_lock(path, 0)
    try:
        yield
    finally:
        os.close(lock)


def wal_path(path: Path) -> Path:
    """Return where SQLite has the write-ahead log of a database."""
    return path.with_name(path.name + "-wal")


def look_at_files(path: Path) -> Marked | None:
    """Return what the mark says; make the file where there is none.

    SQLite deletes the WAL of a database that is missing or empty: that must be seen before it looks.

    Raises:
        JournalError: There was a journal, and it is gone.
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
    """Give the WAL a second name until all of it is checked.

    Closing a database moves what SQLite can read of its WAL into it and removes the WAL, whatever lies behind the first
    damaged frame.
    """
    wal = wal_path(path)
    if wal.exists() and wal.stat().st_size:
        os.link(wal, _kept_wal_path(path))


def drop_kept_wal(path: Path) -> None:
    """Forget the WAL as it was found: what it held has been read, and more may be written."""
    _kept_wal_path(path).unlink(missing_ok=True)


def restore_kept_wal(path: Path) -> None:
    """Leave the WAL as it was found, by this attempt to open the journal or by one that was killed."""
    wal, kept = wal_path(path), _kept_wal_path(path)
    if kept.exists() and not wal.exists():
        kept.rename(wal)
    else:
        kept.unlink(missing_ok=True)
