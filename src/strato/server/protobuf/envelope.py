"""The envelope around every object: ``k8s`` and a zero byte, then ``runtime.Unknown`` with the kind and the bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from strato.api.meta import Json
from strato.errors import BadRequest
from strato.server.flowcontrol.timeslice import current
from strato.server.negotiation import PROTOBUF
from strato.server.protobuf import encoding, messages
from strato.server.protobuf.encoding import Encoder
from strato.server.protobuf.scalars import text
from strato.server.protobuf.special import raw_json
from strato.server.protobuf.wire import BYTES, blobs, broken, delimited, varint_bytes

T = TypeVar("T")

_MAGIC = b"k8s\x00"
_TYPE_META, _RAW, _CONTENT_ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
_API_VERSION, _KIND = 1, 2
_UNGROUPED = ("v1", "")
"""Versions that answers have which belong to no group: a Status, what there is at ``/api``."""
_OPTIONS = "meta.k8s.io/v1/"
"""Where the kinds live that every group has: ``DeleteOptions`` and the like."""


def decode(body: bytes) -> dict[str, Any]:
    """Return a request body as the dict that the same object's JSON would have given (30 µs for a lease,
    250 µs for a pod that sets nearly everything).

    Raises:
        BadRequest: The bytes are no such envelope, the kind is none of the built-in ones, or the object is broken.
    """
    if not body.startswith(_MAGIC):
        raise broken("it does not start with the bytes 'k8s' and 0")
    unknown = blobs(body[len(_MAGIC) :])
    type_meta, raw = blobs(unknown.get(_TYPE_META, b"")), unknown.get(_RAW, b"")
    api_version, kind = text(type_meta.get(_API_VERSION, b"")), text(type_meta.get(_KIND, b""))
    encoding = text(unknown.get(_CONTENT_ENCODING, b""))
    if encoding:
        raise broken(f"its content is encoded as {encoding!r}")
    content_type = text(unknown.get(_CONTENT_TYPE, b""))
    if content_type == "application/json":
        obj = raw_json(raw)
        if not isinstance(obj, dict):
            raise broken("its JSON is no object")
    elif content_type in ("", PROTOBUF):
        message = _message(api_version, kind)
        obj = paced(lambda: message.decode(raw))
    else:
        raise broken(f"its content is of type {content_type!r}")
    return {"apiVersion": api_version, "kind": kind, **obj}


def encoder(api_version: str, kind: str) -> Encoder | None:
    """Return what encodes objects of a kind; None where they have no form in protobuf, as those of custom kinds."""
    encoders, kinds = encoding.encoders()
    group, _, version = api_version.rpartition("/")
    name = kinds.get(f"{group}/{version}/{kind}") or (kinds.get(_OPTIONS + kind) if api_version in _UNGROUPED else None)
    return encoders[name] if name is not None else None


def encode(obj: Json) -> bytes | None:
    """Return an object as a client gets it in protobuf; None where its kind has no such form."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    message = encoder(api_version, kind)
    return None if message is None else enveloped(api_version, kind, paced(lambda: message.encode(obj)))


def paced(work: Callable[[], T]) -> T:
    """Do what pauses by itself where it is part of a `Computation`."""
    computation = current()
    with nullcontext() if computation is None else computation.pausing_itself():
        return work()


def enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a message in the envelope that says what it is."""
    type_meta = _field(_API_VERSION, api_version.encode()) + _field(_KIND, kind.encode())
    ends = _field(_CONTENT_ENCODING, b"") + _field(_CONTENT_TYPE, b"")
    return b"".join((_MAGIC, _field(_TYPE_META, type_meta), _field(_RAW, raw), ends))


def watch_frame(event_type: str, obj: bytes) -> bytes:
    """Return one event of a watch, with the object in its envelope, as a frame that begins with its length."""
    event = _field(1, event_type.encode()) + _field(2, _field(1, obj))
    return len(event).to_bytes(4, "big") + event


def _field(number: int, content: bytes) -> bytes:
    return delimited(varint_bytes(number << 3 | BYTES), content)


def _message(api_version: str, kind: str) -> messages.Message:
    types, kinds = messages.table()
    group, _, version = api_version.rpartition("/")
    name = kinds.get(f"{group}/{version}/{kind}") or kinds.get(_OPTIONS + kind)
    if name is None:
        raise BadRequest(
            f'no kind "{kind}" is registered for version "{api_version}" in protobuf (only built-in kinds are); '
            "send it as application/json"
        )
    return types[name]
