"""Request bodies as JSON values, within limits that keep any one of them from holding the server.

Bytes alone do not bound the work: three MiB of JSON can be a million values. So values and nesting are limited too.
JSON is decoded in C, quickly. YAML and protobuf are decoded step by step in Python, ten to fifty times slower. Where
there is a transport, all but small bodies are decoded before they reach the server's core (`ParsedBody`): in
slices, between which others are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strato.api import yamltext
from strato.api.yamltext import MAX_DEPTH, Document
from strato.errors import ApiError, BadRequest, TooLarge, UnsupportedMedia
from strato.http.parser import MAX_BODY_BYTES, too_large
from strato.server import incrementaljson, protobuf
from strato.server.flowcontrol.dispatch import Steps, at_once

MAX_YAML_BYTES = 512 * 1024
"""Largest body of YAML; kubectl sends JSON."""
MAX_PROTOBUF_BYTES = 3 * 512 * 1024
"""Largest body of protobuf; etcd would store no more of an object."""
MAX_VALUES = 100_000
"""Values a body may hold. Objects of the 1.5 MiB that etcd would store hold fewer."""
INLINE_BYTES = 4096
"""YAML and protobuf up to this length are decoded at once."""
UNCOUNTED_BYTES = 64 * 1024
"""JSON up to this length is not looked at before it is decoded: it takes at most 5 ms."""
FEW_VALUES = 16_000
"""So many are decoded at once, in 3 ms at most, and an eighth of them where each may be long."""
LARGE_BYTES = 512 * 1024
_DIGITS = bytes(48 if byte in b"-+.eE0123456789" else 32 for byte in range(256))
_LONG_NUMBER = b"0" * 400
_YAML_TYPES = frozenset(("application/yaml", "text/yaml", "application/apply-patch+yaml"))
_decode = msgspec.json.Decoder().decode


class ParsedBody(bytes):
    """A body that was decoded before it reached the server's core."""

    outcome: Document | ApiError | None = None
    """What it holds, until that was taken."""
    duplicates: Sequence[str] = ()


def parsing(body: bytes, content_type: str) -> Steps[ParsedBody]:
    """Decode a body ahead of time, in steps; raises nothing."""
    result = ParsedBody(body)
    try:
        if is_json(content_type):
            result.outcome = Document((yield from json_steps(body)), [])
        else:
            result.outcome = document = yield from _document(body, media_type(content_type))
            result.duplicates = document.duplicates
    except ApiError as error:
        result.outcome = error
    return result


def is_slow(body: bytes, content_type: str) -> bool:
    """Tell whether decoding a body may take so long that it is done ahead."""
    size = len(body)
    return size > INLINE_BYTES and (size > UNCOUNTED_BYTES or media_type(content_type) in _SLOW_TYPES)


def read_body(body: bytes, content_type: str) -> Any:
    """Decode a request body: JSON, YAML or, for built-in kinds, Kubernetes' protobuf.

    Raises:
        BadRequest: It cannot be decoded.
        UnsupportedMedia: It is in a format that is not read here.
        TooLarge: It is over a limit.
    """
    if is_json(content_type):
        return read_json(body)
    media = media_type(content_type)
    if media in _SLOW_TYPES:
        return _read_slow(body, media).value
    raise UnsupportedMedia(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"application/json, application/yaml, {protobuf.MEDIA_TYPE}"
    )


def duplicate_keys(body: bytes, content_type: str) -> list[str]:
    """Return what Kubernetes' strict decoder says of keys that stand twice in a map of YAML."""
    found = body.duplicates if isinstance(body, ParsedBody) else _read_slow(body, media_type(content_type)).duplicates
    return ["yaml: unmarshal errors:\n  " + "\n  ".join(found)] if found else []


def is_json(content_type: str) -> bool:
    """Tell whether a body is JSON, which is also what no content type means."""
    if content_type == "application/json":
        return True
    media = media_type(content_type)
    return media in ("", "application/json", "*/*") or media.endswith("+json")


def is_yaml(content_type: str) -> bool:
    """Tell whether a body is YAML."""
    return media_type(content_type) in _YAML_TYPES


def media_type(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.split(";", 1)[0].strip().lower()


def read_json(body: bytes) -> Any:
    """Decode JSON.

    Raises:
        BadRequest: It is not JSON, or nested too deeply.
        TooLarge: It is over the limit of bytes or values.
    """
    if len(body) <= UNCOUNTED_BYTES:
        return _read_small(body)
    outcome = _outcome(body)
    return outcome.value if outcome is not None else at_once(json_steps(body))


def json_steps(body: bytes) -> Steps[Any]:
    """Decode JSON as `read_json` does, in steps where it holds many values."""
    most = 0
    if len(body) > MAX_BODY_BYTES:
        raise too_large()
    if len(body) > UNCOUNTED_BYTES:
        most = _most_values(body)
        yield None
        _check_size(body, most)
        yield None
    if most <= (FEW_VALUES if len(body) < LARGE_BYTES else FEW_VALUES // 8):
        return _read_small(body)
    try:
        value = yield from incrementaljson.decoded(body, most_depth=MAX_DEPTH)
    except incrementaljson.TooDeep as error:
        raise too_deep() from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _no_json(error) from error
    return value


def _read_small(body: bytes) -> Any:
    """Decode JSON that holds few values."""
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _no_json(error) from error
    if may_be_deep(body):
        check_shape(value)
    return value


def _no_json(error: Exception) -> BadRequest:
    return BadRequest(f"the object provided is not valid JSON: {error}")


def _most_values(body: bytes) -> int:
    """Return how many values there may be: more are not there."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def may_be_deep(body: bytes) -> bool:
    """Tell whether JSON may be nested too deeply; False is certain."""
    # each level takes two bytes: counting is for bodies that are long enough
    return len(body) > 2 * MAX_DEPTH and body.count(b"{") + body.count(b"[") > MAX_DEPTH


def check_shape(value: Any) -> None:
    """Refuse a value that is nested so deeply that walks over it could fail, or that holds too many others.

    Raises:
        BadRequest: It is nested too deeply.
        TooLarge: It holds too much.
    """
    level = [value] if value.__class__ in _NESTED else []
    left = MAX_VALUES
    for _ in range(MAX_DEPTH):
        if not level:
            return
        left -= sum(map(len, level))
        if left < 0:
            raise too_many()
        level = [
            inner
            for outer in level
            for inner in (outer.values() if outer.__class__ is dict else outer)
            if inner.__class__ in _NESTED
        ]
    if level:
        raise too_deep()


_NESTED = (dict, list)


def _check_size(body: bytes, most: int) -> None:
    """Refuse JSON of too many values before it is decoded; there are ``most`` at most.

    Raises:
        BadRequest: It holds a number of hundreds of digits.
        TooLarge: It is over the limit.
    """
    if most <= MAX_VALUES and _LONG_NUMBER not in body.translate(_DIGITS):
        return  # as nearly always: what stands in texts need not be told apart
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if plain.count(b'"') > 4 * MAX_VALUES:  # each text is a value or the key of one, and has two quotes
        raise too_many()
    structure = b"".join(plain.split(b'"')[::2])
    if structure.count(b",") + structure.count(b"{") + structure.count(b"[") > MAX_VALUES:
        raise too_many()
    if _LONG_NUMBER in structure.translate(_DIGITS):
        raise BadRequest("the object provided is not valid JSON: a number has more than 400 characters")


def too_deep() -> BadRequest:
    """Return the error for a body that is nested too deeply."""
    return BadRequest(f"the object provided is nested too deeply: exceeded max depth of {MAX_DEPTH}")


def too_many() -> TooLarge:
    """Return the error for a body of too many values."""
    return TooLarge(f"Request entity too large: limit is {MAX_VALUES} values")


def _outcome(body: bytes) -> Document | None:
    """Return what was decoded ahead, once: who reads a body again gets values of its own."""
    if not isinstance(body, ParsedBody) or body.outcome is None:
        return None
    outcome, body.outcome = body.outcome, None
    if isinstance(outcome, ApiError):
        raise outcome
    return outcome


def _read_slow(body: bytes, media: str) -> Document:
    return _outcome(body) or at_once(_document(body, media))


def _document(body: bytes, media: str) -> Steps[Document]:
    if media == protobuf.MEDIA_TYPE:
        return Document((yield lambda: _read_protobuf(body)), [])
    if media == "application/apply-patch+yaml" and body[:1] == b"{":  # what kubectl calls YAML there is JSON
        return Document((yield from json_steps(body)), [])
    if len(body) > MAX_YAML_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_YAML_BYTES} for YAML; send it as JSON")
    try:
        return (yield from yamltext.load_in_steps(body, max_values=MAX_VALUES))
    except yamltext.InvalidYaml as error:
        raise BadRequest(f"the object provided is not valid YAML: {error}") from error


def _read_protobuf(body: bytes) -> Any:
    if len(body) > MAX_PROTOBUF_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_PROTOBUF_BYTES} for protobuf; send it as JSON")
    value = protobuf.decode(body)
    if len(body) > 2 * MAX_DEPTH:
        check_shape(value)
    return value


_SLOW_TYPES = _YAML_TYPES | {protobuf.MEDIA_TYPE}
