"""A service for ports that serve no API (metrics, health, admission webhooks): one function, with errors as text."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from strato.api.wire import Request, Response, User
from strato.errors import ApiError, InternalError
from strato.http.headers import Head
from strato.http.service import HttpService

_log = logging.getLogger(__name__)


class PlainService(HttpService):
    """Answers every request by one function. Connection limits by user apply to the client's address instead."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._handle = handle

    def admit(self, head: Head) -> User:
        """Return a user named after the client's address."""
        return User(head.address or "unknown")

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Return the awaitable that gives the answer."""
        del answered
        return self._answer(Request(head.method, head.path, head.query, head.headers, body, user))

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except ApiError as error:
            return self.refusal(error)
        except Exception:  # a bug of ours must be answered with 500, not by a connection that closes
            _log.exception("%s %s failed", request.method, request.path)
            return self.refusal(InternalError("an error on the server has prevented the request from succeeding"))

    def refusal(self, error: ApiError) -> Response:
        """Return an answer with the error's message as text."""
        return text(f"{error}\n", error.code)


def text(message: str, status: int = 200) -> Response:
    """Return an answer of plain text."""
    return Response(status, message.encode(), "text/plain; charset=utf-8")
