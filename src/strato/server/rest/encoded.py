"""Encode answers as protobuf, lists and watches object by object; in slices, because the encoder is slow Python."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.api.wire import Response
from strato.http.streaming import close_stream
from strato.server import protobuf
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Dispatcher, Flow, Steps
from strato.server.jsonbodies import stored_steps
from strato.server.negotiation import METADATA, PROTOBUF, Accepted
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
    return (yield from _encoded(obj, len(body)))


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


def watching(stream: AsyncIterator[bytes], dispatcher: Dispatcher, flow: Flow) -> Response:
    """Return a watch as an answer in protobuf; ``stream`` yields its frames in JSON."""
    return Response(200, content_type=f"{PROTOBUF};stream=watch", stream=_Frames(stream, dispatcher, flow))


class _Frames:
    """Encodes the frames of a watch, as many events at a time as fit into a slice."""

    def __init__(self, stream: AsyncIterator[bytes], dispatcher: Dispatcher, flow: Flow) -> None:
        self._stream, self._dispatcher, self._flow = stream, dispatcher, flow
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            self._lines.extend((await anext(self._stream)).splitlines())
        return await self._dispatcher.finish(self._flow, self._steps())

    async def aclose(self) -> None:
        """Stop the watch, also if it was never read."""
        await close_stream(self._stream)

    def _steps(self) -> Steps[bytes]:
        frames, lines, left = [], self._lines, SLICE_SECONDS
        while lines and left > 0:
            line = lines.popleft()
            event = yield from stored_steps(line)
            obj = yield from _encoded(event["object"], len(line))
            frames.append(protobuf.watch_frame(event["type"], obj or b""))
            left -= ENCODING.object_seconds + ENCODING.byte_seconds * len(line)
        return b"".join(frames)


def _encoded(obj: Json, size: int) -> Steps[bytes | None]:
    if size <= SMALL_BYTES:
        return protobuf.encode(obj)
    answer: bytes | None = yield lambda: protobuf.encode(obj)
    return answer
