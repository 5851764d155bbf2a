"""The v2 document as protobuf, in the messages of gnostic's ``OpenAPIv2.proto``.

Older kubectls (and client-go's ``OpenAPISchema``) read no other form. Only the fields that our documents use are
encoded; extensions (``x-…``) are encoded as YAML text, as gnostic itself does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

Json = Mapping[str, Any]


def encode_document(document: Json) -> bytes:
    """Encode a v2 document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    items = b"".join(_message(2, _named(name, _path_item(item))) for name, item in document["paths"].items())
    definitions = _named_schemas(document["definitions"])
    return b"".join((_text(1, document["swagger"]), _message(2, info), _message(8, items), _message(9, definitions)))


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1  # negative numbers are ten bytes, two's complement
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode()) if value else b""


def _flag(number: int, value: Any) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _count(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_message(number, value.encode()) for value in values)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _message(2, value)


def _yaml(value: Any) -> bytes:
    """Return an ``Any`` message; JSON is YAML."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(_message(number, _named(key, _yaml(inner))) for key, inner in value.items() if key.startswith("x-"))


def _path_item(item: Json) -> bytes:
    numbers = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
    methods = b"".join(_message(numbers[name], _operation(one)) for name, one in item.items() if name in numbers)
    return methods + b"".join(_message(9, _parameter(one)) for one in item.get("parameters") or ())


def _operation(operation: Json) -> bytes:
    responses = b"".join(
        _message(1, _named(code, _message(1, _response(one)))) for code, one in operation["responses"].items()
    )
    return b"".join(
        (
            _texts(1, operation["tags"]),
            _text(3, operation["description"]),
            _text(5, operation["operationId"]),
            _texts(6, operation["produces"]),
            _texts(7, operation["consumes"]),
            *(_message(8, _parameter(one)) for one in operation["parameters"]),
            _message(9, responses),
            _extensions(13, operation),
        )
    )


def _response(response: Json) -> bytes:
    return _text(1, response["description"]) + _message(2, _message(1, _schema(response["schema"])))


def _parameter(parameter: Json) -> bytes:
    """Return a ``ParametersItem``."""
    place = parameter["in"]
    if place == "body":
        body = _text(2, parameter["name"]) + _text(3, place) + _flag(4, parameter.get("required"))
        return _message(1, _message(1, body + _message(5, _schema(parameter["schema"]))))
    head = _flag(1, parameter.get("required")) + _text(2, place) + _text(4, parameter["name"])
    if place == "query":
        body = _message(3, head + _text(6, parameter["type"]) + _flag(20, parameter.get("uniqueItems")))
    else:
        body = _message(4, head + _text(5, parameter["type"]) + _flag(19, parameter.get("uniqueItems")))
    return _message(1, _message(2, body))


def _named_schemas(schemas: Json) -> bytes:
    return b"".join(_message(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Json) -> bytes:
    out = []
    extended = False
    for key, value in schema.items():
        encode = _MEMBERS.get(key)
        if encode is not None:
            out.append(encode(value))
        elif key.startswith("x-"):
            extended = True
    if extended:
        out.append(_extensions(31, schema))
    return b"".join(out)


def _additional(value: Any) -> bytes:
    return _message(21, _message(1, _schema(value)) if isinstance(value, Mapping) else _flag(2, value))


_MEMBERS: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "title": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
    "multipleOf": lambda value: _double(6, value),
    "maximum": lambda value: _double(7, value),
    "exclusiveMaximum": lambda value: _flag(8, value),
    "minimum": lambda value: _double(9, value),
    "exclusiveMinimum": lambda value: _flag(10, value),
    "maxLength": lambda value: _count(11, value),
    "minLength": lambda value: _count(12, value),
    "pattern": lambda value: _text(13, value),
    "maxItems": lambda value: _count(14, value),
    "minItems": lambda value: _count(15, value),
    "uniqueItems": lambda value: _flag(16, value),
    "maxProperties": lambda value: _count(17, value),
    "minProperties": lambda value: _count(18, value),
    "required": lambda value: _texts(19, value),
    "enum": lambda value: b"".join(_message(20, _yaml(one)) for one in value),
    "additionalProperties": _additional,
    "type": lambda value: _message(22, _text(1, value)),
    "items": lambda value: _message(23, _message(1, _schema(value))),
    "properties": lambda value: _message(25, _named_schemas(value)),
}
"""Field numbers of a schema's members in the message ``Schema``."""
