"""Select the objects of a collection, and encode them as a list, in slices.

How many objects fit into a slice is estimated from their number and size, not measured, so that simulations are
repeatable. The dispatcher measures how long a slice really takes (`strato.server.flowcontrol.dispatch`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from strato.api.wire import Response
from strato.server.fields import Filter
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Dispatcher, Flow, Steps, divided
from strato.server.jsonbodies import UNCOUNTED_BYTES
from strato.server.negotiation import PROTOBUF

CHUNK_BYTES = 256 * 1024
"""Size of the pieces in which a list's text is streamed."""
T = TypeVar("T")


class Cost(NamedTuple):
    """The time that work on one object takes, as measured on a slow core."""

    object_seconds: float
    byte_seconds: float


SELECTING = Cost(2e-6, 1e-9)
COPYING = Cost(0.5e-6, 0.2e-9)
DESCRIBING = Cost(3e-6, 1e-9)
TABULATING = Cost(25e-6, 10e-9)
DELETING = Cost(60e-6, 30e-9)
ENCODING = Cost(30e-6, 50e-9)


class Selection:
    """Selects objects of a collection, some in each step.

    Args:
        items: Keys and bodies in order.
        wanted: Selects objects.
        limit: Most objects to select; 0 is all.
    """

    def __init__(self, items: Iterator[tuple[str, bytes]], wanted: Filter, limit: int) -> None:
        self._items, self._wanted, self._limit = items, wanted, limit
        self.found: list[bytes] = []
        self.last = ""
        """The last selected key if the limit was reached, after which the rest begins; otherwise empty."""

    def step(self) -> bool:
        """Check some more objects; return whether all have been checked or the limit is reached."""
        left, found, limit = SLICE_SECONDS, self.found, self._limit
        everything, matches = self._wanted.everything, self._wanted.matches
        object_seconds, byte_seconds = COPYING if everything else SELECTING
        for key, body in self._items:
            if everything or matches(body):
                found.append(body)
                if len(found) == limit:
                    self.last = key
                    return True
            left -= object_seconds + byte_seconds * len(body)
            if left <= 0:
                return False
        return True


class ListText:
    """The text of a list, a chunk in each step.

    Args:
        head: The text before the first object.
        separator: The text between objects; before the first object without its first byte.
        bodies: Stored objects, iterated once.
        shown: Returns a stored object's text in the list, without what the separator ends with.
        cost: The time that ``shown`` takes.
        steps: Like ``shown``, in steps, for large objects.
        whole: Makes the answer of the complete text, if its beginning depends on the rest (as lengths in protobuf do);
            the text gets no end then.
    """

    def __init__(
        self,
        head: bytes,
        separator: bytes,
        bodies: Iterable[bytes],
        shown: Callable[[bytes], bytes | memoryview] | None,
        cost: Cost = COPYING,
        steps: Callable[[bytes], Steps[bytes]] | None = None,
        whole: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._head: bytes | None = head
        self._separator, self._bodies, self._shown, self._cost = separator, iter(bodies), shown, cost
        self._steps = steps
        self.whole = whole
        self._end = b"]}" if whole is None else b""
        self._large: Steps[bytes] | None = None
        """The steps for a large object that have begun and not ended."""
        self.ended = False

    def step(self) -> bytes:
        """Return the next chunk; empty while the steps for a large object are running."""
        left, room = SLICE_SECONDS, CHUNK_BYTES
        object_seconds, byte_seconds = self._cost
        shown, separator, steps = self._shown, self._separator, self._steps
        items: list[bytes | memoryview] = []
        if self._large is not None:
            made = self._of_large(self._large)
            if made is None:
                return b""
            self._large = None
            items.append(made)
        for body in self._bodies:
            if steps is not None and len(body) > UNCOUNTED_BYTES:
                self._large = divided(steps(body))
                break
            items.append(body if shown is None else shown(body))
            size = len(body)
            room -= size
            left -= object_seconds + byte_seconds * size
            if room <= 0 or left <= 0:
                break
        else:
            self.ended = True
        end = self._end if self.ended else b""
        if not (items or self.ended):
            return b""
        if not items:
            head, self._head = self._head or b"", None
            return head + end
        lead = separator if self._head is None else self._head + separator[1:]
        self._head = None
        items[0] = b"".join((lead, items[0]))
        items[-1] = b"".join((items[-1], end))
        return separator.join(items)

    def _of_large(self, steps: Steps[bytes]) -> bytes | None:
        """Run the next step for a large object; return its text after the last one."""
        try:
            next(steps)
        except StopIteration as end:
            made: bytes = end.value
            return made
        return None


async def completed(
    dispatcher: Dispatcher, flow: Flow, step: Callable[[], bool], then: Callable[[], Response]
) -> Response:
    """Run ``step`` in slices until it returns True, and return the answer of ``then``."""
    async with dispatcher.seat(flow):
        while not await dispatcher.run(flow, step):
            pass
        return await dispatcher.run(flow, then)


def answered(dispatcher: Dispatcher, flow: Flow, text: ListText) -> Response:
    """Return a list as an answer: with a body if it is short, otherwise as a stream that is encoded as it is read."""
    first = text.step()
    if text.whole is not None:
        stream = None if text.ended else _whole(_streamed(dispatcher, flow, text, first), text.whole)
        return Response(200, text.whole(first) if stream is None else b"", PROTOBUF, stream=stream, is_text=True)
    if text.ended:
        return Response(200, first)
    return Response(200, stream=_streamed(dispatcher, flow, text, first), is_text=True)


async def _whole(stream: AsyncIterator[bytes], whole: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    answer = memoryview(whole(b"".join([chunk async for chunk in stream])))
    for start in range(0, len(answer), CHUNK_BYTES):
        yield bytes(answer[start : start + CHUNK_BYTES])


async def _streamed(dispatcher: Dispatcher, flow: Flow, text: ListText, first: bytes) -> AsyncIterator[bytes]:
    if first:
        yield first
    async with dispatcher.seat(flow):
        while not text.ended:
            chunk = await dispatcher.run(flow, text.step)
            if chunk:  # an empty chunk would end a chunked body
                yield chunk
