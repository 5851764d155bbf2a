"""Requests to other people's servers, over real sockets: what is sent, what is believed, and what is not waited for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.errors import UsageError
from strato.http.client import BadAnswer, Unsendable
from strato.http.fetch import Fetched, fetch
from strato.http.listen import serve
from strato.http.plain import PlainService, text
from strato.http.tls import client_context, load_pair, server_context
from strato.pki import Authority

LIMIT = 1000


@contextlib.asynccontextmanager
async def serving(handle: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[str]:
    server = await serve(PlainService(handle))
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def told(request: Request) -> Response:
    said = {name: request.headers.get(name) for name in ("authorization", "accept", "x-a", "content-length")}
    return text(f"{request.method} {request.path} {dict(request.query)} {said} {request.body.decode()}")


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("", "GET / {}", id="no path"),
        pytest.param("/a b?x=1&y=é", "GET /a b {'x': ['1'], 'y': ['é']}", id="what has to be quoted"),
        pytest.param("/a%2Fb#part", "GET /a/b {}", id="what is quoted, and a part of a page"),
    ],
)
async def test_the_path_arrives(path: str, want: str) -> None:
    async with serving(told) as place:
        assert (await fetch(f"http://{place}{path}", limit_bytes=LIMIT)).body.decode().startswith(want)


async def test_bodies_headers_and_a_password_in_the_url_are_sent() -> None:
    async with serving(told) as place:
        answer = await fetch(
            f"http://u:p%40@{place}/",
            "POST",
            headers=[("X-A", "1"), ("accept", "b/c")],
            body=b"hello",
            limit_bytes=LIMIT,
        )
    basic = "Basic " + base64.b64encode(b"u:p@").decode()
    said = {"authorization": basic, "accept": "b/c", "x-a": "1", "content-length": "5"}
    assert answer == Fetched(200, f"POST / {{}} {said} hello".encode())


@pytest.mark.parametrize("url", ["/no/host", "ftp://a/", "http://", "http://a:b/", "http://[a/", "http://a..b/"])
async def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(Unsendable):
        await fetch(url, limit_bytes=LIMIT)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb"])
async def test_a_header_cannot_become_two(value: str) -> None:
    with pytest.raises(Unsendable, match="the header x cannot be sent"):
        await fetch("http://127.0.0.1:1/", headers=[("x", value)], limit_bytes=LIMIT)


@pytest.mark.parametrize(
    ("status", "method", "follows"),
    [(301, "GET", True), (303, "GET", True), (308, "GET", True), (307, "POST", True), (302, "POST", False)],
)
async def test_a_redirect_is_followed_where_the_request_stays_the_same(status: int, method: str, follows: bool) -> None:
    async def handle(request: Request) -> Response:
        if request.path == "/old":
            return Response(status, headers={"Location": "/new?x=1"})
        return await told(request)

    body = b"hello" if method == "POST" else b""
    async with serving(handle) as place:
        answer = await fetch(
            f"http://{place}/old", method, headers=[("Authorization", "x")], body=body, limit_bytes=LIMIT
        )
    assert answer.status == (200 if follows else status)
    if follows:
        assert answer.body.startswith(f"{method} /new {{'x': ['1']}} {{'authorization': 'x'".encode())
        assert answer.body.endswith(body)


async def test_credentials_stay_with_the_server_they_are_for() -> None:
    async with serving(told) as other:

        async def elsewhere(request: Request) -> Response:
            return Response(307, headers={"Location": f"http://{other}/"})

        async with serving(elsewhere) as place:
            answer = await fetch(f"http://{place}/", headers=[("Authorization", "x"), ("X-A", "1")], limit_bytes=LIMIT)
    assert b"'authorization': None" in answer.body
    assert b"'x-a': '1'" in answer.body


async def test_redirects_in_a_circle_end() -> None:
    async def around(request: Request) -> Response:
        return Response(302, headers={"Location": request.path})

    async with serving(around) as place:
        with pytest.raises(BadAnswer, match="redirects more than"):
            await fetch(f"http://{place}/", limit_bytes=LIMIT)


@pytest.mark.parametrize(("size", "fits"), [(LIMIT, True), (LIMIT + 1, False)])
async def test_an_answer_has_a_largest_size(size: int, fits: bool) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, bytes(size))

    async with serving(handle) as place:
        if fits:
            assert await fetch(f"http://{place}/", limit_bytes=LIMIT) == Fetched(200, bytes(size))
        else:
            with pytest.raises(BadAnswer, match="longer than 1000 bytes"):
                await fetch(f"http://{place}/", limit_bytes=LIMIT)


@contextlib.asynccontextmanager
async def sending(start: bytes, piece: bytes) -> AsyncIterator[str]:
    """Answer with a start and then the same again and again, for as long as it is taken."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(start)
            for number in itertools.count():
                writer.write(piece.replace(b"#", b"%d" % number))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(OK, b"x-#: " + b"y" * 10_000 + b"\r\n", id="headers"),
        pytest.param(OK + b"x: ", b"y" * 10_000, id="a header"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, id="interim answers"),
        pytest.param(
            OK + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x-#: " + b"y" * 10_000 + b"\r\n", id="trailers"
        ),
        pytest.param(OK + b"transfer-encoding: chunked\r\n\r\n1;", b"x" * 10_000, id="an extension of a chunk"),
        pytest.param(OK + b"\r\n", b"x" * 10_000, id="a body"),
    ],
)
async def test_an_answer_without_end_is_given_up(start: bytes, piece: bytes) -> None:
    async with sending(start, piece) as url:
        with pytest.raises(BadAnswer, match="longer than"):
            await fetch(url, limit_bytes=LIMIT, seconds=20)


async def test_an_answer_has_a_deadline_from_the_first_byte_to_the_last() -> None:
    late = pytest.raises(TimeoutError, match=r"did not end its answer within 0\.1 s")
    with socket.create_server(("127.0.0.1", 0)) as silent, late:
        await fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/", limit_bytes=LIMIT, seconds=0.1)


async def test_certificates_are_checked_unless_nobodys_are() -> None:
    now = SystemClock().now()
    authority = Authority.make("test", now_seconds=now, days=1)
    pair = authority.server("x", ["127.0.0.1"], now_seconds=now, days=1)
    tls = server_context()
    load_pair(tls, pair.certificate, pair.private_key)
    server = await serve(PlainService(told), tls=tls)
    url = f"https://127.0.0.1:{server.port}/"
    try:
        for context in (client_context(ca=authority.pair.certificate), client_context(insecure=True)):
            assert (await fetch(url, tls=context, limit_bytes=LIMIT)).status == 200
        with pytest.raises(OSError, match="certificate verify failed"):
            await fetch(url, limit_bytes=LIMIT)
    finally:
        await server.stop()
    with pytest.raises(UsageError, match="the certificate authority of y is not PEM"):
        client_context("y", ca=b"junk")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
async def test_an_empty_host_is_every_address_of_both_families(family: socket.AddressFamily) -> None:
    """As with Go's servers: a cluster of either family reaches the port."""
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    peers = []

    async def handle(request: Request) -> Response:
        peers.append(request.user)
        return text("ok")

    server = await serve(PlainService(handle), "")
    host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
    try:
        assert await fetch(f"http://{host}:{server.port}/", limit_bytes=LIMIT) == Fetched(200, b"ok")
    finally:
        await server.stop()
    assert [peer and peer.name for peer in peers] == [host.strip("[]")]
