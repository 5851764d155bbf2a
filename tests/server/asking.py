"""Ask a server in this process, as one user."""

from __future__ import annotations

import json
from typing import Any

from strato.api.wire import Request, Response, User
from strato.server.api import ApiServer

MERGE = "application/merge-patch+json"
ADMIN = User("admin", ("system:masters", "system:authenticated"))


class Client:
    """Sends and reads JSON, as a user, or as nobody with None."""

    def __init__(self, server: ApiServer, user: User | None = ADMIN) -> None:
        self.server, self._user = server, user

    async def send(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str
    ) -> Response:
        """Return the answer as it is."""
        sent = b"" if body is None else json.dumps(body).encode()
        asked = {name: [value] for name, value in query.items()}
        return await self.server.handle(Request(method, path, asked, {"content-type": media}, sent, self._user))

    async def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json", *, code: int = 0, **query: str
    ) -> Any:
        """Return the decoded answer, which must have succeeded, or have the ``code``."""
        answer = await self.send(method, path, body, media, **query)
        assert answer.status == code if code else answer.status < 300, answer.body
        return json.loads(answer.body)
