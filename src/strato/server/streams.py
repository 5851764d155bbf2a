"""Where the streams of pods come from: the border between the server and whatever runs the pods."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels of Kubernetes' remote command protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Which streams of a process are wanted."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Channels(Protocol):
    """A process's streams as messages, whose first byte names the channel.

    Sent are input, ends of it (`CLOSE`) and sizes of the terminal as JSON; received are output and, last, the status:
    JSON with ``exitCode`` or ``error``.
    """

    async def receive(self) -> bytes:
        """Return the next message; empty at the end."""

    async def send(self, message: bytes) -> None:
        """Send a message once there is room; nothing happens when the other end is gone."""

    def close(self) -> None:
        """Hang up; what was run for it ends."""


class StreamSource(Protocol):
    """Reaches the processes of pods. All raise `ApiError` with the reason when they cannot."""

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamOptions) -> Channels:
        """Run a command in a container."""

    async def attach(self, uid: str, container: str, options: StreamOptions) -> Channels:
        """Join the streams of a container's own process."""

    async def connect(self, uid: str, port: int) -> socket.socket:
        """Return a connection, which does not block, to a port of a pod.

        Args:
            uid: Of the pod.
            port: Where something listens on the pod's loopback.
        """
