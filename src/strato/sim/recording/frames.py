r"""Frames: the blocks of entries in a log's file. A frame's head has checksums, so that damage is detected.

    file  = "strato log 1\n" frame*
    frame = head payload
    head  = "SF" method:u8 flags:u8 packed:u32 size:u32 at:f64 payload_crc:u32 head_crc:u32      (big-endian)

A process appends frame after frame. If it is killed, its file has whole frames and at most one torn frame at the end; a
reader leaves that out and reports it (`Torn`). Anything else that does not fit is damage, and an error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from strato.errors import UsageError
from strato.sim.recording import compression

MAGIC: Final = b"strato log 1\n"
SNAPSHOT: Final = 1
"""Flag: a snapshot begins in the frame."""
BEGINNING: Final = 2
"""Flag: the frame holds a `strato.sim.recording.entries.Began`."""
MAX_BYTES: Final = 64 << 20
"""Most bytes of a frame's content; a head with more is damaged."""
_HEAD = struct.Struct(">2sBBIIdII")
_MARK = b"SF"


class BadLog(UsageError):
    """A log cannot be read; the message names the file, the byte and what is wrong."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's head and its place.

    Attributes:
        path: The file.
        offset: Byte at which the head begins.
        method: Method of compression (`strato.sim.recording.compression`).
        flags: Sum of `SNAPSHOT` and `BEGINNING`.
        packed: Bytes of the payload on disk.
        size: Bytes of the payload uncompressed.
        at: Instant of the first entry.
        crc: Checksum of the payload on disk.
    """

    path: Path
    offset: int
    method: int
    flags: int
    packed: int
    size: int
    at: float
    crc: int

    @property
    def end(self) -> int:
        """Byte after the frame."""
        return self.offset + _HEAD.size + self.packed


@dataclass(frozen=True, slots=True)
class Torn:
    """The beginning of a frame that was being written when its process was killed."""

    path: Path
    offset: int
    left: int

    def __str__(self) -> str:
        return f"{self.path}: the last frame, at byte {self.offset}, is torn ({self.left} bytes of it) and left out"


def to_frame(body: bytes, at: float, flags: int = 0) -> bytes:
    """Return a frame with content as bytes."""
    method, packed = compression.compress(body)
    head = _HEAD.pack(_MARK, method, flags, len(packed), len(body), at, zlib.crc32(packed), 0)
    return head[:-4] + zlib.crc32(head[:-4]).to_bytes(4, "big") + packed


def scan(path: Path) -> Iterator[Frame | Torn]:
    """Return the frames of a file, reading their heads only; a torn last frame as `Torn`.

    Raises:
        BadLog: The file is no log, or a head is damaged.
    """
    try:
        with path.open("rb") as file:
            yield from _scan(path, file, path.stat().st_size)
    except OSError as error:
        raise BadLog(f"{path} cannot be read: {error.strerror}") from error


def _scan(path: Path, file: BinaryIO, length: int) -> Iterator[Frame | Torn]:
    begin = file.read(len(MAGIC))
    if begin != MAGIC:
        if MAGIC.startswith(begin) and begin:
            yield Torn(path, 0, len(begin))
            return
        raise BadLog(f"{path} is no log of strato sim record: it does not begin with {MAGIC.decode().strip()!r}")
    offset = len(MAGIC)
    while offset < length:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            yield Torn(path, offset, len(head))
            return
        frame = _read_head(path, offset, head)
        if frame.end > length:
            yield Torn(path, offset, length - offset)
            return
        yield frame
        offset = frame.end
        file.seek(offset)


def _read_head(path: Path, offset: int, head: bytes) -> Frame:
    mark, method, flags, packed, size, at, crc, head_crc = _HEAD.unpack(head)
    if mark != _MARK or zlib.crc32(head[:-4]) != head_crc:
        raise BadLog(f"{path}: byte {offset}: the head of a frame is damaged; what is before it can be had by --until")
    if size > MAX_BYTES or packed > MAX_BYTES:
        raise BadLog(f"{path}: byte {offset}: a frame of {max(size, packed)} bytes; at most {MAX_BYTES} are written")
    return Frame(path, offset, method, flags, packed, size, at, crc)


def read(frame: Frame) -> bytes:
    """Return a frame's content.

    Raises:
        BadLog: The frame is damaged.
    """
    where = f"{frame.path}: byte {frame.offset}"
    try:
        with frame.path.open("rb") as file:
            file.seek(frame.offset + _HEAD.size)
            packed = file.read(frame.packed)
    except OSError as error:
        raise BadLog(f"{frame.path} cannot be read: {error.strerror}") from error
    if len(packed) != frame.packed or zlib.crc32(packed) != frame.crc:
        raise BadLog(f"{where}: the frame's checksum is wrong; the log is damaged from there on")
    try:
        return compression.decompress(frame.method, packed, frame.size)
    except ValueError as error:
        raise BadLog(f"{where}: the frame cannot be read: {error}") from error
