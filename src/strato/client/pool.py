"""The connections to one server: made when needed, kept alive, shared by all requests of a client."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Final

from strato.client.connection import Connection

_CONNECT_SECONDS: Final = 10.0
_KEEP_SECONDS: Final = 75.0
"""An idle connection older than this may have been given up by whatever lies between; a new one is made instead."""
_LOOK_SECONDS: Final = 1.0
"""Time between looks for servers that have fallen silent; those limits are tens of seconds."""


class Pool:
    """Connections to one address.

    Args:
        host: Name or address.
        port: TCP port.
        tls: TLS settings; None is plain HTTP.
        server_name: Name to expect in the certificate; empty means ``host``.
        limit: Connections at most; who comes later waits in line.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, server_name: str, limit: int) -> None:
        self._address = (host, port)
        self._tls = tls
        self._server_name = (server_name or host) if tls is not None else None
        self._limit = limit
        self._idle: list[Connection] = []  # the one used last is used first, so that the rest may age
        self._all: set[Connection] = set()
        self._opening = 0
        self._line: deque[asyncio.Future[Connection | None]] = deque()
        self._look: asyncio.TimerHandle | None = None
        self._retired = False
        self._closed = False

    async def acquire(self) -> Connection:
        """Return a connection for one exchange; `release` it afterwards.

        Raises:
            OSError: No connection could be made (TLS errors are OSErrors too).
            TimeoutError: The server did not accept one in time.
        """
        loop = asyncio.get_running_loop()
        connection = self._kept(loop)
        waited = False
        while connection is None:
            if self._closed:
                raise OSError("this client is closed")
            if len(self._all) + self._opening < self._limit:
                return await self._open(loop)
            connection = await self._wait(loop, first=waited)
            waited = True
            if connection is not None and not connection.is_usable:
                connection = None
        return connection

    def _kept(self, loop: asyncio.AbstractEventLoop) -> Connection | None:
        oldest = loop.time() - _KEEP_SECONDS
        while self._idle:
            kept = self._idle.pop()
            if kept.is_usable and kept.idle_since > oldest:
                return kept
            kept.close()
        return None

    async def _wait(self, loop: asyncio.AbstractEventLoop, *, first: bool) -> Connection | None:
        """Wait in line for a connection, or for room to open one (None).

        A connection is handed over and not merely announced: its last user, who may want it again at once, would
        always be quicker than somebody who has to be woken.
        """
        turn: asyncio.Future[Connection | None] = loop.create_future()
        (self._line.appendleft if first else self._line.append)(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was ours and we do not want it: the next one's turn
                self._pass_on(turn.result())
            raise

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Connection:
        self._opening += 1
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._forget), *self._address, ssl=self._tls, server_hostname=self._server_name
                )
        except BaseException:
            self._pass_on(None)
            raise
        finally:
            self._opening -= 1
        if not connection.is_usable:
            self._pass_on(None)
            raise OSError("the server closed the connection at once")
        self._all.add(connection)
        if self._look is None:
            self._look = loop.call_later(_LOOK_SECONDS, self._look_at_all, loop)
        return connection

    def release(self, connection: Connection) -> None:
        """Take a connection back; one whose answer was not read to its end is closed."""
        connection.patience = None
        if self._retired or not connection.is_answered or not connection.is_usable:
            connection.close()  # which makes room, see `_forget`
        else:
            connection.idle_since = connection.heard_at
            self._pass_on(connection)

    def _pass_on(self, connection: Connection | None) -> None:
        """Give a connection, or room for one, to who waits longest; one that nobody waits for is kept."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)

    def retire(self) -> None:
        """Close what is idle now and the rest as it comes back."""
        self._retired = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all connections; what is under way on them breaks."""
        self.retire()
        self._closed = True
        for connection in list(self._all):
            connection.close()
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._pass_on(None)

    def _look_at_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._all):
            connection.check(now)
        self._look = loop.call_later(_LOOK_SECONDS, self._look_at_all, loop) if self._all else None
