"""The client of a server in the same process: HTTP is skipped and nothing else.

Requests and answers are the same bytes that would cross a socket, so admission, validation, conflicts, watches
and the decoding of views are those of the remote client.
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
        handler: The server's core.
        user: The identity of every request; the server authorises it like any other.
        uncommitted: Whether writes are answered and shown before they are committed; only for clients that die with
            the server (`strato.server.store`).
    """

    remote: bool = False
    chunks_are_whole_lines: ClassVar[bool] = True

    at_once: int = 64

    def __init__(self, handler: Handler, user: User, *, uncommitted: bool = False) -> None:
        self._handler: Handler | None = handler
        self._user = user
        self._uncommitted = uncommitted

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Hand the request to the server's core."""
        if self._handler is None:
            raise Unavailable("this client is closed")
        request.user, request.uncommitted = self._user, self._uncommitted
        return await self._handler.handle(request)

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        """Hand the requests to the server's core together."""
        if self._handler is None:
            return [Unavailable("this client is closed")] * len(requests)
        for request in requests:
            request.user, request.uncommitted = self._user, self._uncommitted
        try:
            return [answered(response) for response in await self._handler.handle_all(requests)]
        except Unavailable as error:
            return [error] * len(requests)

    async def close(self) -> None:
        """Forget the server."""
        self._handler = None
