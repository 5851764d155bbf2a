"""Decode messages into dicts, by the table that ``tools/extract_protobuf.py`` makes from the API's descriptions.

The result equals the JSON of the same Go object. Go's protobuf writes every field that is not a pointer, even if it is
zero; so zero values are dropped if the Go type has ``omitempty``, and filled in if it does not. If a singular field is
repeated, the last value counts; unknown fields are skipped. Both are as in Go.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.server.flowcontrol.timeslice import current
from strato.server.protobuf.scalars import SCALARS, Scalar
from strato.server.protobuf.special import RAW, STRUCTURED, raw_json
from strato.server.protobuf.wire import BYTES, VARINT, blobs, broken, payload, varint

Read = Callable[[Any, int], Any]
Store = Callable[[Json, Any, int], None]
"""Stores one field's value, decoded at a depth of nesting, in its object."""

_SHORT = (VARINT, BYTES)
_LIST_OF_STRINGS = {"1": ["items", "string", "lw"]}
_KEPT_AT_ZERO = frozenset(("apimachinery.pkg.api.resource.Quantity",))

MAX_DEPTH = 100
"""Deepest nesting of messages; the deepest real ones, schemas of custom resources, are far below."""


class _Pace:
    """Pauses after a number of fields, if the decoding is part of a `Computation`."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _FIELDS_AT_ONCE

    def pause(self) -> None:
        self.left = _FIELDS_AT_ONCE
        computation = current()
        if computation is not None:
            computation.pause()


_FIELDS_AT_ONCE = 128
"""About 0.3 ms."""
PACE = _Pace()
"""One counter for all decodings: it only spaces the pauses."""


class MessageDecoder:
    """Decodes one message type; its fields are looked up on first use, as types are recursive."""

    __slots__ = ("_fields", "_name", "_required", "_stores", "_template", "_types")

    def __init__(self, name: str, fields: Mapping[str, list[str]], types: Mapping[str, MessageDecoder]) -> None:
        """Describe a message by its row of the table."""
        self._name = name
        self._fields = fields
        self._types = types
        self._stores: dict[int, Store] = {}
        self._template: Json = {}
        self._required: list[tuple[str, MessageDecoder]] = []

    def decode(self, data: bytes, depth: int = 0) -> Json:
        """Decode a message into a dict.

        Raises:
            BadRequest: The bytes are not such a message.
        """
        if depth > MAX_DEPTH:
            raise broken(f"it is over {MAX_DEPTH} levels deep")
        stores = self._stores or self._prepare()
        out = self._template.copy()
        at, size = 0, len(data)
        pace = PACE
        while at < size:
            pace.left -= 1
            if pace.left < 0:
                pace.pause()
            tag = data[at]
            if tag < 0x80:
                at += 1
            else:
                tag, at = varint(data, at)
            wire_type = tag & 7
            # nearly every number and length takes one byte and is read here; others are read by `payload`
            if at < size and (first := data[at]) < 0x80 and wire_type in _SHORT:
                at += 1
                value: int | bytes = first
                if wire_type == BYTES:
                    end = at + first
                    if end > size:
                        raise broken("it ends within a field")
                    value, at = data[at:end], end
            else:
                value, at = payload(data, at, wire_type)
            store = stores.get(tag)
            if store is not None:
                store(out, value, depth)
            else:
                self._unknown(tag)
        for name, inner in self._required:
            if name not in out:
                out[name] = inner.zero()
        return out

    @property
    def is_list(self) -> bool:
        """Whether the JSON form of this message is a list of strings (``ExtraValue``, ``Verbs``)."""
        return self._fields == _LIST_OF_STRINGS

    def zero(self) -> Json:
        """Return an empty message as a new dict."""
        return self.decode(b"", 0)

    def _unknown(self, tag: int) -> None:
        number = tag >> 3
        if not number:
            raise broken("a field has the number 0")
        if str(number) in self._fields:
            raise broken(f"field {number} of {self._name} has the wrong type {tag & 7}")

    def _prepare(self) -> dict[int, Store]:
        for number, (name, kind, flags) in self._fields.items():
            self._field(int(number), name, kind, flags)
        return self._stores

    def _field(self, number: int, name: str, kind: str, flags: str) -> None:
        scalar = SCALARS.get(kind)
        full = kind if "." in kind else f"{self._name.rpartition('.')[0]}.{kind}"
        wire_type = scalar.wire_type if scalar else BYTES
        read = _scalar_read(scalar) if scalar else _message_read(full, self._types)
        tag = number << 3 | wire_type
        if "m" in flags:
            self._stores[number << 3 | BYTES] = _map_store(name, read, wire_type, scalar)
        elif "l" in flags:
            self._stores[tag] = _list_store(name, read)
            if scalar is not None and wire_type != BYTES:
                self._stores[number << 3 | BYTES] = _packed_store(name, read, wire_type)
        elif "i" in flags:
            self._stores[tag] = _inline_store(read)
            self._template.update(self._types[full].zero())
        elif "p" in flags or "w" in flags:
            self._stores[tag] = _present_store(name, read)
        elif "o" in flags:
            self._stores[tag] = _omitted_store(name, read, scalar.zero if scalar else self._zero_of(full))
        else:
            self._stores[tag] = _present_store(name, read)
            if scalar is not None:
                self._template[name] = scalar.zero
            elif full not in STRUCTURED and full not in RAW:
                self._required.append((name, self._types[full]))

    def _zero_of(self, name: str) -> Any:
        """Return the JSON of a field's zero, which ``omitempty`` drops; a quantity's zero stays, as in Go."""
        return None if name in _KEPT_AT_ZERO else _message_read(name, self._types)(b"", 0)


class Rows(msgspec.Struct, frozen=True):
    """The table of messages and their fields."""

    messages: dict[str, dict[str, list[str]]]
    """By message and field number: name in JSON, type and flags."""
    kinds: dict[str, str]
    """Message name by group, version and kind."""


@cache
def rows() -> Rows:
    """Read the table from the package (a few milliseconds, once, at the first request)."""
    packed = files("strato.server").joinpath("protobuf/data/messages.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Rows)


@cache
def table() -> tuple[Mapping[str, MessageDecoder], Mapping[str, str]]:
    """Return all decoders by message name, and the message names of kinds."""
    content = rows()
    messages: dict[str, MessageDecoder] = {}
    messages.update((name, MessageDecoder(name, fields, messages)) for name, fields in content.messages.items())
    return messages, content.kinds


def _scalar_read(scalar: Scalar) -> Read:
    read = scalar.read
    return lambda value, _depth: read(value)


def _message_read(name: str, types: Mapping[str, MessageDecoder]) -> Read:
    if name in RAW:
        return lambda value, _depth: raw_json(blobs(value).get(1, b""))
    message = types[name]
    form = STRUCTURED.get(name)
    if form is not None:
        return lambda value, depth: form(message.decode(value, depth + 1))
    if message.is_list:
        return lambda value, depth: message.decode(value, depth + 1).get("items", [])
    return lambda value, depth: message.decode(value, depth + 1)


def _present_store(name: str, read: Read) -> Store:
    """Return a store for a field that is kept if it is present, even if zero."""

    def store(out: Json, value: Any, depth: int) -> None:
        found = read(value, depth)
        if found is not None:
            out[name] = found

    return store


def _omitted_store(name: str, read: Read, zero: Any) -> Store:
    """Return a store for a field that is dropped if it is zero."""

    def store(out: Json, value: Any, depth: int) -> None:
        found = read(value, depth)
        if found is None or found == zero:
            out.pop(name, None)
        else:
            out[name] = found

    return store


def _list_store(name: str, read: Read) -> Store:
    def store(out: Json, value: Any, depth: int) -> None:
        found = read(value, depth)
        if name in out:
            out[name].append(found)
        else:
            out[name] = [found]

    return store


def _packed_store(name: str, read: Read, wire_type: int) -> Store:
    """Return a store for packed numbers, a form of repeated fields that every decoder must accept."""

    def store(out: Json, value: Any, depth: int) -> None:
        found, at = out.setdefault(name, []), 0
        while at < len(value):
            number, at = payload(value, at, wire_type)
            found.append(read(number, depth))

    return store


def _map_store(name: str, read: Read, wire_type: int, scalar: Scalar | None) -> Store:
    read_key = SCALARS["string"].read
    key_tag, value_tag = 1 << 3 | BYTES, 2 << 3 | wire_type

    def store(out: Json, value: Any, depth: int) -> None:
        key, found, given = "", None, False
        at, size = 0, len(value)
        while at < size:
            tag, at = varint(value, at)
            part, at = payload(value, at, tag & 7)
            if tag == key_tag:
                key = read_key(part)
            elif tag == value_tag:
                found, given = read(part, depth), True
        if not given:
            found = scalar.zero if scalar is not None else read(b"", depth)
        out.setdefault(name, {})[key] = found

    return store


def _inline_store(read: Read) -> Store:
    return lambda out, value, depth: out.update(read(value, depth))
