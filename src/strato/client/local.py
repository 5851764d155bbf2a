"""The client of a server in the same process: HTTP is skipped and nothing else.

Requests and answers are the same bytes that would cross a socket, so admission, validation, conflicts, watches
and the decoding of views are those of the remote client.
"""

from __future__ import annotations

from typing import ClassVar

from strato.api.wire import Handler, Request, Response, User
from strato.client.calls import WireCluster
from strato.errors import Unavailable


class LocalCluster(WireCluster):
    """Calls a `Handler` directly, as one user.

    Args:
        handler: The server's core.
        user: The identity of every request; the server authorises it like any other.
    """

    remote: bool = False
    chunks_are_whole_lines: ClassVar[bool] = True

    def __init__(self, handler: Handler, user: User) -> None:
        self._handler: Handler | None = handler
        self._user = user

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Hand the request to the server's core."""
        if self._handler is None:
            raise Unavailable("this client is closed")
        request.user = self._user
        return await self._handler.handle(request)

    async def close(self) -> None:
        """Forget the server."""
        self._handler = None
