"""Rows of the journal and their checksums.

Every row carries a checksum of its content. One of table ``log`` carries its predecessor's too, so that a missing row
is found by the next one; table ``objects`` has the number and the sum of its checksums in `Folded`, so that a missing,
added or replaced row is found by the sum. Checksums find accidents; they are no defence against who may write the file.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from zlib import crc32

import msgspec

Row = tuple[str, str, int, bytes | None]
"""Resource, key, revision, body (None: deleted)."""
Stored = tuple[str, str, int, bytes]
"""A record with a body."""

CHECKSUM_BYTES = 16
START = bytes(CHECKSUM_BYTES)
"""What the first row of a log has as its predecessor's checksum."""
_SUM_LIMIT = 1 << 64

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Row]).decode


def row_checksum(resource: str, key: str, revision: int, body: bytes) -> int:
    """Return the checksum of a row of ``objects``: 32 bits, of which SQLite can add up two thousand million."""
    return crc32(body, crc32(f"{resource}\0{key}\0{revision}\0".encode()))


def log_checksum(previous: bytes, revision: int, changes: bytes) -> bytes:
    """Return the checksum of a row of ``log`` that follows the one with checksum ``previous``.

    CRC-32 reads what may be megabytes: five times as fast as BLAKE2b, which chains the rows.
    """
    row = b"%d %d %d\0" % (revision, len(changes), crc32(changes))
    return blake2b(previous + row, digest_size=CHECKSUM_BYTES).digest()


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What table ``objects`` holds, and which journal this is; the row ``folded`` of table ``state``."""

    identity: str
    """Of this journal, as its mark has it."""
    revision: int
    """The newest revision in ``objects``, or where a restored journal goes on."""
    chain: str
    """Checksum of the last row of ``log`` that was folded, in hexadecimal."""
    count: int
    """Rows of ``objects``."""
    sum: int
    """Sum of their checksums, modulo 2**64."""

    def plus(self, count: int, checksums: int) -> dict[str, int]:
        """Return count and sum after so many rows with that sum of checksums came (or, negative, went)."""
        return {"count": self.count + count, "sum": (self.sum + checksums) % _SUM_LIMIT}

    def to_text(self) -> str:
        """Return the row's value: JSON and its checksum."""
        text = msgspec.json.encode(self).decode()
        return f"{_digest(text)} {text}"


def folded_from_text(value: Any) -> Folded | None:
    """Return what `Folded.to_text` gave; None when it is damaged."""
    digest, _, text = str(value).partition(" ")
    if digest != _digest(text):
        return None
    return msgspec.json.decode(text, type=Folded)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=CHECKSUM_BYTES).hexdigest()
