"""Watches: a stream of frames made from published events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import msgspec

from strato.api.kinds import Kind
from strato.api.status import to_status
from strato.errors import Gone
from strato.server.fields import Filter
from strato.server.objects import at_revision
from strato.server.store import Change, Store, Watcher

BOOKMARK_SECONDS = 60.0
_INITIAL_AT_ONCE = 512
"""Initial events per chunk: all at once would be held several times over on their way out."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Render = Callable[[bytes], bytes]
"""Turns a stored body into what a frame carries (a Table for kubectl, or the body itself)."""


_HEADS = {word: b'{"type":"' + word + b'","object":' for word in (b"ADDED", b"MODIFIED", b"DELETED")}
_ADDED, _MODIFIED, _DELETED = _HEADS.values()
_END = b"}\n"


def frame(event_type: bytes, body: bytes) -> bytes:
    """Return one frame: a line of JSON."""
    return b'{"type":"' + event_type + b'","object":' + body + _END


def error_frame(error: Gone) -> bytes:
    """Return the ERROR frame a watch ends with."""
    return frame(b"ERROR", msgspec.json.encode(to_status(error)))


class Watch:
    """One client's watch of one kind.

    Args:
        prefix: Key prefix of the namespace watched; empty for all.
        missed: Events since the revision the client has.
        initial: Bodies to send first, as ADDED.
        mark_initial_end: Send the bookmark that ends the initial events.
    """

    def __init__(
        self,
        store: Store,
        kind: Kind,
        watcher: Watcher,
        wanted: Filter,
        *,
        prefix: str,
        missed: Sequence[Change],
        initial: Sequence[bytes] = (),
        mark_initial_end: bool = False,
        bookmarks: bool = False,
        timeout_seconds: float = 0,
        render: Render | None = None,
        render_bookmarks: bool = False,
    ) -> None:
        self._store, self._kind, self._watcher, self._wanted = store, kind, watcher, wanted
        self._prefix, self._missed, self._initial = prefix, missed, initial
        self._mark_initial_end, self._bookmarks = mark_initial_end, bookmarks
        self._timeout_seconds, self._render, self._render_bookmarks = timeout_seconds, render, render_bookmarks
        self._closed = self._bookmark_due = False
        self._frames = self._run()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return itself: a watch is read once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk of whole frames."""
        return await anext(self._frames)

    async def aclose(self) -> None:
        """Stop watching, also when nothing was ever read."""
        self._watcher.close()
        await self._frames.aclose()

    async def _run(self) -> AsyncGenerator[bytes, None]:
        """Yield chunks of whole frames until the time is up, the reader is too slow or closes."""
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        try:
            initial, self._initial = self._initial, ()
            for start in range(0, len(initial), _INITIAL_AT_ONCE):
                bodies = initial[start : start + _INITIAL_AT_ONCE]
                yield b"".join([frame(b"ADDED", self._shown(body)) for body in bodies])
            del initial
            if self._mark_initial_end:
                yield self._bookmark(initial_end=True)
            chunk = self._chunk(self._missed)
            self._missed = ()
            if chunk:
                yield chunk
            if self._timeout_seconds:
                timers.append(loop.call_later(self._timeout_seconds, self._expire))
            if self._bookmarks:
                timers.append(loop.call_later(BOOKMARK_SECONDS, self._remind))
            while True:
                events = await self._watcher.take()
                if self._watcher.is_cut_off:
                    yield error_frame(Gone("the watch was too slow and missed events; list again"))
                    return
                chunk = self._chunk(events)
                if self._bookmark_due:
                    self._bookmark_due = False
                    chunk += self._bookmark()
                    timers[-1] = loop.call_later(BOOKMARK_SECONDS, self._remind)
                if chunk:
                    yield chunk
                if self._closed:
                    return
        finally:
            for timer in timers:
                timer.cancel()
            self._watcher.close()

    def _expire(self) -> None:
        self._closed = True
        self._watcher.wake()

    def _remind(self) -> None:
        self._bookmark_due = True
        self._watcher.wake()

    def _shown(self, body: bytes) -> bytes:
        return body if self._render is None else self._render(body)

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._store.published)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = {"kind": self._kind.name, "apiVersion": self._kind.api_version, "metadata": metadata}
        encoded = msgspec.json.encode(body)
        return frame(b"BOOKMARK", self._shown(encoded) if self._render_bookmarks else encoded)

    def _chunk(self, events: Sequence[Change]) -> bytes:
        if not events:
            return b""
        prefix, wanted = self._prefix, self._wanted
        if prefix:
            events = [event for event in events if event.key.startswith(prefix)]
        if not wanted.everything:
            return self._selected(events)
        if prefix or self._render is not None:
            return self._everything(events)
        return self._watcher.shared(events, lambda: self._everything(events))

    def _everything(self, events: Sequence[Change]) -> bytes:
        """Return the frames of all events; their parts are put together at once, so that bodies are copied once."""
        parts: list[bytes] = []
        for event in events:
            body = event.body
            if body is None:
                parts += (_DELETED, self._shown(event.tombstone or b"{}"), _END)
            else:
                parts += (_ADDED if event.previous is None else _MODIFIED, self._shown(body), _END)
        return b"".join(parts)

    def _selected(self, events: Sequence[Change]) -> bytes:
        """Return the frames of what is selected, comes into the selection or leaves it."""
        matches = self._wanted.matches_shared
        parts: list[bytes] = []
        for event in events:
            body, previous = event.body, event.previous
            before = previous is not None and matches(previous)
            if body is not None and matches(body):
                parts += (_MODIFIED if before else _ADDED, self._shown(body), _END)
            elif before:
                assert previous is not None
                # Of an object that left the selection the last wanted state is shown, at the revision of the change.
                last = (event.tombstone or b"{}") if body is None else at_revision(previous, event.revision)
                parts += (_DELETED, self._shown(last), _END)
        return b"".join(parts)
