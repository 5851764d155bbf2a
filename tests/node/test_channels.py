"""Streams between a process and a client over a socket of messages, without a node."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from strato.node.sandbox import channels
from strato.node.sandbox.channels import Attachments, Client, ExecStreams, Input


@contextlib.contextmanager
def served(script: str) -> Iterator[tuple[socket.socket, list[bool]]]:
    """Run a shell's script and serve its streams to the socket; the list says how serving ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 40_000)  # room for a message or two
    stdin_read, stdin_write = os.pipe()
    out_read, out_write = os.pipe()
    process = subprocess.Popen(["sh", "-c", script], stdin=stdin_read, stdout=out_write)
    container = subprocess.Popen(["sleep", "600"])
    os.close(stdin_read)
    os.close(out_write)
    pidfds = [os.pidfd_open(process.pid), os.pidfd_open(container.pid)]
    ended: list[bool] = []

    def serve() -> None:
        stdin = Input(stdin_write, is_terminal=False)
        ended.append(ExecStreams(Client(theirs), *pidfds, stdin, {out_read: channels.STDOUT}).run())
        theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ours, ended
    finally:
        ours.close()
        process.kill()
        container.kill()
        process.wait()
        container.wait()
        thread.join()
        for descriptor in (*pidfds, out_read):
            os.close(descriptor)


def rest_of(sock: socket.socket) -> bytes:
    found = b""
    while message := sock.recv(channels.MESSAGE_BYTES):
        found += message[1:]
    return found


@pytest.mark.parametrize("size", [0, 1, 60_000, 1_000_000])
def test_all_output_arrives_though_the_process_has_ended_and_the_client_is_slow(size: int) -> None:
    """What is in the pipe when the process ends was lost if the client happened to be behind in that moment."""
    for _ in range(20 if size == 60_000 else 1):
        with served(f"head -c {size} /dev/zero") as (sock, ended):
            if size == 60_000:
                time.sleep(0.02)  # the process has ended, and most of its output is in the pipe
            assert rest_of(sock) == bytes(size)
        assert ended == [True]


def test_a_client_that_leaves_is_noticed_while_nothing_else_happens() -> None:
    with served("sleep 600") as (sock, ended):
        sock.close()
    assert ended == [False]


class Attached:
    """A container's supervisor, played: attachments, and a pipe as its input."""

    def __init__(self, folder: str, *, once: bool = True) -> None:
        self.input, stdin = os.pipe()
        self.stdin = Input(stdin, is_terminal=False)
        self._folder = folder
        self.all = Attachments(channels.listen(folder, "a.sock"), self.stdin, once=once)

    def client(self, **wanted: bool) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(os.path.join(self._folder, "a.sock"))
        sock.send(json.dumps(wanted).encode())
        self.turn()
        return sock

    def turn(self) -> None:
        """Do what there is to do."""
        for _ in range(4):
            poller = select.poll()
            self.all.register(poller)
            for fd, events in poller.poll(0):
                self.all.handle(fd, events)
            self.all.drop_stalled()


@pytest.fixture
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Attached]]:
    made: list[Attached] = []

    def one(**options: bool) -> Attached:
        made.append(Attached(str(tmp_path_factory.mktemp("a")), **options))
        return made[-1]

    yield one
    for each in made:
        each.all.finish()
        os.close(each.input)
        if each.stdin.fd is not None:
            os.close(each.stdin.fd)


def test_a_client_that_does_not_read_holds_back_the_output_and_is_let_go(
    make: Callable[..., Attached], monkeypatch: pytest.MonkeyPatch
) -> None:
    attached = make()
    with attached.client(stdout=True) as stalled, attached.client(stderr=True) as other:
        for _ in range(1000):
            if attached.all.hold_back:
                break
            attached.all.output(channels.STDOUT, bytes(channels.DATA_BYTES))
        assert attached.all.hold_back
        assert attached.all.wait_milliseconds()
        monkeypatch.setattr(channels, "STALLED_SECONDS", -1.0)
        attached.turn()
        assert not attached.all.hold_back
        attached.all.output(channels.STDERR, b"on")
        assert other.recv(100) == b"\2on"
        assert stalled.recv(channels.MESSAGE_BYTES)


def test_clients_are_limited_and_those_that_say_nothing_are_let_go(
    make: Callable[..., Attached], monkeypatch: pytest.MonkeyPatch
) -> None:
    attached = make()
    silent = []
    for _ in range(channels.MOST_ATTACHED + 5):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(os.path.join(attached._folder, "a.sock"))
        silent.append(sock)
        attached.turn()
    assert len(attached.all._asking) == channels.MOST_ATTACHED
    monkeypatch.setattr(channels, "_REQUEST_SECONDS", -1.0)
    attached.turn()
    for sock in silent:
        sock.close()
    attached.turn()
    assert not attached.all._asking


def test_input_that_the_container_does_not_read_is_not_piled_up(make: Callable[..., Attached]) -> None:
    attached = make()
    with attached.client(stdin=True) as sock:
        sock.setblocking(False)
        sent = []
        with contextlib.suppress(BlockingIOError):
            while len(sent) < 100:
                sent.append(sock.send(b"\0" + bytes(channels.DATA_BYTES)))
                attached.turn()
        assert len(sent) < 50
        assert attached.stdin.is_behind


@pytest.mark.parametrize(("once", "left"), [(True, b""), (False, None)])
def test_the_input_ends_with_the_first_client_if_the_container_says_so(
    make: Callable[..., Attached], once: bool, left: bytes | None
) -> None:
    attached = make(once=once)
    with attached.client(stdin=True) as sock:
        sock.send(b"\0text")
        attached.turn()
    attached.turn()
    os.set_blocking(attached.input, False)
    assert os.read(attached.input, 100) == b"text"
    if left is None:
        with pytest.raises(BlockingIOError):
            os.read(attached.input, 100)
    else:
        assert os.read(attached.input, 100) == left


def test_input_of_a_client_that_has_hung_up_reaches_the_container(make: Callable[..., Attached]) -> None:
    attached = make()
    with attached.client(stdin=True, stdout=True) as sock:
        attached.all.output(channels.STDOUT, b"never read")
        sock.send(b"\0one")
        sock.send(b"\0two")
    attached.turn()
    assert os.read(attached.input, 100) == b"onetwo"


def test_what_was_sent_before_a_reset_is_received() -> None:
    """A container that ended before it was told of the end of its input lost its last output now and then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(bytes((channels.CLOSE, channels.STDIN)))
        Client(theirs).finish({"exitCode": 0})
        assert channels.receive_message(ours)[0] == channels.STATUS
        assert channels.receive_message(ours) == b""
