"""The health call of gRPC probes, over real sockets: to a real gRPC server where there is one, and to hostile ones."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from strato.node.sandbox.grpchealth import is_serving

SETTINGS = b"\0\0\0\4\0\0\0\0\0"


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BHBBI", 0, len(payload), kind, flags, stream) + payload


def message(payload: bytes) -> bytes:
    return struct.pack(">BI", 0, len(payload)) + payload


HEADERS = frame(1, 4, b"\x88")
TRAILERS = frame(1, 5, b"\x88")


@asynccontextmanager
async def server(answer: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """Answer what is asked of it in one burst, and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await reader.read(4096)))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "serving"),
    [
        pytest.param(SETTINGS + HEADERS + frame(0, 0, message(b"\x08\x01")) + TRAILERS, True, id="it is serving"),
        pytest.param(SETTINGS + HEADERS + frame(0, 0, message(b"\x08\x02")) + TRAILERS, False, id="it is not"),
        pytest.param(HEADERS + frame(0, 8, b"\2" + message(b"\x08\x01") + b"\0\0") + TRAILERS, True, id="padded"),
        pytest.param(
            HEADERS + frame(0, 0, b"\0\0\0") + frame(0, 1, b"\0\2\x08\x01"), True, id="a message in two frames"
        ),
        pytest.param(frame(6, 0, b"12345678", 0) + HEADERS + TRAILERS, False, id="nothing but trailers"),
        pytest.param(frame(3, 0, b"\0\0\0\1"), False, id="the stream is reset"),
        pytest.param(frame(7, 0, b"\0" * 8, 0), False, id="the connection goes away"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", None, id="no HTTP/2"),
        pytest.param(b"", False, id="nothing at all"),
        pytest.param(frame(2, 0, b"", 3) * 65, None, id="frames without end"),
        pytest.param(HEADERS + frame(0, 0, b"x" * 4097), None, id="an answer without end"),
    ],
)
async def test_the_answer_decides(answer: bytes, serving: bool | None) -> None:
    async with server(lambda _: answer) as port:
        if serving is None:
            with pytest.raises(ValueError, match=r"bytes|frames"):
                await is_serving("127.0.0.1", port, "", user_agent="kube-probe/1")
        else:
            assert await is_serving("127.0.0.1", port, "", user_agent="kube-probe/1") is serving


async def test_the_service_is_named_in_the_message() -> None:
    asked = b""

    def answer(request: bytes) -> bytes:
        nonlocal asked
        asked = request
        return TRAILERS

    async with server(answer) as port:
        assert not await is_serving("127.0.0.1", port, "s" * 200, user_agent="kube-probe/1")
    assert asked.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert asked.endswith(message(b"\x0a\xc8\x01" + b"s" * 200))
    with pytest.raises(ValueError, match="longer than 16384 bytes"):
        await is_serving("127.0.0.1", 1, "s" * 20_000, user_agent="kube-probe/1")


async def test_a_real_server_understands_the_call() -> None:
    grpc = pytest.importorskip("grpc")
    states = {b"": b"\x08\x01", b"\x0a\x01x": b"\x08\x02"}

    async def check(request: bytes, _context: object) -> bytes:
        return states[request]

    served = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(check)
    served.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method}),))
    port = served.add_insecure_port("127.0.0.1:0")
    await served.start()
    try:
        found = [await is_serving("127.0.0.1", port, name, user_agent="kube-probe/1") for name in ("", "x", "unknown")]
    finally:
        await served.stop(None)
    assert found == [True, False, False]
