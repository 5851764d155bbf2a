"""What the HTTP client does with connections, against a scripted server of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import cast

import pytest

from strato.api import catalog
from strato.client import http
from strato.client.config import ClusterConfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.errors import Forbidden, Unavailable, UsageError
from strato.http.client import Answer, Connection, Headers
from strato.http.pool import ConnectionPool, Origin

Script = Callable[["Peer"], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> bytes:
        """Read a whole request; raises IncompleteReadError when there is none."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        return head + await self.reader.readexactly(length)

    async def answer(self, data: bytes = OK) -> bytes:
        """Read a request and answer it."""
        request = await self.request()
        self.writer.write(data)
        await self.writer.drain()
        return request


class Scripted:
    """A server whose connections follow scripts, one after the other; the last one serves all that come later."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.connections = 0
        self.open = 0
        self.most_open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await script(Peer(reader, writer))
        self.open -= 1
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    scripted = Scripted()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.address = listening.sockets[0].getsockname()  # type: ignore[attr-defined]  # for `client`
    async with listening:
        yield scripted


@pytest.fixture
async def client(server: Scripted) -> AsyncIterator[HttpCluster]:
    host, port = server.address  # type: ignore[attr-defined]  # see above
    cluster = HttpCluster(ClusterConfig(server=f"http://{host}:{port}/some/prefix"), SystemClock())
    yield cluster
    await cluster.close()


async def forever(peer: Peer) -> None:
    while True:
        await peer.answer()


def silent(asked: asyncio.Event) -> Script:
    """Return a script that never answers, and tells when it was asked."""

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.request()

    return script


async def test_requests_share_a_connection(server: Scripted, client: HttpCluster) -> None:
    server.scripts = [forever]
    for _ in range(3):
        assert await client.raw("GET", "/version") == b"{}"
    assert server.connections == 1


async def test_request_is_written_once_and_whole(server: Scripted, client: HttpCluster) -> None:
    seen = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.answer())

    server.scripts = [script]
    await client.raw("POST", "/a b/ü", query={"x": "1&2"}, body=b'{"k":1}')
    head, _, body = seen[0].partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    lines = [field.lower() for field in fields]
    assert first == b"POST /some/prefix/a%20b/%C3%BC?x=1%262 HTTP/1.1"
    assert b"content-length: 7" in lines
    assert b"accept-encoding: identity" in lines
    assert body == b'{"k":1}'


BODIES = [
    pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", id="of a known length"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", id="in chunks"
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhello", id="that the connection's end ends"),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", id="after an interim one"
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello", id="of a closing server"),
]


@pytest.mark.parametrize("answer", BODIES)
async def test_answers_of_every_form_are_read(server: Scripted, client: HttpCluster, answer: bytes) -> None:
    async def once(peer: Peer) -> None:
        await peer.answer(answer)

    server.scripts = [once, forever]
    assert await client.raw("GET", "/") == b"hello"
    assert await client.raw("GET", "/") == b"{}"
    server.scripts = [once]
    assert [chunk async for chunk in client.stream("/")] in ([b"hello"], [b"he", b"llo"], [b"{}"])


async def dead_after_one(peer: Peer) -> None:
    await peer.answer()
    await peer.request()  # the second one is taken and not answered


HEADS = [
    pytest.param({b"Content-Type": b"a/b"}, id="names as Go writes them"),
    pytest.param({b"content-type": b"a/b"}, id="names in lower case, as proxies write them"),
    pytest.param({b"CONTENT-TYPE": b"a/b"}, id="names in upper case"),
]


@pytest.mark.parametrize("fields", HEADS)
def test_headers_are_found_however_their_names_are_written(fields: dict[bytes, bytes]) -> None:
    headers = Headers({**fields, b"X-Other": b"1"})
    assert headers.raw_value(b"Content-Type") == b"a/b"
    assert headers.raw_value(b"Content-Length") is None
    assert dict(headers) == {"content-type": "a/b", "x-other": "1"}
    assert len(headers) == 2


PATHS = [
    pytest.param("/api/v1/pods/a-b.c_d~", b"/api/v1/pods/a-b.c_d~", id="one of plain letters goes as it is"),
    pytest.param("/api/v1/pods/a b?c#d%", b"/api/v1/pods/a%20b%3Fc%23d%25", id="what would end it is quoted"),
    pytest.param("/api/v1/pods/é", b"/api/v1/pods/%C3%A9", id="letters of other scripts are quoted"),
    pytest.param("/api/v1/pods/a\n", b"/api/v1/pods/a%0A", id="the end of a line is quoted"),
    pytest.param("/apis/rbac/roles/system:x@y", b"/apis/rbac/roles/system:x@y", id="signs that mean nothing stay"),
]


@pytest.mark.parametrize(("path", "written"), PATHS)
async def test_paths_are_quoted_where_they_must_be(
    server: Scripted, client: HttpCluster, path: str, written: bytes
) -> None:
    seen: list[bytes] = []

    async def answer(peer: Peer) -> None:
        seen.append(await peer.answer())

    server.scripts = [answer]
    await client.raw("GET", path)
    assert seen[0].split(b" ")[1] == b"/some/prefix" + written


async def test_read_on_a_connection_that_turns_out_dead_is_sent_again(server: Scripted, client: HttpCluster) -> None:
    server.scripts = [dead_after_one, forever]
    await client.raw("GET", "/")
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 2


async def test_write_on_a_connection_that_turns_out_dead_is_not(server: Scripted, client: HttpCluster) -> None:
    server.scripts = [dead_after_one, forever]
    await client.raw("GET", "/")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await client.raw("POST", "/", body=b"{}")
    assert server.connections == 1


async def test_answer_cut_short_is_not_an_answer(server: Scripted, client: HttpCluster) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")

    server.scripts = [script]
    with pytest.raises(Unavailable):
        await client.raw("GET", "/")


async def test_answer_that_is_not_http_is_unavailable(server: Scripted, client: HttpCluster) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"220 smtp.example.org\r\n\r\n")

    server.scripts = [script]
    with pytest.raises(Unavailable, match="cannot be reached"):
        await client.raw("GET", "/")


async def test_silent_server_is_given_up(server: Scripted) -> None:
    server.scripts = [silent(asyncio.Event())]
    host, port = server.address  # type: ignore[attr-defined]  # see above
    client = HttpCluster(ClusterConfig(server=f"http://{host}:{port}"), SystemClock(), idle_seconds=0.01)
    with pytest.raises(Unavailable, match="did not answer in time"):
        await client.raw("GET", "/")
    await client.close()


async def test_cancelled_request_leaves_no_answer_for_the_next(server: Scripted, client: HttpCluster) -> None:
    asked = asyncio.Event()

    async def late(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.request()

    server.scripts = [late, forever]
    first = asyncio.create_task(client.raw("GET", "/slow"))
    await asked.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 2


async def test_more_requests_than_connections_wait_in_line(
    server: Scripted, client: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_CONNECTIONS", 3)
    server.scripts = [forever]
    answers = await asyncio.gather(*(client.raw("GET", f"/{n}") for n in range(20)))
    assert answers == [b"{}"] * 20
    assert server.most_open <= 3


async def test_client_apart_does_not_wait_behind_the_other(
    server: Scripted, client: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_CONNECTIONS", 1)
    asked = asyncio.Event()
    server.scripts = [silent(asked), forever]
    under_way = asyncio.create_task(client.raw("GET", "/slow"))
    await asked.wait()
    with_own_connections = client.with_own_connections()
    assert await with_own_connections.raw("GET", "/") == b"{}"
    await with_own_connections.close()
    under_way.cancel()


async def test_slow_reader_of_a_stream_gets_all_of_it(server: Scripted, client: HttpCluster) -> None:
    size = 24 << 20

    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)

    server.scripts = [script]
    seen = 0
    async for chunk in client.stream("/"):
        seen += len(chunk)
        for _ in range(5):
            await asyncio.sleep(0)
    assert seen == size


class Paced(Connection):
    """A connection on which parts of a body arrive at given instants; what is left to collect arrives together."""

    def __init__(self, instants: Sequence[float]) -> None:
        super().__init__()
        self.now = 0.0
        self.rest = deque(enumerate(instants))
        self.collected: list[float] = []
        self.loop = cast(asyncio.AbstractEventLoop, self)
        self.answer = Answer(self, streamed=True)

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[None]:
        """Called when the reader waits: the next part arrives."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.arrive(self.rest[0][1] if self.rest else self.now)
        waiter.set_result(None)
        return waiter

    async def collect(self, seconds: float) -> None:
        self.collected.append(self.now)
        self.arrive(self.now + seconds)

    def arrive(self, until: float) -> None:
        self.now = max(self.now, until)
        while self.rest and self.rest[0][1] <= self.now:
            self.answer.body.append(b"%d," % self.rest.popleft()[0])
        self.answer.complete = not self.rest


@pytest.mark.parametrize(
    ("instants", "chunks", "collected"),
    [
        pytest.param([1.0, 2.0, 3.0], ["0,", "1,", "2,"], [], id="alone, each at once"),
        pytest.param([1.0, 1.003, 1.008, 1.012], ["0,", "1,", "2,3,"], [1.003, 1.013], id="a burst, together"),
        pytest.param([1.0, 1.005, 1.009], ["0,", "1,", "2,"], [1.009], id="as far apart as half of the time, alone"),
        pytest.param([1.0, 1.001, 1.02, 2.0], ["0,", "1,", "2,", "3,"], [1.001], id="a burst that is over"),
    ],
)
async def test_parts_of_a_busy_stream_are_collected(
    instants: list[float], chunks: list[str], collected: list[float]
) -> None:
    connection = Paced(instants)
    assert [chunk.decode() async for chunk in connection.answer.chunks(0.01)] == chunks
    assert connection.collected == pytest.approx(collected)


async def test_every_event_of_a_busy_watch_arrives_once_and_in_order(server: Scripted, client: HttpCluster) -> None:
    async def busy(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        for number in range(300):
            pod = {"kind": "Pod", "metadata": {"name": f"p{number}", "resourceVersion": str(number)}}
            peer.writer.write(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
            await peer.writer.drain()
            if number % 3:
                await asyncio.sleep(0)

    server.scripts = [busy]
    names = [event.object["metadata"]["name"] async for batch in client.watch(catalog.POD) for event in batch]
    assert names == [f"p{number}" for number in range(300)]


async def test_closing_ends_what_is_under_way(server: Scripted, client: HttpCluster) -> None:
    asked = asyncio.Event()
    server.scripts = [silent(asked)]
    under_way = asyncio.create_task(client.raw("POST", "/", body=b"{}"))
    await asked.wait()
    await client.close()
    with pytest.raises(Unavailable):
        await under_way


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", id="a farewell"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", id="a second answer"),
        pytest.param(b"rubbish", id="rubbish"),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["with the answer", "after it"])
async def test_what_nobody_asked_for_is_nobodys_answer(
    server: Scripted, client: HttpCluster, more: bytes, together: bool
) -> None:
    told = asyncio.Event()

    async def chatty(peer: Peer) -> None:
        await peer.answer(OK + more if together else OK)
        if not together:
            peer.writer.write(more)
            await peer.writer.drain()
        told.set()
        await peer.reader.read()  # until the client has had enough

    server.scripts = [chatty, forever]
    assert await client.raw("GET", "/") == b"{}"
    await told.wait()
    assert await client.raw("GET", "/") == b"{}"
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 2


async def test_read_goes_to_a_fresh_connection_when_all_kept_ones_are_dead(
    server: Scripted, client: HttpCluster
) -> None:
    both = asyncio.Barrier(2)

    async def one_of_two(peer: Peer) -> None:
        await peer.request()
        await both.wait()
        peer.writer.write(OK)
        await peer.request()

    server.scripts = [one_of_two, one_of_two, forever]
    await asyncio.gather(client.raw("GET", "/"), client.raw("GET", "/"))
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 3


async def test_who_gives_up_waiting_in_line_does_not_take_the_turn_along(server: Scripted) -> None:
    server.scripts = [forever]
    host, port = server.address  # type: ignore[attr-defined]  # see `client`
    pool = ConnectionPool(Origin(host, port, None, ""), 1)
    connection = await pool.take()
    impatient, patient = asyncio.create_task(pool.take()), asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    pool.release(connection)
    impatient.cancel()  # at the very moment that its turn has come
    assert await patient is connection
    assert impatient.cancelled()
    await pool.close()


async def test_closing_ends_who_waits_in_line(
    server: Scripted, client: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_CONNECTIONS", 1)
    asked = asyncio.Event()
    server.scripts = [silent(asked)]
    tasks = [asyncio.create_task(client.raw("GET", "/")) for _ in range(3)]
    await asked.wait()
    await client.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [Unavailable] * 3
    assert server.connections == 1


async def test_refused_stream_says_all_of_why(server: Scripted, client: HttpCluster) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n5\r\nnot f\r\n")
        peer.writer.write(b"6\r\nor you\r\n0\r\n\r\n")
        await forever(peer)

    server.scripts = [refuse]
    with pytest.raises(Forbidden, match="not for you"):
        _ = [chunk async for chunk in client.stream("/")]
    assert await client.raw("GET", "/") == b"{}"
    assert server.connections == 1


async def test_stream_that_stands_still_is_given_up_only_when_a_time_was_asked_for(
    server: Scripted, client: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_STREAM_SLACK_SECONDS", 0.01)

    async def head_only(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await peer.request()

    server.scripts = [head_only]
    with pytest.raises(Unavailable, match="did not answer in time"):
        _ = [chunk async for chunk in client.stream("/", query={"timeoutSeconds": "0"})]


async def test_header_that_would_end_early_is_not_sent(server: Scripted, client: HttpCluster) -> None:
    server.scripts = [forever]
    with pytest.raises(UsageError, match="accept"):
        await client.raw("GET", "/", accept="a/b\r\nx-evil: 1")
    assert server.connections == 0


def test_name_with_a_control_character_is_refused() -> None:
    with pytest.raises(UsageError, match="control character"):
        HttpCluster(ClusterConfig(server="http://localhost", impersonate_user="me\r\nx-evil: 1"), SystemClock())


@pytest.mark.parametrize("url", ["ftp://host", "host:6443", "https://", "http://host:port"])
def test_address_that_cannot_be_spoken_to_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        HttpCluster(ClusterConfig(server=url), SystemClock())
