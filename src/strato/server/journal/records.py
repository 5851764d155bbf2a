"""Rows of the journal and their checksums.

Every row has a checksum of its content. A row of table ``log`` also has its predecessor's, which reveals a missing row.
For table ``objects``, `Folded` has the number of rows and the sum of their checksums, which reveal a missing, added or
replaced row. Checksums find accidents; they do not protect against a user who can write the file.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from zlib import crc32

import msgspec

Row = tuple[str, str, int, bytes | None]
"""Resource, key, revision, and body, which is None for a deletion."""
Stored = tuple[str, str, int, bytes]
"""A row of an existing object."""

CHECKSUM_BYTES = 16
START = bytes(CHECKSUM_BYTES)
"""The predecessor's checksum in the first row of a log."""
_SUM_LIMIT = 1 << 64

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Row]).decode


def row_checksum(resource: str, key: str, revision: int, body: bytes) -> int:
    """Return the checksum of a row of ``objects``: 32 bits, so that SQLite can sum two billion without overflow."""
    return crc32(body, crc32(f"{resource}\0{key}\0{revision}\0".encode()))


def log_checksum(previous: bytes, revision: int, changes: bytes) -> bytes:
    """Return the checksum of a row of ``log`` that follows the one with checksum ``previous``.

    The changes, perhaps megabytes, are summed by CRC-32, which is five times as fast as BLAKE2b; BLAKE2b then chains
    the rows.
    """
    row = b"%d %d %d\0" % (revision, len(changes), crc32(changes))
    return blake2b(previous + row, digest_size=CHECKSUM_BYTES).digest()


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """The description of table ``objects``, and the journal's identity; stored as row ``folded`` of table ``state``."""

    identity: str
    """The journal's identity, which its mark has too."""
    revision: int
    """The newest revision in ``objects``; of a restored journal, the revision from which it continues."""
    chain: str
    """Checksum of the last row of ``log`` that was folded, in hexadecimal."""
    count: int
    """Number of rows of ``objects``."""
    sum: int
    """Sum of the rows' checksums, modulo 2**64."""

    def plus(self, count: int, checksums: int) -> dict[str, int]:
        """Return count and sum after adding (or, if negative, removing) rows with a sum of checksums."""
        return {"count": self.count + count, "sum": (self.sum + checksums) % _SUM_LIMIT}

    def to_text(self) -> str:
        """Return the row's value: JSON and its checksum."""
        text = msgspec.json.encode(self).decode()
        return f"{_digest(text)} {text}"


def folded_from_text(value: Any) -> Folded | None:
    """Parse the text of `Folded.to_text`; None if it is damaged."""
    digest, _, text = str(value).partition(" ")
    if digest != _digest(text):
        return None
    return msgspec.json.decode(text, type=Folded)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=CHECKSUM_BYTES).hexdigest()
