"""Watches: streams of frames made from a watcher's changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from strato.api.kinds import Kind
from strato.api.status import to_status
from strato.errors import Gone
from strato.http.streaming import LARGE_BYTES
from strato.server.fields import Filter
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Dispatcher, Flow
from strato.server.preparation import at_revision
from strato.server.rest.collections import CHUNK_BYTES, COPYING, DESCRIBING, SELECTING
from strato.server.snapshot import Change
from strato.server.store import Store, Watcher
from strato.server.versions import Unconverted

BOOKMARK_SECONDS = 60.0
_AT_ONCE = 512
"""Most events per chunk. Chunks of many thousands (initial events, or those that wait for a slow reader) would be in
memory several times on their way to the client."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Render = Callable[[bytes], bytes]
"""Cuts a stored body for a frame (its metadata, say) without decoding it."""


_PREFIXES = {word: b'{"type":"' + word + b'","object":' for word in (b"ADDED", b"MODIFIED", b"DELETED")}
_ADDED, _MODIFIED, _DELETED = _PREFIXES.values()
_END = b"}\n"


def frame(event_type: bytes, body: bytes) -> bytes:
    """Return one frame: a line of JSON."""
    return b'{"type":"' + event_type + b'","object":' + body + _END


def error_frame(error: Gone) -> bytes:
    """Return the ERROR frame with which a watch ends."""
    return frame(b"ERROR", msgspec.json.encode(to_status(error)))


async def ended_with(error: Gone) -> AsyncIterator[bytes]:
    """Yield a watch whose only frame is an error."""
    yield error_frame(error)


def _ignore() -> None:
    """Do nothing."""


def _chunks(events: Sequence[Change]) -> deque[Sequence[Change]]:
    """Split events into portions, each for one chunk."""
    sizes = [len(event.body or event.tombstone or b"") for event in events]
    if sum(sizes) <= CHUNK_BYTES:
        return deque((events,))
    chunks: deque[Sequence[Change]] = deque()
    start, room = 0, CHUNK_BYTES
    for end, size in enumerate(sizes, 1):
        room -= size
        if room <= 0 or end == len(sizes):
            chunks.append(events[start:end])
            start, room = end, CHUNK_BYTES
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a client's watch."""

    wanted: Filter
    prefix: str = ""
    """Key prefix of the namespace watched; empty for all."""
    mark_initial_end: bool = False
    """Whether to send the bookmark that marks the end of the initial events."""
    bookmarks: bool = False
    timeout_seconds: float = 0
    """How long the watch lasts; 0 is without end."""
    render: Render | None = None
    render_bookmarks: bool = False
    version: Callable[[Change], Change] | None = None
    """Converts a change to the requested version; None if objects are stored in it."""
    convert: Callable[[Unconverted], Awaitable[None]] | None = None
    """Calls the conversion webhook for objects that ``version`` could not convert."""


class Watch:
    """One client's watch of one kind.

    Args:
        missed: Changes between the client's revision and the watcher's first change.
        initial: Bodies to send first, as ADDED, if the filter selects them.
        dispatcher: Gives slices for preparing initial and missed events, after a first slice without waiting.
        flow: The flow that these slices belong to.
    """

    def __init__(
        self,
        store: Store,
        kind: Kind,
        watcher: Watcher,
        asked: Asked,
        *,
        missed: Sequence[Change],
        initial: Iterator[bytes],
        dispatcher: Dispatcher,
        flow: Flow,
    ) -> None:
        self._store, self._kind, self._watcher, self._asked = store, kind, watcher, asked
        self._missed = missed
        self._wanted, self._prefix, self._render = asked.wanted, asked.prefix, asked.render
        self._position = 0
        """Number of missed events that have been prepared."""
        self._initial: Iterator[bytes] | None = initial
        self._dispatcher, self._flow = dispatcher, flow
        self._is_first = True
        """Whether nothing was prepared yet; the first slice does not wait for the dispatcher."""
        self._prepared = b""
        """Frames of initial and missed events that `take` has not returned yet."""
        self._is_preparing = False
        self._backlog: deque[Sequence[Change]] = deque()
        """Changes taken from the watcher that are not encoded yet, in portions of a chunk."""
        self.ended = False
        """Whether the watch has ended."""
        self._has_begun = self._is_expired = self._is_bookmark_due = False
        self._expiry: asyncio.TimerHandle | None = None
        self._next_bookmark: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._conversion: asyncio.Future[None] | None = None
        """The webhook call for the oldest portion of the backlog."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return itself; a watch can be read once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk of whole frames."""
        while not self.ended:
            chunk = self.take()
            if chunk:
                return chunk
            if self.ended:
                break
            self._watcher.on_change = self._wake
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the watch, also if it was never read."""
        self.close()

    def close(self) -> None:
        """Stop the watch and drop everything that was not read."""
        self.ended = True
        for timer in (self._expiry, self._next_bookmark, self._conversion):
            if timer is not None:
                timer.cancel()
        self._watcher.close()
        self._watcher.on_change = _ignore
        self._initial, self._missed, self._prepared, self._backlog = None, (), b"", deque()
        self._wake()

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` from now on whenever `take` may have something."""
        self._watcher.on_change = ready

    def take(self) -> bytes:
        """Return the next chunk of whole frames without waiting for one; empty if there is none.

        First come the initial events, then the missed ones, then the watcher's changes, until the watch times out, the
        reader was too slow, or the watch is closed.
        """
        if self.ended:
            return b""
        if not self._has_begun:
            is_little = self._initial is None and len(self._missed) - self._position <= _AT_ONCE
            if not self._is_preparing and (self._is_first or (is_little and not self._prepared)):
                self._is_first = False
                self._prepare()
            if not (self._prepared or self._is_preparing or self._has_begun):
                self._is_preparing = True
                self._dispatcher.submit(self._flow, self._prepare_queued)
        if self._prepared or not self._has_begun:
            chunk, self._prepared = self._prepared, b""
            return chunk
        chunk, is_all = b"", False
        while not (chunk or is_all):
            if not self._backlog:
                self._backlog = _chunks(self._watcher.take(_AT_ONCE))
            if self._watcher.is_cut_off:
                self.close()
                return error_frame(Gone("the watch was too slow and missed events; list again"))
            if (shown := self._versioned(self._backlog[0])) is None:
                return b"" if self._conversion is not None else self._broken_off()
            self._backlog.popleft()
            chunk = self._chunk(shown)
            is_all = not (self._backlog or self._watcher.has_events)
        if self._is_bookmark_due and is_all:  # a bookmark promises that no older change follows
            chunk += self._bookmark()
            self._await_bookmark()
        if self._is_expired:
            self.close()
        return chunk

    def _versioned(self, events: Sequence[Change]) -> Sequence[Change] | None:
        """Return changes in the requested version; None while a webhook converts them, or if it has failed."""
        version, convert = self._asked.version, self._asked.convert
        if version is None or convert is None:
            return events
        if self._conversion is not None:
            if not self._conversion.done():
                return None
            has_failed = self._conversion.exception() is not None
            self._conversion = None
            if has_failed:
                return None
        try:
            return [version(event) for event in events]
        except Unconverted as missing:
            self._conversion = asyncio.ensure_future(convert(missing))
            self._conversion.add_done_callback(lambda _: self._watcher.on_change())
            return None

    def _broken_off(self) -> bytes:
        """Close the watch with an error that makes the client list again; the list reports the webhook's failure."""
        self.close()
        return error_frame(Gone("objects of the watched version cannot be converted; list again"))

    def _prepare_queued(self) -> None:
        """Prepare a slice of initial or missed events; called by the dispatcher."""
        if self.ended:
            return
        prepared = self._prepared
        self._prepare()
        self._prepared = prepared + self._prepared
        if not self._has_begun and len(self._prepared) < LARGE_BYTES:  # few of the events are selected: prepare more
            self._dispatcher.submit(self._flow, self._prepare_queued)
            return
        self._is_preparing = False
        self._watcher.on_change()

    def _prepare(self) -> None:
        """Encode a slice of initial or missed events; after the last one, begin with the watcher's changes."""
        self._prepared = b""
        if self._initial is not None:
            self._prepared = self._slice(self._initial)
            if self._initial is None and self._asked.mark_initial_end:
                self._prepared += self._bookmark(initial_end=True)
            if self._prepared or self._initial is not None:
                return
        events = self._missed[self._position : self._position + _AT_ONCE]
        if events:
            events = _chunks(events)[0]
            self._position += len(events)
            self._prepared = self._chunk(self._versioned(events) or ())
            return
        self._missed = ()
        self._begin()

    def _slice(self, initial: Iterator[bytes]) -> bytes:
        """Return the frames of some of the initial events."""
        matches, everything = self._wanted.matches, self._wanted.everything
        cost = (COPYING if everything else SELECTING) if self._render is None else DESCRIBING
        left, room = SLICE_SECONDS, CHUNK_BYTES
        parts: list[bytes] = []
        for body in initial:
            left -= cost.object_seconds + cost.byte_seconds * len(body)
            if everything or matches(body):
                shown = self._shown(body)
                parts += (_ADDED, shown, _END)
                room -= len(shown)
            if left <= 0 or room <= 0 or len(parts) >= 3 * _AT_ONCE:
                break
        else:
            self._initial = None
        return b"".join(parts)

    def _begin(self) -> None:
        """Begin with the watcher's changes, and start the timers of timeout and bookmarks."""
        self._has_begun = True
        if self._asked.timeout_seconds:
            self._expiry = asyncio.get_running_loop().call_later(self._asked.timeout_seconds, self._expire)
        if self._asked.bookmarks:
            self._await_bookmark()

    def _await_bookmark(self) -> None:
        self._is_bookmark_due = False
        self._next_bookmark = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._mark)

    def _mark(self) -> None:
        self._is_bookmark_due = True
        self._watcher.on_change()

    def _expire(self) -> None:
        self._is_expired = True
        self._watcher.on_change()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _shown(self, body: bytes) -> bytes:
        return body if self._render is None else self._render(body)

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._store.published)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = {"kind": self._kind.name, "apiVersion": self._kind.api_version, "metadata": metadata}
        encoded = msgspec.json.encode(body)
        return frame(b"BOOKMARK", self._shown(encoded) if self._asked.render_bookmarks else encoded)

    def _chunk(self, events: Sequence[Change]) -> bytes:
        if not events:
            return b""
        prefix, wanted = self._prefix, self._wanted
        if prefix:
            events = [event for event in events if event.key.startswith(prefix)]
        if not wanted.everything:
            return self._selected(events)
        if prefix or self._render is not None or self._asked.version is not None:
            return self._everything(events)
        return self._watcher.shared(events, lambda: self._everything(events))

    def _everything(self, events: Sequence[Change]) -> bytes:
        """Return the frames of all events; one join, so that bodies are copied once."""
        parts: list[bytes] = []
        for event in events:
            body = event.body
            if body is None:
                parts += (_DELETED, self._shown(event.tombstone or b"{}"), _END)
            else:
                parts += (_ADDED if event.previous is None else _MODIFIED, self._shown(body), _END)
        return b"".join(parts)

    def _selected(self, events: Sequence[Change]) -> bytes:
        """Return the frames of events of objects that the filter selects now or selected before the change."""
        matches = self._wanted.matches_shared
        parts: list[bytes] = []
        for event in events:
            body, previous = event.body, event.previous
            before = previous is not None and matches(previous)
            if body is not None and matches(body):
                parts += (_MODIFIED if before else _ADDED, self._shown(body), _END)
            elif before:
                assert previous is not None
                # an object that is no longer selected is shown in its last selected state, at the change's revision
                last = (event.tombstone or b"{}") if body is None else at_revision(previous, event.revision)
                parts += (_DELETED, self._shown(last), _END)
        return b"".join(parts)
