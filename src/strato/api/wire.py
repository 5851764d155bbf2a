"""A request to a Kubernetes API and its answer, without a transport.

The embedded server's core is ``async handle(Request) -> Response``; the HTTP server and the in-process client both call
it. A body is bytes. A watch or a followed log is an async iterator of chunks, each of which is one or more whole lines
(JSON has no raw newlines, so a watch event is a line).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class User(msgspec.Struct, frozen=True, cache_hash=True):
    """The authenticated user of a request; hashable, because it is a key of many tables."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Extra attributes of the user, as key and values."""


def service_account(
    namespace: str, name: str, uid: str = "", extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> User:
    """Return the user of a service account."""
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
    """Whether the client does not need the body of a successful answer."""
    annotations: dict[str, str] | None = None
    """Annotations that authorization and admission add to the request's audit event; None if none is written."""

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
    """The connection of a `Session`, which speaks another protocol than HTTP on it."""

    def write(self, data: bytes) -> None:
        """Send data; does nothing when the peer has disconnected."""

    def pause_reading(self) -> None:
        """Stop reading from the connection."""

    def resume_reading(self) -> None:
        """Read from the connection again."""

    def has_hung_up(self) -> bool:
        """Return whether the peer has disconnected; while reading is paused, `Session.lost` is not called for that."""

    def close(self) -> None:
        """Close the connection after all data is sent."""

    def abort(self) -> None:
        """Close the connection at once."""


class Session(Protocol):
    """A protocol on a connection after the answer 101."""

    def begin(self, wire: Wire) -> None:
        """Start the protocol on a connection."""

    def received(self, data: bytes) -> None:
        """Handle received data."""

    def written(self, is_writable: bool) -> None:
        """Handle that the send buffer has become full, or has room again."""

    def lost(self) -> None:
        """Stop because the connection has ended; also called if `begin` was never called."""

    def stop(self) -> None:
        """Stop because the server stops."""

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a function to be called at the end of the session; use it before `begin`."""


class Response(msgspec.Struct):
    """One answer: either ``body``, or ``stream`` until it ends or its reader closes it."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None
    """A reader that stops early must call ``aclose()``, so that the server frees the watcher."""
    is_text: bool = False
    """Whether the stream is one text, such as a long list, made while it is read; its pieces mean nothing alone."""
    session: Session | None = None
    """Takes over the connection after status 101; only a transport with a connection supports that."""


@runtime_checkable
class Pushed(Protocol):
    """A stream without a waiting task: it calls a function when there is a chunk."""

    ended: bool
    """Whether the stream has ended."""

    def listen(self, ready: Callable[[], None]) -> None:
        """Register ``ready``, which is called whenever `take` may return a chunk."""

    def take(self) -> bytes:
        """Return the next chunk, empty when there is none yet."""

    def close(self) -> None:
        """Free the resources of the stream."""


class Handler(Protocol):
    """Anything that answers requests: the embedded server's core."""

    async def handle(self, request: Request) -> Response:
        """Answer one request. Errors become ``Status`` responses; only cancellation escapes."""

    def start(self, request: Request, answered: Callable[[Response], None]) -> Awaitable[Response] | None:
        """Answer one request by calling ``answered``, at once or later, or return an awaitable of the answer.

        For a transport with many clients: a request that is answered by a call needs no task.
        """
        del answered
        return self.handle(request)

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes, begun in order."""
        return await asyncio.gather(*(self.handle(request) for request in requests))
