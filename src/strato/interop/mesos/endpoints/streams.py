"""Event streams: RecordIO records of events, pushed to the connection as the master sends them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from strato.api.meta import Json
from strato.http.limits import PIECE_BYTES, HeldBytes
from strato.interop.mesos.wire import MessageType, frame

MOST_UNREAD_BYTES = 64 << 20
"""Unread bytes of a stream above which it is ended, as its client does not read."""
MOST_UNREAD_OF_ALL_BYTES = 256 << 20
"""Unread bytes of all streams above which one is ended: the largest stream of the user with the most unread bytes."""
_CHUNK_BYTES = 256 << 10
"""Bytes handed to a connection at once; the rest stays in the stream, where it is counted."""
DELAY_SECONDS = 1.0
"""Delay before the stream of a refused client ends, as some clients reconnect without a pause."""
_log = logging.getLogger(__name__)


class Unread:
    """Counts the bytes that clients of a master's streams have not read, and ends a stream where they are too many."""

    def __init__(self, most_bytes: int = MOST_UNREAD_OF_ALL_BYTES) -> None:
        self._most_bytes = most_bytes
        self.held: HeldBytes[EventStream] = HeldBytes()

    def note(self, stream: EventStream, size: int) -> None:
        """Set a stream's number of unread bytes; if the total is too large, end one stream."""
        self.held.note(stream, size)
        if self.held.total > self._most_bytes:
            self.held.largest().give_up()


class EventStream:
    """One client's stream of events, which the master writes and the connection reads.

    Args:
        kind: Message type of its events.
        content_type: Encoding of the events.
        on_close: Called once the connection is over.
        unread: Counts unread bytes.
        owner: The user who opened the stream.
    """

    def __init__(
        self, kind: MessageType, content_type: str, on_close: Callable[[EventStream], None], unread: Unread, owner: str
    ) -> None:
        self._kind, self._content_type, self._on_close = kind, content_type, on_close
        self._counted, self.owner = unread, owner
        self._records: deque[bytes] = deque()
        self.held = (owner, 0)
        self._ready: Callable[[], None] | None = None
        self._is_finishing = False
        self._is_over = False
        self._is_closed = False

    # -- the master's side ---------------------------------------------------------------------------------------------

    def send(self, event: Json) -> None:
        """Send an event; ignored after the client has gone."""
        if self._is_closed or self._is_finishing:
            return
        record = frame(self._kind.encode(event, self._content_type))
        self._records.append(record)
        self._counted.note(self, self.held[1] + len(record) + PIECE_BYTES)
        if self.held[1] > MOST_UNREAD_BYTES:
            self.give_up()
        elif self._ready is not None:
            self._ready()

    def give_up(self) -> None:
        """End the stream and drop unread events, because the client does not keep up."""
        _log.warning("an event stream is given up: %d bytes are unread", self.held[1])
        self._records.clear()
        self._counted.note(self, 0)
        self.finish()

    def finish(self, *, delayed: bool = False) -> None:
        """End the stream after the events sent so far; if ``delayed``, a second later (`DELAY_SECONDS`)."""
        self._is_finishing = True
        if delayed:
            asyncio.get_running_loop().call_later(DELAY_SECONDS, self._end)
        else:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        if self._ready is not None and not self._is_closed:
            self._ready()

    @property
    def ended(self) -> bool:
        """Whether the stream has ended and all its events were read."""
        return self._is_over and not self._records

    # -- the connection's side -----------------------------------------------------------------------------------------

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` from now on whenever `take` may have something."""
        self._ready = ready

    def take(self) -> bytes:
        """Return available bytes, at most about `_CHUNK_BYTES`."""
        taken: list[bytes] = []
        size = left = 0
        while self._records and size < _CHUNK_BYTES:
            taken.append(self._records.popleft())
            size += len(taken[-1])
        if self._records:
            left = self.held[1] - size - PIECE_BYTES * len(taken)
        self._counted.note(self, left)
        return b"".join(taken)

    def close(self) -> None:
        """Close the stream after its connection has ended."""
        if not self._is_closed:
            self._is_closed = True
            self._records.clear()
            self._counted.note(self, 0)
            self._on_close(self)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        """Return the next records, for readers other than a connection."""
        while not self._records:
            if self.ended or self._is_closed:
                raise StopAsyncIteration
            arrived = asyncio.Event()
            self._ready = arrived.set
            await arrived.wait()
        return self.take()

    async def aclose(self) -> None:
        """Close the stream, for readers other than a connection."""
        self.close()
