"""HTTP over real sockets: bodies, errors, streams that end with their readers, TLS identities."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from strato.api.wire import Handler, Request, Response, User
from strato.clock import SystemClock
from strato.errors import Unauthorized
from strato.http import listen
from strato.http.tls import server_context
from strato.metrics import Registry
from strato.server import bootstrap, http
from strato.server.auth.ca import CertificateAuthority
from strato.server.auth.identity import Authenticator
from strato.server.auth.tokens import Tokens
from tests.http.badrequests import wrongly_answered


class Core(Handler):
    """A core that echoes who asked for what, and streams without end."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def handle(self, request: Request) -> Response:
        if request.path == "/api/watch":
            return Response(200, stream=self._stream())
        if request.path == "/api/big":
            return Response(200, b"x" * 500_000)
        if request.path.startswith("/api/plain/"):
            return Response(200, b"x" * int(request.path.rpartition("/")[2]))
        if request.path == "/api/bug":
            raise RuntimeError("boom")
        assert request.user is not None
        body = {"path": request.path, "query": request.query, "size": len(request.body), "user": request.user.name}
        return Response(200, json.dumps(body).encode(), headers={"Warning": '299 - "a"\n299 - "b"'})

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            self.closed.set()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Core, listen.HttpServer, aiohttp.ClientSession]]:
    core = Core()

    def authenticate(headers: object, scope: object) -> User:
        if "authorization" in headers:  # type: ignore[operator]  # the protocol says mapping
            raise Unauthorized("Unauthorized")
        return User("u")

    server = await listen.serve(http.create_app(core, authenticate, Registry()))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield core, server, session
    await server.stop()


async def test_request_reaches_the_core_decoded(served) -> None:
    _, _, session = served
    async with session.post("/api/a%20b?x=1&x=2&e=", data=b"12345") as answer:
        assert await answer.json() == {
            "path": "/api/a b",
            "query": {"x": ["1", "2"], "e": [""]},
            "size": 5,
            "user": "u",
        }
        assert answer.headers.getall("Warning") == ['299 - "a"', '299 - "b"']


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
async def test_too_large_a_body_is_413(served, chunked: bool) -> None:
    _, _, session = served
    body = b"x" * (http.MAX_BODY_BYTES + 1)

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    async with session.post("/api/x", data=pieces() if chunked else io.BytesIO(body)) as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"


async def test_compressed_bodies_are_read_and_big_answers_compressed(served) -> None:
    _, _, session = served
    async with session.post("/api/x", data=gzip.compress(b"12345"), headers={"Content-Encoding": "gzip"}) as answer:
        assert (await answer.json())["size"] == 5
    async with session.get("/api/big", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(await answer.read()) == 500_000


async def test_pipelined_requests_are_answered_in_order_each_with_its_head(served) -> None:
    _, server, _ = served
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    asked = [
        b"HEAD /a",
        b"GET /b",
        b"GET /api/plain/3",
        b"GET /api/plain/4",
        b"HEAD /api/big",
        b"GET /api/big",
        b"GET /api/bug",
        b"GET /c",
    ]
    heads = [b"%s HTTP/1.1\r\nHost: h\r\n\r\n" % one for one in asked[:-1]]
    writer.write(b"".join(heads) + asked[-1] + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    answers = []
    for one in asked:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        body = b"" if one.startswith(b"HEAD") else await reader.readexactly(size)
        answers.append((head[9:12], size > 100_000, body[:12]))
    assert answers == [
        (b"200", False, b""),
        (b"200", False, b'{"path": "/b'),
        (b"200", False, b"xxx"),
        (b"200", False, b"xxxx"),
        (b"200", True, b""),
        (b"200", True, b"x" * 12),
        (b"500", False, b'{"kind":"Sta'),
        (b"200", False, b'{"path": "/c'),
    ]
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("size", [0, 2, 100_000], ids=["empty", "small", "large"])
async def test_an_answer_reads_the_same_whether_written_at_once_or_not(served, size: int) -> None:
    _, server, _ = served

    async def ask(more: bytes) -> tuple[list[bytes], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /api/plain/%d HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n%b\r\n{}" % (size, more))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 100 " in head:
            head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()
        return [line for line in head.split(b"\r\n") if not line.startswith((b"date:", b"connection:"))], body

    kept = await ask(b"")
    assert kept == await ask(b"Connection: close\r\n") == await ask(b"Expect: 100-continue\r\n")
    assert kept[0][0] == b"HTTP/1.1 200 OK"
    assert sorted(kept[0][1:]) == [b"", b"", b"content-length: %d" % size, b"content-type: application/json"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [("/api/bug", {}, 500), ("/api/x", {"Authorization": "Bearer x"}, 401)],
)
async def test_errors_are_status_objects(served, path: str, headers: dict[str, str], status: int) -> None:
    _, _, session = served
    async with session.get(path, headers=headers) as answer:
        assert (answer.status, (await answer.json())["kind"]) == (status, "Status")


async def test_health_and_metrics(served) -> None:
    _, _, session = served
    for path in ("/healthz", "/livez", "/readyz"):
        async with session.get(path) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
    async with session.get("/metrics") as answer:
        assert answer.status == 200


async def test_not_ready_names_what_is_missing() -> None:
    server = await listen.serve(
        http.create_app(
            Core(), lambda headers, scope: User("u"), ready=lambda: {"journal": "disk is full", "queues": ""}
        )
    )
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session, session.get("/readyz") as answer:
        assert answer.status == 500
        lines = ["[+]ping ok", "[-]journal failed: disk is full", "[+]queues ok", "readyz check failed", ""]
        assert (await answer.text()).split("\n") == lines
    await server.stop()


async def test_a_vanished_reader_frees_its_stream(served) -> None:
    core, _, session = served
    answer = await session.get("/api/watch")
    assert await answer.content.readline() == b"first\n"
    answer.close()
    await core.closed.wait()


async def test_stop_ends_streams_cleanly(served) -> None:
    core, server, session = served
    answer = await session.get("/api/watch")
    assert await answer.content.readline() == b"first\n"
    await server.stop()
    assert await answer.content.read() == b""
    assert core.closed.is_set()


async def test_a_taken_port_is_said() -> None:
    first = listen.bind("127.0.0.1", 0)
    first.listen()
    with pytest.raises(listen.PortInUse, match="choose another"):
        listen.bind("127.0.0.1", first.getsockname()[1])
    first.close()


async def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(listen.PortInUse, match=r"cannot listen on 192\.0\.2\.1:0: .*; choose another --host"):
        listen.bind("192.0.2.1", 0)


async def test_tls_with_token_and_with_client_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, SystemClock())
    certificate, key = authority.server_files()
    tokens = Tokens()
    tokens.ensure(bootstrap.IDENTITIES)
    server = await listen.serve(
        http.create_app(Core(), Authenticator(tokens, authority)),
        tls=server_context(certificate, key, client_ca=authority.certificate_path),
    )
    pair = authority.client(User("jane", ("dev",)))
    (tmp_path / "jane.crt").write_bytes(pair.certificate)
    (tmp_path / "jane.key").write_bytes(pair.private_key)
    plain = ssl.create_default_context(cafile=str(authority.certificate_path))
    known = ssl.create_default_context(cafile=str(authority.certificate_path))
    known.load_cert_chain(tmp_path / "jane.crt", tmp_path / "jane.key")
    token = {"Authorization": f"Bearer {tokens.token('strato:view')}"}
    cases = [(plain, {}, "system:anonymous"), (plain, token, "strato:view"), (known, {}, "jane")]
    for context, headers, want in cases:
        async with (
            aiohttp.ClientSession(f"https://localhost:{server.port}", headers=headers) as session,
            session.get("/api/x", ssl=context) as answer,
        ):
            assert (await answer.json())["user"] == want
    await server.stop()


async def test_bad_requests_are_refused_over_a_socket(served) -> None:
    _, server, _ = served
    assert await wrongly_answered(server.port) == []
