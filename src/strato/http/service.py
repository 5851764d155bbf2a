"""What answers requests behind the connections of a port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from strato.api.wire import Response, User
from strato.errors import ApiError
from strato.http.headers import Head


class Service(Protocol):
    """Answers requests."""

    def admit(self, head: Head) -> User:
        """Return who asks, before the body is read.

        Raises:
            ApiError: The request is answered with that.
        """

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Answer by calling ``answered``, at once or later, or return what has to be awaited for the answer.

        Nothing is raised, neither here nor there.
        """

    def refusal(self, error: ApiError) -> Response:
        """Return the answer that carries an error."""

    def refused(self, head: Head, user: User, response: Response) -> Response:
        """Return the answer to a request of a known user that never reaches `answer`: too large, cut off, malformed."""
        del head, user
        return response
