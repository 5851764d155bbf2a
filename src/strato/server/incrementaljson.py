"""Decode large JSON in chunks, so that the loop can serve other requests in between.

msgspec takes up to 13 ms for 64,000 values and holds the interpreter lock meanwhile. So a large body is cut where a
value has ended, at commas and brackets outside of strings; each chunk is decoded on its own and added to the list or
map that it is a part of. A long string is decoded in chunks too. The result does not depend on where the cuts are.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from strato.server.flowcontrol.dispatch import Steps

CHUNK_BYTES = 8192
"""Smallest size of a chunk; a chunk ends at the first comma or bracket behind it."""
_TOKENS_AT_ONCE = 1024
"""Commas and brackets scanned between two yields: about 0.5 ms."""
_BYTES_AT_ONCE = 192 * 1024
"""Bytes scanned and decoded between two yields: about 1.5 ms."""
_COMMA = 0x2C
_OPEN, _CLOSE_MAP = b"{[", 0x7D
_SHORT_TEXT = rb'"[^"\\]{0,1024}+(?:\\.[^"\\]{0,1024}+){0,64}+"'
_BEFORE_TOKEN = rb'[^"\[\]{},]*+(?:' + _SHORT_TEXT + rb'[^"\[\]{},]*+)*+'
_to_long_string = re.compile(_BEFORE_TOKEN, re.DOTALL).match
_token = re.compile(_BEFORE_TOKEN + rb"[\[\]{},]", re.DOTALL).match
_in_text = re.compile(rb'(?:[^"\\]{1,256}+|\\(?:u[0-9a-fA-F]{4}|.)){0,64}+', re.DOTALL).match
_SURROGATE = re.compile(rb"\\u[dD][89abAB]..\Z")
r"""Matches the escape of a high surrogate, the first half of a character, at the end of a piece."""
_BYTE = re.compile(r"\(byte (\d+)\)")
_decode = msgspec.json.Decoder().decode


class TooDeep(Exception):
    """Lists and maps are nested too deeply."""


class _Frame:
    """A list or map whose end has not been reached."""

    __slots__ = ("after_value", "begin", "is_map", "items", "start", "value_start")

    def __init__(self, begin: int, *, is_map: bool) -> None:
        self.begin, self.is_map = begin, is_map
        self.items: Any = None
        """Its values decoded so far; None while none has been decoded."""
        self.start = self.value_start = begin + 1
        """Offsets of the first byte that is not decoded yet, and of the newest value in it (in a map, of its key)."""
        self.after_value = False
        """Whether the last value, a list, map or string, was decoded on its own and added already."""


def decoded(body: bytes, *, most_depth: int, chunk_bytes: int = CHUNK_BYTES) -> Steps[Any]:
    """Decode a body in steps.

    Raises:
        msgspec.DecodeError: It is not JSON, or a key is longer than `_BYTES_AT_ONCE`.
        UnicodeDecodeError: It is not UTF-8.
        TooDeep: Lists and maps are nested more than ``most_depth`` deep.
    """
    reading = _Reading(body, chunk_bytes)
    frames = reading.frames
    tokens, end, next_tokens, next_bytes = 0, 0, _TOKENS_AT_ONCE, _BYTES_AT_ONCE
    root: _Frame | None = None
    while frames or root is None:
        found = _token(body, end)
        if found is None:
            text = yield from _long_string(body, end)
            if text is None:
                break
            if text.value is not None and not frames:
                _check_ends(body, text.begin, text.end)
                return text.value
            reading.long_string(text)
            end = text.end
            continue
        end = found.end()
        tokens += 1
        token = body[end - 1]
        if token == _COMMA and frames:
            reading.comma(end - 1)
        elif token in _OPEN:
            if len(frames) >= most_depth:
                raise TooDeep
            frames.append(_Frame(end - 1, is_map=token == _OPEN[0]))
            root = root or frames[0]
        elif frames:
            reading.close(end - 1)
        else:
            break
        if tokens > next_tokens or end > next_bytes:
            next_tokens, next_bytes = tokens + _TOKENS_AT_ONCE, end + _BYTES_AT_ONCE
            yield None
    if root is None or root.items is None:
        return _decode(body)  # the body is short, or not JSON: then msgspec raises the error
    if frames:
        raise msgspec.DecodeError("Input data was truncated")
    _check_ends(body, root.begin, end)
    return root.items


def _check_ends(body: bytes, begin: int, end: int) -> None:
    """Raise if anything but blanks is before or after the value."""
    if body[end:].strip(_BLANK):
        raise msgspec.DecodeError(f"JSON is malformed: trailing characters (byte {end})")
    if body[:begin].strip(_BLANK):
        raise msgspec.DecodeError("JSON is malformed: invalid character (byte 0)")


class _LongString(NamedTuple):
    """A long JSON string: offsets of its first quote and behind its last one."""

    begin: int
    end: int
    value: str | None
    """The string, if it was so long that it was decoded on its own."""


def _long_string(body: bytes, start: int) -> Steps[_LongString | None]:
    """Return the long string that is next, decoded in pieces; None if there is none, or it has no end."""
    before = _to_long_string(body, start)
    begin = before.end() if before is not None else len(body)
    if body[begin : begin + 1] != b'"':
        return None
    at = piece = begin + 1
    pieces: list[str] = []
    while (inside := _in_text(body, at)) is not None and inside.end() > at:
        at = inside.end()
        if at - piece > _BYTES_AT_ONCE:
            cut = _between_characters(body, piece, at)
            pieces.append(_read(b'"', body[piece:cut], b'"', piece))
            at = piece = cut
            yield None
    if body[at : at + 1] != b'"':
        return None
    if pieces:
        pieces.append(_read(b'"', body[piece:at], b'"', piece))
    return _LongString(begin, at + 1, "".join(pieces) if pieces else None)


def _between_characters(body: bytes, start: int, end: int) -> int:
    """Return an offset near ``end`` where the string piece from ``start`` can be cut without splitting a character."""
    for _ in range(3):
        if end < len(body) and body[end] & 0xC0 == 0x80:  # inside a UTF-8 sequence
            end += 1
    if _SURROGATE.search(body, end - 6, end) is not None:
        before = body[start : end - 5]
        if (len(before) - len(before.rstrip(b"\\"))) % 2:  # otherwise the backslash is itself an escaped one
            return end - 6
    return end


def _read(opening: bytes, text: bytes, closing: bytes, start: int) -> Any:
    """Decode a piece of a body between brackets or quotes; errors name the offset in the body, by ``start``."""
    try:
        return _decode(b"".join((opening, text, closing)))
    except msgspec.DecodeError as error:
        words = _BYTE.sub(lambda found: f"(byte {int(found[1]) + start - 1})", str(error))
        raise msgspec.DecodeError(words) from error


_BLANK = b" \t\r\n"


class _Reading:
    """The lists and maps whose end has not been reached, outermost first, with their decoded values."""

    def __init__(self, body: bytes, chunk_bytes: int) -> None:
        self._body, self._chunk_bytes = body, chunk_bytes
        self.frames: list[_Frame] = []

    def comma(self, at: int) -> None:
        """Handle the comma after a value; decode the values before it if they make a chunk."""
        frame = self.frames[-1]
        if frame.after_value:
            self._skip(frame, at)
        elif at - frame.start > self._chunk_bytes:
            self._materialize()
            self._take(frame, at)
            frame.start = at + 1
        frame.value_start = at + 1

    def close(self, at: int) -> None:
        """Handle the end of the innermost list or map; decode its remaining values if it has been decoded in part."""
        frame = self.frames[-1]
        if frame.is_map is not (self._body[at] == _CLOSE_MAP):
            raise msgspec.DecodeError(f"JSON is malformed: invalid character (byte {at})")
        if frame.items is None and at - frame.begin > self._chunk_bytes:
            self._materialize()
        if frame.items is not None:
            if frame.after_value:
                self._skip(frame, at)
            else:
                self._take(frame, at)
        self.frames.pop()
        if frame.items is not None and self.frames:
            outer = self.frames[-1]
            outer.start, outer.after_value = at + 1, True

    def long_string(self, text: _LongString) -> None:
        """Handle a long string; add it to its list or map if it was decoded on its own."""
        frame = self.frames[-1] if self.frames else None
        if text.value is None or frame is None or frame.after_value:
            return
        if frame.is_map and not self._body[frame.value_start : text.begin].strip(_BLANK):
            raise msgspec.DecodeError(f"a key is longer than {_BYTES_AT_ONCE} bytes (byte {text.begin})")
        self._materialize()
        self._put(frame, text.begin, text.value)
        frame.start, frame.after_value = text.end, True

    def _materialize(self) -> None:
        """Make a Python list or dict of every open list and map that has none yet."""
        outer: _Frame | None = None
        for frame in self.frames:
            if frame.items is None:
                frame.items = {} if frame.is_map else []
                if outer is not None:
                    self._put(outer, frame.begin, frame.items)
            outer = frame

    def _put(self, outer: _Frame, begin: int, value: Any) -> None:
        """Add a value that was decoded on its own to its list or map, after decoding the values before it."""
        if outer.value_start > outer.start:
            self._take(outer, outer.value_start - 1)
        key = self._decoded(outer, outer.value_start, begin, b"0")
        if outer.is_map:
            (name,) = key
            outer.items[name] = value
        else:
            outer.items.append(value)

    def _take(self, frame: _Frame, end: int) -> None:
        """Decode the values of a list or map up to ``end``, a comma or its bracket, and add them."""
        values = self._decoded(frame, frame.start, end)
        is_first = not frame.items and frame.value_start == frame.begin + 1
        if not values and not (is_first and self._body[end] != _COMMA):
            raise msgspec.DecodeError(f"JSON is malformed: expected a value (byte {end})")
        if frame.is_map:
            frame.items.update(values)
        else:
            frame.items += values

    def _decoded(self, frame: _Frame, start: int, end: int, value: bytes = b"") -> Any:
        opening, closing = (b"{", b"}") if frame.is_map else (b"[", b"]")
        return _read(opening, self._body[start:end] + value, closing, start)

    def _skip(self, frame: _Frame, end: int) -> None:
        """Move behind the comma or bracket that follows a value which was decoded on its own."""
        if self._body[frame.start : end].strip(_BLANK):
            raise msgspec.DecodeError(f"JSON is malformed: invalid character (byte {frame.start})")
        frame.after_value, frame.start = False, end + 1
