"""``pods/exec``, ``pods/attach`` and ``pods/portforward`` over WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from strato.api.wire import Request, Response, User
from strato.errors import ApiError, BadRequest, TooManyRequests
from strato.http.websocket import WebSocket, accept
from strato.server.path import ResourcePath
from strato.server.preparation import Json
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.largewrites import admitted
from strato.server.rest.logs import container_of
from strato.server.rest.portforward import LEGACY, TUNNEL, PodPort, forward, tunnel
from strato.server.rest.remotecommand import PROTOCOLS, carry
from strato.server.rest.remotenodes import RemoteNodes
from strato.server.rest.rights import ANONYMOUS, attributes_of, authorize
from strato.server.rest.state import State
from strato.server.streams import StreamOptions, StreamSource

MOST_STREAMS = 1024
"""Most concurrent sessions of all users; each holds a process or connections."""
MOST_OF_ONE = 256
"""Most concurrent sessions of one user."""
MOST_PORTS = 32
"""Most ports of one session."""
_ENDED = ("Succeeded", "Failed")
_NO_SPDY = "SPDY is not spoken here, WebSocket is: use kubectl 1.31 or newer, or {}"
_COMMAND = "kubectl 1.29 or 1.30 with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true, or 'strato exec'"
_FORWARD = "kubectl 1.30 with KUBECTL_PORT_FORWARD_WEBSOCKETS=true, or 'strato port-forward'"

_OPTIONS = {"attach": "PodAttachOptions", "exec": "PodExecOptions", "portforward": "PodPortForwardOptions"}
"""The kind of the options that admission gets for a connection, by subresource."""

Opened = tuple[Callable[[WebSocket], Coroutine[Any, Any, None]], Callable[[], None]]
"""The coroutine function that serves a session, and a function that frees the session's resources."""


class PodStreams:
    """Connects WebSockets to the streams of a `StreamSource`."""

    def __init__(self, state: State, source: StreamSource | None = None) -> None:
        self._state = state
        self.source = source
        self.remote: RemoteNodes | None = None
        """Nodes on other machines."""
        self._sessions: dict[User, int] = {}

    async def connect(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Open a session; errors of the request come before errors of the protocol.

        Raises:
            ApiError: There is no such pod or container, it does not run, or the client asks for SPDY.
        """
        user = request.user or ANONYMOUS
        if self._state.authorizer is not None:  # WebSockets use GET, which a right to read would allow
            authorize(self._state.authorizer, user, attributes_of(request, "create", target))
        pod = self._state.require(served.kind, target.namespace, target.name)
        await self._admit(request, target, served)
        prepare = self._forwarding if target.subresource == "portforward" else self._running
        protocols, open_session = prepare(request, target, pod)
        if request.headers.get("upgrade", "").lower().startswith("spdy"):
            other = _FORWARD if target.subresource == "portforward" else _COMMAND
            raise ApiError(_NO_SPDY.format(other), reason="NotImplemented", code=501)
        headers, protocol = accept(request.headers, protocols)
        if sum(self._sessions.values()) >= MOST_STREAMS or self._sessions.get(user, 0) >= MOST_OF_ONE:
            raise TooManyRequests(
                f"too many streams are open: {MOST_OF_ONE} of a user and {MOST_STREAMS} in all are allowed; close some",
                retry_after_seconds=5,
            )
        self._count(user, 1)
        try:
            serve, close = await open_session(protocol)
        except BaseException:
            self._count(user, -1)
            raise
        session = WebSocket(serve)
        session.when_ended(partial(self._count, user, -1))
        session.when_ended(close)  # also if the client leaves before the session begins
        return Response(101, headers=headers, session=session)

    async def _admit(self, request: Request, target: ResourcePath, served: Served) -> None:
        """Have webhooks and policies admit a connection."""
        state = self._state
        if not state.dynamic.concerns(served.kind, "CONNECT", target.subresource):
            return
        options: Json = {"kind": _OPTIONS[target.subresource], "apiVersion": "v1"}
        if target.subresource == "portforward":
            options["ports"] = [int(port) for port in request.query.get("ports") or () if port.isdigit()]
        else:
            options |= {name: request.flag(name) for name in ("stdin", "stdout", "stderr", "tty")}
            options |= {"container": request.param("container")}
            if target.subresource == "exec":
                options["command"] = list(request.query.get("command") or ())
        asked = storing.admission_request(request, target, served.kind, "CONNECT", options, None)
        await admitted(state, request, asked, lambda: Response(101))

    def _count(self, user: User, change: int) -> None:
        left = self._sessions.get(user, 0) + change
        if left:
            self._sessions[user] = left
        else:
            del self._sessions[user]

    def _running(
        self, request: Request, target: ResourcePath, pod: Json
    ) -> tuple[Sequence[str], Callable[[str], Coroutine[Any, Any, Opened]]]:
        """Return the session for a command (exec) or the container's main process (attach)."""
        flags = {name: request.flag(name) for name in ("stdin", "stdout", "stderr", "tty")}
        if not (flags["stdin"] or flags["stdout"] or flags["stderr"]):
            raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
        options = StreamOptions(**(flags | {"stderr": flags["stderr"] and not flags["tty"]}))
        command = list(request.query.get("command") or ())
        if target.subresource == "exec" and not command:
            raise BadRequest("you must specify a command")
        container = container_of(pod, target.name, request.param("container"))
        source = self.source_of(pod)

        async def begin(protocol: str) -> Opened:
            uid = pod["metadata"]["uid"]
            if target.subresource == "exec":
                channels = await source.exec(uid, container, command, options)
            else:
                spec = next(one for one in _containers(pod) if one["name"] == container)
                if options.tty and not spec.get("tty"):
                    raise BadRequest(f"container {container} has no terminal: its field tty is not set")
                if options.stdin and not spec.get("stdin"):
                    raise BadRequest(f"container {container} reads no input: its field stdin is not set")
                channels = await source.attach(uid, container, options)
            ends = target.subresource == "attach"
            return partial(carry, channels, options, protocol=protocol, ends_well=ends), channels.close

        return PROTOCOLS, begin

    def _forwarding(
        self, request: Request, target: ResourcePath, pod: Json
    ) -> tuple[Sequence[str], Callable[[str], Coroutine[Any, Any, Opened]]]:
        """Return the session that forwards ports."""
        source = self.source_of(pod)
        ports = PodPort(source, pod["metadata"]["uid"], target.name)

        async def begin(protocol: str) -> Opened:
            if protocol == TUNNEL:
                return partial(tunnel, ports), lambda: None
            return partial(forward, ports, _ports(request)), lambda: None

        return (TUNNEL, *LEGACY), begin

    def source_of(self, pod: Json) -> StreamSource:
        """Return the source of a pod's streams.

        Raises:
            BadRequest: The pod has no running processes (it is on a hollow node, say).
        """
        name, spec, phase = pod["metadata"]["name"], pod["spec"], (pod.get("status") or {}).get("phase")
        if not spec.get("nodeName"):
            raise BadRequest(f"pod {name} does not have a host assigned")
        if phase in _ENDED:
            raise BadRequest(f"pod {name} has ended; current phase is {phase}")
        remote = self.remote.of(pod) if self.remote is not None else None
        if remote is not None:
            return remote
        if self.source is None:
            raise BadRequest(f"pod {name} has no process: this cluster has hollow nodes only, where nothing runs")
        return self.source


def _containers(pod: Json) -> list[Json]:
    spec = pod["spec"]
    return [*spec["containers"], *(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ())]


def _ports(request: Request) -> list[int]:
    """Return the ports in the request of a client of the older protocol.

    Raises:
        BadRequest: They are missing or invalid.
    """
    texts = [one for text in request.query.get("ports") or () for one in text.split(",") if one]
    ports = [int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0 for text in texts]
    if not ports:
        raise BadRequest('query parameter "ports" is required')
    if len(ports) > MOST_PORTS:
        raise BadRequest(f"at most {MOST_PORTS} ports are forwarded on one connection")
    for text, port in zip(texts, ports, strict=True):
        if not 0 < port < 65536:
            raise BadRequest(f'unable to parse "{text}" as a port: it must be between 1 and 65535')
    return ports
