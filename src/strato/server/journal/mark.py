"""The mark: the newest acknowledged revision, in a small file beside the journal and outside its WAL.

SQLite reads a damaged or truncated WAL as one that ended earlier, and cannot know that more was committed. The mark
tells. It is written after each commit and before the commit's writes are answered, so a killed process never leaves a
journal that is older than its mark. The mark's two slots are written alternately, each with a checksum, so that an
interrupted write damages at most one.

A write to the mark reaches the kernel and so survives the process; `Mark.sync` flushes it to the disk. The journal
calls that at most every 100 ms, and before a fold: after a power failure the mark may be older than the journal by as
much, and never newer.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from strato.server.journal.errors import JournalDamaged
from strato.server.journal.records import CHECKSUM_BYTES

_MAGIC = b"strato-mark-1\0\0\0"
_SLOT = struct.Struct(f">16s16sQQ{CHECKSUM_BYTES}s")
"""Magic, identity, sequence number, revision, checksum of the log's row of that revision."""
_SLOT_OFFSETS = (0, 4096)
"""The slots are in different sectors, so that an interrupted write damages only one."""
_SIZE = 8192
_DIGEST_BYTES = 16


class Marked(NamedTuple):
    """The content of a mark."""

    identity: str
    sequence: int
    revision: int
    chain: bytes


class Mark:
    """An existing mark (see `make_mark`), open for writing."""

    def __init__(self, path: Path, marked: Marked) -> None:
        self.marked = marked
        self._is_synced = True
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.fchmod(self._fd, 0o600)
        if os.fstat(self._fd).st_size != _SIZE:
            os.ftruncate(self._fd, _SIZE)

    def write(self, revision: int, chain: bytes) -> None:
        """Write the newest acknowledged revision and its row's checksum into the other slot."""
        sequence = self.marked.sequence + 1
        marked = self.marked._replace(sequence=sequence, revision=revision, chain=chain)
        os.pwrite(self._fd, _slot(marked), _SLOT_OFFSETS[sequence % 2])
        self.marked = marked
        self._is_synced = False

    def sync(self) -> None:
        """Flush the file to the disk."""
        if not self._is_synced:
            os.fdatasync(self._fd)
            self._is_synced = True

    def close(self) -> None:
        """Sync and close."""
        with suppress(OSError):
            self.sync()
        os.close(self._fd)


def make_mark(path: Path, marked: Marked) -> None:
    """Create a mark, or replace one, atomically."""
    new = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        new.unlink()
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _SIZE)  # so that later writes cannot fail on a full disk
        for offset in _SLOT_OFFSETS:
            os.pwrite(fd, _slot(marked), offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path)
    sync_directory(path.parent)


def mark_path(journal: Path) -> Path:
    """Return the path of a journal's mark."""
    return journal.with_name(journal.name + ".mark")


def read_mark(path: Path) -> Marked | None:
    """Return a mark's content; None if there is no mark.

    Raises:
        JournalDamaged: Neither slot has a valid checksum.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    slots = [found for offset in _SLOT_OFFSETS if (found := _read_slot(content[offset:])) is not None]
    if not slots:
        raise JournalDamaged(path, "it holds no readable mark of the newest acknowledged revision")
    return max(slots, key=lambda slot: slot.sequence)


def _read_slot(content: bytes) -> Marked | None:
    slot, digest = content[: _SLOT.size], content[_SLOT.size : _SLOT.size + _DIGEST_BYTES]
    if len(slot) < _SLOT.size or digest != _digest(slot):
        return None
    magic, identity, sequence, revision, chain = _SLOT.unpack(slot)
    return Marked(identity.hex(), sequence, revision, chain) if magic == _MAGIC else None


def _slot(marked: Marked) -> bytes:
    slot = _SLOT.pack(_MAGIC, bytes.fromhex(marked.identity), marked.sequence, marked.revision, marked.chain)
    return slot + _digest(slot)


def _digest(slot: bytes) -> bytes:
    return blake2b(slot, digest_size=_DIGEST_BYTES).digest()


def sync_directory(path: Path) -> None:
    """Flush a directory to the disk, so that created, renamed and deleted files survive a power failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
