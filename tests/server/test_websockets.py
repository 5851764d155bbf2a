"""WebSockets over real sockets, asked for by somebody else's client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from strato.api.wire import User
from strato.clock import SystemClock
from strato.errors import BadRequest
from strato.http import listen
from strato.http.client import Origin
from strato.http.upgrade import UpgradeRefused, over_websocket, websocket_headers
from strato.http.websocket import WebSocket
from strato.server import http
from strato.server.audit.log import AuditLog
from strato.server.audit.policy import load
from strato.server.audit.service import AuditedService, Auditor, decode
from strato.server.embedded import in_memory_server
from tests.http.websockets import message
from tests.server.asking import ADMIN, Client
from tests.server.rest.test_streams import PODS, World

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def world() -> World:
    found = World(in_memory_server(SystemClock()))
    await found.pod()
    return found


def admin(headers: object, peer: object) -> User:
    return ADMIN


@pytest.fixture
async def served(world: World) -> AsyncIterator[tuple[World, aiohttp.ClientSession, int]]:
    server = await listen.serve(http.create_app(world.server, admin))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield world, session, server.port
    await server.stop()


async def test_a_watch_is_one_text_for_each_event(served: Any) -> None:
    """As fabric8 and others ask for it, with no protocol named."""
    world, session, _ = served
    client = Client(world.server)
    async with session.ws_connect(f"{MAPS}?watch=true") as socket:
        for name in ("a", "b"):
            await client.ask("POST", MAPS, {"metadata": {"name": name}})
        await client.ask("DELETE", f"{MAPS}/a")
        events = [json.loads(await socket.receive_str(timeout=20)) for _ in range(3)]
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_a_watch_that_ends_ends_its_websocket(served: Any) -> None:
    _, session, _ = served
    async with session.ws_connect(f"{MAPS}?watch=true&timeoutSeconds=1") as socket:
        kinds = [one.type async for one in socket]
        assert kinds == []
        assert socket.close_code == 1000


async def test_what_is_no_stream_is_answered_as_ever(served: Any) -> None:
    _, session, _ = served
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(MAPS)
    assert refused.value.status == 200
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect("/api/v1/nothing?watch=true")
    assert refused.value.status == 404
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(f"{MAPS}?watch=true", protocols=["unknown"])
    assert refused.value.status == 400


async def test_an_unknown_client_runs_a_command(served: Any) -> None:
    world, session, _ = served
    path = f"{PODS}/p/exec?command=ls&stdin=1&stdout=1"
    async with session.ws_connect(path, protocols=["v9.channel.k8s.io", "v4.channel.k8s.io"]) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        assert await socket.receive_bytes(timeout=20) == b"\1"
        await socket.send_str("\0typed")  # as the Python client sends text
        while not world.source.process.got:
            await asyncio.sleep(0.01)
        assert world.source.process.got == [b"\0typed"]
        world.source.process.ends(exitCode=0)
        status = await socket.receive_bytes(timeout=20)
        assert json.loads(status[1:])["status"] == "Success"
        assert (await socket.receive(timeout=20)).type == aiohttp.WSMsgType.CLOSE


async def test_our_own_client_gets_what_the_server_says(served: Any) -> None:
    world, _, port = served

    async def ask(path: str) -> str:
        headers = websocket_headers(["v5.channel.k8s.io"])
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())

        async def work(socket: WebSocket, protocol: str) -> str:
            await message(socket)
            return protocol

        request = f"GET {path} HTTP/1.1\r\nhost: h\r\n{lines}\r\n".encode()
        return await over_websocket(Origin("127.0.0.1", port, None), request, headers, work)

    assert await ask(f"{PODS}/p/exec?command=ls&stdout=1") == "v5.channel.k8s.io"
    with pytest.raises(UpgradeRefused) as refused:
        await ask(f"{PODS}/none/exec?command=ls&stdout=1")
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (404, "NotFound")
    while world.server._streams._sessions:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("when", ["with the request", "before the answer"])
async def test_nothing_may_be_sent_before_the_answer(served: Any, when: str) -> None:
    """Whose bytes they are, HTTP's or the WebSocket's, two servers could see differently."""
    world, _, port = served
    gate = asyncio.Event()
    begin = world.source.exec

    async def slow(*arguments: Any) -> Any:
        await gate.wait()
        return await begin(*arguments)

    world.source.exec = slow
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {PODS}/p/exec?command=ls&stdout=1 HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    head += "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    head += "sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n"
    early = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
    writer.write(head.encode() + (early if when == "with the request" else b""))
    if when == "before the answer":
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(early)
        await asyncio.sleep(0.05)
    gate.set()
    answer = await reader.read()
    writer.close()
    assert b" 101 " not in answer
    assert answer.count(b"HTTP/1.1") == (1 if when == "with the request" else 0)
    while world.server._streams._sessions:
        await asyncio.sleep(0.01)


async def test_a_server_that_stops_ends_its_sessions(world: World) -> None:
    server = await listen.serve(http.create_app(world.server, admin))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        socket = await session.ws_connect(f"{PODS}/p/exec?command=ls&stdout=1", protocols=["v5.channel.k8s.io"])
        assert await socket.receive_bytes(timeout=20) == b"\1"
        stopping = asyncio.ensure_future(server.stop())
        last = await socket.receive(timeout=20)
        assert (last.type, last.data) == (aiohttp.WSMsgType.CLOSE, 1001)
        await socket.close()
        await stopping
    async with asyncio.timeout(20):
        while not world.source.process.is_closed:
            await asyncio.sleep(0.01)


async def test_the_audit_log_has_the_beginning_and_the_end(world: World, tmp_path: Path) -> None:
    policy, path = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    clock = SystemClock()
    log = AuditLog(str(path), clock, decode)
    service = AuditedService(http.create_app(world.server, admin), Auditor(load(policy), log, clock, None))
    server = await listen.serve(service)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        socket = await session.ws_connect(f"{PODS}/p/exec?command=ls&stdout=1", protocols=["v5.channel.k8s.io"])
        await socket.close()
        while world.server._streams._sessions:
            await asyncio.sleep(0.01)
    await server.stop()
    await asyncio.to_thread(log.close)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    stages = [(one["stage"], one.get("responseStatus", {}).get("code")) for one in events]
    assert stages == [("RequestReceived", None), ("ResponseStarted", 101), ("ResponseComplete", 101)]
    assert {one["objectRef"]["subresource"] for one in events} == {"exec"}


async def test_a_session_of_a_client_that_has_gone_is_given_back(served: Any) -> None:
    world, _, port = served
    gate = asyncio.Event()
    begin = world.source.exec

    async def slow(*arguments: Any) -> Any:
        await gate.wait()
        return await begin(*arguments)

    world.source.exec = slow
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {PODS}/p/exec?command=ls&stdout=1 HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n".encode()
    )
    while not world.server._streams._sessions:
        await asyncio.sleep(0.01)
    writer.transport.abort()
    await asyncio.sleep(0.05)
    gate.set()
    async with asyncio.timeout(20):
        while world.server._streams._sessions:
            await asyncio.sleep(0.01)
    assert world.source.process.is_closed


async def test_a_client_that_leaves_while_its_input_is_stuck_is_noticed(served: Any) -> None:
    """What it sent is not taken, so the connection is not read, and its end not seen that way."""
    world, session, _ = served
    never = asyncio.Event()

    async def stuck(message: bytes) -> None:
        await never.wait()

    world.source.process.send = stuck
    path = f"{PODS}/p/exec?command=ls&stdin=1&stdout=1"
    socket = await session.ws_connect(path, protocols=["v5.channel.k8s.io"])
    for _ in range(8):
        await socket.send_bytes(bytes(65_000))
    socket._writer.transport.abort()
    async with asyncio.timeout(30):
        while world.server._streams._sessions:
            await asyncio.sleep(0.05)
    assert world.source.process.is_closed


async def test_a_source_that_fails_is_an_answer(served: Any) -> None:
    world, session, _ = served

    async def fail(*_: Any) -> Any:
        raise BadRequest("no such luck")

    world.source.exec = fail
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(f"{PODS}/p/exec?command=ls&stdout=1", protocols=["v5.channel.k8s.io"])
    assert refused.value.status == 400
    assert world.server._streams._sessions == {}
