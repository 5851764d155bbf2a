"""Commands in running containers, and who is attached to them: real processes on the real node."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strato.clock import SystemClock
from strato.errors import BadRequest, InternalError
from strato.node.sandbox import channels
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.settings import PodNetwork
from strato.node.sandbox.streams import MessageSocket, NodeStreams
from strato.server.streams import StreamOptions
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

OUT = StreamOptions(stdout=True, stderr=True)
BOTH = StreamOptions(stdin=True, stdout=True, stderr=True)
TERMINAL = StreamOptions(stdin=True, stdout=True, tty=True)


class Node:
    """A node with one pod that runs."""

    def __init__(self, world: World, path: Path) -> None:
        self.world, self.paths = world, NodePaths(str(path))
        self.streams = NodeStreams(self.paths, SystemClock())

    async def pod(self, name: str, script: str, **spec: Any) -> str:
        self.world.sh(name, script, **spec)
        await until(lambda: self.world.api.phase(name) == "Running")
        uid: str = self.world.api.objects[f"/api/v1/namespaces/default/pods/{name}"]["metadata"]["uid"]
        return uid

    async def run(self, uid: str, *command: str, stdin: bytes | None = None, tty: bool = False) -> tuple[Any, ...]:
        """Run a command to its end; return how it ended, and what it wrote."""
        options = TERMINAL if tty else OUT if stdin is None else BOTH
        end = await self.streams.exec(uid, "main", command, options)
        sending = asyncio.ensure_future(_send(end, stdin)) if stdin is not None else None
        found = await finished(end)
        if sending is not None:
            await sending
        return found


async def _send(end: MessageSocket, data: bytes) -> None:
    for start in range(0, len(data), 32768):
        await end.send(b"\0" + data[start : start + 32768])
    await end.send(b"\xff\0")


async def finished(end: MessageSocket) -> tuple[Any, ...]:
    out, err = bytearray(), bytearray()
    async with asyncio.timeout(60):
        while (message := await end.receive()) and message[0] != channels.STATUS:
            (out if message[0] == channels.STDOUT else err).extend(message[1:])
    end.close()
    return json.loads(message[1:]) if message else None, bytes(out), bytes(err)


async def read_until(end: MessageSocket, text: bytes) -> bytes:
    found = b""
    async with asyncio.timeout(60):
        while text not in found:
            message = await end.receive()
            assert message, found
            assert message[0] == channels.STDOUT, (found, message)
            found += message[1:]
    return found


LEVELS = ["root", "user", "plain"] if os.geteuid() == 0 else ["user", "plain"]


@pytest.fixture(params=LEVELS)
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Node]:
    """On each level of isolation, with the machine's network."""
    options = {"level": request.param, "network": PodNetwork.HOST}
    async with running(tmp_path / "node", FakeApi(), **options) as world:
        yield Node(world, tmp_path / "node")
    teardown(tmp_path / "node")


WAIT = "sleep 600"


async def test_a_command_has_streams_and_an_exit_code_of_its_own(node: Node) -> None:
    uid = await node.pod("p", WAIT)
    code, out, err = await node.run(uid, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (code, out, err) == ({"exitCode": 3}, b"out\n", b"err\n")
    assert (await node.run(uid, "sh", "-c", "kill -TERM $$"))[0] == {"exitCode": 143}
    code, _, _ = await node.run(uid, "no-such-program")
    assert code == {"error": 'exec: "no-such-program": executable file not found in $PATH'}


async def test_input_of_any_size_arrives_and_ends(node: Node) -> None:
    uid = await node.pod("p", WAIT)
    data = os.urandom(1_000_000)
    code, out, _ = await node.run(uid, "cat", stdin=data)
    assert (code, out) == ({"exitCode": 0}, data)


async def test_a_command_is_a_process_of_the_container_like_its_first_one(node: Node) -> None:
    """Same namespaces, control groups, user, capabilities, filter, environment and working directory."""
    facts = (
        "for n in mnt pid ipc uts net user; do readlink /proc/self/ns/$n; done; id; pwd; echo $WHO; "
        "grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status; cat /proc/self/cgroup; ls /proc/self/fd | wc -l"
    )
    isolated = node.world.node._runtime.isolation != "plain"
    container: dict[str, Any] = {"env": [{"name": "WHO", "value": "me"}], "workingDir": "/usr"}
    if isolated:
        container["securityContext"] = {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}}
    uid = await node.pod(
        "p", f"cd /dev/shm; F=facts-$HOSTNAME; (cd /usr; {facts}) > $F.new; mv $F.new $F; {WAIT}", container=container
    )
    show = "until [ -s /dev/shm/facts-$HOSTNAME ]; do :; done; cat /dev/shm/facts-$HOSTNAME; "
    _, first, _ = await node.run(uid, "sh", "-c", show + "rm -f /dev/shm/facts-$HOSTNAME")
    code, own, err = await node.run(uid, "sh", "-c", facts)
    assert code == {"exitCode": 0}, err
    assert own.decode().splitlines() == first.decode().splitlines()


async def test_a_terminal_is_the_containers_own_and_has_a_size(node: Node) -> None:
    uid = await node.pod("p", WAIT)
    end = await node.streams.exec(uid, "main", ("sh",), TERMINAL)
    await end.send(b"\4" + b'{"Width":101,"Height":37}')
    await end.send(b"\0stty -echo; PS1=; tty; stty size; echo TERM=$TERM; echo err >&2; echo do''ne\n")
    found = await read_until(end, b"done\r\n")
    assert b"/dev/pts/" in found
    assert b"37 101\r\n" in found
    assert b"TERM=xterm\r\n" in found
    assert b"err\r\n" in found
    await end.send(b"\4" + b'{"Width":50,"Height":20}')
    await end.send(b"\0stty size; echo ag''ain\n")
    assert b"20 50\r\n" in await read_until(end, b"again\r\n")
    await end.send(b"\0sleep 600\n")
    await asyncio.sleep(0.2)  # whether it sleeps already or not, it is interrupted
    await end.send(b"\0\3")
    await end.send(b"\0exit 9\n")
    assert (await finished(end))[0] == {"exitCode": 9}


@pytest.mark.parametrize(
    "put", ["ln -s /etc/hostname", "mkfifo", "ln -s /dev/null", "ln -s /proc/self/fd/0", "mkdir", "echo x >"]
)
async def test_what_a_container_puts_in_place_of_its_terminals_is_not_taken_for_one(node: Node, put: str) -> None:
    if node.world.node._runtime.isolation == "plain":
        pytest.skip("the terminals are the machine's")
    uid = await node.pod("p", f"rm /dev/ptmx && {put} /dev/ptmx && touch /tmp/put; {WAIT}")
    ready = await node.run(uid, "sh", "-c", "until [ -e /tmp/put ]; do sleep 0.05; done")
    assert ready[0] == {"exitCode": 0}
    status, out, _ = await node.run(uid, "sh", "-c", "echo ran", tty=True)
    assert "ptmx" in status["error"]
    assert out == b""
    assert (await node.run(uid, "echo", "on"))[1] == b"on\n"


async def test_the_end_of_input_is_seen_on_a_terminal_too(node: Node) -> None:
    uid = await node.pod("p", WAIT)
    end = await node.streams.exec(uid, "main", ("cat",), TERMINAL)
    await end.send(b"\0line\n")
    await read_until(end, b"line\r\nline\r\n")
    await end.send(b"\xff\0")
    assert (await finished(end))[0] == {"exitCode": 0}


async def test_a_command_whose_client_leaves_is_killed_with_all_it_started(node: Node) -> None:
    mark = f"6{os.getpid()}"
    uid = await node.pod("p", WAIT)
    for options in (OUT, TERMINAL):
        end = await node.streams.exec(uid, "main", ("sh", "-c", f"sleep {mark} & echo on; sleep {mark}"), options)
        assert await end.receive() in (b"\1on\n", b"\1on\r\n")
        await until(lambda: _count(mark) == 2)
        end.close()
        await until(lambda: _count(mark) == 0)
    await until(lambda: not _helpers())


async def test_a_command_ends_with_its_container(node: Node) -> None:
    mark = f"7{os.getpid()}"
    uid = await node.pod("p", "until [ -e /dev/shm/go-$HOSTNAME ]; do sleep 0.05; done; rm /dev/shm/go-$HOSTNAME")
    end = await node.streams.exec(uid, "main", ("sh", "-c", f"touch /dev/shm/go-$HOSTNAME; sleep {mark}"), OUT)
    status, _, _ = await finished(end)
    assert status in ({"error": "the container has ended"}, {"exitCode": 137})
    await until(lambda: _count(mark) == 0)
    await node.world.finished("p")
    with pytest.raises(BadRequest, match="is not running"):
        await node.streams.exec(uid, "main", ("ls",), OUT)


async def test_output_that_is_not_read_stops_the_command_and_nothing_is_kept(node: Node) -> None:
    uid = await node.pod("p", WAIT)
    end = await node.streams.exec(
        uid, "main", ("sh", "-c", "while :; do echo 0123456789012345678901234567890; done"), OUT
    )
    assert await end.receive()
    helpers = _helpers()
    await until(lambda: all(_is_asleep(pid) for pid in helpers))
    assert all(_resident_bytes(pid) < 100 << 20 for pid in helpers)
    end.close()


async def test_who_is_attached_sees_the_output_and_writes_the_input(node: Node) -> None:
    script = "echo early; while read line; do echo got $line; echo err $line >&2; done; echo over; sleep 600"
    uid = await node.pod("p", script, container={"stdin": True, "stdinOnce": True})
    while "early" not in await node.world.log("p"):
        await asyncio.sleep(0.01)
    first = await node.streams.attach(uid, "main", BOTH)
    second = await node.streams.attach(uid, "main", OUT)
    third = await node.streams.attach(uid, "main", StreamOptions(stderr=True))
    unheard = {asyncio.ensure_future(end.receive()) for end in (first, second, third)}
    while unheard:  # who is not attached yet misses what is said
        await first.send(b"\0again\n")
        _, unheard = await asyncio.wait(unheard, timeout=0.1)
    await first.send(b"\0one\n")
    for end in (first, second):
        found = b""
        while not (b"got one\n" in found and b"err one\n" in found):
            found += await end.receive()
    found = b""
    while b"err one\n" not in found:
        found += await third.receive()
    assert b"\1" not in found
    await second.send(b"\0ignored\n")
    first.close()  # with stdinOnce that ends the input
    assert await second.receive() == b"\1over\n"
    second.close()
    third.close()
    assert "got one\n" in await node.world.log("p")


async def test_a_container_with_a_terminal_is_attached_to_as_such(node: Node) -> None:
    uid = await node.pod("p", "exec sh", container={"stdin": True, "tty": True})
    end = await node.streams.attach(uid, "main", TERMINAL)
    await end.send(b"\4" + b'{"Width":90,"Height":30}')
    await end.send(b"\0tty; stty size; echo do''ne; exit 4\n")
    found = await read_until(end, b"done\r\n")
    assert b"/dev/pts/" in found
    assert b"30 90" in found
    end.close()
    assert (await node.world.finished("p"))["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert "30 90" in await node.world.log("p")


async def test_a_client_that_stalls_is_let_go_and_the_container_goes_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "read -r go; i=0; while [ $i -lt 60000 ]; do echo $i-0123456789; i=$((i+1)); done; sleep 600"
    uid = await node.pod("p", script, container={"stdin": True})
    stalled = await node.streams.attach(uid, "main", OUT)
    reader = await node.streams.attach(uid, "main", BOTH)
    await reader.send(b"\0go\n")
    found = await read_until(reader, b"59999-0123456789\n")
    assert found.count(b"\n") >= 59000
    stalled.close()
    reader.close()


async def test_a_container_that_does_not_run_is_said_so(node: Node) -> None:
    with pytest.raises(BadRequest, match="hollow"):
        await node.streams.exec("00000000-no-such-uid", "main", ("ls",), OUT)
    uid = await node.pod("p", WAIT)
    with pytest.raises(BadRequest, match="is not running"):
        await node.streams.attach(uid, "other", OUT)
    with pytest.raises(BadRequest, match="more than"):
        await node.streams.exec(uid, "main", ("echo", "x" * 200_000), OUT)


async def test_the_sockets_belong_to_the_node_alone(node: Node, tmp_path: Path) -> None:
    uid = await node.pod("p", WAIT)
    found = list((tmp_path / "node").rglob("*.sock"))
    assert {path.name for path in found} == {"streams.sock", "attach.sock"}
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
    _, out, _ = await node.run(uid, "sh", "-c", "ls -la / /dev /run 2>/dev/null | grep -c sock; true")
    if node.world.node._runtime.isolation != "plain":
        assert out.strip() == b"0"


async def test_nonsense_on_the_sockets_ends_there(node: Node, tmp_path: Path) -> None:
    uid = await node.pod("p", WAIT)
    attempt = node.paths.pod(uid).attempt("main", 0)
    for folder, name in ((str(tmp_path / "node"), "streams.sock"), (attempt, "attach.sock")):
        for message in (b"", b"x", b"{}", b"[]", b'{"op":"no"}', b'{"op":"exec"}', b"\xff" * 1000):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                folder_fd = os.open(folder, os.O_PATH)
                sock.connect(f"/proc/self/fd/{folder_fd}/{name}")
                os.close(folder_fd)
                if message:
                    sock.send(message)
    assert (await node.run(uid, "echo", "on"))[1] == b"on\n"
    end = await node.streams.attach(uid, "main", OUT)
    end.close()


async def test_a_node_that_is_gone_is_said_so(tmp_path: Path) -> None:
    streams = NodeStreams(NodePaths(str(tmp_path)), SystemClock())
    attempt = tmp_path / "pods" / "u" / "containers" / "main" / "0"
    attempt.mkdir(parents=True)
    (attempt / "state.json").touch()
    with pytest.raises(InternalError, match="cannot be reached"):
        await streams.exec("u", "main", ("ls",), OUT)


@pytest.mark.skipif(os.geteuid() != 0, reason="pods have networks of their own as root only")
async def test_ports_are_those_of_the_pods_own_loopback(tmp_path: Path) -> None:
    serve = "import http.server as h, os; h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
    with socket.create_server(("127.0.0.1", 0)) as machine:
        async with running(tmp_path / "node", FakeApi()) as world:
            node = Node(world, tmp_path / "node")
            uid = await node.pod("p", f'cd /etc; exec python3 -c "{serve}"')
            answer = await _got(node.streams, uid, 8000)
            assert answer.startswith(b"HTTP/1.0 200 OK")
            with pytest.raises(BadRequest, match="Connection refused"):  # the machine's loopback is not the pod's
                await node.streams.connect(uid, machine.getsockname()[1])
        teardown(tmp_path / "node")


@pytest.mark.parametrize("shares", [None, False, True], ids=["nothing is noted", "it has its own", "it shares"])
async def test_without_a_network_of_its_own_yet_a_pod_does_not_have_the_machines(
    tmp_path: Path, shares: bool | None
) -> None:
    """A pod that waits for a volume, or whose containers have ended, has a directory and no namespaces."""
    paths = NodePaths(str(tmp_path))
    streams = NodeStreams(paths, SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as machine:
        if shares is not None:
            paths.pod("u").write_identity("ns", "p", "127.0.0.1", shares_network=shares)
        if not shares:
            with pytest.raises(BadRequest, match="it has no network yet, or none any more"):
                await streams.connect("u", machine.getsockname()[1])
        else:
            (await streams.connect("u", machine.getsockname()[1])).close()


async def _got(streams: NodeStreams, uid: str, port: int) -> bytes:
    async with asyncio.timeout(60):
        while True:
            try:
                sock = await streams.connect(uid, port)
                break
            except BadRequest:  # it does not listen yet
                await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(b"GET /hostname HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


def _processes() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append((int(name), file.read().decode(errors="replace").split("\0")))
            except OSError:
                continue
    return found


def _count(mark: str) -> int:
    """Return how many processes sleep for so long."""
    return sum(words[:2] == ["sleep", mark] for _, words in _processes())


def _helpers() -> list[int]:
    """Return the children of this process's spawners that serve commands."""
    found = []
    for pid, _words in _processes():
        try:
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == "strato-exec" and _is_ours(pid):
                    found.append(pid)
        except OSError:
            continue
    return found


def _is_ours(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        with open(f"/proc/{pid}/stat", "rb") as file:
            pid = int(file.read().rpartition(b")")[2].split()[1])
    return False


def _is_asleep(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"S"


def _resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
