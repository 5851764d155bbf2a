"""SPDY's frames, as far as port-forward needs them; written here as the definition has them."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.http.spdy import DICTIONARY, MOST_CONTROL_BYTES, BadFrame, Data, Frames, GoAway, Ping, Reset, StreamOpened


class Client:
    """The other end's half: what kubectl would write."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def opening(self, stream: int, headers: dict[str, str], *, flags: int = 0) -> bytes:
        plain = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        packed = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + packed, flags=flags)


def control(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


def test_the_dictionary_is_that_of_the_definition() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_every_kind_of_frame_is_read() -> None:
    client, frames = Client(), Frames()
    data = client.opening(1, {"streamtype": "error", "port": "80"})
    data += client.opening(3, {"streamtype": "data"}, flags=1)
    data += control(4, b"\0\0\0\0") + control(6, struct.pack(">I", 7)) + control(3, struct.pack(">II", 1, 5))
    data += struct.pack(">II", 3, 1 << 24 | 5) + b"hello" + control(7, bytes(8))
    assert list(frames.feed(data)) == [
        StreamOpened(1, {"streamtype": "error", "port": "80"}, False),
        StreamOpened(3, {"streamtype": "data"}, True),
        Ping(7),
        Reset(1),
        Data(3, b"hello", True),
        GoAway(),
    ]


@given(cuts=st.lists(st.integers(1, 30), max_size=30))
def test_frames_may_come_in_any_pieces(cuts: list[int]) -> None:
    client, frames = Client(), Frames()
    data = client.opening(1, {"streamtype": "data", "port": "80"})
    data += struct.pack(">II", 1, 100) + bytes(range(100)) + struct.pack(">II", 1, 1 << 24)
    start, found = 0, []
    for cut in [*cuts, len(data)]:
        found += list(frames.feed(data[start : start + cut]))
        start += cut
    assert found[0] == StreamOpened(1, {"streamtype": "data", "port": "80"}, False)
    assert b"".join(frame.payload for frame in found[1:] if isinstance(frame, Data)) == bytes(range(100))
    assert found[-1] == Data(1, b"", True)


def test_data_is_handed_on_before_all_of_it_is_there() -> None:
    frames = Frames()
    assert list(frames.feed(struct.pack(">II", 1, 0xFFFFFF) + b"first")) == [Data(1, b"first", False)]
    assert len(frames._buffer) == 0


def test_what_is_accepted_can_be_read_by_the_other_end() -> None:
    frames, inflate = Frames(), zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        frame = frames.accept(stream)
        assert frame[:4] == b"\x80\x03\0\2"
        assert struct.unpack(">I", frame[8:12]) == (stream,)
        assert inflate.decompress(frame[12:]) == b"\0\0\0\0"


BOMB = Client().opening(1, {"port": "0" * (16 * MOST_CONTROL_BYTES)})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x02\0\1\0\0\0\0", id="an older version"),
        pytest.param(control(1, b"short"), id="too short"),
        pytest.param(control(1, bytes(10) + b"no zlib here"), id="headers that are no zlib"),
        pytest.param(struct.pack(">HHI", 0x8003, 1, MOST_CONTROL_BYTES + 1), id="too long"),
        pytest.param(BOMB, id="headers that unpack to a megabyte"),
        pytest.param(control(6, b""), id="a ping of nothing"),
    ],
)
def test_what_is_no_spdy_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Frames().feed(data))


@given(data=st.binary(max_size=300))
def test_nonsense_is_refused_or_waits_for_more(data: bytes) -> None:
    try:
        list(Frames().feed(data))
    except BadFrame:
        return
