"""Input and output of a process over one socket of messages, whose first byte names the channel.

The channels are those of Kubernetes' remote command protocol; a status is JSON of our own. `ExecStreams` serves the
process of one command, `Attachments` everybody who is attached to a container. A client that does not read holds back
the output, one that sends too much is not read: nothing is kept but one message in each direction. Standard library
only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import termios
import time
from typing import Any

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
DATA_BYTES = 32 * 1024
"""Of input or output in one message, at most."""
MESSAGE_BYTES = 128 * 1024
"""The largest message: a command and its arguments."""
STALLED_SECONDS = 10.0
"""How long a client that is attached to a container may hold back its output."""
MOST_ATTACHED = 16
"""Clients attached to one container at a time."""
_END_OF_INPUT = b"\x04"
_REQUEST_SECONDS = 10.0


def receive_message(sock: socket.socket) -> bytes:
    """Return the next message, empty at the end.

    An end that was closed before it had read everything resets the other, whose kernel says that first and hands out
    afterwards what was sent before.

    Raises:
        BlockingIOError: None has come yet.
    """
    try:
        try:
            return sock.recv(MESSAGE_BYTES)
        except ConnectionResetError:
            return sock.recv(MESSAGE_BYTES)
    except BlockingIOError:
        raise
    except OSError:
        return b""


class Client:
    """The other end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._pending = b""
        self.is_gone = False
        self.stalled_since = 0.0

    @property
    def fd(self) -> int:
        """Descriptor of the socket."""
        return self._socket.fileno()

    @property
    def is_behind(self) -> bool:
        """Whether a message waits for the client to read."""
        return bool(self._pending)

    def send(self, channel: int, data: bytes) -> None:
        """Send a message; call it only when the client is not behind."""
        self._pending = bytes((channel,)) + data
        self.stalled_since = time.monotonic()
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        try:
            if self._pending:
                self._socket.send(self._pending)
            self._pending = b""
        except BlockingIOError:
            pass
        except OSError:
            self._pending, self.is_gone = b"", True

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next message, None when none has come; see `is_gone`."""
        try:
            message = receive_message(self._socket)
        except BlockingIOError:
            return None
        if not message:
            self.is_gone = True
            return None
        return message[0], message[1:]

    def finish(self, status: dict[str, Any], seconds: float = STALLED_SECONDS) -> None:
        """Send what waits and the status, and close; a client that does not read is given some seconds."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(seconds)
            if self._pending:
                self._socket.send(self._pending)
            self._socket.send(bytes((STATUS,)) + json.dumps(status).encode())
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._pending, self.is_gone = b"", True
        self._socket.close()


class Input:
    """Where a process reads from: a pipe or a terminal; None takes nothing."""

    def __init__(self, descriptor: int | None, *, is_terminal: bool) -> None:
        self.fd, self._is_terminal = descriptor, is_terminal
        self._pending = b""
        self._ends = False
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    @property
    def is_behind(self) -> bool:
        """Whether something waits for the process to read."""
        return bool(self._pending)

    def take(self, channel: int, data: bytes) -> None:
        """Carry out a client's message; call it only when nothing waits."""
        if channel == STDIN and data and not self._ends:
            self._pending = data
        elif channel == CLOSE and data == bytes((STDIN,)):
            self.end()
        elif channel == RESIZE and self._is_terminal and self.fd is not None:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, struct.error):
                size = json.loads(data)
                packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                fcntl.ioctl(self.fd, termios.TIOCSWINSZ, packed)
        self.flush()

    def end(self) -> None:
        """Let the process see the end of its input, once it has read what waits."""
        if self._is_terminal:
            self._pending += _END_OF_INPUT
        else:
            self._ends = True
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as there is room."""
        if self.fd is None:
            self._pending = b""
            return
        try:
            if self._pending:
                self._pending = self._pending[os.write(self.fd, self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # the process reads no more
            self._pending, self._ends = b"", True
        if self._ends and not self._pending and not self._is_terminal:
            os.close(self.fd)
            self.fd = None


def read_output(descriptor: int, size: int = DATA_BYTES) -> bytes | None:
    """Return output of a pipe or terminal that does not block: None when there is none yet, empty at its end."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None
    except OSError:  # EIO: nobody has the terminal open any more
        return b""


class ExecStreams:
    """Carries the streams of a command that runs in a container.

    Args:
        client: Who asked for it.
        process: Descriptor of the command's process, readable when that has ended (a pidfd).
        container: The same of the container's supervisor.
        stdin: Where the command reads from.
        outputs: Channel of each descriptor it writes to.
    """

    def __init__(self, client: Client, process: int, container: int, stdin: Input, outputs: dict[int, int]) -> None:
        self._client, self._process, self._container = client, process, container
        self._stdin, self._outputs = stdin, outputs
        for descriptor in outputs:
            os.set_blocking(descriptor, False)

    def run(self) -> bool:
        """Carry until the command has ended; return False when the client or the container has gone before."""
        client, stdin = self._client, self._stdin
        has_ended = False
        while not client.is_gone:
            is_draining = has_ended and not client.is_behind
            poller = select.poll()
            poller.register(client.fd, (0 if stdin.is_behind else select.POLLIN) | _when(client.is_behind))
            if stdin.is_behind and stdin.fd is not None:
                poller.register(stdin.fd, select.POLLOUT)
            if not client.is_behind:
                for descriptor in self._outputs:
                    poller.register(descriptor, select.POLLIN)
            if not has_ended:
                poller.register(self._process, select.POLLIN)
                poller.register(self._container, select.POLLIN)
            ready = dict(poller.poll(0 if is_draining else None))
            if self._container in ready and self._process not in ready:
                return False
            has_ended = has_ended or self._process in ready
            if client.fd in ready:
                self._serve_client(ready[client.fd])
            if stdin.fd in ready:
                stdin.flush()
            if not self._copy(ready) and is_draining:  # it was looked for after the end, and there was none
                return not client.is_gone
        return False

    def _serve_client(self, events: int) -> None:
        client = self._client
        if events & (select.POLLHUP | select.POLLERR):
            client.is_gone = True
            return
        if events & select.POLLOUT:
            client.flush()
        if events & select.POLLIN and (message := client.receive()) is not None:
            self._stdin.take(*message)

    def _copy(self, ready: dict[int, int]) -> bool:
        """Send output that is there, and return whether there was any."""
        found = False
        for descriptor in [one for one in self._outputs if one in ready]:
            if self._client.is_behind:
                return True
            data = read_output(descriptor)
            if data:
                self._client.send(self._outputs[descriptor], data)
                found = True
            elif data is not None:
                del self._outputs[descriptor]
        return found


class Attachments:
    """Who is attached to a container: they see its output from now on and may write its input.

    Args:
        listener: Where they connect.
        stdin: The container's input.
        once: Whether the input ends with the first client that could write it.
    """

    def __init__(self, listener: socket.socket, stdin: Input, *, once: bool) -> None:
        listener.setblocking(False)
        self._listener, self._stdin, self._once = listener, stdin, once
        self._asking: dict[int, tuple[Client, float]] = {}
        self._clients: dict[int, Client] = {}
        self._wants: dict[int, frozenset[int]] = {}

    @property
    def hold_back(self) -> bool:
        """Whether output has to wait: a client has not read the last of it."""
        return any(client.is_behind for client in self._clients.values())

    def register(self, poller: select.poll) -> None:
        """Have the poller look for what concerns clients."""
        if len(self._clients) + len(self._asking) < MOST_ATTACHED:
            poller.register(self._listener.fileno(), select.POLLIN)
        for fd in self._asking:
            poller.register(fd, select.POLLIN)
        reads = 0 if self._stdin.is_behind else select.POLLIN
        for fd, client in self._clients.items():
            poller.register(fd, (reads if STDIN in self._wants[fd] else 0) | _when(client.is_behind))
        if self._stdin.is_behind and self._stdin.fd is not None:
            poller.register(self._stdin.fd, select.POLLOUT)

    def wait_milliseconds(self) -> int | None:
        """Return after what time at most `handle` or `drop_stalled` has something to do."""
        since = [client.stalled_since for client in self._clients.values() if client.is_behind]
        since += [began for _, began in self._asking.values()]
        return None if not since else max(0, int((min(since) + STALLED_SECONDS - time.monotonic()) * 1000) + 1)

    def handle(self, fd: int, events: int) -> None:
        """Carry out what the poller found."""
        if fd == self._listener.fileno():
            with contextlib.suppress(OSError):
                client = Client(self._listener.accept()[0])
                self._asking[client.fd] = client, time.monotonic()
        elif fd in self._asking:
            client, _ = self._asking.pop(fd)
            self._begin(client)
        elif fd in self._clients:
            self._serve(fd, self._clients[fd], events)
        elif fd == self._stdin.fd:
            self._stdin.flush()

    def _begin(self, client: Client) -> None:
        fd, message = client.fd, client.receive()
        try:
            wanted = json.loads(bytes((message[0],)) + message[1]) if message is not None else None
        except ValueError:
            wanted = None
        if not isinstance(wanted, dict):
            client.close()
            return
        known = {"stdin": (STDIN, CLOSE, RESIZE), "stdout": (STDOUT,), "stderr": (STDERR,)}
        self._wants[fd] = frozenset(one for name, ones in known.items() if wanted.get(name) for one in ones)
        if wanted.get("tty"):
            self._wants[fd] |= {STDIN, RESIZE}
        self._clients[fd] = client

    def _serve(self, fd: int, client: Client, events: int) -> None:
        if events & select.POLLOUT:
            client.flush()
        if events & select.POLLIN and not client.is_gone and not self._stdin.is_behind:
            message = client.receive()  # what it sent before it hung up is still there
            if message is not None and (message[0] != STDIN or CLOSE in self._wants[fd]):
                self._take(*message)
        elif events & (select.POLLHUP | select.POLLERR):
            client.is_gone = True
        if client.is_gone:
            self._drop(fd)

    def _take(self, channel: int, data: bytes) -> None:
        """Carry out a message; the end of one client's input is the container's only if it reads only one client."""
        if channel != CLOSE or self._once:
            self._stdin.take(channel, data)

    def _drop(self, fd: int) -> None:
        client = self._clients.pop(fd)
        client.close()
        wrote = CLOSE in self._wants.pop(fd)
        if self._once and wrote and not any(CLOSE in self._wants[other] for other in self._clients):
            self._stdin.end()

    def output(self, channel: int, data: bytes) -> None:
        """Show a piece of output to those who want it; call it only when nothing is held back."""
        for fd, client in list(self._clients.items()):
            if channel in self._wants[fd]:
                client.send(channel, data)
                if client.is_gone:
                    self._drop(fd)

    def drop_stalled(self) -> None:
        """Let go of clients that hold back the output for too long, or do not say what they want."""
        now = time.monotonic()
        for fd, client in list(self._clients.items()):
            if client.is_behind and now - client.stalled_since >= STALLED_SECONDS:
                self._drop(fd)
        for fd, (client, began) in list(self._asking.items()):
            if now - began >= _REQUEST_SECONDS:
                del self._asking[fd]
                client.close()

    def catch_up(self) -> None:
        """Wait until no client holds back the output; those that stall are let go."""
        while self.hold_back:
            poller = select.poll()
            for fd, client in self._clients.items():
                poller.register(fd, _when(client.is_behind))
            for fd, events in poller.poll(self.wait_milliseconds()):
                self._serve(fd, self._clients[fd], events)
            self.drop_stalled()

    def finish(self) -> None:
        """Tell all that the container has ended."""
        for client in self._clients.values():
            client.finish({"exitCode": 0}, seconds=1.0)
        for client, _ in self._asking.values():
            client.close()
        self._clients.clear()
        self._asking.clear()
        self._listener.close()


def _when(is_behind: bool) -> int:
    return select.POLLOUT if is_behind else 0


def listen(directory: str, name: str) -> socket.socket:
    """Return a socket that takes connections at a file only this user can reach; its path may have any length."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        sock.bind(f"/proc/self/fd/{folder}/{name}")
        sock.listen(64)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
        os.close(folder)
    return sock
