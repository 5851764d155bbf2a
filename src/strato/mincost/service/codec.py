"""Read and write protocol-buffer messages (proto3) by a table of fields; unknown fields are skipped.

A message type is a mapping from field number to `Field`; a message is a plain dictionary by field name.
Absent scalar fields read as their default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strato.errors import UsageError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEFAULTS: dict[str, Any] = {"int": 0, "sint": 0, "bool": False, "string": "", "float": 0.0, "double": 0.0}
_ALL = (1 << 64) - 1


class WireError(UsageError):
    """Bytes that are no message of the expected type."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, its kind (``int``, ``bool``, ``string``, ``float``, ``double``, ``message``, ``map``)."""

    name: str
    kind: str = "int"
    message: Mapping[int, Field] | None = None
    repeated: bool = False


Message = Mapping[int, Field]
_MAP_ENTRY: Message = {1: Field("key", "string"), 2: Field("value", "string")}


def decode(data: bytes, message: Message) -> dict[str, Any]:
    """Read a message.

    Raises:
        WireError: The bytes end early or a field has the wrong wire type.
    """
    found = {field.name: _default(field) for field in message.values()}
    try:
        for number, wire, value in _fields(data):
            field = message.get(number)
            if field is not None:
                _keep(found, field, wire, value)
    except (IndexError, struct.error, UnicodeDecodeError) as err:
        raise WireError(f"message of {len(data)} bytes cannot be read: {err}") from err
    return found


def _default(field: Field) -> Any:
    if field.kind == "map":
        return {}
    if field.repeated:
        return []
    return None if field.kind == "message" else _DEFAULTS[field.kind]


def _keep(found: dict[str, Any], field: Field, wire: int, value: Any) -> None:
    if field.kind == "map":
        entry = decode(_need(value, field), _MAP_ENTRY)
        found[field.name][entry["key"]] = entry["value"]
    elif field.repeated and wire == _BYTES and field.kind == "int":
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            found[field.name].append(number)
    else:
        read = _scalar(field, wire, value)
        if field.repeated:
            found[field.name].append(read)
        else:
            found[field.name] = read


def _scalar(field: Field, wire: int, value: Any) -> Any:
    if field.kind == "message":
        return decode(_need(value, field), field.message or {})
    if field.kind == "string":
        return _need(value, field).decode()
    if field.kind in {"float", "double"}:
        if wire == _VARINT:
            return float(value)
        return struct.unpack("<f" if wire == _FIXED32 else "<d", _need(value, field))[0]
    if not isinstance(value, int):
        raise WireError(f"field {field.name!r} is no number on the wire")
    return bool(value) if field.kind == "bool" else value


def _need(value: Any, field: Field) -> bytes:
    if not isinstance(value, bytes):
        raise WireError(f"field {field.name!r} has the wrong wire type")
    return value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _ALL, position
        shift += 7
        if shift > 63:
            raise WireError("a number is longer than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise WireError(f"wire type {wire} is unknown")
        if position + size > len(data):
            raise WireError(f"field {number} ends after the message")
        yield number, wire, data[position : position + size]
        position += size


def encode(values: Mapping[str, Any], message: Message) -> bytes:
    """Write a message; fields at their default are left out, as proto3 does."""
    out = bytearray()
    for number, field in message.items():
        value = values.get(field.name)
        if value is None or (not field.repeated and value == _default(field)):
            continue
        if field.kind == "map":
            for key, text in value.items():
                _block(out, number, encode({"key": key, "value": text}, _MAP_ENTRY))
        elif field.repeated and field.kind == "int":
            packed = bytearray()
            for item in value:
                _put(packed, item & _ALL)
            if packed:
                _block(out, number, bytes(packed))
        else:
            for item in value if field.repeated else [value]:
                _write(out, number, field, item)
    return bytes(out)


def _write(out: bytearray, number: int, field: Field, value: Any) -> None:
    if field.kind == "message":
        _block(out, number, encode(value, field.message or {}))
    elif field.kind == "string":
        _block(out, number, value.encode())
    elif field.kind in {"float", "double"}:
        _put(out, number << 3 | (_FIXED32 if field.kind == "float" else _FIXED64))
        out += struct.pack("<f" if field.kind == "float" else "<d", value)
    else:
        _put(out, number << 3 | _VARINT)
        _put(out, int(value) & _ALL)


def _block(out: bytearray, number: int, data: bytes) -> None:
    _put(out, number << 3 | _BYTES)
    _put(out, len(data))
    out += data


def _put(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
