"""A pool of connections to one API server."""

from __future__ import annotations

import asyncio
from collections import deque

from strato.http.client import Connection, Disconnected, Origin, connect

_KEEP_SECONDS = 75.0
"""How long an idle connection may be reused; API servers close theirs after 90 s."""

_CLOSE_SECONDS = 1.0


class ConnectionPool:
    """Opens connections on demand, up to a limit, and reuses the one that was released last.

    Args:
        origin: The server.
        limit: Most connections; further calls of `take` wait in line.
    """

    def __init__(self, origin: Origin, limit: int) -> None:
        self._origin = origin
        self._limit = limit
        self._all: set[Connection] = set()
        self._opening = 0
        self._idle: deque[Connection] = deque()
        self._line: deque[asyncio.Future[None]] = deque()
        self._retired = False
        self._closed = False

    def spare(self) -> Connection | None:
        """Return an idle connection without waiting, or None; give it back with `release`."""
        if not self._idle or self._closed:
            return None
        connection = self._idle[-1]
        if connection.usable and connection.loop.time() < connection.idle_since + _KEEP_SECONDS:
            return self._idle.pop()
        return None

    async def take(self, *, fresh: bool = False) -> Connection:
        """Return a connection for one request; give it back with `release`.

        Args:
            fresh: Open a new one even if others are idle.

        Raises:
            OSError: It cannot be opened, or not in time.
        """
        loop = asyncio.get_running_loop()
        while not self._closed:
            if fresh and self._idle and len(self._all) + self._opening >= self._limit:
                self._drop(self._idle.popleft())
            while self._idle and not fresh:
                connection = self._idle.pop()
                if connection.usable and loop.time() < connection.idle_since + _KEEP_SECONDS:
                    return connection
                self._drop(connection)
            if len(self._all) + self._opening < self._limit:
                return await self._open()
            waiting: asyncio.Future[None] = loop.create_future()
            self._line.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._next()  # the free place had been given to this call: pass it on
                raise
        raise Disconnected("this client is closed")

    def release(self, connection: Connection) -> None:
        """Take a connection back, also one that has failed."""
        if connection.usable and not self._retired:
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
        else:
            self._drop(connection)
        while self._idle and not self._idle[0].usable:  # from the left, where those are that have been idle longest
            self._drop(self._idle.popleft())
        self._next()

    def retire(self) -> None:
        """Close idle connections now, and those in use when they are released."""
        self._retired = True
        while self._idle:
            self._drop(self._idle.pop())

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        self.retire()
        while self._line:
            self._next()
        known = list(self._all)
        for connection in known:
            connection.abort()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                for connection in known:
                    await connection.lost.wait()
        except TimeoutError:
            return

    async def _open(self) -> Connection:
        self._opening += 1
        try:
            connection = await connect(self._origin)
        except BaseException:
            self._next()
            raise
        finally:
            self._opening -= 1
        self._all.add(connection)
        return connection

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.abort()

    def _next(self) -> None:
        while self._line:
            waiting = self._line.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
