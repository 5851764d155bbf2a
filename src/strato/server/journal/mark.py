"""The mark: the newest acknowledged revision, in a small file beside the journal and outside its WAL.

A damaged or shortened WAL reads as one that ended earlier: SQLite cannot know that more was committed. The mark does.
It is written after each commit and before anybody is answered, so that a killed process leaves a journal that is never
behind its mark. Two slots are written by turns, each with a checksum: a write that was cut short spoils one at most.

Writing reaches the kernel, which survives the process; `Mark.sync` makes it survive the machine. It is called at most
every 100 ms and before a fold: after a power failure the mark may be that much behind, never ahead.
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
"""In sectors of their own."""
_SIZE = 8192
_DIGEST_BYTES = 16


class Marked(NamedTuple):
    """What a mark says."""

    identity: str
    sequence: int
    revision: int
    chain: bytes


class Mark:
    """A mark that is there (`make_mark`), open for writing."""

    def __init__(self, path: Path, marked: Marked) -> None:
        self.marked = marked
        self._is_synced = True
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.fchmod(self._fd, 0o600)
        if os.fstat(self._fd).st_size != _SIZE:
            os.ftruncate(self._fd, _SIZE)

    def write(self, revision: int, chain: bytes) -> None:
        """Note the newest acknowledged revision and its row's checksum."""
        sequence = self.marked.sequence + 1
        marked = self.marked._replace(sequence=sequence, revision=revision, chain=chain)
        os.pwrite(self._fd, _slot(marked), _SLOT_OFFSETS[sequence % 2])
        self.marked = marked
        self._is_synced = False

    def sync(self) -> None:
        """Make what was written survive a power failure."""
        if not self._is_synced:
            os.fdatasync(self._fd)
            self._is_synced = True

    def close(self) -> None:
        """Sync and close."""
        with suppress(OSError):
            self.sync()
        os.close(self._fd)


def make_mark(path: Path, marked: Marked) -> None:
    """Write a new mark in place of any there is, as a whole or not at all."""
    new = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        new.unlink()
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _SIZE)  # later writes need no room
        for offset in _SLOT_OFFSETS:
            os.pwrite(fd, _slot(marked), offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path)
    sync_directory(path.parent)


def mark_path(journal: Path) -> Path:
    """Return where the mark of a journal is."""
    return journal.with_name(journal.name + ".mark")


def read_mark(path: Path) -> Marked | None:
    """Return what a mark says; None without one.

    Raises:
        JournalDamaged: Neither slot can be read.
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
    """Make names made, changed or removed in a directory survive a power failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
