"""The node's endpoint for an API server on another machine: container logs as a kubelet serves them, and streams.

For ``pods/log`` an API server asks the node, at the port of its status, for ``/containerLogs/NAMESPACE/POD/CONTAINER``
over TLS, with a client certificate. Strato's own also asks for ``/streams/exec/NAMESPACE/POD/CONTAINER``, ``attach`` in
the place of ``exec``, and ``/streams/port/NAMESPACE/POD/PORT`` (`strato.server.nodestreams`). Other paths, and clients
without a certificate of the given authority, are refused. The endpoint asks the API server whether the certificate's
user is allowed the request: ``get nodes/proxy`` of this node for logs, as a kubelet asks, and ``create`` for streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from cryptography import x509

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.wire import Handler, Request, Response, User
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, BadRequest, Forbidden, NotFound, Unauthorized, UsageError, one_line
from strato.http.listen import PortInUse, serve
from strato.http.tls import server_context
from strato.http.websocket import WebSocket, accept
from strato.server.auth.ca import CertificateAuthority, user_named
from strato.server.http import create_app
from strato.server.logs import LogSource
from strato.server.nodestreams import PROTOCOL, carry_channels, carry_port
from strato.server.rest.logs import answer_log, log_options
from strato.server.rest.remotenodes import SERVING_AUTHORITY
from strato.server.streams import StreamOptions, StreamSource

EVERYWHERE = "0.0.0.0"
"""Listen on every address, as kubelets do: the API server chooses which of the node's addresses it connects to."""
_LOGS, _STREAMS = "containerLogs", "streams"
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPort:
    """The port, its certificate, and the authority of its clients."""

    node: str
    port: int
    client_ca: Path
    """PEM file of the authority that issues clients' certificates."""
    directory: Path
    """Folder of the server's own certificate, which is created if missing and renewed before it ends."""

    def authority(self, clock: Clock) -> CertificateAuthority:
        """Return the authority that issues the server's own certificate."""
        return CertificateAuthority(self.directory / "pki", clock)

    def annotations(self, clock: Clock) -> dict[str, str]:
        """Return the node's annotations by which an API server verifies the endpoint's certificate."""
        return {SERVING_AUTHORITY: self.authority(clock).certificate.decode()}

    def check(self) -> None:
        """Fail before anything starts.

        Raises:
            UsageError: The authority's file cannot be read or holds no certificate.
        """
        try:
            x509.load_pem_x509_certificates(self.client_ca.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"--client-ca-file {str(self.client_ca)!r}: cannot be used: {one_line(error)}") from error


class NodeEndpoint(Handler):
    """Answers an API server; a `Handler` without a transport."""

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        pods: Callable[[Key], Pod | None],
        logs: LogSource,
        streams: StreamSource,
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._pods = pods
        self._logs = logs
        self._streams = streams

    async def handle(self, request: Request) -> Response:
        """Answer a request; errors are plain text, which the API server passes on to its user."""
        try:
            return await self._answer(request)
        except ApiError as error:
            return Response(error.code, str(error).encode(), _PLAIN)

    async def _answer(self, request: Request) -> Response:
        root, *names = request.path.strip("/").split("/")
        verb, *rest = names or ("",)
        if request.method == "GET" and root == _LOGS and len(names) == 3:
            await self._authorize(request.user, "get")
            namespace, name, container = names
            pod = self._pod(request, namespace, name)
            _check_container(pod, container)
            return await answer_log(self._logs, msgspec.to_builtins(pod), container, log_options(request, name))
        if request.method == "GET" and root == _STREAMS and verb in ("exec", "attach", "port") and len(rest) == 3:
            await self._authorize(request.user, "create")
            namespace, name, last = rest
            pod = self._pod(request, namespace, name)
            return await (self._forward if verb == "port" else partial(self._join, verb))(request, pod, last)
        raise NotFound("this node serves container logs and streams and nothing else")

    def _pod(self, request: Request, namespace: str, name: str) -> Pod:
        pod, uid = self._pods(Key(namespace, name)), request.param("uid")
        if pod is None or pod.spec.node_name != self._node or uid not in ("", pod.metadata.uid):
            raise NotFound(f'pod "{name}" of namespace "{namespace}" does not run on node {self._node}')
        return pod

    async def _join(self, verb: str, request: Request, pod: Pod, container: str) -> Response:
        _check_container(pod, container)
        headers, _ = accept(request.headers, (PROTOCOL,))
        options = StreamOptions(**{name: request.flag(name) for name in ("stdin", "stdout", "stderr", "tty")})
        uid, command = pod.metadata.uid, list(request.query.get("command") or ())
        if verb == "exec":
            channels = await self._streams.exec(uid, container, command, options)
        else:
            channels = await self._streams.attach(uid, container, options)
        session = WebSocket(partial(carry_channels, channels))
        session.when_ended(channels.close)  # runs at once if the client has gone already
        return Response(101, headers=headers, session=session)

    async def _forward(self, request: Request, pod: Pod, port: str) -> Response:
        if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
            raise BadRequest(f"{port!r} is no port")
        headers, _ = accept(request.headers, (PROTOCOL,))
        reader, writer = await asyncio.open_connection(sock=await self._streams.connect(pod.metadata.uid, int(port)))
        session = WebSocket(partial(carry_port, reader, writer))
        session.when_ended(writer.close)
        return Response(101, headers=headers, session=session)

    async def _authorize(self, user: User | None, verb: str) -> None:
        if user is None:
            raise Unauthorized("Unauthorized")
        attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": "proxy", "name": self._node}
        spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
        review = await self._cluster.create(catalog.SUBJECTACCESSREVIEW, {"metadata": {}, "spec": spec})
        if not (review.get("status") or {}).get("allowed"):
            raise Forbidden(f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource=proxy)")


def _check_container(pod: Pod, container: str) -> None:
    if container not in {one.name for one in pod.spec.all_containers}:
        raise NotFound(f'container "{container}" not found in pod "{pod.metadata.name}"')


def verified_peer(headers: Mapping[str, str], peer: bytes | None) -> User:
    """Return the user named by the client certificate, which TLS has verified.

    Raises:
        Unauthorized: There is no client certificate; other credentials are not accepted here.
    """
    del headers
    user = user_named(x509.load_der_x509_certificate(peer)) if peer is not None else None
    if user is None:
        raise Unauthorized("Unauthorized")
    return user


async def serve_node(port: KubeletPort, handler: NodeEndpoint, clock: Clock) -> None:
    """Serve until cancelled.

    Raises:
        UsageError: The port is taken.
    """
    certificate, key = port.authority(clock).server_files((port.node,))
    app = create_app(handler, verified_peer)
    try:
        tls = server_context(certificate, key, client_ca=port.client_ca)
        http = await serve(app, EVERYWHERE, port.port, tls=tls, clock=clock)
    except PortInUse as error:
        raise UsageError(f"--kubelet-port {port.port}: {error.why}; choose another") from error
    try:
        await http.wait()
    finally:
        await http.stop()
