"""The HTTPS server of the webhook, and the loop that keeps its certificates and configurations up to date."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from strato.admission.chain import Chain, ChainOptions
from strato.admission.webhook.certificates import Certificates, Serving
from strato.admission.webhook.configuration import Hooks, WebhookEndpoint, configurations
from strato.admission.webhook.publish import publish
from strato.admission.webhook.reads import Reads
from strato.admission.webhook.review import answer, denial, read_review
from strato.admission.webhook.services import SERVICES, WebhookService
from strato.api.wire import Request, Response
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, BadRequest, UsageError, one_line
from strato.http.listen import PortInUse, serve
from strato.http.plain import PlainService, text
from strato.http.tls import load_pair, server_context
from strato.metrics import Registry

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """How the webhook is served."""

    host: str = ""
    """Address to listen on; empty is all."""
    port: int = 8443
    """0 picks a free one, which `WebhookServer.port` has then."""
    endpoint: WebhookEndpoint
    hooks: Hooks = field(default_factory=Hooks)
    chain: ChainOptions = field(default_factory=ChainOptions)
    graceful_seconds: float = 30.0
    """How long running requests may take after a stop."""
    refresh_seconds: float = 60.0
    """Period of checking certificates and configurations."""


class WebhookServer:
    """Answers AdmissionReviews.

    Args:
        metrics: Gets ``volcano_admission_reviews_total`` by path and outcome.
        reload_chain: Called at every refresh; returns new chain options, or None when nothing has changed.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        certificates: Certificates,
        options: WebhookOptions,
        metrics: Registry,
        *,
        reload_chain: Callable[[], ChainOptions | None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._certificates = certificates
        self._options = options
        self._reads = Reads(cluster, clock)
        self._reviews = metrics.counter("volcano_admission_reviews", "Admission reviews answered.", ("path", "outcome"))
        self._reload_chain = reload_chain
        self._chains = _chains(options.chain, options.hooks)
        self._tls = server_context()
        self._served: Serving | None = None
        self.port = options.port
        self.ready = asyncio.Event()
        """Set while the server listens and the configurations have its address."""

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            UsageError: The address cannot be listened on, or the files of the certificates cannot be read.
        """
        await self._first_certificates()
        options = self._options
        try:
            server = await serve(
                PlainService(self._answer),
                options.host,
                options.port,
                tls=self._tls,
                clock=self._clock,
                grace_seconds=options.graceful_seconds,
            )
        except PortInUse as error:
            raise UsageError(
                f"cannot listen on {options.host or 'any address'}, port {options.port}: "
                f"{error.why}; choose another --port or --listen-address"
            ) from error
        try:
            self.port = server.port
            await self._keep()
        finally:
            self.ready.clear()
            await server.stop()

    async def _first_certificates(self) -> None:
        """Load certificates; wait for a cluster that is not up yet."""
        while True:
            try:
                self._load(await self._certificates.current())
            except ApiError as error:
                _log.warning("no certificates yet: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                return

    async def _keep(self) -> None:
        """Publish the configurations, then check periodically whether something must be renewed."""
        while True:
            try:
                await self._refresh()
            except ApiError as error:
                _log.warning("webhook configurations not written: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                if not self.ready.is_set():
                    _log.info("webhook ready: port=%d services=%d", self.port, len(self._chains))
                    self.ready.set()
                await self._clock.sleep(self._options.refresh_seconds)

    async def _refresh(self) -> None:
        """Publish the CA bundle before serving a renewed certificate, which API servers do not trust until then."""
        chain = self._reload_chain() if self._reload_chain is not None else None
        if chain is not None:
            self._chains = _chains(chain, self._options.hooks)
        serving = await self._certificates.current()
        options = self._options
        await publish(self._cluster, configurations(options.hooks, options.endpoint, serving.ca_bundle))
        self._load(serving)

    def _load(self, serving: Serving) -> None:
        """Use a certificate for new connections."""
        if serving == self._served:
            return
        try:
            load_pair(self._tls, serving.pair.certificate, serving.pair.private_key)
        except ssl.SSLError as error:
            raise UsageError(f"the webhook's certificate and key cannot be used: {one_line(error)}") from error
        self._served = serving

    async def _answer(self, request: Request) -> Response:
        if request.path in ("/healthz", "/livez"):
            return text("ok")
        if request.path == "/readyz":
            return text("ok") if self.ready.is_set() else text("the configurations are not written", 503)
        service = SERVICES.get(request.path)
        if service is None or request.path not in self._chains:
            return text(f"no admission service at {request.path}\n", 404)
        if request.method != "POST":
            return text("admission services take POST\n", 405)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return text("")
        outcome, body = await self._review(service, request.body)
        self._reviews.labels(service.path, outcome).inc()
        return text(body.decode(), 400) if outcome == "malformed" else Response(200, body)

    async def _review(self, service: WebhookService, body: bytes) -> tuple[str, bytes]:
        """Return the outcome of a request, for metrics, and the body of the response."""
        try:
            review = read_review(body)
        except BadRequest as error:
            return "malformed", f"{error}\n".encode()
        chain = self._chains[service.path]
        try:
            reader = await self._reads.reader(service, review, fresh=False)
            verdict = answer(service, chain, review, reader)
            if not verdict["response"]["allowed"] and not reader.fresh:
                reader = await self._reads.reader(service, review, fresh=True)
                verdict = answer(service, chain, review, reader)
        except ApiError as error:
            _log.warning("admission could not look up what it needs: path=%s: %s", service.path, error)
            return "unavailable", msgspec.json.encode(denial(review.uid, f"cannot look up what is needed: {error}"))
        outcome = "allowed" if verdict["response"]["allowed"] else "denied"
        if outcome == "denied":
            _log.info("denied: path=%s object=%s/%s", service.path, review.namespace, review.name)
        return outcome, msgspec.json.encode(verdict)


def _chains(options: ChainOptions, hooks: Hooks) -> dict[str, Chain]:
    """Return one chain per service, with its rules alone."""
    return {
        service.path: Chain(replace(options, enabled=frozenset({service.path}), built_in_plugins=False))
        for service in hooks.services
    }
