"""The envelope around every object: ``k8s`` and a zero byte, then ``runtime.Unknown`` with the kind and the bytes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from strato.errors import BadRequest
from strato.server.flowcontrol.timeslice import current
from strato.server.protobuf import messages
from strato.server.protobuf.scalars import text
from strato.server.protobuf.special import raw_json
from strato.server.protobuf.wire import blobs, broken

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_TYPE_META, _RAW, _CONTENT_ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
_API_VERSION, _KIND = 1, 2
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
    elif content_type in ("", MEDIA_TYPE):
        message, computation = _message(api_version, kind), current()
        with nullcontext() if computation is None else computation.pausing_itself():
            obj = message.decode(raw)
    else:
        raise broken(f"its content is of type {content_type!r}")
    return {"apiVersion": api_version, "kind": kind, **obj}


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
