"""The interface of what answers a port's requests: the API server, or a `PlainService`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from strato.api.wire import Response, User
from strato.errors import ApiError
from strato.http.headers import Head


class HttpService(Protocol):
    """Admits and answers requests; connections call it."""

    def admit(self, head: Head) -> User:
        """Authenticate a request by its head, before its body is read, and return the user.

        Raises:
            ApiError: The connection answers the request with this error.
        """

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Call ``answered`` with the answer, at once or later, or return an awaitable that gives it.

        Neither this method nor the awaitable raises: errors are answers too.
        """

    def refusal(self, error: ApiError) -> Response:
        """Return the answer that carries an error."""

    def refused(self, head: Head, user: User, response: Response) -> Response:
        """Return the answer to an admitted request that does not reach `answer`: too large, cut off, malformed."""
        del head, user
        return response
