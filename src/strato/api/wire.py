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


@runtime_checkable
class Pushed(Protocol):
    """A stream that need not be waited for: it says when there is something."""

    ended: bool
    """Whether nothing more will come."""

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` from now on whenever `take` may have something."""
        ...

    def take(self) -> bytes:
        """Return the next chunk, empty when there is none yet."""
        ...

    def close(self) -> None:
        """Free what is behind the stream."""
        ...


class Handler(Protocol):
    """Anything that answers requests: the embedded server's core."""

    async def handle(self, request: Request) -> Response:
        """Answer one request. Errors become ``Status`` responses; only cancellation escapes."""
        ...

    def start(self, request: Request, answered: Callable[[Response], None]) -> Awaitable[Response] | None:
        """Answer one request by calling ``answered``, at once or later, or return what is to be awaited for the answer.

        For a transport that serves many: what need not be waited for needs no task.
        """
        del answered
        return self.handle(request)

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes, begun in order."""
        return await asyncio.gather(*(self.handle(request) for request in requests))
