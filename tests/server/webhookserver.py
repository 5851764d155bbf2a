"""Webhooks on loopback, over HTTPS with an authority of their own."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService
from strato.http.tls import load_pair, server_context
from strato.pki import Authority, KeyPair

Json = dict[str, Any]
Answer = Callable[[Json], Any]
"""Returns the ``response`` to a review's request, without its uid; or a whole `Response`."""


@cache
def authority() -> Authority:
    """Return who vouches for the webhooks."""
    return Authority.make("webhooks", now_seconds=SystemClock().now(), days=1)


@cache
def _pair() -> KeyPair:
    hosts = ["127.0.0.1", "hook.default.svc"]
    return authority().server("hook", hosts, now_seconds=SystemClock().now(), days=1)


@dataclass
class Webhook:
    """A running webhook."""

    port: int = 0
    requests: list[Json] = field(default_factory=list)
    """What it was asked: the ``request`` of each review."""
    sent: list[Request] = field(default_factory=list)

    def url(self, path: str = "/") -> Json:
        """Return the client configuration that names its URL."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": bundle()}


def bundle() -> str:
    """Return the authority, as client configurations carry it."""
    return base64.b64encode(authority().pair.certificate).decode()


@contextlib.asynccontextmanager
async def webhook(answer: Answer | Callable[[Json], Awaitable[Any]]) -> AsyncIterator[Webhook]:
    """Serve one webhook."""
    hook = Webhook()

    async def handle(request: Request) -> Response:
        hook.sent.append(request)
        asked = json.loads(request.body).get("request") or {}
        hook.requests.append(asked)
        said = answer(asked)
        if hasattr(said, "__await__"):
            said = await said
        if isinstance(said, Response):
            return said
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return Response(200, json.dumps({**review, "response": {"uid": asked.get("uid"), **said}}).encode())

    tls = server_context()
    load_pair(tls, _pair().certificate, _pair().private_key)
    server = await serve(PlainService(handle), tls=tls, grace_seconds=0.1)
    hook.port = server.port
    try:
        yield hook
    finally:
        await server.stop()


def patch(*operations: Json) -> Json:
    """Return the response of a webhook that allows a change."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}
