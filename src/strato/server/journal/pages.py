"""Read pages of an SQLite database and its WAL without SQLite, which stops at the first damaged page.

This decodes only what the journal's tables need: leaf pages of ``log`` (a table with row ids), leaf and inner pages of
``objects`` and ``state`` (tables without), their overflow pages, the list of free pages, and the frames of the WAL.
Content that cannot be decoded is skipped; the caller checks the checksums of the rows that can be.

Source: https://www.sqlite.org/fileformat2.html, sections 1.3 to 1.6, 2.1 and 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Value = int | str | bytes | float | None
PAGE_BYTES = 4096
"""SQLite's default, which the journal uses."""
_MAGIC = b"SQLite format 3\0"
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x0A, 0x02
_HEADER_BYTES = {_TABLE_LEAF: 8, _INDEX_LEAF: 8, _INDEX_INNER: 12}
_DATABASE_HEADER_BYTES = 100
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_FRAME_BYTES = _FRAME_HEADER_BYTES + PAGE_BYTES
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
"""Length of an integer by its serial type."""


class PageRow(NamedTuple):
    """One row of a leaf or inner page."""

    rowid: int | None
    """The row id; None in tables without row ids."""
    values: tuple[Value, ...]


class Frame(NamedTuple):
    """One frame of a WAL."""

    page: int
    commits: bool
    """Whether the frame ends a transaction."""
    is_valid: bool
    """Whether this frame and all before it match their checksums."""
    content: bytes


def database_pages(content: bytes) -> dict[int, bytes]:
    """Return the complete pages of a database by number, from 1."""
    return {
        number + 1: content[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
        for number in range(len(content) // PAGE_BYTES)
    }


def free_pages(pages: Mapping[int, bytes]) -> tuple[set[int], bool]:
    """Return the free pages, which may have old content, and whether the list of them could be read to its end."""
    header = pages.get(1, bytes(PAGE_BYTES))
    trunk, total = struct.unpack_from(">II", header, 32)
    free: set[int] = set()
    while trunk in pages and trunk not in free:
        free.add(trunk)
        content = pages[trunk]
        following, count = struct.unpack_from(">II", content)
        count = min(count, PAGE_BYTES // 4 - 2)
        free.update(struct.unpack_from(f">{count}I", content, 8))
        trunk = following
    return free, header.startswith(_MAGIC) and len(free) == total


def rows_of(pages: Mapping[int, bytes], number: int) -> Iterator[PageRow]:
    """Yield the rows of a page that can be decoded; none if the page is not one with rows."""
    content = pages[number]
    start = _DATABASE_HEADER_BYTES if number == 1 else 0
    kind = content[start]
    header = _HEADER_BYTES.get(kind)
    if header is None:
        return
    cells = int.from_bytes(content[start + 3 : start + 5], "big")
    for index in range(min(cells, (PAGE_BYTES - start - header) // 2)):
        place = start + header + 2 * index
        try:
            yield _cell(pages, content, kind, int.from_bytes(content[place : place + 2], "big"))
        except (IndexError, KeyError, ValueError, struct.error):
            continue


def _cell(pages: Mapping[int, bytes], content: bytes, kind: int, at: int) -> PageRow:
    if kind == _INDEX_INNER:
        at += 4  # skips the number of the child page
    size, at = _varint(content, at)
    rowid = None
    if kind == _TABLE_LEAF:
        rowid, at = _varint(content, at)
    most = PAGE_BYTES - 35 if kind == _TABLE_LEAF else (PAGE_BYTES - 12) * 64 // 255 - 23
    local = size
    if size > most:
        least = (PAGE_BYTES - 12) * 32 // 255 - 23
        local = least + (size - least) % (PAGE_BYTES - 4)
        local = local if local <= most else least
    payload = [content[at : at + local]]
    missing = size - local
    following = int.from_bytes(content[at + local : at + local + 4], "big") if missing else 0
    while missing > 0:
        overflow = pages[following]
        following = int.from_bytes(overflow[:4], "big")
        payload.append(overflow[4 : 4 + missing])
        missing -= PAGE_BYTES - 4
    return PageRow(rowid, tuple(_values(b"".join(payload))))


def _values(payload: bytes) -> Iterator[Value]:
    """Decode a record."""
    end, at = _varint(payload, 0)
    place = end
    while at < end:
        serial, at = _varint(payload, at)
        if serial in (0, 8, 9):
            yield None if serial == 0 else serial - 8
        elif serial < 7:
            size = _INTEGER_BYTES[serial]
            yield int.from_bytes(payload[place : place + size], "big", signed=True)
            place += size
        elif serial == 7:
            yield struct.unpack_from(">d", payload, place)[0]
            place += 8
        else:
            size = (serial - 12) // 2
            if size < 0 or place + size > len(payload):
                raise ValueError("a value that ends behind its record")
            value = payload[place : place + size]
            yield value.decode() if serial % 2 else value
            place += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return an integer of one to nine bytes, and the offset behind it."""
    value = 0
    for index in range(8):
        byte = content[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | content[at + 8], at + 9


def wal_frames(content: bytes) -> Iterator[Frame]:
    """Yield the frames written since the WAL was last reset; older frames behind them have another salt."""
    if len(content) < _WAL_HEADER_BYTES + _FRAME_BYTES:
        return
    order = ">" if content[3] & 1 else "<"
    sums = _checksum(order, content[:24], (0, 0))
    is_valid = struct.unpack_from(">II", content, 24) == sums and content[:3] == b"\x37\x7f\x06"
    salts = content[16:24] if is_valid else content[_WAL_HEADER_BYTES + 8 : _WAL_HEADER_BYTES + 16]
    for at in range(_WAL_HEADER_BYTES, len(content) - _FRAME_BYTES + 1, _FRAME_BYTES):
        frame = content[at : at + _FRAME_BYTES]
        if frame[8:16] != salts:
            is_valid = False
            continue
        page, size_after = struct.unpack_from(">II", frame)
        if is_valid:
            sums = _checksum(order, frame[:8], sums)
            sums = _checksum(order, frame[_FRAME_HEADER_BYTES:], sums)
            is_valid = struct.unpack_from(">II", frame, 16) == sums
        yield Frame(page, size_after != 0, is_valid, frame[_FRAME_HEADER_BYTES:])


def _checksum(order: str, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return first, second
