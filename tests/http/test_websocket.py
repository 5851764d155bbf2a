"""Frames of WebSockets: messages in parts, ends, pings, nonsense, and ends that do not read."""

from __future__ import annotations

import asyncio
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import BadRequest
from strato.http import websocket
from strato.http.websocket import WebSocket, accept, accept_key, first_of
from tests.http.websockets import MemoryWire, join, message

ASKED = {
    "upgrade": "websocket",
    "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "v6.channel, v5.channel",
}


def masked(opcode: int, payload: bytes, *, fin: bool = True, length: int | None = None) -> bytes:
    """A client's frame, its length as claimed."""
    size = len(payload) if length is None else length
    key = b"\1\2\3\4"
    coded = bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))
    short = size if size < 126 else 126 if size < 65536 else 127
    longer = {126: struct.pack(">H", size & 0xFFFF), 127: struct.pack(">Q", size)}.get(short, b"")
    return bytes((opcode | (0x80 if fin else 0), 0x80 | short)) + longer + key + coded


async def hold(_: WebSocket) -> None:
    await asyncio.Event().wait()


def test_the_key_of_the_standard_has_the_answer_of_the_standard() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_the_first_protocol_of_the_client_that_is_known_is_chosen() -> None:
    headers, protocol = accept(ASKED, ("v4.channel", "v5.channel"))
    assert protocol == headers["sec-websocket-protocol"] == "v5.channel"
    assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    "change",
    [
        {"upgrade": "h2c"},
        {"connection": "keep-alive"},
        {"sec-websocket-version": "8"},
        {"sec-websocket-key": "short"},
        {"sec-websocket-key": "%%%"},
        {"sec-websocket-protocol": "v9.channel"},
        {"sec-websocket-protocol": ""},
    ],
)
def test_what_is_no_request_for_it_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        accept({**ASKED, **change}, ("v5.channel",))


async def test_messages_arrive_whole_and_in_order_both_ways() -> None:
    texts = [b"", b"a", os.urandom(70_000), b"end"]

    async def echo(socket: WebSocket) -> None:
        while (data := await message(socket)) is not None:
            await socket.send(data)

    got = []

    async def ask(socket: WebSocket) -> None:
        for text in texts:
            await socket.send(text)
            got.append(await message(socket))

    server, client = WebSocket(echo), WebSocket(ask, is_client=True)
    _, wire = join(server, client)
    async with asyncio.timeout(10):
        while not wire.is_closed:
            await asyncio.sleep(0)
    assert got == texts


@given(data=st.binary(max_size=400), cuts=st.lists(st.integers(1, 60), max_size=20))
def test_nonsense_never_raises_and_ends_the_connection_or_waits(data: bytes, cuts: list[int]) -> None:
    async def run() -> None:
        wire, socket = MemoryWire(), WebSocket(hold)
        socket.begin(wire)
        start = 0
        for cut in [*cuts, len(data)]:
            socket.received(data[start : start + cut])
            start += cut
        socket.lost()
        await asyncio.sleep(0)

    asyncio.run(run())


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x82\x05hello", id="a client's frame without a mask"),
        pytest.param(masked(0x3, b"x"), id="an unknown opcode"),
        pytest.param(masked(0x0, b"x"), id="the rest of no message"),
        pytest.param(masked(0x9, b"x" * 126), id="a long ping"),
        pytest.param(masked(0xF2, b"x"), id="reserved bits"),
        pytest.param(masked(0x1, b"\xff\xfe"), id="text that is none"),
    ],
)
async def test_a_frame_against_the_rules_ends_the_connection(frame: bytes) -> None:
    wire, ended = MemoryWire(), asyncio.Event()

    async def read(socket: WebSocket) -> None:
        while await socket.receive() is not None:
            pass
        ended.set()

    socket = WebSocket(read)
    socket.begin(wire)
    socket.received(frame)
    async with asyncio.timeout(5):
        await ended.wait()
    assert wire.sent[0] == 0x88  # the end, and why


async def test_a_frame_that_claims_a_terabyte_takes_no_memory() -> None:
    wire, socket = MemoryWire(), WebSocket(hold)
    socket.begin(wire)
    socket.received(masked(0x2, b"", length=1 << 40))
    for _ in range(64):
        if not wire.reads:
            break
        socket.received(b"x" * 65536)
    assert not wire.reads
    assert socket._size <= websocket._BUFFER_BYTES + 65536
    while not wire.reads:  # read, and it goes on
        assert await socket.receive() is not None
    socket.lost()


async def test_empty_messages_without_end_stop_the_connection_too() -> None:
    wire, socket = MemoryWire(), WebSocket(hold)
    socket.begin(wire)
    for _ in range(2 * websocket._MOST_PARTS):
        if wire.reads:
            socket.received(masked(0x2, b""))
    assert not wire.reads
    socket.lost()


async def test_pings_are_answered_but_not_for_who_does_not_read() -> None:
    wire, socket = MemoryWire(), WebSocket(hold)
    socket.begin(wire)
    socket.received(masked(0x9, b"there?"))
    assert bytes(wire.sent) == b"\x8a\x06there?"
    socket.written(False)
    for _ in range(1000):
        socket.received(masked(0x9, b"there?"))
    assert bytes(wire.sent) == b"\x8a\x06there?"
    socket.lost()


async def test_sending_waits_for_an_end_that_does_not_read() -> None:
    wire = MemoryWire()

    async def send(socket: WebSocket) -> None:
        while True:
            await socket.send(b"x" * 1000)
            await asyncio.sleep(0)

    socket = WebSocket(send)
    socket.begin(wire)
    socket.written(False)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not wire.sent
    socket.written(True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.sent
    socket.lost()


async def test_an_end_that_hangs_up_while_nothing_is_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport that is not read notifies nobody."""
    monkeypatch.setattr(websocket, "_HANG_UP_SECONDS", 0.01)
    wire, socket = MemoryWire(), WebSocket(hold)
    socket.begin(wire)
    socket.received(masked(0x2, bytes(websocket._BUFFER_BYTES)))
    assert not wire.reads
    await socket.send(b"there")
    assert wire.sent
    await asyncio.sleep(0.05)
    assert not wire.is_closed
    wire.is_hung_up = True
    async with asyncio.timeout(10):
        while not wire.is_closed:
            await asyncio.sleep(0.01)
    sent = len(wire.sent)
    await socket.send(b"nobody")
    assert len(wire.sent) == sent
    socket.lost()


async def test_what_came_before_the_end_of_a_connection_is_worked_on() -> None:
    got: list[bytes | None] = []

    async def read(socket: WebSocket) -> None:
        got.extend([await message(socket), await message(socket)])

    socket = WebSocket(read)
    socket.begin(MemoryWire())
    socket.received(masked(0x2, b"last words") + masked(0x8, b"\x03\xe8"))
    socket.lost()
    for _ in range(5):
        await asyncio.sleep(0)
    assert got == [b"last words", None]


async def test_the_end_of_a_connection_ends_the_work_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.0)
    ended: list[str] = []
    socket = WebSocket(hold)
    socket.when_ended(lambda: ended.append("over"))
    socket.begin(MemoryWire())
    await asyncio.sleep(0)
    socket.lost()
    async with asyncio.timeout(10):
        while not ended:
            await asyncio.sleep(0)
    assert ended == ["over"]


async def test_a_session_that_never_began_is_over_as_well() -> None:
    ended: list[str] = []
    socket = WebSocket(hold)
    socket.when_ended(lambda: ended.append("over"))
    socket.lost()
    assert ended == ["over"]


async def test_of_several_works_the_first_to_end_ends_the_others() -> None:
    stopped = asyncio.Event()

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await first_of(long(), fail())
    assert stopped.is_set()


async def test_of_many_small_frames_some_are_read_in_a_turn_of_the_loop_and_none_is_lost() -> None:
    received: list[bytes] = []

    async def collect(socket: WebSocket) -> None:
        while (data := await message(socket)) is not None:
            received.append(data)

    socket, wire = WebSocket(collect), MemoryWire()
    socket.begin(wire)
    await asyncio.sleep(0)
    count = 5000
    socket.received(b"".join(masked(2, b"%d" % number) for number in range(count)))
    assert (len(socket._parts), wire.reads) == (websocket.FRAMES_AT_ONCE, False)
    socket.lost()
    while len(received) < count:
        assert len(socket._parts) <= websocket._MOST_PARTS + websocket.FRAMES_AT_ONCE
        await asyncio.sleep(0)
    assert received == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("frames", [masked(9, b""), masked(0, b"", fin=False)], ids=["pings", "empty parts"])
async def test_what_comes_behind_many_frames_without_content_is_read(frames: bytes) -> None:
    socket, wire = WebSocket(hold), MemoryWire()
    socket.begin(wire)
    socket.received(masked(2, b"a", fin=False) + frames * 5000 + masked(0, b"b"))
    assert not wire.reads
    assert await message(socket) == b"ab"
    while not wire.reads:
        await asyncio.sleep(0)
    socket.lost()


async def test_a_reader_that_takes_nothing_holds_what_has_come_and_is_ended_when_the_other_end_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0.01)
    socket, wire = WebSocket(hold), MemoryWire()
    ended = asyncio.Event()
    socket.when_ended(ended.set)
    socket.begin(wire)
    await asyncio.sleep(0)
    socket.received(masked(2, b"x") * 5000)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(socket._parts) == websocket._MOST_PARTS
    socket.lost()
    await ended.wait()
