"""The protobuf wire format: tags, variable-length integers, and where a field's bytes end.

Source: the protocol buffers encoding guide. Groups (wire types 3 and 4) are refused: no type of Kubernetes has any.
"""

from __future__ import annotations

from strato.errors import BadRequest

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 63  # shift of the tenth and last byte
_64_BITS = (1 << 64) - 1
_SHORT = [bytes((size,)) for size in range(0x80)]
"""Encoded integers of one byte, as nearly all are."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned integer at a position and the position after it.

    Raises:
        BadRequest: The data ends inside it, or it has more than ten bytes.
    """
    value = shift = 0
    size = len(data)
    while at < size:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, at
        if shift == _LONGEST_VARINT:
            raise broken("an integer is over ten bytes long")
        shift += 7
    raise broken("it ends within an integer")


def varint_bytes(value: int) -> bytes:
    """Encode an integer with seven bits in each byte; a negative one as 64-bit two's complement."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    rest, out = value & _64_BITS, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def delimited(tag: bytes, content: bytes) -> bytes:
    """Return a length-delimited field."""
    size = len(content)
    return tag + (_SHORT[size] if size < 0x80 else varint_bytes(size)) + content


def payload(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    """Return one field's value (an integer, or bytes for the other wire types) and the position after it.

    Raises:
        BadRequest: The data ends inside it, or the wire type is unknown.
    """
    if wire_type == VARINT:
        return varint(data, at)
    if wire_type == BYTES:
        length, at = varint(data, at)
    elif wire_type == FIXED64:
        length = 8
    elif wire_type == FIXED32:
        length = 4
    else:
        raise broken(f"wire type {wire_type} is not used by Kubernetes")
    end = at + length
    if end > len(data):
        raise broken("it ends within a field")
    return data[at:end], end


def blobs(data: bytes) -> dict[int, bytes]:
    """Return the bytes of every length-delimited field by number; of a repeated field the last.

    Raises:
        BadRequest: The bytes are not protobuf.
    """
    found: dict[int, bytes] = {}
    at, size = 0, len(data)
    while at < size:
        tag, at = varint(data, at)
        value, at = payload(data, at, tag & 7)
        if not isinstance(value, int):
            found[tag >> 3] = value
    return found


def broken(what: str) -> BadRequest:
    """Return the error for bytes that are not Kubernetes' protobuf."""
    return BadRequest(f"the object provided is not valid protobuf: {what}; send it again as application/json")
