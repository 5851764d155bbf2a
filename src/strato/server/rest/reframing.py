"""Watches in another form than objects are stored in: their frames are made anew in slices, from those in JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from strato.api.wire import Response
from strato.http.streaming import close_stream
from strato.server import protobuf
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Dispatcher, Flow, Steps
from strato.server.jsonbodies import UNCOUNTED_BYTES, stored_steps
from strato.server.negotiation import PROTOBUF
from strato.server.preparation import encode
from strato.server.rest import encoded
from strato.server.rest.collections import ENCODING
from strato.server.rest.watching import frame

_NO_OBJECTS = ("BOOKMARK", "ERROR")
"""Types of events without an object of the watched kind."""


def reframed(
    stream: AsyncIterator[bytes],
    dispatcher: Dispatcher,
    flow: Flow,
    *,
    convert: Callable[[Any], Any] | None,
    in_protobuf: bool,
) -> Response:
    """Return a watch as the answer to a client that accepts another form.

    Args:
        stream: The watch's frames with objects as they are stored, in JSON.
        dispatcher: Gives the slices.
        flow: The flow that these slices belong to.
        convert: Converts a decoded object; None leaves it.
        in_protobuf: Whether the client gets protobuf.
    """
    frames = stream
    if in_protobuf or convert is not None:
        frames = _Frames(stream, dispatcher, flow, convert, in_protobuf=in_protobuf)
    return (
        Response(200, content_type=f"{PROTOBUF};stream=watch", stream=frames)
        if in_protobuf
        else Response(200, stream=frames)
    )


class _Frames:
    """Makes the frames of a watch anew, for as many events at a time as fit into a slice."""

    def __init__(
        self,
        stream: AsyncIterator[bytes],
        dispatcher: Dispatcher,
        flow: Flow,
        convert: Callable[[Any], Any] | None,
        *,
        in_protobuf: bool,
    ) -> None:
        self._stream, self._dispatcher, self._flow = stream, dispatcher, flow
        self._convert, self._in_protobuf = convert, in_protobuf
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
            frames.append((yield from self._frame(line)))
            left -= ENCODING.object_seconds + ENCODING.byte_seconds * len(line)
        return b"".join(frames)

    def _frame(self, line: bytes) -> Steps[bytes]:
        event = yield from stored_steps(line)
        event_type, obj, convert = event["type"], event["object"], self._convert
        if convert is not None and event_type not in _NO_OBJECTS:
            obj = convert(obj) if len(line) <= UNCOUNTED_BYTES else (yield lambda: convert(obj))
        if self._in_protobuf:
            content = yield from encoded.encoding(obj, len(line))
            return protobuf.watch_frame(event_type, content or b"")
        return frame(event_type.encode(), encode(obj))
