"""Check the health of a gRPC server: one call of ``grpc.health.v1.Health/Check`` on a connection of its own.

A probe needs one small request and one small answer of HTTP/2. The answer's headers are not read: a server that fails
the call sends no message, so the message alone decides.

Source: RFC 9113 (frames), RFC 7541 (headers, literal only), grpc/doc/health-checking.md.
"""

from __future__ import annotations

import asyncio
import struct

from strato.http.headers import host_port

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_STREAM = 1
_MAX_FRAME_BYTES, _MAX_FRAMES, _MAX_ANSWER_BYTES = 16384, 64, 4096
_SERVING = b"\x08\x01"
"""A ``HealthCheckResponse`` whose status is SERVING."""


async def is_serving(host: str, port: int, service: str, *, user_agent: str) -> bool:
    """Return whether a server reports that one of its services, or with an empty name the whole server, is serving.

    Raises:
        OSError: There is no connection.
        ValueError: The request does not fit into one frame, or the answer is not HTTP/2.
    """
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    body = struct.pack(">BI", 0, len(message)) + message
    if len(body) > _MAX_FRAME_BYTES:
        raise ValueError(f"the name of the service is longer than {_MAX_FRAME_BYTES} bytes")
    reader, writer = await asyncio.open_connection(host, port)
    try:
        headers = b"".join(
            b"\x00" + _text(name) + _text(value)
            for name, value in (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", "/grpc.health.v1.Health/Check"),
                (":authority", host_port(host, port)),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("user-agent", user_agent),
            )
        )
        request = _frame(_HEADERS, _END_HEADERS, headers) + _frame(_DATA, _END_STREAM, body)
        writer.write(_PREFACE + _frame(_SETTINGS, 0, b"", stream=0) + request)
        answer = await _answer(reader, writer)
    finally:
        writer.close()
    return answer[5:].startswith(_SERVING)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the data of the stream, empty where it has none."""
    answer = b""
    for _ in range(_MAX_FRAMES):
        try:
            high, low, kind, flags, stream = struct.unpack(">BHBBI", await reader.readexactly(9))
            size = high << 16 | low
            if size > _MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {size} bytes")
            payload = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            return b""
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, payload if kind == _PING else b"", stream=0))
        elif kind == _GOAWAY or (kind == _RST_STREAM and stream == _STREAM):
            return b""
        elif kind == _DATA and stream == _STREAM:
            answer += payload[1 : size - payload[0]] if flags & _PADDED and payload else payload
        if len(answer) > _MAX_ANSWER_BYTES:
            raise ValueError(f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
        if kind in (_DATA, _HEADERS) and stream == _STREAM and flags & _END_STREAM:
            return answer
    raise ValueError(f"more than {_MAX_FRAMES} frames")


def _frame(kind: int, flags: int, payload: bytes, stream: int = _STREAM) -> bytes:
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _text(text: str) -> bytes:
    """Write a name or value of a header; ours have fewer than 127 bytes."""
    data = text.encode()
    return bytes((len(data),)) + data


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
