"""A client's connection without a socket: what is answered, in which order, and when nothing is written or read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Unauthorized
from strato.http import limits, parser, streaming
from strato.http import server as http_server
from strato.http.headers import Head
from strato.http.plain import PlainService, text
from strato.http.server import Connection, Connections
from strato.http.service import HttpService
from tests.http.badrequests import AMBIGUOUS, UNREADABLE


class Echo(HttpService):
    """Answers what was asked, at once or later."""

    def __init__(self, later: bool = False) -> None:
        self.later = later
        self.gates: dict[str, asyncio.Event] = {}
        self.stream: Any = None

    def admit(self, head: Head) -> User:
        if "authorization" in head.headers:
            raise Unauthorized("Unauthorized")
        return User("u")

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        if head.path == "/stream":
            answered(Response(200, stream=self.stream))
            return None
        headers = {name: value for name, value in head.headers.items() if name.startswith("x-")}
        told = [
            head.method,
            head.path,
            head.query,
            headers,
            body.decode("latin-1"),
            sum(name.startswith(b"impersonate-") for name, _ in head.others),
        ]
        response = Response(200, json.dumps(told).encode())
        if head.path in self.gates:
            return self._after(self.gates[head.path], response)
        if self.later:
            return self._soon(response)
        answered(response)
        return None

    async def _soon(self, response: Response) -> Response:
        await asyncio.sleep(0)
        return response

    async def _after(self, gate: asyncio.Event, response: Response) -> Response:
        await gate.wait()
        return response

    def refusal(self, error: ApiError) -> Response:
        return Response(error.code, error.reason.encode())


class Encryption:
    """TLS without a certificate of the client."""

    def getpeercert(self, *, binary_form: bool) -> None:
        assert binary_form


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.is_encrypted = False
        self.reads = True
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return Encryption() if name == "ssl_object" and self.is_encrypted else default

    def deliver(self, data: bytes) -> None:
        while data:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(data), len(buffer))
            buffer[:size] = data[:size]
            self.protocol.buffer_updated(size)
            data = data[size:]

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Source:
    """A stream that has something whenever it is asked, or what a test gives it."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self.taken = 0
        self.ended = self.closed = False
        self.ready: Callable[[], None] = lambda: None

    def listen(self, ready: Callable[[], None]) -> None:
        self.ready = ready

    def take(self) -> bytes:
        if self.taken == self.chunks:
            return b""
        self.taken += 1
        return b"x"

    def give(self) -> None:
        self.chunks += 1
        self.ready()

    def close(self) -> None:
        self.closed = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("it is not waited for")


def connect(service: Echo) -> tuple[Connections, Wire]:
    connections = Connections(service, VirtualClock())
    protocol = connections.make()
    wire = Wire(protocol)
    protocol.connection_made(wire)
    return connections, wire


async def settle() -> None:
    for _ in range(40):
        await asyncio.sleep(0)


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(VirtualClock(), main())


async def exchange(service: Echo, *pieces: bytes) -> tuple[bytes, bool]:
    """Send pieces; return what comes back and whether the connection was closed."""
    _, wire = connect(service)
    for piece in pieces:
        wire.deliver(piece)
        await asyncio.sleep(0)
    await settle()
    closed = wire.closed
    wire.close()
    await settle()
    return bytes(wire.written), closed


POST = b"POST /a?x=1&x=2 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nContent-Length: %d\r\n\r\n%b"
REQUESTS = (
    POST % (3, b"abc"),
    POST % (3, b"def"),
    b"GET /b%20c HTTP/1.1\r\nHost: h\r\nx-two: 2\r\n\r\n",
    POST % (3, b"\r\n\r"),
    b"GET /b%20c HTTP/1.1\r\nHost: h\r\nx-two: 2\r\n\r\n",
    b"HEAD /d HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    POST % (4, b"\r\n\r\n"),
    b"PATCH /f HTTP/1.1\r\nHost: h\r\nImpersonate-Group: a\r\nimpersonate-group: b\r\nContent-Length: 2\r\n\r\n{}",
    POST % (3, b"ghi"),
    b"GET /g HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n",
    POST % (0, b""),
)


@pytest.mark.parametrize("later", [False, True], ids=["answered at once", "answered later"])
@given(
    chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 600), max_size=6),
    whole=st.booleans(),
)
def test_answers_do_not_depend_on_how_requests_arrive(
    later: bool, chosen: list[bytes], cuts: list[int], whole: bool
) -> None:
    """One by one on fresh connections, where every head is parsed, or in any pieces on one that remembers heads."""

    async def main() -> None:
        alone = [(await exchange(Echo(), request))[0] for request in chosen]
        if whole:
            pieces = chosen
        else:
            text = b"".join(chosen)
            edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
            pieces = [text[low:high] for low, high in pairwise(edges)]
        together, closed = await exchange(Echo(later), *pieces)
        assert together == b"".join(alone)
        assert not closed

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("sent", "status"),
    UNREADABLE,
)
@pytest.mark.parametrize("before", [b"", REQUESTS[0]], ids=["alone", "after a request that is fine"])
def test_what_cannot_be_read_is_refused_in_its_turn_and_ends_the_connection(
    before: bytes, sent: bytes, status: int
) -> None:
    async def main() -> None:
        fine = (await exchange(Echo(), before))[0]
        for later in (False, True):
            answer, closed = await exchange(Echo(later), before + sent, b"more of it")
            assert answer.startswith(fine)
            refusal = answer[len(fine) :]
            assert refusal.startswith(b"HTTP/1.1 %d " % status)
            assert b"connection: close\r\n" in refusal
            assert refusal.count(b"HTTP/1.1") == 1
            assert closed

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", [b"200"], id="no more is wanted"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", [b"200"], id="HTTP/1.0"),
        pytest.param(
            b"POST /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
            [b"200"],
            id="another protocol",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
            [b"401"],
            id="a body that may or may not come",
        ),
    ],
)
def test_the_connection_ends_after_an_answer_that_says_so(sent: bytes, want: list[bytes]) -> None:
    async def main() -> None:
        for later in (False, True):
            answer, closed = await exchange(Echo(later), sent + REQUESTS[2], b"whatever")
            assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == want
            assert b"connection: close\r\n" in answer
            assert closed

    in_virtual_time(main)


def test_who_waits_for_a_word_before_the_body_gets_it_when_the_request_has_its_turn() -> None:
    async def main() -> None:
        service = Echo()
        service.gates["/first"] = asyncio.Event()
        _, wire = connect(service)
        head = b"POST /second HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        wire.deliver(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n" + head)
        await settle()
        assert wire.written == b""
        service.gates["/first"].set()
        await settle()
        first, word, rest = bytes(wire.written).partition(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert (first[:12], bool(word), rest) == (b"HTTP/1.1 200", True, b"")
        wire.deliver(b"abc")
        assert b'"abc"' in wire.written
        wire.close()

    in_virtual_time(main)


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "in chunks"])
def test_of_a_body_that_is_too_long_nothing_is_kept_and_the_next_request_is_answered(chunked: bool) -> None:
    async def main() -> None:
        size = parser.MAX_BODY_BYTES + 10
        piece = b"x" * 65_536
        said = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size
        _, wire = connect(Echo())
        wire.deliver(b"POST / HTTP/1.1\r\nHost: h\r\n" + said + b"\r\n\r\n")
        for start in range(0, size, len(piece)):
            part = piece[: size - start]
            wire.deliver(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        wire.deliver((b"0\r\n\r\n" if chunked else b"") + REQUESTS[2])
        assert [part[:3] for part in bytes(wire.written).split(b"HTTP/1.1 ")[1:]] == [b"413", b"200"]
        wire.close()

    in_virtual_time(main)


def test_reading_stops_while_more_was_asked_than_is_answered() -> None:
    async def main() -> None:
        service = Echo()
        service.gates["/first"] = asyncio.Event()
        _, wire = connect(service)
        wire.deliver(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in range(100):
            wire.deliver(REQUESTS[2])
        assert not wire.reads
        service.gates["/first"].set()
        await settle()
        assert wire.reads
        assert wire.written.count(b"HTTP/1.1 200 OK") == 101
        wire.close()

    in_virtual_time(main)


def test_bodies_sent_ahead_are_bounded() -> None:
    async def main() -> None:
        service = Echo()
        service.gates["/first"] = asyncio.Event()
        _, wire = connect(service)
        wire.deliver(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
        sent = 0
        wire.deliver(b"POST /second HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n")
        while wire.reads:
            wire.deliver(b"x" * 65_536)
            sent += 65_536
            assert sent < 2_000_000
        service.gates["/first"].set()
        await settle()
        assert wire.reads
        wire.close()

    in_virtual_time(main)


def test_a_reader_that_does_not_read_is_given_nothing_until_it_does() -> None:
    async def main() -> None:
        service = Echo()
        source = service.stream = Source(3)
        _, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        assert bytes(wire.written).endswith(b"1\r\nx\r\n" * 3)
        wire.protocol.pause_writing()
        for _ in range(1000):
            source.give()
        await asyncio.sleep(10)
        assert source.taken == 3
        wire.protocol.resume_writing()
        assert source.taken == 1003
        wire.close()
        await settle()
        assert source.closed

    in_virtual_time(main)


def test_whole_answers_wait_for_a_reader_that_does_not_read() -> None:
    async def main() -> None:
        _, wire = connect(Echo())
        wire.protocol.pause_writing()
        wire.deliver(REQUESTS[2] * 3)
        await settle()
        assert wire.written == b""
        wire.protocol.resume_writing()
        assert wire.written.count(b"HTTP/1.1 200 OK") == 3
        wire.close()

    in_virtual_time(main)


def test_events_far_apart_leave_at_once_and_those_of_a_burst_together() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        service = Echo()
        source = service.stream = Source(0)
        _, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in range(200):
            await asyncio.sleep(streaming.FLUSH_INTERVAL_SECONDS * 1.1)
            source.give()
            await asyncio.sleep(0)
            assert source.taken == source.chunks
        flushes, began = 0, loop.time()
        for _ in range(1000):
            source.give()
            before = source.taken
            await asyncio.sleep(0.001)
            flushes += source.taken != before
            assert source.chunks - source.taken <= 22  # what comes in `COALESCE_SECONDS`
        assert flushes <= streaming.AT_ONCE + (loop.time() - began) / streaming.COALESCE_SECONDS + 1
        await asyncio.sleep(streaming.COALESCE_SECONDS)
        await asyncio.sleep(streaming.FLUSH_INTERVAL_SECONDS)
        source.give()
        await asyncio.sleep(0)
        assert source.taken == source.chunks
        wire.close()

    in_virtual_time(main)


def test_a_few_events_in_a_row_are_not_held_up() -> None:
    async def main() -> None:
        service = Echo()
        source = service.stream = Source(0)
        _, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in range(streaming.AT_ONCE):
            source.give()
            await asyncio.sleep(0)
            assert source.taken == source.chunks
        wire.close()

    in_virtual_time(main)


def test_a_stream_that_breaks_breaks_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Source):
        def take(self) -> bytes:
            raise RuntimeError("boom")

    async def main() -> None:
        service = Echo()
        source = service.stream = Broken(0)
        _, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
        await settle()
        assert wire.closed
        assert source.closed
        assert not wire.written.endswith(b"0\r\n\r\n")

    in_virtual_time(main)
    assert "boom" in caplog.text


@pytest.mark.parametrize(
    ("version", "end"),
    [
        pytest.param(b"1.1", b"\r\n\r\n1\r\nx\r\n0\r\n\r\n", id="in chunks, with an end"),
        pytest.param(b"1.0", b"\r\n\r\nx", id="until the connection ends"),
    ],
)
def test_a_stream_ends_as_its_reader_understands(version: bytes, end: bytes) -> None:
    async def main() -> None:
        service = Echo()
        source = service.stream = Source(1)
        connections, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/%b\r\nHost: h\r\n\r\n" % version)
        assert not wire.closed
        await connections.close(1)
        assert wire.closed
        assert source.closed
        assert wire.written.endswith(end)

    in_virtual_time(main)


def test_a_silent_connection_ends_in_its_time_but_not_while_it_waits_for_us() -> None:
    async def main() -> None:
        service = Echo()
        service.gates["/slow"] = asyncio.Event()
        _, wire = connect(service)
        wire.deliver(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(http_server.KEEP_ALIVE_SECONDS - 1)
        wire.deliver(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(http_server.KEEP_ALIVE_SECONDS * 5.5)
        assert not wire.closed
        service.gates["/slow"].set()
        await asyncio.sleep(http_server.KEEP_ALIVE_SECONDS - 1)
        assert wire.written.count(b"HTTP/1.1 200") == 2
        assert not wire.closed
        await asyncio.sleep(2 + http_server.LOOK_SECONDS)
        assert wire.closed

    in_virtual_time(main)


@pytest.mark.parametrize(
    "begin",
    [b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n"],
    ids=["head", "body"],
)
def test_a_request_that_comes_in_drops_is_cut_off(begin: bytes) -> None:
    """One byte a second is never silent, and would hold the connection for ever."""

    async def main() -> None:
        _, wire = connect(Echo())
        wire.deliver(begin)
        for _ in range(2 * int(http_server.KEEP_ALIVE_SECONDS)):
            if wire.closed:
                break
            wire.deliver(b"X")
            await asyncio.sleep(1)
        assert wire.closed
        assert not wire.written

    in_virtual_time(main)


def test_a_client_that_sends_request_after_request_is_not_slow() -> None:
    async def main() -> None:
        _, wire = connect(Echo())
        for _ in range(300):
            wire.deliver(b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /")
            await asyncio.sleep(1)
            wire.deliver(b" HTTP/1.1\r\nHost: h\r\n\r\n")
        assert not wire.closed
        assert wire.written.count(b"HTTP/1.1 200") == 600

    in_virtual_time(main)


def test_trailers_are_no_headers() -> None:
    """A trailer once changed the authentication: it was put among the headers that had been looked at."""

    async def main() -> None:
        _, wire = connect(Echo())
        head = b"POST /a HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire.deliver(head + b"1\r\na\r\n0\r\nAuthorization: x\r\nX-One: 2\r\nImpersonate-User: u\r\n\r\n")
        assert b" 200 " in wire.written
        assert b'["POST", "/a", {}, {"x-one": "1"}, "a", 0]' in wire.written

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("head", "status"),
    AMBIGUOUS,
)
def test_what_two_servers_could_read_in_two_ways_is_refused(head: bytes, status: int) -> None:
    async def main() -> None:
        _, wire = connect(Echo())
        wire.deliver(head + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0)
        assert wire.written.startswith(b"HTTP/1.1 %d " % status)
        assert b"smuggled" not in wire.written
        assert wire.closed

    in_virtual_time(main)


def test_of_two_headers_alike_the_first_counts() -> None:
    async def main() -> None:
        _, wire = connect(Echo())
        wire.deliver(b"GET / HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nx-one: 2\r\n\r\n")
        assert b'{"x-one": "1"}' in wire.written

    in_virtual_time(main)


def test_stopping_ends_idle_connections_at_once_and_others_with_their_answer() -> None:
    async def main() -> None:
        service = Echo()
        service.gates["/slow"] = asyncio.Event()
        service.gates["/never"] = asyncio.Event()
        connections, idle = connect(service)
        wires = []
        for path in (b"/slow", b"/never"):
            protocol = connections.make()
            wire = Wire(protocol)
            protocol.connection_made(wire)
            wire.deliver(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path)
            wires.append(wire)
        stopping = asyncio.ensure_future(connections.close(2))
        await settle()
        assert [idle.closed, *(wire.closed for wire in wires)] == [True, False, False]
        service.gates["/slow"].set()
        await settle()
        assert [wire.closed for wire in wires] == [True, False]
        assert b"connection: close" in wires[0].written
        began = asyncio.get_running_loop().time()
        await stopping
        assert asyncio.get_running_loop().time() - began == pytest.approx(2)
        assert wires[1].closed
        assert connections.open == set()

    in_virtual_time(main)


class Known(Echo):
    """Knows users by a header."""

    def admit(self, head: Head) -> User:
        if "x-user" not in head.headers:
            raise Unauthorized("Unauthorized")
        return User(head.headers["x-user"])


def more(connections: Connections, *, is_encrypted: bool = False) -> Wire:
    protocol = connections.make()
    wire = Wire(protocol)
    wire.is_encrypted = is_encrypted
    protocol.connection_made(wire)
    return wire


def ask(wire: Wire, user: str) -> bytes:
    before = len(wire.written)
    wire.deliver(b"GET / HTTP/1.1\r\nhost: x\r\nx-user: %b\r\n\r\n" % user.encode())
    return bytes(wire.written[before:])


def test_one_user_has_at_most_a_part_of_all_connections() -> None:
    async def main() -> None:
        connections = Connections(Known(), VirtualClock(), most=16)
        wires = [more(connections) for _ in range(4)]
        assert all(b" 200 " in ask(wire, "a") for wire in wires)
        one_too_many = more(connections)
        answer = ask(one_too_many, "a")
        assert b" 429 " in answer
        assert b"connection: close" in answer
        assert one_too_many.closed
        other = more(connections)
        assert b" 200 " in ask(other, "b")
        wires[0].close()
        await settle()
        assert b" 200 " in ask(more(connections), "a")
        assert {user: len(held) for user, held in connections.of_users.items()} == {"a": 4, "b": 1}

    in_virtual_time(main)


def test_of_too_many_strangers_the_oldest_makes_room_and_users_stay() -> None:
    async def main() -> None:
        connections = Connections(Known(), VirtualClock(), most=16)
        mine = more(connections)
        assert b" 200 " in ask(mine, "a")
        wires = []
        for _ in range(50):
            wires.append(more(connections))
            await settle()
        assert [wire.closed for wire in wires] == [True] * 46 + [False] * 4
        assert b" 200 " in ask(mine, "a")
        assert len(connections.open) == 5

    in_virtual_time(main)


def test_when_all_connections_are_taken_who_has_most_makes_room() -> None:
    async def main() -> None:
        connections = Connections(Known(), VirtualClock(), most=8)
        connections.most_of_one = 6
        held = [more(connections) for _ in range(6)]
        for wire in held:
            ask(wire, "a")
        few = [more(connections) for _ in range(2)]
        for wire in few:
            ask(wire, "b")
        new = more(connections)
        await settle()
        assert b" 200 " in ask(new, "c")
        assert ([wire.closed for wire in held].count(True), [wire.closed for wire in few]) == (1, [False, False])

    in_virtual_time(main)


async def healthy(request: Request) -> Response:
    return text("ok")


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", http_server.UNAUTHENTICATED_SECONDS),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx-a: ", http_server.UNAUTHENTICATED_SECONDS),
        (
            b"GET / HTTP/1.1\r\nhost: x\r\nx-user: a\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nx-a: ",
            http_server.REQUEST_SECONDS,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\nx-user: a\r\ncontent-length: 9000\r\n\r\n",
            http_server.REQUEST_SECONDS,
        ),
    ],
    ids=["nothing", "part of a head", "part of a second head", "part of a body"],
)
@pytest.mark.parametrize("service", [Known, lambda: PlainService(healthy)], ids=["users", "everybody"])
def test_who_sends_byte_by_byte_has_so_much_time(
    service: Callable[[], HttpService], sent: bytes, seconds: float
) -> None:
    async def main() -> None:
        connections = Connections(service(), VirtualClock())
        wire = more(connections)
        wire.deliver(sent)
        waited = 0
        while not wire.closed:
            await asyncio.sleep(5)
            waited += 5
            if sent and not wire.closed:
                wire.deliver(b"x")
        assert seconds <= waited <= seconds + 2 * http_server.LOOK_SECONDS
        await settle()
        assert not connections.open

    in_virtual_time(main)


def test_a_reader_that_takes_nothing_is_let_go_and_what_it_asked_for_as_well() -> None:
    async def main() -> None:
        service = Echo()
        service.stream = Source(1000)
        connections, wire = connect(service)
        wire.deliver(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        wire.protocol.pause_writing()
        await asyncio.sleep(http_server.STALLED_SECONDS - 1)
        assert not wire.closed
        await asyncio.sleep(1 + http_server.LOOK_SECONDS)
        assert wire.closed
        assert service.stream.closed
        assert not connections.open

    in_virtual_time(main)


def test_of_a_large_answer_no_more_is_written_than_the_reader_takes() -> None:
    async def main() -> None:
        class Large(Echo):
            def answer(
                self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
            ) -> Awaitable[Response] | None:
                answered(Response(200, bytes(4 * http_server.CHUNK_BYTES + 7)))
                return None

        _, wire = connect(Large())
        write = wire.write

        def paused(data: Any) -> None:
            write(data)
            if len(data) >= http_server.CHUNK_BYTES:
                wire.protocol.pause_writing()

        wire.write = paused  # type: ignore[method-assign]  # a double
        wire.deliver(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 4)
        for pieces in range(1, 5):
            await settle()
            assert http_server.CHUNK_BYTES * pieces < len(wire.written) < http_server.CHUNK_BYTES * pieces + 1000
            wire.protocol.resume_writing()
        await settle()
        assert wire.written.count(b"HTTP/1.1 200") == 2  # the next one begins when this one has been taken

    in_virtual_time(main)


CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
POST_OF = b"POST / HTTP/1.1\r\nhost: x\r\nx-user: %b\r\ncontent-length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (POST_OF % (b"a", 60_000), b"y" * 50_000),
        (b"POST / HTTP/1.1\r\nhost: x\r\nx-user: a\r\ntransfer-encoding: chunked\r\n\r\n", b"2\r\nyy\r\n" * 800),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx-user: a\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nx-a: ", b"y" * 50_000),
    ],
    ids=["a body", "a body in small pieces", "a head"],
)
def test_what_users_have_half_sent_is_shared_and_the_next_one_finds_room(
    begin: bytes, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 1_000_000)

    async def main() -> None:
        connections = Connections(Known(), VirtualClock())
        wires = [more(connections) for _ in range(40)]
        for wire in wires:
            wire.deliver(begin)
            wire.deliver(part)
        await settle()
        refused = [wire for wire in wires if b" 429 " in wire.written]
        assert 25 <= len(refused) <= 32
        assert connections.held.total <= 550_000
        other = more(connections)
        other.deliver(POST_OF % (b"b", 100_000) + b"y" * 50_000)
        other.deliver(b"y" * 50_000)
        await settle()
        assert b" 200 " in other.written
        for wire in wires:
            wire.close()
        other.close()
        await settle()
        assert (connections.held.total, dict(connections.held.of)) == (0, {})

    in_virtual_time(main)


def test_a_body_that_is_refused_while_it_comes_is_read_to_its_end_and_the_next_request_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 100_000)

    async def main() -> None:
        wire = more(Connections(Known(), VirtualClock()))
        for _ in range(3):
            wire.deliver(POST_OF % (b"a", 200_000))
            for _ in range(4):
                wire.deliver(b"y" * 50_000)
            await settle()
            assert b" 200 " in ask(wire, "a")
        assert (wire.written.count(b" 429 "), wire.closed) == (3, False)

    in_virtual_time(main)


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_buffers_of_tls_that_large_requests_leave_are_counted_and_freed(
    monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 10_000_000)

    async def main() -> None:
        connections = Connections(Known(), VirtualClock())
        wires = [more(connections, is_encrypted=is_encrypted) for _ in range(40)]
        for wire in wires:
            for _ in range(2):
                if not wire.closed:
                    wire.deliver(POST_OF % (b"a", 100_000) + b"y" * 100_000)
        await settle()
        assert all(wire.written.startswith(b"HTTP/1.1 200 ") for wire in wires)
        is_kept = [not wire.closed for wire in wires]
        assert is_kept == [number < (9 if is_encrypted else 40) for number in range(40)]
        assert (connections.held.total > 0) is is_encrypted
        half = more(connections, is_encrypted=is_encrypted)
        half.deliver(POST_OF % (b"a", 300_000) + b"y" * 200_000)  # idle connections make room
        assert not half.closed
        assert (sum(wire.closed for wire in wires) > 31) is is_encrypted
        halves = [more(connections, is_encrypted=is_encrypted) for _ in range(6)]
        for wire in halves:
            wire.deliver(POST_OF % (b"a", 300_000) + b"y" * 200_000)
        assert any(wire.closed for wire in halves) is is_encrypted
        assert [b" 429 " in wire.written for wire in halves] == [wire.closed for wire in halves]
        other = more(connections, is_encrypted=is_encrypted)
        other.deliver(POST_OF % (b"b", 100_000) + b"y" * 100_000)
        assert b" 200 " in other.written
        assert not other.closed
        for wire in (*wires, half, *halves, other):
            wire.close()
        await settle()
        assert (connections.held.total, dict(connections.held.of)) == (0, {})

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * (parser.MAX_HEADERS - 1) + b"\r\n", 200),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * parser.MAX_HEADERS + b"\r\n", 431),
        (CHUNKED + b"1\r\ny\r\n" * parser.MAX_PIECES + b"0\r\n\r\n", 200),
        (CHUNKED + b"1\r\ny\r\n" * (parser.MAX_PIECES + 1) + b"0\r\n\r\n", 413),
    ],
    ids=["headers", "too many headers", "pieces", "too many pieces"],
)
def test_headers_and_pieces_of_a_body_are_counted(sent: bytes, status: int) -> None:
    async def main() -> None:
        written, _ = await exchange(Echo(), sent)
        assert written.startswith(b"HTTP/1.1 %d " % status)

    in_virtual_time(main)
