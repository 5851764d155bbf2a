"""Health and metrics: the paths that the HTTP service answers without the server's core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from strato.api.wire import Request, Response, User
from strato.metrics import CONTENT_TYPE, Registry
from strato.server.rest.rights import ANONYMOUS

_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))


class Ready(Protocol):
    """The checks behind ``/readyz``."""

    def __call__(self) -> Mapping[str, str]:
        """Return the failure of every check by name; an empty string if it passes."""


class OwnPaths:
    """Answers the health and metrics paths."""

    def __init__(
        self,
        metrics: Registry | None,
        ready: Ready,
        authorize: Callable[[User, str, str], None] | None,
        other_metrics: Callable[[], Awaitable[bytes]] | None,
    ) -> None:
        self._metrics = metrics
        self._other_metrics = other_metrics
        self._ready = ready
        self._authorize = authorize

    async def handle(self, request: Request) -> Response | None:
        """Answer a request; None if its path is neither health nor metrics.

        Raises:
            ApiError: The user may not read this path.
        """
        path = request.path
        base = "/" + path.split("/", 2)[1]
        is_metrics = path == "/metrics" and self._metrics is not None
        if base not in _HEALTH and not is_metrics:
            return None
        if self._authorize is not None:
            self._authorize(request.user or ANONYMOUS, request.method.lower(), path)
        if is_metrics:
            assert self._metrics is not None
            others = await self._other_metrics() if self._other_metrics is not None else b""
            return Response(200, self._metrics.render() + others, CONTENT_TYPE)
        return self._health(request, base)

    def _health(self, request: Request, base: str) -> Response:
        checks = {"ping": ""} if base != "/readyz" else {"ping": "", **self._ready()}
        failing = any(checks.values())
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
        plain = "text/plain; charset=utf-8"
        if not failing and "verbose" not in request.query:
            return Response(200, b"ok", plain, headers)
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in checks.items()]
        lines.append(f"{base[1:]} check {'failed' if failing else 'passed'}")
        return Response(500 if failing else 200, "\n".join(lines).encode() + b"\n", plain, headers)
