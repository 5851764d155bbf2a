"""Convert protobuf's scalar types to JSON."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from strato.server.protobuf.wire import BYTES, FIXED64, VARINT, broken, varint_bytes

_double = struct.Struct("<d")


class Scalar(NamedTuple):
    """A scalar type: its wire type, its decoder, its zero, and its encoder."""

    wire_type: int
    read: Callable[[Any], Any]
    zero: Any
    write: Callable[[Any], bytes]


def int64(value: int) -> int:
    """Return a varint as a signed 64-bit number."""
    return value - (1 << 64) if value >> 63 else value


def int32(value: int) -> int:
    """Return the low 32 bits of a varint as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def text(value: bytes) -> str:
    """Return a string.

    Raises:
        BadRequest: It is not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise broken(f"a string is not UTF-8 ({error.reason})") from error


def double(value: bytes) -> float:
    """Return a floating point number.

    Raises:
        BadRequest: It is infinite or NaN, which JSON does not have.
    """
    (number,) = _double.unpack(value)
    if not math.isfinite(number):
        raise broken(f"{number} is not a number that JSON can hold")
    return float(number)


def base64_text(value: bytes) -> str:
    """Return bytes as base64, as in JSON."""
    return base64.b64encode(value).decode()


SCALARS = {
    "string": Scalar(BYTES, text, "", str.encode),
    "bytes": Scalar(BYTES, base64_text, "", base64.b64decode),
    "bool": Scalar(VARINT, bool, False, lambda value: b"\x01" if value else b"\x00"),
    "int32": Scalar(VARINT, int32, 0, varint_bytes),
    "int64": Scalar(VARINT, int64, 0, varint_bytes),
    "double": Scalar(FIXED64, double, 0.0, _double.pack),
}
"""Every scalar type in the table."""
