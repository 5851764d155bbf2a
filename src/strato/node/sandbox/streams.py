"""Streams of containers for an API server on this machine, which may be another process than the node.

Requests go to sockets below the node's directory, which only its user can reach: to the spawner for commands and
connections (`commands`), to a container's supervisor for the container's own streams (`channels.Attachments`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from typing import Any, Protocol

from strato.clock import Clock
from strato.errors import BadRequest, InternalError, one_line
from strato.node.sandbox import container
from strato.node.sandbox.channels import MESSAGE_BYTES, receive_message
from strato.node.sandbox.commands import SOCKET
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.supervisor import ATTACH_SOCKET

_CONNECT_SECONDS = 15.0
_RETRY_SECONDS = 0.01


class StreamQuery(Protocol):
    """The wanted streams (the server's ``StreamOptions``)."""

    @property
    def stdin(self) -> bool:
        """Standard input."""

    @property
    def stdout(self) -> bool:
        """Standard output."""

    @property
    def stderr(self) -> bool:
        """Standard error."""

    @property
    def tty(self) -> bool:
        """All streams through a terminal."""


class MessageSocket:
    """One end of a message socket, for use in an event loop."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """Return the next message; empty at the end."""
        while True:
            try:
                return receive_message(self._socket)
            except BlockingIOError:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)

    async def send(self, message: bytes) -> None:
        """Send a message once there is room."""
        while True:
            try:
                self._socket.send(message)
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                return
            else:
                return

    async def _ready(self, add: Any, remove: Any) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        descriptor = self._socket.fileno()
        add(descriptor, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            if self._socket.fileno() == descriptor:
                remove(descriptor)

    async def receive_descriptor(self) -> tuple[bytes, list[int]]:
        """Return a message and the descriptors that came with it."""
        await self._ready(self._loop.add_reader, self._loop.remove_reader)
        return container.receive_fds(self._socket)

    def close(self) -> None:
        """Close the connection."""
        descriptor = self._socket.fileno()
        if descriptor >= 0:
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        self._socket.close()


class NodeStreams:
    """Reaches the containers of the node with this directory; a `StreamSource` of the server."""

    def __init__(self, node_paths: NodePaths, clock: Clock) -> None:
        self._node_paths, self._clock = node_paths, clock

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamQuery) -> MessageSocket:
        """Run a command in a container.

        Raises:
            BadRequest: The container does not run, or the command is too long.
        """
        directory = self._running(uid, container)
        asked = {"op": "exec", "directory": directory, "argv": list(command), **_wanted(options)}
        return await self._ask(self._node_paths.data_dir, SOCKET, asked)

    async def attach(self, uid: str, container: str, options: StreamQuery) -> MessageSocket:
        """Join the streams of a container's own process.

        Raises:
            BadRequest: The container does not run.
        """
        return await self._ask(self._running(uid, container), ATTACH_SOCKET, _wanted(options))

    async def connect(self, uid: str, port: int) -> socket.socket:
        """Return a connection to a port of a pod.

        Raises:
            BadRequest: Nothing listens there.
        """
        place = self._node_paths.pod(uid)
        namespace = os.path.join(place.namespaces, "net")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                if place.shares_network:  # the address comes from the node's files: the API's status could be forged
                    return await _connected(dict.fromkeys((place.identity().get("ip", ""), "127.0.0.1")), port)
                if not os.path.exists(namespace):  # never use the machine's network instead, where others listen
                    raise BadRequest(f"connection to port {port} of the pod: it has no network yet, or none any more")
                return await self._connected_inside(namespace, port)
        except TimeoutError:
            raise BadRequest(f"connection to port {port} of the pod: nobody answered in time") from None
        except OSError as error:
            raise BadRequest(f"connection to port {port} of the pod: {one_line(error)}") from error

    async def _connected_inside(self, namespace: str, port: int) -> socket.socket:
        asked = {"op": "connect", "namespace": namespace, "port": port}
        helper = await self._ask(self._node_paths.data_dir, SOCKET, asked)
        try:
            message, descriptors = await helper.receive_descriptor()
        finally:
            helper.close()
        if not descriptors:
            raise OSError(json.loads(message[1:])["error"] if message else "the node's helper died")
        return socket.socket(fileno=descriptors[0])

    def _running(self, uid: str, container: str) -> str:
        """Return the directory of a container's present run."""
        place = self._node_paths.pod(uid)
        directory = place.attempt(container, place.last_attempt(container))
        if not os.path.isdir(place.home):
            raise BadRequest(
                f'container "{container}" has no process on this machine: its node is a hollow one, where nothing '
                "runs, or another machine"
            )
        if not place.runs(directory):
            raise BadRequest(f'container "{container}" is not running')
        return directory

    async def _ask(self, directory: str, name: str, asked: dict[str, Any]) -> MessageSocket:
        message = json.dumps(asked).encode()
        if len(message) > MESSAGE_BYTES:
            raise BadRequest(f"the command has more than {MESSAGE_BYTES} bytes; put it into a file")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                await self._connect(sock, f"/proc/self/fd/{folder}/{name}")
            finally:
                os.close(folder)
            sock.send(message)
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):  # includes TimeoutError
                raise InternalError(f"the node of the pod cannot be reached: {one_line(error)}") from error
            raise
        return MessageSocket(sock)

    async def _connect(self, sock: socket.socket, path: str) -> None:
        """Connect; retries while the listener's queue is full."""
        async with asyncio.timeout(_CONNECT_SECONDS):
            while True:
                try:
                    sock.connect(path)
                except BlockingIOError:
                    await self._clock.sleep(_RETRY_SECONDS)
                else:
                    return


async def _connected(addresses: Sequence[str] | dict[str, None], port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    problem = OSError("the pod has no address")
    for address in addresses:
        if not address:
            continue
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, (address, port))
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


def _wanted(options: StreamQuery) -> dict[str, bool]:
    return {"stdin": options.stdin, "stdout": options.stdout, "stderr": options.stderr, "tty": options.tty}
