"""The server's half of SPDY/3.1, as kubectl's port-forward uses it inside a WebSocket: streams, data, pings.

`Frames` parses the bytes of a connection into frames and encodes frames to send. A data frame is returned in the parts
in which it arrives; every other frame has a size limit. There is no flow control, because kubectl has none: a server
that cannot take more data stops reading the connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_CONTROL_BYTES = 64 * 1024
"""The largest frame that is not data, and the largest headers in one once decompressed."""
_SYN_STREAM, _SYN_REPLY, _RESET, _PING, _GO_AWAY = 1, 2, 3, 6, 7
_FIN = 1
_HEAD_BYTES = 8
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_NAMES = [*_WORDS.split(), "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"]
_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    b"Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    b"Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    b"00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    b"application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    b"iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(name)) + name.encode() for name in _NAMES) + _REST
"""The dictionary with which both ends' zlib streams of headers start, as the protocol defines it."""


class BadFrame(ValueError):
    """The bytes received are not SPDY, or exceed a limit."""


class StreamOpened(NamedTuple):
    """The other end opens a stream."""

    stream: int
    headers: Mapping[str, str]
    is_last: bool


class Data(NamedTuple):
    """Data of a stream, or a part of it."""

    stream: int
    payload: bytes
    is_last: bool
    """Whether the other end sends nothing more on the stream."""


class Reset(NamedTuple):
    """The other end has aborted a stream."""

    stream: int


class Ping(NamedTuple):
    """The other end asks for a pong."""

    number: int


class GoAway(NamedTuple):
    """The other end is about to close the connection."""


Frame = StreamOpened | Data | Reset | Ping | GoAway


class Frames:
    """Parses and encodes the frames of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: tuple[int, bool] | None = None
        self._left = 0
        """Bytes still to arrive of the data frame that is being read."""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Parse received bytes, and yield the frames in them.

        Raises:
            BadFrame: They cannot be parsed.
        """
        self._buffer += data
        while True:
            if self._data is not None:
                if not self._buffer and self._left:
                    return
                payload = bytes(self._buffer[: self._left])
                del self._buffer[: self._left]
                self._left -= len(payload)
                stream, is_last = self._data
                if not self._left:
                    self._data = None
                yield Data(stream, payload, is_last and not self._left)
                continue
            if len(self._buffer) < _HEAD_BYTES:
                return
            first, second, size = struct.unpack_from(">HHI", self._buffer)
            flags, size = size >> 24, size & 0xFFFFFF
            if not first & 0x8000:
                del self._buffer[:_HEAD_BYTES]
                self._data, self._left = ((first << 16 | second), bool(flags & _FIN)), size
                continue
            if first != 0x8003 or size > MOST_CONTROL_BYTES:
                raise BadFrame("not a frame of SPDY/3.1, or a longer one than is taken")
            if len(self._buffer) < _HEAD_BYTES + size:
                return
            body = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + size])
            del self._buffer[: _HEAD_BYTES + size]
            frame = self._control(second, flags, body)
            if frame is not None:
                yield frame

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        """Return a frame that is not data; None for those that need no answer, such as settings."""
        if kind == _GO_AWAY:
            return GoAway()
        if kind not in (_SYN_STREAM, _RESET, _PING):
            return None
        if len(body) < (10 if kind == _SYN_STREAM else 4):
            raise BadFrame("a frame that is too short")
        number = struct.unpack_from(">I", body)[0]
        if kind == _PING:
            return Ping(number)
        if kind == _RESET:
            return Reset(number & 0x7FFFFFFF)
        return StreamOpened(number & 0x7FFFFFFF, self._headers(body[10:]), bool(flags & _FIN))

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(packed, MOST_CONTROL_BYTES)
            if self._inflate.unconsumed_tail:
                raise BadFrame(f"headers of more than {MOST_CONTROL_BYTES} bytes")
            (count,), at = struct.unpack_from(">I", plain), 4
            texts = []
            for _ in range(2 * count):
                (size,) = struct.unpack_from(">I", plain, at)
                if at + 4 + size > len(plain):
                    raise BadFrame("headers that end early")
                texts.append(plain[at + 4 : at + 4 + size].decode("latin-1"))
                at += 4 + size
        except (zlib.error, struct.error) as error:
            raise BadFrame(f"headers that cannot be read: {error}") from error
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def accept(self, stream: int) -> bytes:
        """Return the frame that accepts a stream."""
        packed = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + packed)

    @staticmethod
    def data(stream: int, payload: bytes, *, is_last: bool = False) -> bytes:
        """Return a frame of data."""
        return struct.pack(">II", stream, (_FIN << 24 if is_last else 0) | len(payload)) + payload

    @staticmethod
    def refuse(stream: int) -> bytes:
        """Return the frame that refuses a stream."""
        return _control_frame(_RESET, struct.pack(">II", stream, 3))

    @staticmethod
    def pong(number: int) -> bytes:
        """Return the answer to a ping."""
        return _control_frame(_PING, struct.pack(">I", number))


def _control_frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, len(body)) + body
