"""exec, attach and port-forward of the server's core, on pods whose processes are played."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from strato.api.wire import Request, Response, User
from strato.clock import SystemClock
from strato.errors import BadRequest
from strato.http.spdy import DICTIONARY
from strato.http.websocket import FRAMES_AT_ONCE, WebSocket
from strato.server import bootstrap
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server, open_server
from strato.server.rest import portforward
from strato.server.rest import streams as module
from strato.server.rest.streams import MOST_PORTS, _ports
from strato.server.streams import StreamOptions
from tests.http.websockets import join, message
from tests.server.asking import ADMIN, Client

PODS = "/api/v1/namespaces/default/pods"
ASKING = {
    "upgrade": "websocket",
    "connection": "upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Process:
    """A process: what it is sent is kept, what it says is said when it is told to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.says: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = False

    async def receive(self) -> bytes:
        return await self.says.get()

    async def send(self, message: bytes) -> None:
        self.got.append(message)

    def close(self) -> None:
        self.is_closed = True

    def ends(self, **how: Any) -> None:
        self.says.put_nowait(b"\3" + json.dumps(how).encode())


class Source:
    """Pods whose processes are `Process`, and whose ports are a real server's of this test."""

    def __init__(self) -> None:
        self.process = Process()
        self.asked: list[Any] = []
        self.ports: dict[int, int] = {}

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamOptions) -> Process:
        self.asked.append((container, list(command), options))
        return self.process

    async def attach(self, uid: str, container: str, options: StreamOptions) -> Process:
        self.asked.append((container, options))
        return self.process

    async def connect(self, uid: str, port: int) -> socket.socket:
        if port not in self.ports:
            raise BadRequest(f"connection to port {port} of the pod: Connection refused")
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.ports[port]))
        return sock


class World:
    def __init__(self, server: ApiServer) -> None:
        self.server, self.source = server, Source()
        server.use_streams(self.source)

    async def pod(self, name: str = "p", **spec: Any) -> None:
        containers = [{"name": "c", "image": "i"}]
        body = {"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": containers, **spec}}
        await Client(self.server).ask("POST", PODS, body)

    async def ask(
        self, sub: str, *, protocols: str = "v5.channel.k8s.io", user: User = ADMIN, headers: Any = None, **query: Any
    ) -> Response:
        lists = {name: value if isinstance(value, list) else [value] for name, value in query.items()}
        sent = {**ASKING, "sec-websocket-protocol": protocols} if headers is None else headers
        return await self.server.handle(Request("GET", f"{PODS}/p/{sub}", lists, sent, b"", user))

    async def open(self, sub: str, work: Callable[[WebSocket], Awaitable[None]], **options: Any) -> None:
        """Open a session and work with its other end, to the end of both."""
        answer = await self.ask(sub, **options)
        assert answer.status == 101, answer.body
        done = asyncio.Event()
        failures: list[BaseException] = []

        async def serve(socket: WebSocket) -> None:
            try:
                await work(socket)
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                done.set()

        session = answer.session
        assert isinstance(session, WebSocket)
        client = WebSocket(serve, is_client=True)
        join(session, client)
        async with asyncio.timeout(20):
            await done.wait()
        client.lost()
        session.lost()
        async with asyncio.timeout(20):
            while self.server._streams._sessions:
                await asyncio.sleep(0)
        if failures:
            raise failures[0]


@pytest.fixture
async def world() -> World:
    found = World(in_memory_server(SystemClock()))
    await found.pod()
    return found


def status_of(text: bytes | None) -> Any:
    assert text is not None
    assert text[0] == 3
    return json.loads(text[1:])


ALL = {"stdin": "true", "stdout": "true", "stderr": "true"}


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_streams_go_both_ways_and_the_exit_code_comes_last(world: World, protocol: str) -> None:
    process = world.source.process

    async def work(socket: WebSocket) -> None:
        assert await message(socket) == b"\1"  # it is open
        await socket.send(b"\0input")
        await socket.send(b"\0" + b"x" * 70_000)
        await socket.send(b"\xff\0")
        while len(process.got) < (5 if protocol.startswith("v5") else 4):
            await asyncio.sleep(0)
        for said in (b"\1out", b"\2err"):
            process.says.put_nowait(said)
        process.ends(exitCode=3)
        assert [await message(socket), await message(socket)] == [b"\1out", b"\2err"]
        status = status_of(await message(socket))
        assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
        assert await message(socket) is None
        assert socket.close_code == 1000

    await world.open("exec", work, protocols=protocol, command=["ls", "-l"], **ALL)
    assert world.source.asked == [("c", ["ls", "-l"], StreamOptions(stdin=True, stdout=True, stderr=True))]
    assert b"".join(one[1:] for one in process.got if one[0] == 0) == b"input" + b"x" * 70_000
    assert max(map(len, process.got)) <= 32 * 1024 + 1
    assert (process.got[-1] == b"\xff\0") is protocol.startswith("v5")  # version 4 has no end of input
    assert process.is_closed


@pytest.mark.parametrize("protocols", ["channel.k8s.io", ""])
@pytest.mark.parametrize(
    ("ends", "said"),
    [({"exitCode": 0}, b"\3"), ({"exitCode": 3}, b"\3command terminated with non-zero exit code: exit status 3")],
)
async def test_the_first_version_says_how_it_ended_as_text(
    world: World, ends: Any, said: bytes, protocols: str
) -> None:
    process = world.source.process

    async def work(socket: WebSocket) -> None:
        assert await message(socket) == b"\1"
        process.says.put_nowait(b"\1out")
        process.ends(**ends)
        assert [await message(socket), await message(socket)] == [b"\1out", said]
        assert await message(socket) is None

    await world.open("exec", work, protocols=protocols, command="x", stdout="true")


async def test_a_command_that_cannot_be_run_is_a_failure_with_its_reason(world: World) -> None:
    async def work(socket: WebSocket) -> None:
        world.source.process.ends(error='exec: "x": executable file not found in $PATH')
        await message(socket)
        status = status_of(await message(socket))
        assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)
        assert "not found in $PATH" in status["message"]

    await world.open("exec", work, command="x", stdout="true")


async def test_a_terminals_size_is_handed_on_and_nonsense_is_not(world: World) -> None:
    process = world.source.process

    async def work(socket: WebSocket) -> None:
        for size in (b"{}", b"no", b'{"Width":-1,"Height":5}', b'{"Width":70000,"Height":5}', b" " * 5000):
            await socket.send(b"\4" + size)
        await socket.send(b"\4" + b'{"Width":80,"Height":24}')
        while not process.got:
            await asyncio.sleep(0)

    await world.open("exec", work, command="sh", tty="true", stdin="true", stdout="true", stderr="true")
    assert [(one[0], json.loads(one[1:])) for one in process.got] == [(4, {"Width": 80, "Height": 24})]
    assert world.source.asked[0][2].stderr is False  # a terminal has one output


async def test_input_that_was_not_asked_for_goes_nowhere(world: World) -> None:
    async def work(socket: WebSocket) -> None:
        await socket.send(b"\0ignored")
        await socket.send(b"\xff\0")
        await socket.send(b"\4" + b'{"Width":80,"Height":24}')
        world.source.process.ends(exitCode=0)
        await message(socket)
        assert status_of(await message(socket)) == {"metadata": {}, "status": "Success"}

    await world.open("exec", work, command="ls", stdout="true")
    assert world.source.process.got == []


async def test_a_client_that_leaves_ends_the_command(world: World) -> None:
    async def work(_: WebSocket) -> None:
        return

    await world.open("exec", work, command="sleep", stdout="true")
    assert world.source.process.is_closed
    assert world.server._streams._sessions == {}


async def test_attach_ends_well_with_its_container(world: World) -> None:
    async def work(socket: WebSocket) -> None:
        world.source.process.says.put_nowait(b"")
        await message(socket)
        assert status_of(await message(socket))["status"] == "Success"

    await world.open("attach", work, stdout="true")


REFUSED = [
    pytest.param("exec", {"command": "ls"}, {}, 400, "at least 1 of stdin, stdout, stderr", id="no stream"),
    pytest.param("exec", {"stdout": "true"}, {}, 400, "must specify a command", id="no command"),
    pytest.param("exec", {"stdout": "1", "command": "a", "container": "z"}, {}, 400, "z is not valid", id="container"),
    pytest.param("attach", {"stdout": "true", "tty": "true"}, {}, 400, "has no terminal", id="attach tty"),
    pytest.param("attach", {"stdin": "true"}, {}, 400, "reads no input", id="attach stdin"),
    pytest.param("exec", {"stdout": "true", "command": "a"}, {"headers": {}}, 400, "Upgrade request", id="plain"),
    pytest.param("exec", {"stdout": "true", "command": "a"}, {"protocols": "v1"}, 400, "negotiate", id="protocol"),
    pytest.param("portforward", {}, {"protocols": "v4.channel.k8s.io"}, 400, '"ports" is required', id="no ports"),
    pytest.param("portforward", {"ports": "x"}, {"protocols": "v4.channel.k8s.io"}, 400, '"x" as a port', id="port"),
]


def asked_ports(*texts: str) -> list[int]:
    return _ports(Request("GET", "/", {"ports": list(texts)} if texts else {}))


@pytest.mark.parametrize(
    ("texts", "ports"),
    [
        (["80"], [80]),
        (["80,8080"], [80, 8080]),
        (["80", "81"], [80, 81]),
        (["80,,81", ""], [80, 81]),
        (["1", "65535"], [1, 65535]),
        ([",".join(["80"] * MOST_PORTS)], [80] * MOST_PORTS),
    ],
)
def test_ports_to_forward(texts: list[str], ports: list[int]) -> None:
    assert asked_ports(*texts) == ports


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ([], "is required"),
        ([",", ""], "is required"),
        (["0"], '"0" as a port'),
        (["65536"], '"65536" as a port'),
        (["000080"], '"000080" as a port'),
        (["-1"], '"-1" as a port'),
        (["8a"], '"8a" as a port'),
        (["٣"], '"٣" as a port'),
        (["²"], '"²" as a port'),
        (["80,x"], '"x" as a port'),
        ([",".join(["80"] * (MOST_PORTS + 1))], f"at most {MOST_PORTS} ports"),
    ],
)
def test_what_is_no_port_to_forward(texts: list[str], problem: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(problem)):
        asked_ports(*texts)


@pytest.mark.parametrize(("sub", "query", "options", "code", "text"), REFUSED)
async def test_requests_that_cannot_be_served(
    world: World, sub: str, query: Any, options: Any, code: int, text: str
) -> None:
    answer = await world.ask(sub, **options, **query)
    assert (answer.status, text in json.loads(answer.body)["message"]) == (code, True), answer.body
    assert world.server._streams._sessions == {}


@pytest.mark.parametrize("sub", ["exec", "attach", "portforward"])
async def test_spdy_is_refused_with_what_to_use_instead(world: World, sub: str) -> None:
    headers = {"upgrade": "SPDY/3.1", "connection": "upgrade"}
    answer = await world.ask(sub, headers=headers, command="ls", stdout="true")
    status = json.loads(answer.body)
    assert (answer.status, status["reason"]) == (501, "NotImplemented")
    assert "kubectl 1.31 or newer" in status["message"]
    assert ("KUBECTL_PORT_FORWARD_WEBSOCKETS" if sub == "portforward" else "REMOTE_COMMAND") in status["message"]


async def test_what_is_wrong_with_the_pod_is_told_before_the_protocol_is(world: World) -> None:
    spdy = {"upgrade": "SPDY/3.1"}
    answer = await world.ask("exec", headers=spdy, command="ls", stdout="true", container="z")
    assert answer.status == 400
    await world.pod("free", nodeName="")
    for name, code in (("free", 400), ("none", 404)):
        query = {"command": ["ls"], "stdout": ["1"]}
        answer = await world.server.handle(Request("GET", f"{PODS}/{name}/exec", query, spdy, b"", ADMIN))
        assert answer.status == code


async def test_pods_of_hollow_nodes_and_pods_that_ended_have_no_process(world: World) -> None:
    world.server._streams.source = None
    answer = await world.ask("exec", command="ls", stdout="true")
    assert "hollow nodes" in json.loads(answer.body)["message"]
    patch = {"status": {"phase": "Succeeded"}}
    await Client(world.server).ask("PATCH", f"{PODS}/p/status", patch, "application/merge-patch+json")
    answer = await world.ask("exec", command="ls", stdout="true")
    assert "current phase is Succeeded" in json.loads(answer.body)["message"]


async def test_reading_pods_exec_is_not_enough_to_use_it() -> None:
    """A WebSocket is asked for by GET; who may only read must not run commands by that."""
    server, _ = open_server(SystemClock(), random.Random(0), None, rbac=True, bootstrap=bootstrap.objects())
    world = World(server)
    await world.pod()
    admin, user = Client(server), User("u", ("system:authenticated",))
    subs = ["pods/exec", "pods/attach", "pods/portforward"]
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": subs, "verbs": ["get"]}]}
    await admin.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}],
    }
    await admin.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    for sub in ("exec", "attach", "portforward"):
        answer = await world.ask(sub, user=user, command="ls", stdout="true", ports="80")
        assert answer.status == 403, sub
        assert "create" in json.loads(answer.body)["message"]
    role["rules"][0]["verbs"] = ["get", "create"]  # type: ignore[index] # of the test's own making
    await admin.ask("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", role)
    answer = await world.ask("exec", user=user, command="ls", stdout="true")
    assert answer.status == 101
    assert answer.session is not None
    answer.session.lost()


async def test_streams_of_one_user_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    opened = [await world.ask("exec", command="ls", stdout="true") for _ in range(2)]
    refused = await world.ask("exec", command="ls", stdout="true")
    assert refused.status == 429
    other = await world.ask("exec", command="ls", stdout="true", user=User("o", ("system:masters",)))
    assert other.status == 101
    for answer in (*opened, other):
        assert answer.session is not None
        answer.session.lost()
    assert (await world.ask("exec", command="ls", stdout="true")).status == 101


# -- ports -------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def echo(world: World) -> AsyncIterator[int]:
    """A server in the pod that answers each line in capitals, and ends with its client."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(line.upper())
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    world.source.ports[80] = server.sockets[0].getsockname()[1]
    yield 80
    server.close()
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("protocols", ["v4.channel.k8s.io", ""])
async def test_the_older_protocol_has_two_channels_for_each_port(world: World, echo: int, protocols: str) -> None:
    async def work(socket: WebSocket) -> None:
        begun = [await message(socket) for _ in range(4)]
        assert begun == [b"\0" + b"P\0", b"\1" + b"P\0", b"\2" + b"Q\0", b"\3" + b"Q\0"]
        failure = await message(socket)
        assert failure is not None
        assert failure[0] == 3
        assert b"error forwarding port 81 to pod p" in failure
        await socket.send(b"\0hello\n")
        assert await message(socket) == b"\0HELLO\n"

    await world.open("portforward", work, protocols=protocols, ports=["80", "81"])


class Spdy:
    """kubectl's half of the tunnel."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._buffer = b""

    async def open(self, stream: int, **headers: str) -> None:
        plain = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        packed = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIH", stream, 0, 0) + packed
        await self._socket.send(struct.pack(">HHI", 0x8003, 1, len(body)) + body)

    async def send(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        await self._socket.send(struct.pack(">II", stream, is_last << 24 | len(data)) + data)

    async def frame(self) -> tuple[int, int, bytes, bool]:
        """Return kind (0 is data), stream, payload, and whether it is the stream's last."""
        while len(self._buffer) < 8 or len(self._buffer) < 8 + (int.from_bytes(self._buffer[4:8], "big") & 0xFFFFFF):
            data = await message(self._socket)
            assert data is not None
            self._buffer += data
        first, second, size = struct.unpack_from(">HHI", self._buffer)
        body, self._buffer = self._buffer[8 : 8 + (size & 0xFFFFFF)], self._buffer[8 + (size & 0xFFFFFF) :]
        if first & 0x8000:
            return second, int.from_bytes(body[:4], "big"), body[4:], False
        return 0, first << 16 | second, body, bool(size >> 24 & 1)


async def connect(spdy: Spdy, request: str, streams: tuple[int, int], port: str) -> None:
    for stream, kind in zip(streams, ("error", "data"), strict=True):
        await spdy.open(stream, streamtype=kind, port=port, requestid=request)
        assert (await spdy.frame())[:2] == (2, stream)


async def test_kubectls_tunnel_carries_several_connections(world: World, echo: int) -> None:
    async def work(socket: WebSocket) -> None:
        spdy = Spdy(socket)
        await connect(spdy, "0", (1, 3), "80")
        await connect(spdy, "1", (5, 7), "80")
        await spdy.send(3, b"first\n")
        assert await spdy.frame() == (0, 3, b"FIRST\n", False)
        await spdy.send(7, b"second\n", is_last=True)  # the pod sees the end, and ends too
        assert await spdy.frame() == (0, 7, b"SECOND\n", False)
        assert await spdy.frame() == (0, 5, b"", True)
        assert await spdy.frame() == (0, 7, b"", True)
        await socket.send(struct.pack(">HHII", 0x8003, 6, 4, 9))
        assert (await spdy.frame())[:2] == (6, 9)
        await spdy.send(3, b"third\n")
        assert await spdy.frame() == (0, 3, b"THIRD\n", False)

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")


async def test_a_port_nobody_listens_on_is_told_on_the_stream_for_errors(world: World) -> None:
    async def work(socket: WebSocket) -> None:
        spdy = Spdy(socket)
        await connect(spdy, "0", (1, 3), "99")
        kind, stream, text, is_last = await spdy.frame()
        assert (kind, stream, is_last) == (0, 1, True)
        assert b"error forwarding port 99 to pod p" in text
        assert await spdy.frame() == (0, 3, b"", True)

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")


async def test_streams_that_make_no_connection_are_refused_and_bounded(world: World, echo: int) -> None:
    async def work(socket: WebSocket) -> None:
        spdy = Spdy(socket)
        await spdy.open(1, streamtype="other", port="80")
        assert (await spdy.frame())[:2] == (3, 1)
        await spdy.open(3, streamtype="data", port="0")
        assert (await spdy.frame())[:2] == (3, 3)
        kinds = []
        for number in range(200):  # of each connection only one stream
            await spdy.open(5 + 2 * number, streamtype="error", port="80", requestid=str(number))
            kinds.append((await spdy.frame())[0])
        assert kinds == [2] * 128 + [3] * 72

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")


async def test_of_a_connection_that_is_reset_before_it_has_both_streams_nothing_is_kept(
    world: World, echo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[dict[str, Any]] = []
    end = portforward._Tunnel._end

    def ended(self: Any, pair: Any) -> None:
        end(self, pair)
        kept.append(dict(self._asked))

    monkeypatch.setattr(portforward._Tunnel, "_end", ended)

    async def work(socket: WebSocket) -> None:
        spdy = Spdy(socket)
        for number in range(300):
            await spdy.open(1 + 2 * number, streamtype="error", port="80", requestid=str(number))
            assert (await spdy.frame())[0] == 2
            await socket.send(struct.pack(">HHIII", 0x8003, 3, 8, 1 + 2 * number, 5))
        await connect(spdy, "0", (1001, 1003), "80")

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")
    assert kept[:300] == [{}] * 300


async def test_many_frames_of_a_tunnel_leave_the_loop_to_others(world: World) -> None:
    turns = 0

    async def work(socket: WebSocket) -> None:
        nonlocal turns
        await socket.send(struct.pack(">II", 1, 0) * 10_000 + struct.pack(">HHII", 0x8003, 6, 4, 9))
        waiting = asyncio.create_task(message(socket))
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")
    assert turns >= 10_000 // FRAMES_AT_ONCE


async def test_a_tunnel_of_nonsense_ends(world: World) -> None:
    async def work(socket: WebSocket) -> None:
        await socket.send(b"\xff" * 100)
        assert await message(socket) is None

    await world.open("portforward", work, protocols="SPDY/3.1+portforward.k8s.io")
