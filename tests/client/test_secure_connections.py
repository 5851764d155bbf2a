"""The HTTP client over TLS, against a real server with a certificate of its own authority."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strato.client.config import Certificate, ClusterConfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.errors import Unavailable
from strato.pki import Authority
from tests.client.test_connections import Peer, Scripted, forever

NOW = SystemClock().now()
AUTHORITY = Authority.make("ours", now_seconds=NOW, days=1)
CA = AUTHORITY.pair.certificate


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Scripted]:
    """A server known as ``inside.test`` that asks clients for certificates."""
    pair = AUTHORITY.server("server", ["inside.test"], now_seconds=NOW, days=1)
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    context.load_verify_locations(cadata=CA.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    scripted = Scripted()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, ssl=context)
    scripted.address = listening.sockets[0].getsockname()  # type: ignore[attr-defined]  # for `client_of`
    async with listening:
        yield scripted


def client_of(server: Scripted, **options: object) -> HttpCluster:
    host, port = server.address  # type: ignore[attr-defined]  # see above
    config = ClusterConfig(server=f"https://{host}:{port}", **options)  # type: ignore[arg-type]  # a test's options
    return HttpCluster(config, SystemClock())


async def test_requests_share_a_connection_whose_name_was_checked(server: Scripted) -> None:
    server.scripts = [forever]
    client = client_of(server, ca=CA, tls_server_name="inside.test")
    for _ in range(3):
        assert await client.raw("POST", "/", body=b"{}") == b"{}"
    assert server.connections == 1
    await client.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"ca": CA}, id="another name than the certificate's"),
        pytest.param(
            {"ca": Authority.make("other", now_seconds=NOW, days=1).pair.certificate, "tls_server_name": "inside.test"},
            id="another authority's",
        ),
    ],
)
async def test_server_that_cannot_show_who_it_is_gets_no_request(server: Scripted, options: dict[str, object]) -> None:
    server.scripts = [forever]
    client = client_of(server, **options)
    with pytest.raises(Unavailable, match="certificate verify failed"):
        await client.raw("GET", "/")
    await client.close()


async def test_certificate_of_the_client_is_shown(server: Scripted) -> None:
    names = []

    async def note(peer: Peer) -> None:
        shown = peer.writer.get_extra_info("peercert")
        names.append(shown and dict(part[0] for part in shown["subject"])["commonName"])
        await forever(peer)

    server.scripts = [note]
    jane = AUTHORITY.client("jane", [], now_seconds=NOW, days=1)
    for certificate in (None, Certificate(jane.certificate, jane.private_key)):
        client = client_of(server, ca=CA, tls_server_name="inside.test", certificate=certificate)
        await client.raw("GET", "/")
        await client.close()
    assert names == [{}, "jane"] or names == [None, "jane"]


async def test_slow_reader_of_a_stream_gets_all_of_it(server: Scripted) -> None:
    size = 6 << 20

    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        await forever(peer)

    server.scripts = [script]
    client = client_of(server, insecure_skip_tls_verify=True)
    seen = 0
    async for chunk in client.stream("/"):
        seen += len(chunk)
        for _ in range(5):
            await asyncio.sleep(0)
    assert seen == size
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 1
    await client.close()


async def test_connection_cut_in_the_middle_of_an_answer_is_no_answer(server: Scripted) -> None:
    async def cut(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")
        peer.writer.transport.abort()

    server.scripts = [cut]
    client = client_of(server, insecure_skip_tls_verify=True)
    with pytest.raises(Unavailable):
        await client.raw("GET", "/")
    assert server.connections == 1
    await client.close()
