"""Two processes' ends of a link: requests, streams, and what happens when an end goes away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.wire import Handler, Request, Response, User
from strato.client import link as links
from strato.client.link import Link, connect
from strato.errors import Unavailable

Answer = Callable[[Request], Awaitable[Response]]


class Scripted(Handler):
    """A handler that notes what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Request] = []
        self._answer = answer

    async def handle(self, request: Request) -> Response:
        self.asked.append(request)
        return await self._answer(request)


async def pair(answer: Answer) -> tuple[Link, Link, Scripted]:
    near, far = socket.socketpair()
    handler = Scripted(answer)
    return await connect(near), await connect(far, handler), handler


async def close(*links: Link) -> None:
    for link in links:
        await link.close()


async def echo(request: Request) -> Response:
    return Response(201, request.body, "text/plain", {"x-path": request.path})


async def test_a_request_arrives_as_it_was_sent_and_so_does_its_answer() -> None:
    asking, answering, handler = await pair(echo)
    sent = Request(
        "POST", "/api/v1/pods", {"dryRun": ["All"]}, {"accept": "*/*"}, b"\x00\xffbody", User("me", ("a", "b"), "7")
    )
    got = await asking.handle(sent)
    assert handler.asked == [sent]
    assert got == Response(201, b"\x00\xffbody", "text/plain", {"x-path": "/api/v1/pods"})
    await close(asking, answering)


async def test_requests_asked_together_are_answered_in_their_order_and_briefly_where_that_is_enough() -> None:
    async def answer(request: Request) -> Response:
        return await echo(request) if request.path != "/bad" else Response(404, b"no such thing")

    asking, answering, handler = await pair(answer)
    sent = [
        Request("POST", "/a", body=b"1"),
        Request("PATCH", "/b", body=b"2", brief=True),
        Request("PATCH", "/bad", body=b"3", brief=True),
    ]
    got = await asking.handle_all(sent)
    assert handler.asked == sent
    assert [(one.status, one.body) for one in got] == [(201, b"1"), (201, b""), (404, b"no such thing")]
    await close(asking, answering)


async def test_writes_ahead_of_one_turn_share_a_frame_and_each_hears_its_own_answer() -> None:
    together: list[int] = []

    class Counting(Scripted):
        async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
            together.append(len(requests))
            return await super().handle_all(requests)

    near, far = socket.socketpair()
    handler = Counting(echo)
    asking, answering = await connect(near), await connect(far, handler)
    bodies = [b"%d" % number for number in range(35)]
    got = await asyncio.gather(*(asking.handle(Request("POST", "/x", body=body, uncommitted=True)) for body in bodies))
    assert [one.body for one in got] == bodies
    assert together == [32, 3]
    together.clear()
    shares = [
        [Request("POST", "/x", body=body, uncommitted=True) for body in part]
        for part in (bodies[:2], bodies[2:3], bodies[3:7])
    ]
    answers = await asyncio.gather(*(asking.handle_all(share) for share in shares))
    assert [[one.body for one in part] for part in answers] == [bodies[:2], bodies[2:3], bodies[3:7]]
    assert together == [7]
    impatient = asyncio.ensure_future(asking.handle(Request("POST", "/x", body=b"given up", uncommitted=True)))
    patient = asyncio.ensure_future(asking.handle(Request("POST", "/x", body=b"kept", uncommitted=True)))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).body == b"kept"
    with pytest.raises(asyncio.CancelledError):
        await impatient
    await close(asking, answering)


async def test_others_have_turns_while_a_long_frame_of_writes_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_ANSWERED_AT_ONCE", 10)
    together: list[int] = []
    turns: list[int] = []

    class Counting(Scripted):
        async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
            together.append(len(requests))
            asyncio.get_running_loop().call_soon(turns.append, len(together))
            return await super().handle_all(requests)

    near, far = socket.socketpair()
    asking, answering = await connect(near), await connect(far, Counting(echo))
    bodies = [b"%d" % number for number in range(35)]
    got = await asking.handle_all([Request("POST", "/x", body=body, uncommitted=True) for body in bodies])
    assert [one.body for one in got] == bodies
    assert together == [10, 10, 10, 5]
    assert turns[:3] == [1, 2, 3], "between each and the next"
    await close(asking, answering)


async def test_all_who_asked_together_hear_that_the_other_end_is_gone() -> None:
    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        return await echo(request)

    asking, answering, _ = await pair(never)
    waiting = [asyncio.ensure_future(asking.handle_all([Request("POST", "/a")]))]
    single = asyncio.ensure_future(asking.handle(Request("POST", "/b", uncommitted=True)))
    await a_few_turns()
    await answering.close()
    for one in (*waiting, single):
        with pytest.raises(Unavailable):
            await one
    with pytest.raises(Unavailable):
        await asking.handle(Request("POST", "/b", uncommitted=True))
    await close(asking)


@settings(max_examples=40, deadline=None)
@given(bodies=st.lists(st.integers(0, 300_000), min_size=1, max_size=6), cut=st.integers(1, 5_000))
def test_frames_survive_any_cut(bodies: list[int], cut: int) -> None:
    """A link is fed the bytes of answers in pieces that know nothing of frames."""

    async def play() -> None:
        recorder = _Recorder()
        sender, receiver = Link(Scripted(echo)), Link()
        sender.connection_made(recorder)
        asked = _Recorder()
        receiver.connection_made(asked)
        waiting = [
            asyncio.ensure_future(receiver.handle(Request("POST", "/", body=bytes([n % 256]) * size)))
            for n, size in enumerate(bodies)
        ]
        await a_few_turns()
        for part in asked.taken(cut):
            sender.data_received(part)
        await a_few_turns()
        for part in recorder.taken(cut):
            receiver.data_received(part)
        answers = await asyncio.gather(*waiting)
        assert [answer.body for answer in answers] == [bytes([n % 256]) * size for n, size in enumerate(bodies)]

    asyncio.run(play())


async def a_few_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class _Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self._data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._data += data

    def taken(self, size: int) -> list[bytes]:
        data, self._data = bytes(self._data), bytearray()
        return [data[start : start + size] for start in range(0, len(data), size)]


class Lines:
    """A stream the test feeds, which knows whether it was closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        del request
        return Response(200, stream=self._run())

    async def _run(self) -> AsyncIterator[bytes]:
        try:
            while (line := await self.queue.get()) is not None:
                yield line
        finally:
            self.closed.set()


class Slow:
    """An answer that never comes."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Request) -> Response:
        del request
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


async def test_a_stream_brings_whole_lines_until_its_end() -> None:
    lines = Lines()
    asking, answering, _ = await pair(lines.answer)
    for line in (b"one\n", b"two\n", None):
        lines.queue.put_nowait(line)
    response = await asking.handle(Request("GET", "/watch"))
    assert response.stream is not None
    chunks = [chunk async for chunk in response.stream]
    assert b"".join(chunks) == b"one\ntwo\n"
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert lines.closed.is_set()
    await close(asking, answering)


async def test_much_that_arrives_at_once_is_read_in_pieces_of_whole_lines_with_turns_between() -> None:
    lines = Lines()
    asking, answering, _ = await pair(lines.answer)
    whole = b"".join(b"%06d" % number + b"x" * 993 + b"\n" for number in range(1000))
    lines.queue.put_nowait(whole)
    for line in (b"one\n", b"two\n", None):
        lines.queue.put_nowait(line)
    response = await asking.handle(Request("GET", "/watch"))
    assert response.stream is not None
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.ensure_future(count())
    await answering.handle(Request("GET", "/"))  # everything is on this side now
    before = turns
    chunks = [chunk async for chunk in response.stream]
    counter.cancel()
    assert b"".join(chunks) == whole + b"one\ntwo\n"
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert 10 <= len(chunks) <= 20
    assert turns - before >= len(chunks) - 1
    await close(asking, answering)


async def test_closing_a_stream_frees_it_at_the_other_end() -> None:
    lines = Lines()
    asking, answering, _ = await pair(lines.answer)
    response = await asking.handle(Request("GET", "/watch"))
    lines.queue.put_nowait(b"one\n")
    stream = response.stream
    assert stream is not None
    assert await anext(stream) == b"one\n"
    await stream.aclose()  # type: ignore[attr-defined]  # every stream of ours has it
    await asyncio.wait_for(lines.closed.wait(), 120)
    await close(asking, answering)


async def test_giving_up_a_request_cancels_it_at_the_other_end() -> None:
    slow = Slow()
    asking, answering, _ = await pair(slow.answer)
    task = asyncio.ensure_future(asking.handle(Request("GET", "/slow")))
    await slow.begun.wait()
    task.cancel()
    await asyncio.wait_for(slow.cancelled.wait(), 120)
    assert task.cancelled() or task.done()
    await close(asking, answering)


async def test_a_request_given_up_before_it_began_is_forgotten_too() -> None:
    slow = Slow()
    asking, answering, _ = await pair(slow.answer)
    task = asyncio.ensure_future(asking.handle(Request("GET", "/slow")))
    await asyncio.sleep(0)
    task.cancel()  # both frames leave in one write, so the other end takes them in one turn
    await asyncio.gather(task, return_exceptions=True)
    await answering.handle(Request("GET", "/"))  # its answer comes behind what was sent before
    await a_few_turns()
    assert answering._serving == {}
    await close(asking, answering)


async def test_when_the_other_end_goes_everything_that_waits_hears_of_it() -> None:
    lines = Lines()
    slow = Slow()

    async def answer(request: Request) -> Response:
        return await (lines if request.path == "/watch" else slow).answer(request)

    asking, answering, _ = await pair(answer)
    response = await asking.handle(Request("GET", "/watch"))
    waiting = asyncio.ensure_future(asking.handle(Request("GET", "/slow")))
    await slow.begun.wait()
    await answering.close()
    with pytest.raises(Unavailable, match="the other process is gone"):
        await waiting
    assert response.stream is not None
    with pytest.raises(Unavailable, match="the other process is gone"):
        await anext(response.stream)
    with pytest.raises(Unavailable, match="the other process is gone"):
        await asking.handle(Request("GET", "/again"))
    assert slow.cancelled.is_set()
    assert lines.closed.is_set()
    await asking.close()


async def test_a_handler_with_a_bug_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> Response:
        del request
        raise ZeroDivisionError

    asking, answering, _ = await pair(answer)
    got = await asking.handle(Request("GET", "/boom"))
    assert got.status == 500
    assert b"GET /boom" in got.body
    assert "GET /boom failed" in caplog.text
    await close(asking, answering)


async def test_an_end_without_a_handler_says_so() -> None:
    asking, answering, _ = await pair(echo)
    got = await answering.handle(Request("GET", "/anything"))
    assert got.status == 500
    assert b"answers nothing" in got.body
    await close(asking, answering)


async def test_a_reader_that_does_not_read_stops_the_writer_and_not_the_memory() -> None:
    """The far end writes only as much as the socket takes until the near one reads on."""
    produced = 0
    line = b"x" * 100_000 + b"\n"

    async def endless() -> AsyncIterator[bytes]:
        nonlocal produced
        while True:
            produced += 1
            yield line
            await asyncio.sleep(0)

    async def answer(request: Request) -> Response:
        del request
        return Response(200, stream=endless())

    asking, answering, _ = await pair(answer)
    response = await asking.handle(Request("GET", "/watch"))
    assert asking._transport is not None
    asking._transport.pause_reading()
    while answering._writable.is_set():
        await asyncio.sleep(0)
    stopped_at = produced
    for _ in range(50):
        await asyncio.sleep(0)
    assert produced <= stopped_at + 1
    asking._transport.resume_reading()
    assert response.stream is not None
    received = 0
    while received < (stopped_at + 5) * len(line):
        received += len(await anext(response.stream))
    await close(asking, answering)
