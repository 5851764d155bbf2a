"""A request to a Kubernetes API and its answer, without a transport.

The embedded server's core is ``async handle(Request) -> Response``; the HTTP server and the in-process client
both call it. A body is bytes; a watch or a followed log is an async iterator of byte chunks, each chunk
one or more whole lines (JSON holds no raw newline, so a frame is a line).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class User(msgspec.Struct, frozen=True, cache_hash=True):
    """Who asks, after authentication; a key of many tables."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else is known of the user: key and values."""


def service_account(
    namespace: str, name: str, uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """Return the user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra)


class Request(msgspec.Struct, array_like=True):
    """One request. Header names are lower case; ``path`` is decoded and carries no query."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    """None until the transport has authenticated; in-process clients set their identity themselves."""
    uncommitted: bool = False
    """Read-uncommitted, with ``ack=async``: a write is answered, and watches show changes, before they are durable.
    Only clients that die with the server set it: those of its own process and its companion."""
    brief: bool = False
    """Whether the body of a success is of no interest."""
    annotations: dict[str, str] | None = None
    """What those who decide about the request add to its event in the audit log; None where none is written."""

    def param(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """Return whether a boolean query parameter is set to true, as Kubernetes reads it."""
        values = self.query.get(name)
        return (
            values is not None and len(values) > 0 and values[0] not in ("", "0", "f", "F", "false", "FALSE", "False")
        )


class Wire(Protocol):
    """A connection as who speaks another protocol on it sees it."""

    def write(self, data: bytes) -> None:
        """Send; nothing happens when the other end is gone."""

    def pause_reading(self) -> None:
        """Read nothing for now."""

    def resume_reading(self) -> None:
        """Read again."""

    def has_hung_up(self) -> bool:
        """Return whether the other end is gone, which nobody is notified of while nothing is read."""

    def close(self) -> None:
        """End when all is sent."""

    def abort(self) -> None:
        """End now."""


class Session(Protocol):
    """What speaks another protocol on a connection after the answer 101."""

    def begin(self, wire: Wire) -> None:
        """Work on a connection from now on."""

    def received(self, data: bytes) -> None:
        """Take what arrived."""

    def written(self, is_writable: bool) -> None:
        """Take notice of whether the other end keeps up."""

    def lost(self) -> None:
        """Stop: the connection has ended; also called where it never began."""

    def stop(self) -> None:
        """End: the server stops."""

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call something when it is over; call this before it begins."""


class Response(msgspec.Struct):
    """One answer: either ``body``, or ``stream`` until it ends or its reader closes it."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None
    """Close with ``aclose()`` when done early; the server then frees the watcher."""
    is_text: bool = False
    """Whether the stream is one text, a long list say, made as it is read; no piece of it is of use by itself."""
    session: Session | None = None
    """Takes the connection over; the status is 101. Only a transport that has one can do that."""


@runtime_checkable
class Pushed(Protocol):
    """A stream that need not be waited for: it says when there is something."""

    ended: bool
    """Whether nothing more will come."""

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` from now on whenever `take` may have something."""

    def take(self) -> bytes:
        """Return the next chunk, empty when there is none yet."""

    def close(self) -> None:
        """Free what is behind the stream."""


class Handler(Protocol):
    """Anything that answers requests: the embedded server's core."""

    async def handle(self, request: Request) -> Response:
        """Answer one request. Errors become ``Status`` responses; only cancellation escapes."""

    def start(self, request: Request, answered: Callable[[Response], None]) -> Awaitable[Response] | None:
        """Answer one request by calling ``answered``, at once or later, or return what is to be awaited for the answer.

        For a transport that serves many: what need not be waited for needs no task.
        """
        del answered
        return self.handle(request)

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes, begun in order."""
        return await asyncio.gather(*(self.handle(request) for request in requests))
