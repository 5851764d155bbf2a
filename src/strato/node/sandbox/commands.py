"""Requests of the API server at the spawner's socket: a command in a container, a connection into a pod's network.

Each request has its own connection, which a new child process of the spawner serves. When the client closes the
connection, the command is killed. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from typing import Any, NoReturn

from strato.errors import one_line
from strato.node.sandbox import channels, container, linux

SOCKET = "streams.sock"
"""Name of the socket in the node's data directory."""
_REQUEST_SECONDS = 10.0
_CONNECT_SECONDS = 10.0

Request = dict[str, Any]


def serve(sock: socket.socket) -> NoReturn:
    """Serve one connection and exit; call it in a new child process."""
    try:
        linux.set_process_name("strato-exec")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        sock.settimeout(_REQUEST_SECONDS)
        message = sock.recv(channels.MESSAGE_BYTES)
        if message:
            _OPERATIONS[json.loads(message)["op"]](sock, json.loads(message))
    except Exception as error:  # any failure is sent to the client as the answer
        with contextlib.suppress(OSError):
            sock.send(bytes((channels.STATUS,)) + json.dumps({"error": _reason(error)}).encode())
    finally:
        os._exit(0)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | ProcessLookupError):
        return "the container does not run"
    return one_line(error)


def _exec(sock: socket.socket, request: Request) -> None:
    """Run a command in a running container and carry its streams."""
    directory, tty = request["directory"], bool(request["tty"])
    spec, state = (_read(os.path.join(directory, name)) for name in ("spec.json", "state.json"))
    supervisor = os.pidfd_open(state["pid"])
    entry = container.enter_running(spec, state)
    failed_read, failed_write = os.pipe()
    streams = Pipes(stdin=request["stdin"], tty=tty)
    linux.hide_from_tracers()  # before the fork: the child is visible in the container from its first moment on
    pid = os.fork()
    if pid == 0:
        container.become(spec, entry, request["argv"], streams.theirs, failed_write, streams.sends_terminal)
    for fd in (failed_write, *entry.descriptors):
        os.close(fd)
    streams.close_theirs()
    with open(failed_read, "rb") as failures:
        problem = failures.read().decode(errors="replace")
    if problem:
        os.waitpid(pid, 0)
        raise OSError(problem)
    stdin, outputs = streams.ours()
    client = channels.Client(sock)
    try:
        was_served = channels.ExecStreams(client, os.pidfd_open(pid), supervisor, stdin, outputs).run()
    except BaseException:
        container.kill_tree(pid)
        raise
    if not was_served:
        container.kill_tree(pid)
        if not client.is_gone:
            client.finish({"error": "the container has ended"})
        return
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    client.finish({"exitCode": code if code >= 0 else 128 - code})


class Pipes:
    """The pipes or the terminal that connect a process with the process that serves its streams.

    A terminal belongs to the container, so the container's user opens it, inside; see `container`.
    """

    def __init__(self, *, stdin: bool, tty: bool) -> None:
        self._tty = tty
        self.theirs: list[int | None] = [None, None, None]
        self.sends_terminal: socket.socket | None = None
        self._ours: list[int | None] = [None, None, None]
        if tty:
            self._terminal, self.sends_terminal = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            return
        if stdin:
            self.theirs[0], self._ours[0] = os.pipe()
        for number in (1, 2):
            self._ours[number], self.theirs[number] = os.pipe()

    def close_theirs(self) -> None:
        """Close the ends that belong to the process."""
        for fd in self.theirs:
            if fd is not None:
                os.close(fd)
        if self.sends_terminal is not None:
            self.sends_terminal.close()

    def ours(self) -> tuple[channels.Input, dict[int, int]]:
        """Return the input, and the channel of each output; call it after the process has executed its program.

        Raises:
            OSError: The process could not open a terminal.
        """
        stdin, out, err = self._ours
        if not self._tty:
            outputs = {fd: number for number, fd in ((1, out), (2, err)) if fd is not None}
            return channels.Input(stdin, is_terminal=False), outputs
        _, fds = container.receive_fds(self._terminal)
        self._terminal.close()
        if len(fds) != 1:
            raise OSError("the container has no terminals")
        return channels.Input(os.dup(fds[0]), is_terminal=True), {fds[0]: channels.STDOUT}


def _connect(sock: socket.socket, request: Request) -> None:
    """Connect to a port of the pod's loopback, and send the connection's descriptor to the client."""
    linux.enter_namespace(request["namespace"])
    problem = OSError("no address")
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            try:
                connection.connect((address, request["port"]))
            except OSError as error:
                if family == socket.AF_INET:
                    problem = error
                continue
            connection.setblocking(False)
            socket.send_fds(sock, [b"{}"], [connection.fileno()])
            return
    raise problem


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        body: dict[str, Any] = json.load(file)
    return body


_OPERATIONS = {"exec": _exec, "connect": _connect}
