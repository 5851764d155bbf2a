"""The webhook's certificates: it makes them itself, keeps them in a Secret all replicas share, and renews them early.

The serving certificate is renewed when a third of its year is left, its authority (ten years) when a year is left.
``ca.crt`` is the bundle to publish: the authority in use first, its predecessor behind it, so that API servers trust
replicas with the old and with the new certificate.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from strato.admission.request import Json
from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists, Conflict, NotFound, Unavailable, UsageError
from strato.pki import Authority, KeyPair

_log = logging.getLogger(__name__)

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Serving:
    """A server's certificate and key, and the authorities its clients must trust."""

    pair: KeyPair
    ca_bundle: bytes


class Certificates(Protocol):
    """Source of the certificates."""

    async def current(self) -> Serving:
        """Return the certificate to serve now, renewed first if that is due.

        Raises:
            ApiError: The cluster did not answer.
            UsageError: A file cannot be read.
        """


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long certificates last, in days."""

    authority: float = 3650
    authority_left: float = 365
    """The authority is replaced when it has less left."""
    serving: float = 365
    serving_left: float = 120
    """The serving certificate is replaced when it has less left."""


class FileCertificates:
    """Certificates made and renewed elsewhere, for example by cert-manager; read anew every time."""

    def __init__(self, certificate: Path, private_key: Path, ca: Path) -> None:
        self._paths = (certificate, private_key, ca)

    async def current(self) -> Serving:
        """Read the files.

        Raises:
            UsageError: One cannot be read.
        """
        try:
            certificate, key, ca = (path.read_bytes() for path in self._paths)
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}; needed to serve the webhook") from error
        return Serving(KeyPair(certificate, key), ca)


class SecretCertificates:
    """Certificates of our own, in a Secret."""

    def __init__(self, cluster: Cluster, clock: Clock, *, namespace: str, name: str, hosts: Sequence[str]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._hosts = tuple(hosts)

    async def current(self) -> Serving:
        """Read the Secret; make or renew certificates that are missing, invalid or expire soon.

        Several replicas may do that at once: the first write wins, and the others read its result.
        """
        for _ in range(_ATTEMPTS):
            try:
                secret: Json | None = await self._cluster.get(catalog.SECRET, self._name, self._namespace)
            except NotFound:
                secret = None
            data = _data(secret)
            renewed = renew(data, self._hosts, self._clock.now(), Lifetimes())
            if renewed == data:
                return _serving(data)
            try:
                await self._write(secret, renewed)
            except (AlreadyExists, Conflict, NotFound):
                continue
            _log.info("certificates written: secret=%s/%s", self._namespace, self._name)
            return _serving(renewed)
        raise Unavailable(f"secret {self._namespace}/{self._name} changes again and again; somebody else writes it")

    async def _write(self, secret: Json | None, data: dict[str, bytes]) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if secret is not None:
            await self._cluster.replace(catalog.SECRET, {**secret, "data": {**(secret.get("data") or {}), **encoded}})
            return
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "type": "kubernetes.io/tls",
            "data": encoded,
        }
        await self._cluster.create(catalog.SECRET, body, self._namespace)


def renew(data: dict[str, bytes], hosts: Sequence[str], now_seconds: float, lifetimes: Lifetimes) -> dict[str, bytes]:
    """Return the Secret's data as it should be now; equal to ``data`` when nothing is due. Pure but for new keys."""
    bundle = data.get("ca.crt", b"")
    try:
        authority = Authority.from_pem(bundle, data.get("ca.key", b""))
    except (ValueError, TypeError):
        authority, bundle = None, b""
    if authority is None or not authority.lasts(now_seconds=now_seconds, days=lifetimes.authority_left):
        authority = Authority.make("strato-webhook-ca", now_seconds=now_seconds, days=lifetimes.authority)
        bundle = authority.pair.certificate + _first(bundle)
    serving = KeyPair(data.get("tls.crt", b""), data.get("tls.key", b""))
    if not authority.vouches_for(serving, hosts, now_seconds=now_seconds, days=lifetimes.serving_left):
        serving = authority.server(hosts[0][:64], hosts, now_seconds=now_seconds, days=lifetimes.serving)
    return {
        "ca.crt": bundle,
        "ca.key": data["ca.key"] if bundle == data.get("ca.crt") else authority.pair.private_key,
        "tls.crt": serving.certificate,
        "tls.key": serving.private_key,
    }


def _first(bundle: bytes) -> bytes:
    """Return only the first certificate of a bundle: one predecessor is enough."""
    return x509.load_pem_x509_certificate(bundle).public_bytes(Encoding.PEM) if bundle else b""


def _data(secret: Json | None) -> dict[str, bytes]:
    found = (secret or {}).get("data") or {}
    return {key: base64.b64decode(found[key]) for key in ("ca.crt", "ca.key", "tls.crt", "tls.key") if found.get(key)}


def _serving(data: dict[str, bytes]) -> Serving:
    return Serving(KeyPair(data["tls.crt"], data["tls.key"]), data["ca.crt"])
