"""What the endpoints are given: the master that leads, the time, and the way to the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from strato.interop.mesos.door.files import Files
from strato.interop.mesos.door.streams import EventStream, Unread
from strato.interop.mesos.master.core import Master
from strato.interop.mesos.wire import message


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
    unread: Unread = field(default_factory=Unread)
    """What all streams hold."""

    def stream(self, kind: str, content_type: str, owner: str) -> EventStream:
        """Return a new stream of events of a kind, for a user."""
        return EventStream(message(kind), content_type, self.closed, self.unread, owner)

    def closed(self, stream: EventStream) -> None:
        """Take notice that a stream has ended."""
        self.master.disconnect(stream, self.now())
        self.disconnected()
