"""Errors of a journal that cannot be used, with the remedy."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from strato.errors import StratoError

REMEDY = (
    "'strato restore FILE' brings a backup back, 'strato doctor --salvage' keeps what is readable and lists what is not"
)


class JournalError(StratoError):
    """The journal cannot be read or written; names the file and what to do."""


class JournalDamaged(JournalError):
    """Acknowledged writes may be missing from a journal's files, or changed there.

    Attributes:
        path: The damaged file.
        what: What is wrong with it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        super().__init__(f"{path} is damaged: {what}; {REMEDY}")


def ends_early(path: Path, last: int, acknowledged: int) -> JournalDamaged:
    """Return the error of a journal whose newest revision is older than the mark's."""
    cause = f"the end of {path.name}-wal is damaged or missing, or this is an older copy"
    return JournalDamaged(path, f"it ends at revision {last}, but {acknowledged} was acknowledged: {cause}")


def from_sqlite(path: Path, error: sqlite3.Error) -> JournalError:
    """Return the journal's error for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return in_use(path, _locker(path))
    if code == sqlite3.SQLITE_FULL:
        return JournalError(f"{path}: {error}; free some room there, or choose another place with --data-dir")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return JournalError(f"{path}: {error}; make the file and its directory writable for this user")
    if code == sqlite3.SQLITE_IOERR:
        return JournalError(f"{path}: {error}; the disk does not read or write it: see the kernel's log")
    return JournalDamaged(path, str(error))


def in_use(path: Path, pid: str) -> JournalError:
    """Return the error of a journal that process ``pid`` has open; empty if the process is not known."""
    holder = f"process {pid}{_command(pid)}" if pid else "another process"
    return JournalError(f"{path} is in use by {holder}; stop that cluster, or give this one another --data-dir")


def _locker(path: Path) -> str:
    """Return the id of the process that has locked a database, from /proc/locks; empty if it is not there."""
    inodes = set()
    for name in (path.name, path.name + "-shm"):
        with suppress(OSError):
            inodes.add(str(path.with_name(name).stat().st_ino))
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            # "1: POSIX ADVISORY WRITE 1234 08:01:5678 first last"; of a waiting process the second field is "->"
            if len(fields) == 8 and fields[1] == "POSIX" and fields[5].rpartition(":")[2] in inodes:
                return fields[4]
    return ""


def _command(pid: str) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    text = b" ".join(words).decode(errors="replace").strip()
    return f" ({text[:80]})" if text else ""
