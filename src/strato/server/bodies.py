"""Decode request bodies into JSON values, within limits that keep a body from blocking the server.

Bytes alone do not bound the work: three MiB of JSON can be a million values. So values and nesting are limited too.
JSON is decoded in C, quickly. YAML and protobuf are decoded in Python, ten to fifty times slower. The HTTP service
decodes all but small bodies before it calls the server's core (`ParsedBody`), in slices between which the loop serves
other requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strato.api import yamltext
from strato.api.yamltext import MAX_DEPTH, Document
from strato.errors import ApiError, BadRequest, TooLarge, UnsupportedMedia
from strato.server import protobuf
from strato.server.flowcontrol.dispatch import Steps, at_once
from strato.server.jsonbodies import MAX_VALUES, check_shape, decode_json, is_long, json_steps
from strato.server.negotiation import PROTOBUF

MAX_YAML_BYTES = 512 * 1024
"""Largest body of YAML; kubectl sends JSON."""
MAX_PROTOBUF_BYTES = 3 * 512 * 1024
"""Largest body of protobuf; etcd would store no more of an object."""
YAML_ERRORS = "yaml: unmarshal errors:\n"
"""The first line of Kubernetes' list of YAML errors."""
INLINE_BYTES = 4096
"""YAML and protobuf up to this length are decoded without yielding."""
_YAML_TYPES = frozenset(("application/yaml", "text/yaml", "application/apply-patch+yaml"))


class ParsedBody(bytes):
    """A body that was decoded before it reached the server's core."""

    outcome: Document | ApiError | None = None
    """The decoded value, until `read_body` takes it."""
    duplicates: Sequence[str] = ()


def parsing(body: bytes, content_type: str) -> Steps[ParsedBody]:
    """Decode a body ahead of time, in steps; an error is kept in the result, for `read_body` to raise."""
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
    """Tell whether a body may take so long to decode or check that this has to be done in slices."""
    return len(body) > INLINE_BYTES and (media_type(content_type) in _SLOW_TYPES or is_long(body))


def read_body(body: bytes, content_type: str) -> Any:
    """Decode a request body: JSON, YAML or, for built-in kinds, Kubernetes' protobuf.

    Raises:
        BadRequest: It cannot be decoded.
        UnsupportedMedia: Its format is not supported.
        TooLarge: It is over a limit.
    """
    if is_json(content_type):
        return read_json(body)
    media = media_type(content_type)
    if media in _SLOW_TYPES:
        return _read_slow(body, media).value
    raise UnsupportedMedia(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"application/json, application/yaml, {PROTOBUF}"
    )


def duplicate_keys(body: bytes, content_type: str) -> list[str]:
    """Return the problems that Kubernetes' strict decoder reports for duplicate keys in a map of YAML."""
    found = body.duplicates if isinstance(body, ParsedBody) else _read_slow(body, media_type(content_type)).duplicates
    return [f"{YAML_ERRORS}  " + "\n  ".join(found)] if found else []


def is_json(content_type: str) -> bool:
    """Tell whether a body is JSON; no content type means JSON too."""
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
    if (outcome := _outcome(body)) is not None:
        return outcome.value
    return decode_json(body)


def _outcome(body: bytes) -> Document | None:
    """Return the value that was decoded ahead, once: a second reader needs a value of its own, as readers change it."""
    if not isinstance(body, ParsedBody) or body.outcome is None:
        return None
    outcome, body.outcome = body.outcome, None
    if isinstance(outcome, ApiError):
        raise outcome
    return outcome


def _read_slow(body: bytes, media: str) -> Document:
    return _outcome(body) or at_once(_document(body, media))


def _document(body: bytes, media: str) -> Steps[Document]:
    if media == PROTOBUF:
        if len(body) > MAX_PROTOBUF_BYTES:
            raise TooLarge(f"Request entity too large: limit is {MAX_PROTOBUF_BYTES} for protobuf; send it as JSON")
        value = yield lambda: protobuf.decode(body)
        if len(body) > 2 * MAX_DEPTH:
            yield lambda: check_shape(value)
        return Document(value, [])
    if media == "application/apply-patch+yaml" and body[:1] == b"{":  # what kubectl calls YAML there is JSON
        return Document((yield from json_steps(body)), [])
    if len(body) > MAX_YAML_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_YAML_BYTES} for YAML; send it as JSON")
    try:
        return (yield from yamltext.load_in_steps(body, max_values=MAX_VALUES))
    except yamltext.InvalidYaml as error:
        raise BadRequest(f"the object provided is not valid YAML: {error}") from error


_SLOW_TYPES = _YAML_TYPES | {PROTOBUF}
