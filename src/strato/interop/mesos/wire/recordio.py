"""RecordIO: each record is its length in decimal digits, a line feed, and that many bytes, without separators."""

from __future__ import annotations

from strato.errors import StratoError

MOST_DIGITS = 20
"""Most digits of a length; 64 bits need as many."""
MOST_RECORD_BYTES = 64 << 20
"""Longest record that is read."""


class BrokenRecord(StratoError):
    """The bytes do not form records."""


def frame(record: bytes) -> bytes:
    """Return a record with its length in front."""
    return b"%d\n%b" % (len(record), record)


class RecordReader:
    """Splits a stream of bytes into records; buffers at most one incomplete record."""

    def __init__(self, most_bytes: int = MOST_RECORD_BYTES) -> None:
        self._most = most_bytes
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes and return the completed records.

        Raises:
            BrokenRecord: A length is no number, or over the limit.
        """
        held, records, at = self._held, [], 0
        held += data
        while (line := held.find(b"\n", at, at + MOST_DIGITS + 1)) >= 0:
            size = self._size(bytes(held[at:line]))
            if len(held) < line + 1 + size:
                break
            records.append(bytes(held[line + 1 : line + 1 + size]))
            at = line + 1 + size
        else:
            rest = bytes(held[at : at + MOST_DIGITS + 1])
            if rest and (len(rest) > MOST_DIGITS or not rest.isdigit()):
                raise BrokenRecord(f"a record begins with its length in digits and a line feed, not with {rest!r}")
        del held[:at]
        return records

    @property
    def is_empty(self) -> bool:
        """Whether no incomplete record is buffered, so that the stream may end here."""
        return not self._held

    def _size(self, digits: bytes) -> int:
        if not digits.isdigit():
            raise BrokenRecord(f"a record begins with its length in digits, not with {digits!r}")
        size = int(digits)
        if size > self._most:
            raise BrokenRecord(f"a record of {size} bytes is over the limit of {self._most}")
        return size
