"""The interface through which the server reaches processes and ports of pods, on whatever runs the pods."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of Kubernetes' remote command protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Which streams of a process to connect."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Channels(Protocol):
    """A process's streams as messages, whose first byte is the channel.

    The server sends input, its end (`CLOSE`) and sizes of the terminal as JSON. It receives output and, last, the
    status: JSON with ``exitCode`` or ``error``.
    """

    async def receive(self) -> bytes:
        """Return the next message; empty at the end."""

    async def send(self, message: bytes) -> None:
        """Send a message once there is room; does nothing if the process is gone."""

    def close(self) -> None:
        """Close the streams; a process that `StreamSource.exec` started for them ends."""


class StreamSource(Protocol):
    """Reaches the processes of pods. All methods raise `ApiError` with the reason if they cannot."""

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamOptions) -> Channels:
        """Run a command in a container."""

    async def attach(self, uid: str, container: str, options: StreamOptions) -> Channels:
        """Connect to the streams of a container's main process."""

    async def connect(self, uid: str, port: int) -> socket.socket:
        """Return a non-blocking socket connected to a port of a pod.

        Args:
            uid: The pod's.
            port: A port on the pod's loopback interface.
        """
