"""What readers do not take is bounded: of one stream, of a user, and of all."""

from __future__ import annotations

import pytest

from strato.http.limits import PIECE_BYTES
from strato.interop.mesos.endpoints import streams
from strato.interop.mesos.endpoints.streams import EventStream, Unread
from strato.interop.mesos.wire import JSON, message

EVENT = {"type": "HEARTBEAT"}


def _stream(unread: Unread, owner: str = "a", closed: list[EventStream] | None = None) -> EventStream:
    on_close = (closed if closed is not None else []).append
    return EventStream(message("scheduler.Event"), JSON, on_close, unread, owner)


def _record() -> bytes:
    stream = _stream(Unread())
    stream.send(EVENT)
    return stream.take()


RECORD = _record()
HELD = len(RECORD) + PIECE_BYTES


def test_what_is_taken_is_counted_no_more() -> None:
    unread = Unread()
    stream = _stream(unread)
    for _ in range(5):
        stream.send(EVENT)
    assert unread.held.total == 5 * HELD
    assert stream.take() == 5 * RECORD
    assert unread.held.total == 0


def test_of_much_a_part_is_taken_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_CHUNK_BYTES", 2 * len(RECORD))
    unread = Unread()
    stream = _stream(unread)
    for _ in range(5):
        stream.send(EVENT)
    stream.finish()
    taken = [(stream.take(), unread.held.total, stream.ended) for _ in range(3)]
    assert taken == [(2 * RECORD, 3 * HELD, False), (2 * RECORD, HELD, False), (RECORD, 0, True)]


def test_a_stream_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_UNREAD_BYTES", 3 * HELD)
    unread = Unread()
    stream = _stream(unread)
    for _ in range(4):
        stream.send(EVENT)
    assert stream.ended
    assert stream.take() == b""
    assert unread.held.total == 0


def test_of_too_many_unread_streams_those_of_the_user_with_most_are_given_up() -> None:
    unread = Unread(10 * HELD)
    quiet = _stream(unread, "quiet")
    many = [_stream(unread, "many") for _ in range(8)]
    for _ in range(2):
        quiet.send(EVENT)
    for stream in many[:4]:
        stream.send(EVENT)
        stream.send(EVENT)
    assert unread.held.total == 10 * HELD
    many[4].send(EVENT)
    assert [stream.ended for stream in many].count(True) == 1
    assert not quiet.ended
    for _ in range(50):
        for stream in many:
            stream.send(EVENT)
        assert unread.held.total <= 10 * HELD
    assert not quiet.ended
    assert quiet.take() == 2 * RECORD


def test_a_stream_that_is_closed_holds_nothing() -> None:
    unread, closed = Unread(), list[EventStream]()
    stream = _stream(unread, closed=closed)
    stream.send(EVENT)
    stream.close()
    stream.send(EVENT)
    assert unread.held.total == 0
    assert closed == [stream]
