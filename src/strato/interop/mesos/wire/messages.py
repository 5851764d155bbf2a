"""Messages of Mesos' v1 API, by the table that ``tools/extract_mesos.py`` generates from their descriptors.

A message is a dict, its decoded JSON. Input in JSON or protobuf is normalised: only known fields, numbers for numeric
fields, known enum values. As in proto2, a field with an unknown enum value counts as missing.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from strato.api.meta import Json
from strato.decoding import UNDECODABLE
from strato.errors import BadRequest, StratoError
from strato.server.protobuf.wire import BYTES, FIXED64, VARINT, delimited, payload, varint, varint_bytes

JSON, PROTOBUF = "application/json", "application/x-protobuf"
MOST_DEPTH = 32
"""Deepest nesting of messages; only ContainerID is recursive, all others nest at most 18 levels."""
_DOUBLE = struct.Struct("<d")
_LIMITS = {
    "int32": (-(1 << 31), 1 << 31),
    "int64": (-(1 << 63), 1 << 63),
    "uint32": (0, 1 << 32),
    "uint64": (0, 1 << 64),
}
_decode_json = msgspec.json.Decoder().decode


class MalformedMessage(StratoError):
    """The body is no such message; the error names the field."""


class NotJson(MalformedMessage):
    """The body is not JSON at all."""


class MissingFields(StratoError):
    """Required fields are missing; ``paths`` names all of them."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        super().__init__(", ".join(paths))


class _Field(NamedTuple):
    number: int
    name: str
    kind: str
    label: str

    @property
    def is_list(self) -> bool:
        return self.label == "l"


class Table(msgspec.Struct, frozen=True):
    """Messages and enums."""

    messages: dict[str, dict[str, tuple[str, str, str]]]
    """Messages by name: name, type and label of each field by its number."""
    enums: dict[str, dict[str, int]]


class MessageType:
    """One type of message."""

    __slots__ = ("_by_name", "_by_number", "name")

    def __init__(self, name: str, fields: Mapping[str, tuple[str, str, str]]) -> None:
        self.name = name
        rows = [_Field(int(number), *row) for number, row in fields.items()]
        self._by_name = {row.name: row for row in rows}
        self._by_number = {row.number: row for row in sorted(rows)}

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def from_json(self, body: bytes) -> Json:
        """Return a message out of its JSON.

        Raises:
            NotJson: It is not JSON.
            MalformedMessage: A field has a value of another type.
        """
        try:
            value = _decode_json(body)
        except UNDECODABLE as error:
            raise NotJson(str(error) or "nested too deeply") from error
        return self.from_value(value)

    def from_value(self, value: object, path: str = "", depth: int = 0) -> Json:
        """Return a message out of decoded JSON; unknown fields are left out.

        Raises:
            MalformedMessage: A field has a value of another type.
        """
        if not isinstance(value, dict):
            raise MalformedMessage(f"Expected a JSON object for {path or self.name}")
        _check_depth(depth, self.name)
        out: Json = {}
        for name, given in value.items():
            field = self._by_name.get(name)
            if field is None or given is None:
                continue
            here = f"{path}.{name}" if path else name
            read = _json_reader(field.kind, depth)
            if field.is_list:
                if not isinstance(given, list):
                    raise MalformedMessage(f"Expected a JSON array for {here}")
                found: Any = [item for one in given if (item := read(one, here)) is not None]
            elif field.label == "m":
                if not isinstance(given, dict):
                    raise MalformedMessage(f"Expected a JSON object for {here}")
                found = {key: read(item, f"{here}.{key}") for key, item in given.items()}
            else:
                found = read(given, here)
            if found is not None:
                out[name] = found
        return out

    # -- protobuf ------------------------------------------------------------------------------------------------------

    def from_protobuf(self, body: bytes, depth: int = 0) -> Json:
        """Return a message out of protobuf.

        Raises:
            MalformedMessage: The bytes are no such message.
        """
        _check_depth(depth, self.name)
        out: Json = {}
        at, size, fields = 0, len(body), self._by_number
        try:
            while at < size:
                tag, at = varint(body, at)
                raw, at = payload(body, at, tag & 7)
                field = fields.get(tag >> 3)
                if field is not None:
                    _put(out, field, raw, depth)
        except BadRequest as error:
            raise MalformedMessage(f"{self.name} ends early or is no protobuf") from error
        return out

    def to_protobuf(self, value: Mapping[str, Any]) -> bytes:
        """Encode a message as protobuf, with known fields only, in the order of their numbers."""
        parts: list[bytes] = []
        for field in self._by_number.values():
            given = value.get(field.name)
            if given is None:
                continue
            write = _writer(field.kind)
            tag = varint_bytes(field.number << 3 | _wire_type(field.kind))
            if field.is_list:
                parts.extend(tag + write(item) for item in given)
            elif field.label == "m":
                key_tag, item_tag = b"\n", varint_bytes(2 << 3 | _wire_type(field.kind))
                for key in sorted(given):
                    entry = delimited(key_tag, key.encode()) + item_tag + write(given[key])
                    parts.append(delimited(tag, entry))
            else:
                parts.append(tag + write(given))
        return b"".join(parts)

    # -- both ----------------------------------------------------------------------------------------------------------

    def decode(self, body: bytes, content_type: str) -> Json:
        """Return a message out of a body of either type.

        Raises:
            MalformedMessage: The body is no such message.
        """
        return self.from_protobuf(body) if content_type == PROTOBUF else self.from_json(body)

    def encode(self, value: Mapping[str, Any], content_type: str) -> bytes:
        """Return a message as a body of either type."""
        return self.to_protobuf(value) if content_type == PROTOBUF else msgspec.json.encode(value)

    def check_required(self, value: Mapping[str, Any]) -> None:
        """Check that all required fields are present.

        Raises:
            MissingFields: Some are missing.
        """
        paths = list(self.missing(value, ""))
        if paths:
            raise MissingFields(paths)

    def missing(self, value: Mapping[str, Any], path: str) -> Iterator[str]:
        """Yield the paths of missing required fields."""
        for field in self._by_name.values():
            given = value.get(field.name)
            if given is None:
                if field.label == "q":
                    yield path + field.name
            elif field.kind in table().messages:
                inner = message(field.kind)
                if field.is_list:
                    for number, item in enumerate(given):
                        yield from inner.missing(item, f"{path}{field.name}[{number}].")
                elif field.label == "m":
                    for key, item in given.items():
                        yield from inner.missing(item, f"{path}{field.name}[{key}].")
                else:
                    yield from inner.missing(given, f"{path}{field.name}.")


def _put(out: Json, field: _Field, raw: int | bytes, depth: int) -> None:
    """Put one field's value into its message."""
    read = _protobuf_reader(field.kind, depth)
    if field.label == "m":
        key, item = _entry(raw, field.kind, depth)
        out.setdefault(field.name, {})[key] = item
        return
    expected_bytes = _wire_type(field.kind) == BYTES
    if field.is_list and not expected_bytes and isinstance(raw, bytes) and field.kind != "double":
        at = 0
        while at < len(raw):  # packed encoding, which every decoder must accept
            number, at = varint(raw, at)
            out.setdefault(field.name, []).append(read(number))
        return
    found = read(raw)
    if found is None:
        return
    if field.is_list:
        out.setdefault(field.name, []).append(found)
    else:
        out[field.name] = found


def _entry(raw: int | bytes, kind: str, depth: int) -> tuple[str, Any]:
    key, item = "", None
    data = _blob(raw)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        part, at = payload(data, at, tag & 7)
        if tag >> 3 == 1:
            key = _text(part)
        elif tag >> 3 == 2:
            item = _protobuf_reader(kind, depth)(part)
    return key, item if item is not None else _protobuf_reader(kind, depth)(b"")


@cache
def table() -> Table:
    """Return every message and enum by its name without ``mesos.v1.``."""
    packed = files("strato.interop.mesos.wire").joinpath("data/messages.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Table)


@cache
def message(name: str) -> MessageType:
    """Return a type of message by its name without ``mesos.v1.``: ``scheduler.Call``."""
    return MessageType(name, table().messages[name])


def _check_depth(depth: int, name: str) -> None:
    if depth > MOST_DEPTH:
        raise MalformedMessage(f"{name} is over {MOST_DEPTH} levels deep")


def enum_names(name: str) -> frozenset[str]:
    """Return the values of an enum."""
    return frozenset(table().enums[name])


@cache
def _numbers(name: str) -> Mapping[int, str]:
    return {number: value for value, number in table().enums[name].items()}


def _wire_type(kind: str) -> int:
    if kind == "double":
        return FIXED64
    return BYTES if kind in ("string", "bytes") or kind in table().messages else VARINT


# -- readers and writers of values -------------------------------------------------------------------------------------


@cache
def _json_reader(kind: str, depth: int) -> Callable[[Any, str], Any]:
    if kind in table().messages:
        inner = message(kind)
        return lambda value, path: inner.from_value(value, path, depth + 1)
    if kind in table().enums:
        return _json_enum(table().enums[kind])
    return {"string": _json_string, "bytes": _json_bytes, "bool": _json_bool, "double": _json_double}.get(
        kind
    ) or _json_integer(kind)


def _json_enum(values: Mapping[str, int]) -> Callable[[Any, str], Any]:
    def read(value: Any, path: str) -> str | None:
        if not isinstance(value, str):
            raise MalformedMessage(f"Expected the name of a value for {path}")
        return value if value in values else None

    return read


def _json_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise MalformedMessage(f"Expected a JSON string for {path}")
    return value


def _json_bytes(value: Any, path: str) -> str:
    text = _json_string(value, path)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedMessage(f"Failed to base64 decode the bytes of {path}") from error
    return text


def _json_bool(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise MalformedMessage(f"Expected a JSON boolean for {path}")
    return value


def _json_double(value: Any, path: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedMessage(f"Expected a JSON number for {path}")
    try:
        float(value)
    except OverflowError as error:
        raise MalformedMessage(f"The number of {path} is too large") from error
    return value


def _json_integer(kind: str) -> Callable[[Any, str], int]:
    lowest, end = _LIMITS[kind]

    def read(value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MalformedMessage(f"Expected a JSON number for {path}")
        if not lowest <= value < end or value != int(value):
            raise MalformedMessage(f"The number of {path} is no {kind}")
        return int(value)

    return read


@cache
def _protobuf_reader(kind: str, depth: int) -> Callable[[Any], Any]:
    if kind in table().messages:
        inner = message(kind)
        return lambda raw: inner.from_protobuf(_blob(raw), depth + 1)
    if kind in table().enums:
        names = _numbers(kind)
        return lambda raw: names.get(_integer(raw))
    return {
        "string": _text,
        "bytes": lambda raw: base64.b64encode(_blob(raw)).decode(),
        "bool": lambda raw: bool(_integer(raw)),
        "double": _double,
        "int32": lambda raw: _signed(_integer(raw)),
        "int64": lambda raw: _signed(_integer(raw)),
        "uint32": lambda raw: _integer(raw) & 0xFFFFFFFF,
        "uint64": lambda raw: _integer(raw),
    }[kind]


def _blob(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise MalformedMessage("a number stands where bytes belong")
    return raw


def _integer(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        raise MalformedMessage("bytes stand where a number belongs")
    return raw


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(raw: int | bytes) -> str:
    try:
        return _blob(raw).decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string is not UTF-8") from error


def _double(raw: int | bytes) -> float:
    data = _blob(raw)
    if len(data) != _DOUBLE.size:
        raise MalformedMessage("a number has the wrong length")
    number = float(_DOUBLE.unpack(data)[0])
    if not math.isfinite(number):
        raise MalformedMessage(f"{number} is no number")
    return number


@cache
def _writer(kind: str) -> Callable[[Any], bytes]:
    if kind in table().messages:
        inner = message(kind)
        return lambda value: _sized(inner.to_protobuf(value))
    if kind in table().enums:
        numbers = table().enums[kind]
        return lambda value: varint_bytes(numbers[value])
    return {
        "string": lambda value: _sized(value.encode()),
        "bytes": lambda value: _sized(base64.b64decode(value)),
        "bool": lambda value: varint_bytes(int(value)),
        "double": lambda value: _DOUBLE.pack(value),
    }.get(kind) or (lambda value: varint_bytes(int(value)))


def _sized(data: bytes) -> bytes:
    return delimited(b"", data)
