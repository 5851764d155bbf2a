"""What the endpoints need: the leading master, the clock, and access to the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from strato.interop.mesos.endpoints.files import Files
from strato.interop.mesos.endpoints.streams import EventStream, Unread
from strato.interop.mesos.master.core import Master
from strato.interop.mesos.wire import message


@dataclass(frozen=True, slots=True)
class Serving:
    """A leading master that has recovered."""

    master: Master
    now: Callable[[], float]
    flush: Callable[[], Awaitable[None]]
    """Writes the effects in the master's outbox; calls are answered after that."""
    files: Files
    """Access to files of sandboxes."""
    disconnected: Callable[[], None]
    """Called when a stream has ended, to have the outbox written soon."""
    unread: Unread = field(default_factory=Unread)
    """Unread bytes of all streams."""

    def stream(self, kind: str, content_type: str, owner: str) -> EventStream:
        """Return a new stream of events of one message type, owned by a user."""
        return EventStream(message(kind), content_type, self.closed, self.unread, owner)

    def closed(self, stream: EventStream) -> None:
        """Disconnect a stream that has ended from the master."""
        self.master.disconnect(stream, self.now())
        self.disconnected()
