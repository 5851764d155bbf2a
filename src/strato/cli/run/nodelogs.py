"""The node's endpoint for a real API server: container logs, as a kubelet serves them.

For ``pods/log`` kube-apiserver asks the node, at the port of its status, for ``/containerLogs/NAMESPACE/POD/CONTAINER``
over TLS, with a client certificate. Nothing else is served here, and nobody without a certificate of the authority
that was named; whom the certificate names, the API server itself is asked to allow: ``get nodes/proxy`` of this node,
which is what a kubelet asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography import x509

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.wire import Handler, Request, Response, User
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, Forbidden, NotFound, Unauthorized, UsageError, one_line
from strato.http.listen import PortInUse, serve
from strato.http.tls import server_context
from strato.server.auth.ca import CertificateAuthority, user_named
from strato.server.http import create_app
from strato.server.logs import LogSource
from strato.server.rest.logs import answer_log, log_options

EVERYWHERE = "0.0.0.0"
"""Kubelets listen on every address: which of a node's the API server takes is its own choice."""
_PATH = "containerLogs"
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndpoint:
    """What is served, and for whom."""

    node: str
    port: int
    client_ca: Path
    """Authority of those who may ask, PEM."""
    directory: Path
    """Where the server's own certificate is kept; made when it is not there, renewed in time."""

    def check(self) -> None:
        """Fail before anything starts.

        Raises:
            UsageError: The authority's file cannot be read or holds no certificate.
        """
        try:
            x509.load_pem_x509_certificates(self.client_ca.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"--client-ca-file {str(self.client_ca)!r}: cannot be used: {one_line(error)}") from error


class NodeLogs(Handler):
    """Answers an API server; a `Handler` without a transport."""

    def __init__(self, cluster: Cluster, node: str, pods: Callable[[Key], Pod | None], source: LogSource) -> None:
        self._cluster = cluster
        self._node = node
        self._pods = pods
        self._source = source

    async def handle(self, request: Request) -> Response:
        """Answer a log, or why not as plain text, which the API server passes on."""
        try:
            return await self._answer(request)
        except ApiError as error:
            return Response(error.code, str(error).encode(), _PLAIN)

    async def _answer(self, request: Request) -> Response:
        root, *names = request.path.strip("/").split("/")
        if request.method != "GET" or root != _PATH or len(names) != 3:
            raise NotFound("this node serves container logs and nothing else")
        await self._authorize(request.user)
        namespace, name, container = names
        pod = self._pods(Key(namespace, name))
        if pod is None or pod.spec.node_name != self._node:
            raise NotFound(f'pod "{name}" of namespace "{namespace}" does not run on node {self._node}')
        if container not in {one.name for one in pod.spec.all_containers}:
            raise NotFound(f'container "{container}" not found in pod "{name}"')
        options = log_options(request, name)
        return await answer_log(self._source, msgspec.to_builtins(pod), container, options)

    async def _authorize(self, user: User | None) -> None:
        if user is None:
            raise Unauthorized("Unauthorized")
        attributes = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": self._node}
        spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
        review = await self._cluster.create(catalog.SUBJECTACCESSREVIEW, {"metadata": {}, "spec": spec})
        if not (review.get("status") or {}).get("allowed"):
            raise Forbidden(f"Forbidden (user={user.name}, verb=get, resource=nodes, subresource=proxy)")


def verified_peer(headers: Mapping[str, str], peer: bytes | None) -> User:
    """Return whom the client certificate names, which TLS has verified.

    Raises:
        Unauthorized: There is none; other credentials do not count here.
    """
    del headers
    user = user_named(x509.load_der_x509_certificate(peer)) if peer is not None else None
    if user is None:
        raise Unauthorized("Unauthorized")
    return user


async def serve_logs(endpoint: LogEndpoint, handler: NodeLogs, clock: Clock) -> None:
    """Serve until cancelled.

    Raises:
        UsageError: The port is taken.
    """
    certificate, key = CertificateAuthority(endpoint.directory / "pki", clock).server_files((endpoint.node,))
    app = create_app(handler, verified_peer)
    try:
        tls = server_context(certificate, key, client_ca=endpoint.client_ca)
        http = await serve(app, EVERYWHERE, endpoint.port, tls=tls, clock=clock)
    except PortInUse as error:
        raise UsageError(f"--kubelet-port {endpoint.port}: {error.why}; choose another") from error
    try:
        await http.wait()
    finally:
        await http.stop()
