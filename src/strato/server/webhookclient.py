"""Call admission and conversion webhooks by their ``clientConfig``: a Service of the cluster, or a URL.

A webhook may be hostile: the answer is bounded in size and time, redirects are not followed, the concurrent calls of
one webhook and of all are limited, and a call that would wait behind too many others is refused.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.clock import SystemClock
from strato.errors import StratoError, TooManyRequests, UsageError, one_line
from strato.http.client import Disconnected, Origin, Unsendable, connect
from strato.http.fetch import limited, message
from strato.http.parser import MAX_BODY_BYTES
from strato.http.pool import ConnectionPool
from strato.http.tls import client_context
from strato.pki import pem_if_issued

ANSWER_BYTES = 2 * MAX_BODY_BYTES
"""The largest answer that is read; a patch in base64 may be larger than the object."""
CALLS_OF_ONE = 16
"""Most concurrent calls of one webhook; others wait, and the wait counts towards their timeout."""
CALLS_MAX = 512
"""Most calls under way or waiting, of all webhooks; more are refused with `TooManyRequests`."""
_POOLS_MAX = 64
"""Most webhooks whose connections are kept open."""
_SELF_SIGNED = 18
"""OpenSSL's code for a certificate that it takes for self-signed: X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT."""
_HEADERS = (("Content-Type", "application/json"), ("Accept", "application/json"), ("Connection", "keep-alive"))


class CallFailed(StratoError):
    """A webhook gave no usable answer; the message is that of kube-apiserver's client."""


class Reader(Protocol):
    """Looks up Services and their endpoints."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object or None."""

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind in a namespace."""


class _Place(NamedTuple):
    """Where a webhook is, and how to verify its certificate."""

    host: str
    port: int
    name: str
    """The name expected in its certificate."""
    bundle: bytes
    """CA certificates to trust, PEM; empty trusts the system's."""


class WebhookClient:
    """Calls webhooks over pooled connections."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._calls = 0
        self._pools: OrderedDict[_Place, ConnectionPool] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        """Close all connections; calls under way fail."""
        while self._pools:
            await self._pools.popitem()[1].close()

    async def post(self, config: Mapping[str, Any], body: bytes, seconds: float) -> bytes:
        """Post a review to the webhook that a ``clientConfig`` names and return the body of its answer.

        Args:
            config: ``service`` (namespace, name, path, port) or ``url``, and ``caBundle``.
            body: JSON.
            seconds: Timeout of the whole call; sent to the webhook too.

        Raises:
            CallFailed: There is no complete answer with status 200 in time.
            TooManyRequests: Too many calls are waiting already.
        """
        if self._calls >= CALLS_MAX:
            raise TooManyRequests(
                f"{CALLS_MAX} calls of webhooks are under way; try again later", retry_after_seconds=1
            )
        self._calls += 1
        url = str(config.get("url") or _service_url(config.get("service") or {}))
        url += f"{'&' if '?' in url else '?'}timeout={seconds:g}s"
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._asked(config, url, body)
        except TimeoutError as error:
            raise CallFailed(f'Post "{url}": context deadline exceeded: no answer within {seconds:g} s') from error
        except (OSError, UsageError, UnicodeError) as error:
            raise CallFailed(f'Post "{url}": {one_line(error)}') from error
        finally:
            self._calls -= 1
        if status != 200:
            what = "redirects are not followed" if 300 <= status < 400 else "the server rejected our request"
            raise CallFailed(f'Post "{url}": {what}: unexpected status {status}')
        return answer

    async def _asked(self, config: Mapping[str, Any], url: str, body: bytes) -> tuple[int, bytes]:
        asked = message(url, "POST", headers=_HEADERS, body=body)
        if not asked.secure:
            raise Unsendable("a webhook is called over https:// alone")
        service = config.get("service")
        host, port = self._address(service) if service else (asked.host, asked.port)
        place = _Place(host, port, asked.host, _bundle(config))
        pool = await self._pool(place)
        try:
            return await _exchanged(pool, asked.data, fresh=False)
        except Disconnected:  # the server had closed the idle connection
            return await _exchanged(pool, asked.data, fresh=True)
        except ssl.SSLCertVerificationError as error:
            namesake = await _namesake(place) if error.verify_code == _SELF_SIGNED else None
            if namesake is None:
                raise
            self._pools.pop(place, pool).retire()
            return await _exchanged(await self._pool(place, namesake), asked.data, fresh=False)

    async def _pool(self, place: _Place, trusted: bytes = b"") -> ConnectionPool:
        """Return the pool of connections to a webhook; pools of an event loop that has ended are dropped.

        Args:
            place: The webhook.
            trusted: The only certificate to trust, PEM, instead of every one that its authorities have signed.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._pools.clear()
        pool = self._pools.get(place)
        if pool is None:
            ca = trusted or place.bundle or None
            tls = await asyncio.to_thread(client_context, place.name, ca=ca)  # may read files
            pool = self._pools.get(place) or ConnectionPool(
                Origin(place.host, place.port, tls, place.name), CALLS_OF_ONE
            )
            self._pools[place] = pool
            while len(self._pools) > _POOLS_MAX:
                self._pools.popitem(last=False)[1].retire()
        self._pools.move_to_end(place)
        return pool

    def _address(self, service: Mapping[str, Any]) -> tuple[str, int]:
        """Return the host and port of a Service's pods on this machine."""
        namespace, name, port = service["namespace"], service["name"], service.get("port") or 443
        found = self._reader.get(catalog.SERVICE, namespace, name)
        if found is None:
            raise OSError(f'service "{name}" not found')
        spec = found.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName")), port
        wanted = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if wanted is None:
            raise OSError(f'no service port {port} found for service "{name}"')
        for part in self._reader.list(catalog.ENDPOINTSLICE, namespace):
            if (part["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
                continue
            ports = [one for one in part.get("ports") or () if (one.get("name") or "") == (wanted.get("name") or "")]
            for endpoint in part.get("endpoints") or ():
                addresses = endpoint.get("addresses")
                if ports and addresses and (endpoint.get("conditions") or {}).get("ready") is not False:
                    return str(addresses[0]), int(ports[0].get("port") or port)
        raise OSError(f'no endpoints available for service "{name}"')


async def _exchanged(pool: ConnectionPool, data: bytes, *, fresh: bool) -> tuple[int, bytes]:
    connection = await pool.take(fresh=fresh)
    try:
        answer = await connection.ask(data, None, stream=True)
        return answer.status, await limited(answer, ANSWER_BYTES)
    except BaseException:
        connection.abort()
        raise
    finally:
        pool.release(connection)


async def _namesake(place: _Place) -> bytes | None:
    """Return the certificate that a webhook presents, PEM, if one of its authorities has signed it; else None.

    Operators written in Go often give the certificate and its authority the same name, and no authority key id.
    OpenSSL then takes the certificate for self-signed and looks for no authority. So the caller verifies it in a
    context that trusts this certificate alone, which still checks dates, purpose and the server's name.
    """
    try:
        connection = await connect(Origin(place.host, place.port, client_context(insecure=True), place.name))
    except OSError:
        return None  # the caller reports the error of its first attempt, which says more
    shown = connection.certificate
    connection.abort()
    # the system's clock, which OpenSSL uses for all other certificates
    return pem_if_issued(shown, place.bundle, now_seconds=SystemClock().now())


def _service_url(service: Mapping[str, Any]) -> str:
    """Return the URL whose host the certificate of a Service's pods must name."""
    path = "/" + str(service.get("path") or "").lstrip("/")
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}{path}"


def _bundle(config: Mapping[str, Any]) -> bytes:
    """Return the CA certificates to trust, PEM; empty for the system's.

    Raises:
        OSError: ``caBundle`` is not base64.
    """
    try:
        return base64.b64decode(config.get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ssl.SSLError(f"caBundle is not base64: {error}") from error
