"""The client's end of a WebSocket: ask a server to upgrade a connection, and run a coroutine on it."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, cast

import httptools

from strato.http.client import BadAnswer, Disconnected, Origin
from strato.http.websocket import TransportWire, WebSocket, accept_key

T = TypeVar("T")

_CONNECT_SECONDS = 30.0
_HEAD_BYTES = 1 << 20


class UpgradeRefused(Exception):
    """The server answered the upgrade request with something other than 101."""

    def __init__(self, status: int, content_type: str, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.content_type, self.body = status, content_type, body


def websocket_headers(protocols: Sequence[str]) -> dict[str, str]:
    """Return the request headers that ask for a WebSocket."""
    return {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
        "sec-websocket-version": "13",
        "sec-websocket-protocol": ", ".join(protocols),
    }


async def over_websocket(
    origin: Origin, request: bytes, headers: Mapping[str, str], work: Callable[[WebSocket, str], Awaitable[T]]
) -> T:
    """Open a WebSocket, run a coroutine on it, and close it.

    Raises:
        Refused: The server answered with something other than 101.
        OSError: There is no connection.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    opening = _Opening(request, headers["sec-websocket-key"])

    async def serve(socket: WebSocket) -> None:
        try:
            done.set_result(await work(socket, opening.protocol))
        except asyncio.CancelledError:
            done.set_exception(Disconnected("the connection was lost"))
            raise
        except Exception as error:
            done.set_exception(error)

    opening.session = WebSocket(serve, is_client=True)
    name = (origin.server_name or origin.host) if origin.tls is not None else None
    async with asyncio.timeout(_CONNECT_SECONDS):
        transport, _ = await loop.create_connection(
            lambda: opening, origin.host, origin.port, ssl=origin.tls, server_hostname=name
        )
        try:
            await opening.answered
        except BaseException:
            transport.abort()
            raise
    try:
        return await asyncio.shield(done)
    finally:
        if not done.done():
            done.cancel()
        transport.close()


class _Opening(asyncio.Protocol):
    """Sends the upgrade request and hands the connection to the `WebSocket` on a 101; httptools calls ``on_…``."""

    def __init__(self, request: bytes, key: str) -> None:
        self._request, self._key = request, key
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session: WebSocket
        self.protocol = ""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""
        self._size = 0
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the parser, or to the WebSocket after the 101."""
        if self._is_open:
            self.session.received(data)
            return
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._begin(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail(BadAnswer(f"its answer is not HTTP: {error}"))
        if self._size > _HEAD_BYTES and not self._is_open:
            self._fail(BadAnswer(f"its answer is longer than {_HEAD_BYTES} bytes"))

    def _begin(self, rest: bytes) -> None:
        assert self._transport is not None
        if self._headers.get("sec-websocket-accept") != accept_key(self._key):
            self._fail(BadAnswer("it has not accepted the WebSocket that was asked for"))
            return
        self._is_open = True
        self.protocol = self._headers.get("sec-websocket-protocol", "")
        self.session.begin(TransportWire(self._transport))
        if not self.answered.done():
            self.answered.set_result(None)
        if rest:
            self.session.received(rest)

    def _fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Tell the WebSocket that the server does not keep up."""
        self.session.written(False)

    def resume_writing(self) -> None:
        """Tell the WebSocket that the server keeps up again."""
        self.session.written(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the WebSocket, or fail the request."""
        self._fail(Disconnected(str(exc) if exc is not None else "it closed the connection"))
        self.session.lost()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header of the answer."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body of an answer that is not a 101."""
        self._body += body

    def on_message_complete(self) -> None:
        """Complete an answer that is not a 101."""
        status = self._parser.get_status_code()
        if status != 101 and status >= 200:
            self._fail(UpgradeRefused(status, self._headers.get("content-type", ""), self._body))
