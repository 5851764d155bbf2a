"""`LocalCluster`: a `Cluster` over a server in the same process, without HTTP.

Only HTTP is skipped. Requests and answers are the bytes that would cross a socket, so admission, validation,
conflicts, watches and the decoding of views are those of a remote client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from strato.api.wire import Handler, Request, Response, User
from strato.client.calls import WireCluster, answered
from strato.errors import ApiError, Unavailable


class LocalCluster(WireCluster):
    """Calls a `Handler` directly, as one user.

    Args:
        handler: The server's core, or a `Link` to it.
        user: The identity of every request; the server authorises it like any other.
        uncommitted: Whether writes are answered, and reads see writes, before the journal has committed them; only for
            clients that die with the server (`strato.server.store`).
    """

    remote: bool = False
    chunks_are_whole_lines: ClassVar[bool] = True

    at_once: int = 64

    def __init__(self, handler: Handler, user: User, *, uncommitted: bool = False) -> None:
        self._handler: Handler | None = handler
        self._user = user
        self._uncommitted = uncommitted

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Pass the request to the handler."""
        if self._handler is None:
            raise Unavailable("this client is closed")
        request.user, request.uncommitted = self._user, self._uncommitted
        return await self._handler.handle(request)

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        """Pass the requests to the handler in one call."""
        if self._handler is None:
            return [Unavailable("this client is closed")] * len(requests)
        for request in requests:
            request.user, request.uncommitted = self._user, self._uncommitted
        try:
            return [answered(response) for response in await self._handler.handle_all(requests)]
        except Unavailable as error:
            return [error] * len(requests)

    async def close(self) -> None:
        """Drop the handler; further calls fail."""
        self._handler = None
