"""Route requests to endpoints, redirect them to the leader, and authenticate them."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

from strato.api.wire import Request, Response
from strato.http.plain import text
from strato.interop.mesos.endpoints import agent as of_agent
from strato.interop.mesos.endpoints import executor, files, oldpages, operator, scheduler
from strato.interop.mesos.endpoints.negotiation import RequestRefused, refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master.model import Agent
from strato.interop.mesos.master.state import VERSION

_log = logging.getLogger(__name__)
Endpoint = Callable[[Serving, Request, str], Awaitable[Response]]
_CALLS: dict[str, tuple[Endpoint, str]] = {
    "/api/v1/scheduler": (scheduler.handle, "mesos-master-scheduler"),
    "/api/v1/executor": (executor.handle, ""),
    "/api/v1": (operator.handle, "mesos-master-readwrite"),
}
"""Endpoint and realm by path; executors need no credentials, as with Mesos' agents."""
_OPEN = ("/version", "/health")
_READABLE = "mesos-master-readonly"
_SERVED = frozenset((*_CALLS, *_OPEN, "/redirect", *oldpages.PAGES, *oldpages.WRITES, *files.PATHS))


class MasterEndpoints:
    """Answers the requests of a master's port, whether it leads or not.

    Args:
        credentials: Secrets by principal; if empty, requests are not authenticated.
    """

    def __init__(self, credentials: Mapping[str, str]) -> None:
        self._credentials = dict(credentials)
        self.serving: Serving | None = None
        """The master, while it leads and has recovered its state."""
        self.leads = False
        """Whether this is the leader, though it may still be recovering."""
        self.find_leader: Callable[[], str] = lambda: ""
        """Returns ``host:port`` of the leader; empty if unknown."""

    async def handle(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await self._route(request)
        except RequestRefused as refusal:
            return refusal.response

    async def _route(self, request: Request) -> Response:
        path, node = _known(request.path)
        if path == "":
            return text(f"There is nothing at {request.path[:200]}", 404)
        if path == "/version":
            return oldpages.json_response({"version": VERSION, "build_user": "strato"})
        if path == "/health":
            return Response(200, content_type="text/plain")
        endpoint, realm = _CALLS.get(path, (None, _READABLE))
        principal = self._principal(request, realm) if realm else ""
        if path == "/redirect":
            return self._redirect("")
        if not self.leads:
            return self._redirect(request.path)
        serving = self.serving
        if serving is None:
            return text("Master has not finished recovery", 503)
        agent = self._agent(serving, node)
        if path in files.PATHS:
            agent_id = "" if agent is None else agent.id
            return await files.handle(serving.files, serving.master.state, path, request, agent_id)
        if endpoint is None:
            return await oldpages.handle(serving, path, request)
        if request.method != "POST":
            refusal = text(f"Expecting one of {{ 'POST' }}, but received '{request.method}'", 405)
            refusal.headers = {"Allow": "POST"}
            return refusal
        if agent is not None and endpoint is operator.handle:
            return await of_agent.handle(serving, request, agent)
        return await endpoint(serving, request, principal)

    def _agent(self, serving: Serving, node: str) -> Agent | None:
        """Return the agent of the node in a path; None without one, or for Mesos' own path ``slave(1)``.

        Raises:
            Refused: There is no such agent.
        """
        if node in ("", "1"):
            return None
        for agent in serving.master.state.agents.values():
            if agent.facts.node == node:
                return agent
        raise refused(404, f"There is no agent {node[:200]}")

    def _redirect(self, path: str) -> Response:
        leader = self.find_leader()
        if not leader:
            return text("No leader elected", 503)
        return Response(307, content_type="text/plain", headers={"Location": f"//{leader}{path}"})

    def _principal(self, request: Request, realm: str) -> str:
        """Return the principal of a request; empty if its endpoint needs no credentials.

        Raises:
            Refused: The credentials are missing or wrong.
        """
        if not self._credentials:
            return ""
        principal, secret = _basic(request.headers.get("authorization", ""))
        expected = self._credentials.get(principal)
        if expected is None or not hmac.compare_digest(expected.encode(), secret.encode()):
            refusal = text("", 401)
            refusal.headers = {"WWW-Authenticate": f'Basic realm="{realm}"'}
            raise RequestRefused(refusal)
        return principal


def _basic(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        principal, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return principal, secret


def _known(path: str) -> tuple[str, str]:
    """Return the longest served prefix of a path, empty if there is none, and the agent's node in the path."""
    path, node = path.rstrip("/"), ""
    if path.startswith("/slave("):  # an endpoint of an agent
        named, _, rest = path[1:].partition("/")
        path, node = f"/{rest}", named.removeprefix("slave(").removesuffix(")")
    path = path.removeprefix("/master") if path.startswith("/master/") else path
    while path:
        if path in _SERVED:
            return path, node
        path = path.rpartition("/")[0]
    return "", node
