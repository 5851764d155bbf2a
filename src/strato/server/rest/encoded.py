"""Encode answers as protobuf, lists object by object; in slices, because the encoder is slow Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.server import protobuf
from strato.server.flowcontrol.dispatch import Steps
from strato.server.jsonbodies import stored_steps
from strato.server.negotiation import METADATA, Accepted
from strato.server.rest.collections import ENCODING, ListText

SMALL_BYTES = 16 * 1024
"""Objects up to this length are encoded without yielding, in a millisecond at most."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_META = "meta.k8s.io/v1"


def steps(body: bytes, form: Accepted) -> Steps[bytes | None]:
    """Encode a JSON answer as protobuf, in steps; None if its kind has no protobuf message."""
    obj = yield from stored_steps(body)
    if form.target == METADATA and obj.get("kind") != "Status" and obj.get("apiVersion") != _META:
        obj = {"kind": METADATA, "apiVersion": _META, "metadata": obj.get("metadata", {})}
    return (yield from encoding(obj, len(body)))


def list_text(head: Json, item_kind: str, bodies: Iterable[bytes], shown: Callable[[bytes], bytes] | None) -> ListText:
    """Return the text of a list. It is prefixed by its length, so it can be sent only when it is complete.

    Args:
        head: The list without its items.
        item_kind: The items' kind.
        bodies: Stored objects, iterated once.
        shown: Converts a stored object into the listed form; None if it is listed as stored.
    """
    version, kind = head["apiVersion"], head["kind"]
    listed, item = protobuf.encoder(version, kind), protobuf.encoder(version, item_kind)
    assert listed is not None
    assert item is not None
    before, tag = listed.encode(head), listed.tag("items")

    def one(body: bytes) -> bytes:
        return protobuf.delimited(tag, item.encode(_decode(body if shown is None else shown(body))))

    def large(body: bytes) -> Steps[bytes]:
        obj = yield from stored_steps(body if shown is None else shown(body))
        content: bytes = yield lambda: protobuf.paced(lambda: item.encode(obj))
        return protobuf.delimited(tag, content)

    return ListText(
        b"", b"", bodies, one, ENCODING, large, lambda text: protobuf.enveloped(version, kind, before + text)
    )


def encoding(obj: Json, size: int) -> Steps[bytes | None]:
    """Encode a decoded object, in steps unless the JSON it was decoded from is small: it has ``size`` bytes."""
    if size <= SMALL_BYTES:
        return protobuf.encode(obj)
    answer: bytes | None = yield lambda: protobuf.encode(obj)
    return answer
