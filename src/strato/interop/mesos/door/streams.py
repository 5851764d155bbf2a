"""Event streams: RecordIO records of events, pushed to the connection as they come."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from strato.api.meta import Json
from strato.interop.mesos.wire import Message, frame

MOST_UNREAD_BYTES = 64 << 20
"""A reader that has so much before it is given up: it does not read."""
DELAY_SECONDS = 1.0
"""How long a refused client is kept waiting: some come back at once, without a pause."""
_log = logging.getLogger(__name__)


class EventStream:
    """One client's stream of events: what the master sends to, and what the connection reads from."""

    def __init__(self, kind: Message, content_type: str, on_close: Callable[[EventStream], None]) -> None:
        self._kind, self._content_type, self._on_close = kind, content_type, on_close
        self._records: deque[bytes] = deque()
        self._unread = 0
        self._ready: Callable[[], None] | None = None
        self._is_finishing = False
        self.ended = False
        """Whether nothing more will come."""
        self._is_closed = False

    # -- the master's side ---------------------------------------------------------------------------------------------

    def send(self, event: Json) -> None:
        """Send an event; nothing happens when the other end is gone."""
        if self._is_closed or self._is_finishing:
            return
        record = frame(self._kind.encode(event, self._content_type))
        self._records.append(record)
        self._unread += len(record)
        if self._unread > MOST_UNREAD_BYTES:
            _log.warning("an event stream is given up: %d bytes are unread", self._unread)
            self._records.clear()
            self._unread = 0
            self.finish()
        elif self._ready is not None:
            self._ready()

    def finish(self, *, delayed: bool = False) -> None:
        """End after what was sent; a second later where the client would come back at once."""
        self._is_finishing = True
        if delayed:
            asyncio.get_running_loop().call_later(DELAY_SECONDS, self._end)
        else:
            self._end()

    def _end(self) -> None:
        self.ended = True
        if self._ready is not None and not self._is_closed:
            self._ready()

    # -- the connection's side -----------------------------------------------------------------------------------------

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` from now on whenever `take` may have something."""
        self._ready = ready

    def take(self) -> bytes:
        """Return what there is."""
        chunk = b"".join(self._records)
        self._records.clear()
        self._unread = 0
        return chunk

    def close(self) -> None:
        """Take notice that the connection is over."""
        if not self._is_closed:
            self._is_closed = True
            self._on_close(self)

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        """Return the next records, for readers that are no connection."""
        while not self._records:
            if self.ended or self._is_closed:
                raise StopAsyncIteration
            arrived = asyncio.Event()
            self._ready = arrived.set
            await arrived.wait()
        return self.take()

    async def aclose(self) -> None:
        """End, for readers that are no connection."""
        self.close()
