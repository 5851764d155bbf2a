"""What the endpoints are given: the master that leads, the time, and the way to the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from strato.interop.mesos.door.files import Files
from strato.interop.mesos.door.streams import EventStream
from strato.interop.mesos.master.core import Master


@dataclass(frozen=True, slots=True)
class Serving:
    """A master that serves."""

    master: Master
    now: Callable[[], float]
    flush: Callable[[], Awaitable[None]]
    """Write what the master has left in its outbox; a call is answered after that."""
    files: Files
    """Of sandboxes."""
    disconnected: Callable[[], None]
    """Have the outbox written soon: somebody's stream has ended."""

    def closed(self, stream: EventStream) -> None:
        """Take notice that a stream has ended."""
        self.master.disconnect(stream, self.now())
        self.disconnected()
