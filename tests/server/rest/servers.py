"""The two servers a table of requests is asked of."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Mapping
from urllib.parse import parse_qs, quote

from strato.api.wire import Request, User
from strato.server.api import ApiServer
from tests.server.rest.steps import Answer

ADMIN = User("admin", ("system:masters", "system:authenticated"))


class Embedded:
    """The server in this process."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, watch: bool
    ) -> Answer:
        response = await self.server.handle(
            Request(method, path, parse_qs(query, keep_blank_values=True), dict(headers), body, ADMIN)
        )
        content = response.body
        if response.stream is not None:
            content = b"".join([chunk async for chunk in response.stream])
        return Answer(
            response.status,
            content,
            {name.lower(): value.replace("\n", ", ") for name, value in response.headers.items()},
        )


CRASH = "the server closed the connection without an answer"


class Remote:
    """A real API server."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, watch: bool
    ) -> Answer:
        return await asyncio.to_thread(self.ask_now, method, path, query, headers, body)

    def ask_now(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask and wait for the answer."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=120)
        try:
            url = quote(path, safe="/:%") + (f"?{quote(query, safe='=&,%!()')}" if query else "")
            connection.request(method, url, body or None, {**headers, "authorization": f"Bearer {self._token}"})
            try:
                answer = connection.getresponse()
            except http.client.RemoteDisconnected:  # a handler that panics has no other answer
                status = {"kind": "Status", "status": "Failure", "code": 500, "message": CRASH}
                return Answer(500, json.dumps(status).encode(), {})
            warnings = ", ".join(answer.headers.get_all("Warning") or ())
            return Answer(answer.status, answer.read(), {"warning": warnings} if warnings else {})
        finally:
            connection.close()
