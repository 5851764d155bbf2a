"""Input and output of a process over one socket of messages, whose first byte names the channel.

The channels are those of Kubernetes' remote command protocol; a status is JSON of our own. `ExecStreams` serves the
process of one command, `Attachments` all clients attached to a container. Buffers hold one message in each direction: a
client that does not read blocks the output, and while the process does not read its input, the client's messages are
not read either. Standard library only.
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
"""Most bytes of input or output in one message."""
MESSAGE_BYTES = 128 * 1024
"""The largest message: a command and its arguments."""
STALLED_SECONDS = 10.0
"""How long an attached client may block a container's output before it is disconnected."""
MOST_ATTACHED = 16
"""Most clients attached to one container at a time."""
_END_OF_INPUT = b"\x04"
_REQUEST_SECONDS = 10.0


def receive_message(sock: socket.socket) -> bytes:
    """Return the next message, empty at the end.

    If the peer closes its end with unread data, the kernel first reports ECONNRESET here, and only afterwards returns
    the messages that the peer had sent before; so that error is skipped.

    Raises:
        BlockingIOError: There is no message yet.
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
        """Whether a message is waiting to be sent because the client does not read."""
        return bool(self._pending)

    def send(self, channel: int, data: bytes) -> None:
        """Send a message; call it only when the client is not behind."""
        self._pending = bytes((channel,)) + data
        self.stalled_since = time.monotonic()
        self.flush()

    def flush(self) -> None:
        """Send the waiting message, if the socket has room."""
        try:
            if self._pending:
                self._socket.send(self._pending)
            self._pending = b""
        except BlockingIOError:
            pass
        except OSError:
            self._pending, self.is_gone = b"", True

    def receive(self) -> tuple[int, bytes] | None:
        """Return the next message, None when there is none; `is_gone` says whether the client has disconnected."""
        try:
            message = receive_message(self._socket)
        except BlockingIOError:
            return None
        if not message:
            self.is_gone = True
            return None
        return message[0], message[1:]

    def finish(self, status: dict[str, Any], seconds: float = STALLED_SECONDS) -> None:
        """Send the waiting message and the status, and close; waits at most ``seconds`` for the client to read."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(seconds)
            if self._pending:
                self._socket.send(self._pending)
            self._socket.send(bytes((STATUS,)) + json.dumps(status).encode())
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._pending, self.is_gone = b"", True
        self._socket.close()


class Input:
    """The input of a process: a pipe or a terminal; None discards input."""

    def __init__(self, descriptor: int | None, *, is_terminal: bool) -> None:
        self.fd, self._is_terminal = descriptor, is_terminal
        self._pending = b""
        self._ends = False
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    @property
    def is_behind(self) -> bool:
        """Whether input is waiting because the process does not read."""
        return bool(self._pending)

    def take(self, channel: int, data: bytes) -> None:
        """Handle a client's message; call it only when no input is waiting."""
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
        """Close the input, after the process has read what is waiting."""
        if self._is_terminal:
            self._pending += _END_OF_INPUT
        else:
            self._ends = True
        self.flush()

    def flush(self) -> None:
        """Write the waiting input, as far as there is room."""
        if self.fd is None:
            self._pending = b""
            return
        try:
            if self._pending:
                self._pending = self._pending[os.write(self.fd, self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # the process has closed its input
            self._pending, self._ends = b"", True
        if self._ends and not self._pending and not self._is_terminal:
            os.close(self.fd)
            self.fd = None


def read_output(descriptor: int, size: int = DATA_BYTES) -> bytes | None:
    """Return output of a non-blocking pipe or terminal: None when there is none yet, empty at its end."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None
    except OSError:  # EIO: no process has the terminal open any more
        return b""


class ExecStreams:
    """Copies the streams of a command in a container between its process and the client.

    Args:
        client: The client that asked for the command.
        process: Descriptor of the command's process (a pidfd), readable when that has ended.
        container: The pidfd of the container's supervisor.
        stdin: The command's input.
        outputs: Descriptor of an output of the command → its channel.
    """

    def __init__(self, client: Client, process: int, container: int, stdin: Input, outputs: dict[int, int]) -> None:
        self._client, self._process, self._container = client, process, container
        self._stdin, self._outputs = stdin, outputs
        for descriptor in outputs:
            os.set_blocking(descriptor, False)

    def run(self) -> bool:
        """Copy until the command has ended; return False if the client or the container is gone before."""
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
            if not self._copy(ready) and is_draining:  # the command has ended, and all its output has been read
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
        """Send available output, and return whether there was any."""
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
    """The clients attached to a container, which get its output from now on and may write its input.

    Args:
        listener: The socket to which clients connect.
        stdin: The container's input.
        once: Whether the container's input ends when the first client that could write it disconnects (``stdinOnce``).
    """

    def __init__(self, listener: socket.socket, stdin: Input, *, once: bool) -> None:
        listener.setblocking(False)
        self._listener, self._stdin, self._once = listener, stdin, once
        self._asking: dict[int, tuple[Client, float]] = {}
        self._clients: dict[int, Client] = {}
        self._wants: dict[int, frozenset[int]] = {}

    @property
    def hold_back(self) -> bool:
        """Whether output has to wait because a client has not read the last message."""
        return any(client.is_behind for client in self._clients.values())

    def register(self, poller: select.poll) -> None:
        """Register the sockets of the listener and the clients with a poller."""
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
        """Return the longest time to wait before `drop_stalled` must be called; None for any time."""
        since = [client.stalled_since for client in self._clients.values() if client.is_behind]
        since += [began for _, began in self._asking.values()]
        return None if not since else max(0, int((min(since) + STALLED_SECONDS - time.monotonic()) * 1000) + 1)

    def handle(self, fd: int, events: int) -> None:
        """Handle an event of the poller."""
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
            message = client.receive()  # messages that it sent before it disconnected can still be read
            if message is not None and (message[0] != STDIN or CLOSE in self._wants[fd]):
                self._take(*message)
        elif events & (select.POLLHUP | select.POLLERR):
            client.is_gone = True
        if client.is_gone:
            self._drop(fd)

    def _take(self, channel: int, data: bytes) -> None:
        """Handle a message; the end of a client's input ends the container's input only with ``once``."""
        if channel != CLOSE or self._once:
            self._stdin.take(channel, data)

    def _drop(self, fd: int) -> None:
        client = self._clients.pop(fd)
        client.close()
        wrote = CLOSE in self._wants.pop(fd)
        if self._once and wrote and not any(CLOSE in self._wants[other] for other in self._clients):
            self._stdin.end()

    def output(self, channel: int, data: bytes) -> None:
        """Send a piece of output to the clients that want that channel; call it only if `hold_back` is False."""
        for fd, client in list(self._clients.items()):
            if channel in self._wants[fd]:
                client.send(channel, data)
                if client.is_gone:
                    self._drop(fd)

    def drop_stalled(self) -> None:
        """Disconnect clients that block the output for too long, or that have not sent their options in time."""
        now = time.monotonic()
        for fd, client in list(self._clients.items()):
            if client.is_behind and now - client.stalled_since >= STALLED_SECONDS:
                self._drop(fd)
        for fd, (client, began) in list(self._asking.items()):
            if now - began >= _REQUEST_SECONDS:
                del self._asking[fd]
                client.close()

    def catch_up(self) -> None:
        """Wait until no client blocks the output; disconnects those that do so for too long."""
        while self.hold_back:
            poller = select.poll()
            for fd, client in self._clients.items():
                poller.register(fd, _when(client.is_behind))
            for fd, events in poller.poll(self.wait_milliseconds()):
                self._serve(fd, self._clients[fd], events)
            self.drop_stalled()

    def finish(self) -> None:
        """Send all clients the end of the container, and close."""
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
    """Return a listening socket at a file that only this user can reach; the path may have any length."""
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
