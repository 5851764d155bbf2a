"""A service for ports with no API behind them (metrics, health, admission webhooks): one function, errors as text."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from strato.api.wire import Request, Response, User
from strato.errors import ApiError, InternalError
from strato.http.headers import Head
from strato.http.service import Service

_log = logging.getLogger(__name__)


class PlainService(Service):
    """Answers every request by one function. Connections count as those of the address that they come from."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._handle = handle

    def admit(self, head: Head) -> User:
        """Return the address as who asks."""
        return User(head.address or "unknown")

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Return what has to be awaited for the answer."""
        del answered
        return self._answer(Request(head.method, head.path, head.query, head.headers, body, user))

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except ApiError as error:
            return self.refusal(error)
        except Exception:  # the last net: a bug of ours must not close the connection without a word
            _log.exception("%s %s failed", request.method, request.path)
            return self.refusal(InternalError("an error on the server has prevented the request from succeeding"))

    def refusal(self, error: ApiError) -> Response:
        """Return the answer that carries an error."""
        return text(f"{error}\n", error.code)


def text(message: str, status: int = 200) -> Response:
    """Return an answer of plain text."""
    return Response(status, message.encode(), "text/plain; charset=utf-8")
