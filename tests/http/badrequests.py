"""Requests that every port of ours refuses, with the status that says why; the connection ends with it."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from strato.http import parser

UNREADABLE = [
    pytest.param(b"hello\r\n\r\n", 400, id="no HTTP"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01", 400, id="TLS where none is spoken"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="HTTP/2"),
    pytest.param(b"GET here HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a target that is no path"),
    pytest.param(b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a target that is not ASCII"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nno header\r\n\r\n", 400, id="a line that is no header"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400, id="a length of no number"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, id="lengths"),
    pytest.param(
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n",
        400,
        id="a chunk without a length",
    ),
    pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * (parser.MAX_HEAD_BYTES + 1), 431, id="no end"),
]
"""What is no request."""

AMBIGUOUS = [
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, id="two hosts"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, id="no host name"),
    pytest.param(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, id="another version"),
    pytest.param(b"GET /\r\n\r\n", 505, id="HTTP/0.9"),
    pytest.param(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405, id="the server as a whole"),
    pytest.param(b"OPTIONS *\\ HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="a target that begins with a star"),
    pytest.param(b"OPTIONS */api HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="a path behind a star"),
    pytest.param(b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="a broken escape"),
    pytest.param(b"GET /?" + b"a&" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="thousands of parameters"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400, id="a folded header"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n", 400, id="NUL"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", 400, id="a space before the colon"),
    *(
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n0\r\n\r\n" % lines, status, id=lines.decode())
        for lines, status in (
            (b"Transfer-Encoding: gzip, chunked", 501),
            (b"Transfer-Encoding: identity", 501),
            (b"Transfer-Encoding: xchunked", 501),
            (b"Transfer-Encoding: chunked, identity", 400),
            (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
            (b"Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
            (b"Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
            (b"Content-Length: 5\r\nContent-Length: 5", 400),
            (b"Content-Length: 5, 5", 400),
            (b"Content-Length: +5", 400),
        )
    ),
    pytest.param(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="chunks in HTTP/1.0"),
]
"""What two servers could read in two ways."""


async def wrongly_answered(port: int, tls: ssl.SSLContext | None = None) -> list[str]:
    """Send each to a port of this machine; return those that are not refused as they should be."""
    wrong = []
    for request in (*UNREADABLE, *AMBIGUOUS):
        after = b"" if request in UNREADABLE else b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        sent, status = request.values
        assert isinstance(sent, bytes)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(sent + after)
        answer = b""
        try:
            async with asyncio.timeout(120):
                answer = await reader.readuntil(b"\r\n\r\n")
                answer += await reader.read()
        except ConnectionError:  # it was closed before all was read
            pass
        writer.close()
        if not answer.startswith(b"HTTP/1.1 %d " % status) or b"HTTP/1.1 2" in answer:
            wrong.append(f"{request.id}: {answer[:100]!r}")
    return wrong
