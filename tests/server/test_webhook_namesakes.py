"""Webhooks whose certificate has its authority's name and names no key, as operators in Go make theirs."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService, text
from strato.http.tls import load_pair, server_context
from strato.server.webhookclient import CallFailed, WebhookClient

from .webhookserver import Json

SECONDS = 20.0

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook.default.svc")])
KEY, AUTHORITY_KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
LIMITED = x509.NameConstraints([x509.DNSName("example.org")], None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server's certificate and the authority that its client trusts."""

    id: str
    signer: ec.EllipticCurvePrivateKey = AUTHORITY_KEY
    host: str = "localhost"
    ends: tuple[int, int] = (1, 1)
    """When the authority and the certificate end, in days from now."""
    is_authority: bool = True
    limited: bool = False
    refused: str = "certificate verify failed"
    """Of the error's message; empty: the certificate is believed."""


CASES = [
    Case(id="its authority has signed it", refused=""),
    Case(id="another one of that name has", signer=OTHER_KEY),
    Case(id="it has signed itself", signer=KEY),
    Case(id="its authority has ended", ends=(-1, 1)),
    Case(id="it has ended itself", ends=(1, -1), refused="certificate has expired"),
    Case(id="it is for another host", host="example.org", refused="Hostname mismatch"),
    Case(id="who signed it is no authority", is_authority=False),
    Case(id="its authority may sign some names alone", limited=True),
]


def certificate(
    key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, days: int, *extensions: x509.ExtensionType
) -> bytes:
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    builder = x509.CertificateBuilder().subject_name(NAME).issuer_name(NAME).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=2)).not_valid_after(now + timedelta(days=days))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def shown(case: Case) -> bytes:
    names = x509.SubjectAlternativeName([x509.DNSName(case.host)])
    return certificate(KEY, case.signer, case.ends[1], x509.BasicConstraints(False, None), names)


def trusted(case: Case) -> bytes:
    basic = x509.BasicConstraints(ca=case.is_authority, path_length=None)
    return certificate(AUTHORITY_KEY, AUTHORITY_KEY, case.ends[0], basic, *[LIMITED] * case.limited)


async def fine(_: Request) -> Response:
    return text("fine")


@contextlib.asynccontextmanager
async def serving(certificate: bytes, port: int = 0) -> AsyncIterator[int]:
    context = server_context()
    load_pair(context, certificate, KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    server = await serve(PlainService(fine), port=port, tls=context)
    try:
        yield server.port
    finally:
        await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    client = WebhookClient(NoObjects())
    yield client
    await client.close()


class NoObjects:
    """A cluster without Services: the webhook is at a URL."""

    def get(self, kind: Kind, namespace: str, name: str) -> None:
        raise AssertionError(kind, namespace, name)

    def list(self, kind: Kind, namespace: str) -> list[Json]:
        raise AssertionError(kind, namespace)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_certificate_with_its_authoritys_name(client: WebhookClient, case: Case) -> None:
    bundle = base64.b64encode(trusted(case)).decode()
    async with serving(shown(case)) as port:
        config = {"url": f"https://localhost:{port}/", "caBundle": bundle}
        for _ in range(2):
            if case.refused:
                with pytest.raises(CallFailed, match=case.refused):
                    await client.post(config, b"{}", SECONDS)
            else:
                assert await client.post(config, b"{}", SECONDS) == b"fine"
    if not case.refused:  # it is renewed
        async with serving(shown(case), port):
            assert await client.post(config, b"{}", SECONDS) == b"fine"
        async with serving(shown(replace(case, signer=OTHER_KEY)), port):
            with pytest.raises(CallFailed, match="certificate verify failed"):
                await client.post(config, b"{}", SECONDS)
