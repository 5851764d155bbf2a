"""`HttpParser` as its users call it."""

from __future__ import annotations

import httptools


class HttpParser:
    """Parses one response that comes in pieces."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._has_headers = self._is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode()] = value.decode()

    def on_headers_complete(self) -> None:
        self._has_headers = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True

    def execute(self, data: bytes, length: int) -> int:
        self._parser.feed_data(data[:length])
        return length

    def get_errno(self) -> int:
        return 0

    def is_headers_complete(self) -> bool:
        return self._has_headers

    def is_message_complete(self) -> bool:
        return self._is_complete

    def get_status_code(self) -> int:
        return int(self._parser.get_status_code())

    def get_headers(self) -> dict[str, str]:
        return self._headers

    def is_chunked(self) -> bool:
        return any(k.lower() == "transfer-encoding" and v.lower() == "chunked" for k, v in self._headers.items())

    def is_partial_body(self) -> bool:
        return bool(self._body)

    def recv_body(self) -> bytes:
        body, self._body = b"".join(self._body), []
        return body
