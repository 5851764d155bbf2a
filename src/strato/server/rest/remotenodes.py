"""Pods on other machines: their logs, processes and ports, asked of the nodes that run them.

A node that can be asked says so in its object: the port of its kubelet endpoint, and in an annotation the authority of
its certificate. Of all nodes it alone may write there (`strato.server.auth.noderestriction`), so the certificate proves
that it is the node which answers. The server shows a client certificate of the cluster's authority, and the node asks
the API what that certificate may do.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import quote, urlencode

from strato.api import catalog
from strato.api.wire import User
from strato.clock import format_time
from strato.errors import ApiError, BadRequest, NotFound, Unavailable, one_line
from strato.http.client import Origin, connect
from strato.http.fetch import limited, message
from strato.http.headers import host_port
from strato.http.tls import client_context
from strato.http.upgrade import UpgradeRefused, over_websocket, websocket_headers
from strato.http.websocket import WebSocket
from strato.pki import KeyPair
from strato.server.logs import LogOptions
from strato.server.nodestreams import PROTOCOL, SocketChannels, carry_port
from strato.server.preparation import Json
from strato.server.rest.state import State
from strato.server.streams import Channels, StreamOptions

SERVING_AUTHORITY = "strato.dev/serving-authority"
"""Annotation of nodes: the authority of the certificate that they serve with, PEM."""
SERVER = User("kube-apiserver-kubelet-client", ("system:masters",))
"""Whom the server's client certificate names, as kubeadm has it."""
_IDLE_SECONDS = 300.0
"""How long a node may be silent about a log that is not followed."""
_ERROR_BYTES = 64 * 1024
_CERTIFICATE_SECONDS = 86_400.0
"""How long the client certificate is used before there is a new one; it is valid for months longer."""


class RemoteNodes:
    """Reaches pods of nodes that can be asked.

    Args:
        issue: Makes a client certificate of the cluster's authority.
    """

    def __init__(self, state: State, issue: Callable[[User], KeyPair]) -> None:
        self._state = state
        self._issue = issue
        self._certificate: tuple[KeyPair, float] | None = None
        """The client certificate in use, and when it was made, in seconds since 1970."""
        self.sessions: set[asyncio.Task[None]] = set()
        """Connections that carry streams."""

    def of(self, pod: Json) -> RemotePod | None:
        """Return what reaches a pod; None where its node cannot be asked."""
        name = pod["spec"].get("nodeName")
        node = self._state.latest(catalog.NODE, "", name) if name else None
        if node is None:
            return None
        status = node.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        authority = (node["metadata"].get("annotations") or {}).get(SERVING_AUTHORITY)
        addresses = {one.get("type"): one.get("address") for one in status.get("addresses") or ()}
        address = addresses.get("InternalIP") or addresses.get("Hostname")
        if not (port and authority and address):
            return None
        return RemotePod(self, pod, partial(self._origin, name, address, port, authority))

    async def _origin(self, name: str, address: str, port: int, authority: str) -> Origin:
        def context() -> Origin:
            pair = self._client_certificate()
            tls = client_context(f"node {name}", ca=authority.encode(), pair=(pair.certificate, pair.private_key))
            return Origin(address, port, tls, name)

        return await asyncio.to_thread(context)  # it may make a key, and reads files

    def _client_certificate(self) -> KeyPair:
        now, known = self._state.clock.now(), self._certificate
        if known is None or not 0 <= now - known[1] < _CERTIFICATE_SECONDS:
            known = self._certificate = self._issue(SERVER), now
        return known[0]


class RemotePod:
    """A pod on another machine: a `LogSource` and a `StreamSource`."""

    def __init__(self, nodes: RemoteNodes, pod: Json, origin: Callable[[], Awaitable[Origin]]) -> None:
        self._nodes = nodes
        self._pod = pod
        self._origin = origin

    async def read_log(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Yield chunks of the log.

        Raises:
            NotFound: There is no log of that container, or of its previous run.
            ApiError: The node does not answer, or says why not.
        """
        query = {
            "follow": "true" if options.follow else "",
            "previous": "true" if options.previous else "",
            "timestamps": "true" if options.timestamps else "",
            "tailLines": options.tail_lines,
            "sinceSeconds": None if options.since_seconds is None else int(options.since_seconds),
            "sinceTime": None if options.since_time is None else format_time(options.since_time),
            "limitBytes": options.limit_bytes,
        }
        asked = {name: str(value) for name, value in query.items() if value not in (None, "")}
        try:
            origin = await self._origin()
            connection = await connect(origin)
            try:
                request = self._request(origin, f"containerLogs/{namespace}/{pod}/{container}", asked, {})
                answer = await connection.ask(request, None if options.follow else _IDLE_SECONDS, stream=True)
                if answer.status != 200:
                    raise _refusal(answer.status, await limited(answer, _ERROR_BYTES))
                async for chunk in answer.chunks():
                    yield chunk
            finally:
                connection.abort()
        except OSError as error:
            raise self._unreachable(error) from error

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamOptions) -> Channels:
        """Run a command in a container."""
        return await self._join("exec", uid, container, command, options)

    async def attach(self, uid: str, container: str, options: StreamOptions) -> Channels:
        """Connect to the streams of a container's main process."""
        return await self._join("attach", uid, container, (), options)

    async def connect(self, uid: str, port: int) -> socket.socket:
        """Return a socket that leads to a port of the pod."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        async def carry(web_socket: WebSocket) -> None:
            reader, writer = await asyncio.open_connection(sock=theirs)
            await carry_port(reader, writer, web_socket)

        try:
            await self._open(f"streams/port/{self._named()}/{port}", [("uid", uid)], carry)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        return ours

    async def _join(
        self, verb: str, uid: str, container: str, command: Sequence[str], options: StreamOptions
    ) -> Channels:
        joined: asyncio.Future[SocketChannels] = asyncio.get_running_loop().create_future()

        async def carry(web_socket: WebSocket) -> None:
            channels = SocketChannels(web_socket)
            joined.set_result(channels)
            await channels.closed.wait()

        flags = [(name, "true") for name in ("stdin", "stdout", "stderr", "tty") if getattr(options, name)]
        query = [("uid", uid), *flags, *(("command", word) for word in command)]
        await self._open(f"streams/{verb}/{self._named()}/{container}", query, carry)
        return await joined

    async def _open(
        self, path: str, query: Sequence[tuple[str, str]], carry: Callable[[WebSocket], Awaitable[None]]
    ) -> None:
        """Open a WebSocket to the node and let ``carry`` work on it; return once it is open."""
        opened = asyncio.Event()

        async def work(web_socket: WebSocket, _protocol: str) -> None:
            opened.set()
            await carry(web_socket)

        async def session() -> None:
            try:
                await over_websocket(origin, request, headers, work)
            except UpgradeRefused as error:
                raise _refusal(error.status, error.body) from error
            except OSError as error:
                raise self._unreachable(error) from error

        origin = await self._origin()
        headers = websocket_headers((PROTOCOL,))
        request = self._request(origin, path, query, headers)
        task = asyncio.create_task(session())
        self._nodes.sessions.add(task)
        task.add_done_callback(self._nodes.sessions.discard)
        task.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())  # told by what is read
        waiting = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            raise
        finally:
            waiting.cancel()
        if not opened.is_set():
            task.result()

    def _named(self) -> str:
        metadata = self._pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    @staticmethod
    def _request(
        origin: Origin, path: str, query: Sequence[tuple[str, str]] | dict[str, str], headers: dict[str, str]
    ) -> bytes:
        url = f"https://{host_port(origin.host, origin.port)}/{quote(path)}?{urlencode(query)}"
        return message(url, headers=[*headers.items()]).data

    def _unreachable(self, error: OSError) -> ApiError:
        node = self._pod["spec"]["nodeName"]
        return Unavailable(f"node {node} of pod {self._named()} cannot be reached: {one_line(error)}")


def _refusal(status: int, body: bytes) -> ApiError:
    """Return what a node says against what was asked of it."""
    words = body[:_ERROR_BYTES].decode(errors="replace")
    for kind in (NotFound, BadRequest):
        if status == kind.default_code:
            return kind(words)
    return ApiError(f"the node refuses: {words}", code=502)
