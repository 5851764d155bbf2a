"""HTTP proxies of outgoing requests: choose the one for a URL, and open a tunnel through it.

Source: curl's and Go's variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY; RFC 9110, section 9.3.6 (CONNECT).
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in the stubs

from strato.http.client import BadAnswer, Unsendable
from strato.http.headers import host_port

_ANSWER_BYTES = 64 << 10
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers with the proxy's credentials."""


def proxy_for(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a URL by a process's environment variables; None if the request goes directly.

    Raises:
        Unsendable: The variable does not hold the URL of an HTTP proxy.
    """
    scheme, host = urlsplit(url).scheme, urlsplit(url).netloc.rpartition("@")[2]
    named = {
        name: environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY") or "" for name in (scheme, "no")
    }
    found = named[scheme]
    if not found or _is_loopback(urlsplit(url).hostname) or proxy_bypass_environment(host, {"no": named["no"]}):
        return None
    parts = urlsplit(found if "://" in found else f"http://{found}")
    if parts.scheme != "http" or not parts.hostname:
        raise Unsendable(f"{scheme.upper()}_PROXY={found!r} is no http:// URL of a proxy")
    pair = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
    return Proxy(parts.hostname, parts.port or 80, {"Proxy-Authorization": basic(pair)} if parts.username else {})


def _is_loopback(host: str | None) -> bool:
    """Whether a host is this machine; Go and curl use no proxy for requests to it."""
    return host is None or host in ("localhost", "::1") or host.startswith("127.")


def basic(pair: bytes) -> str:
    """Return user and password, joined by a colon, as basic authentication sends them."""
    return f"Basic {base64.b64encode(pair).decode()}"


async def tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return a socket that leads through a proxy to a server.

    Raises:
        OSError: The proxy cannot be reached, or refuses.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_SECONDS):
            found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
            sock = socket.socket(*found[0][:3])
            try:
                sock.setblocking(False)
                await loop.sock_connect(sock, found[0][4])
                target = host_port(host, port)
                lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *map(": ".join, proxy.headers.items())]
                await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
                answer = b""
                while b"\r\n\r\n" not in answer:
                    piece = await loop.sock_recv(sock, 1)  # leaves what the server behind it sends unread
                    answer += piece
                    if not piece or len(answer) > _ANSWER_BYTES:
                        raise BadAnswer(f"the proxy {proxy.host}:{proxy.port} does not answer as one")
                status = answer.split(b"\r\n", 1)[0].decode("latin-1")
                if status.split(" ")[1:2] != ["200"]:
                    raise BadAnswer(f"the proxy {proxy.host}:{proxy.port} refuses {target}: {status[:200]}")
            except BaseException:
                sock.close()
                raise
    except TimeoutError as error:
        raise TimeoutError(f"the proxy {proxy.host}:{proxy.port} does not answer within {_SECONDS:g} s") from error
    return sock
