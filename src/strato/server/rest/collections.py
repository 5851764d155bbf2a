"""Work on whole collections, cut in slices: selecting objects, and writing them as the text of a list.

How much fits into a slice is estimated from the number of objects and their size, so that a simulation repeats; what a
slice really takes is measured where turns are given (`strato.server.flowcontrol.dispatch`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from strato.api.wire import Response
from strato.server.fields import Filter
from strato.server.flowcontrol.dispatch import SLICE_SECONDS, Dispatcher, Flow

CHUNK_BYTES = 256 * 1024
"""A piece of a list's text on its way to the reader."""
T = TypeVar("T")


class Cost(NamedTuple):
    """What work on one object takes, as measured on a slow core."""

    object_seconds: float
    byte_seconds: float


SELECTING = Cost(2e-6, 1e-9)
COPYING = Cost(0.5e-6, 0.2e-9)
DESCRIBING = Cost(3e-6, 1e-9)
TABULATING = Cost(25e-6, 10e-9)
DELETING = Cost(60e-6, 30e-9)


class Selection:
    """The wanted objects of a collection, some in each step.

    Args:
        items: Keys and bodies in order.
        wanted: Which of them.
        limit: How many at most; 0 is all.
    """

    def __init__(self, items: Iterator[tuple[str, bytes]], wanted: Filter, limit: int) -> None:
        self._items, self._wanted, self._limit = items, wanted, limit
        self.found: list[bytes] = []
        self.last = ""
        """The key after which the rest begins, when there were more than the limit; otherwise empty."""

    def step(self) -> bool:
        """Look at some more; return whether that was all."""
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
        head: What comes before the first object.
        separator: Between objects; its first byte is left out before the first.
        bodies: Stored objects, read once.
        shown: Makes of a stored object what stands in the list, but for the separator's end.
        cost: What that takes.
    """

    def __init__(
        self,
        head: bytes,
        separator: bytes,
        bodies: Iterable[bytes],
        shown: Callable[[bytes], bytes | memoryview] | None,
        cost: Cost = COPYING,
    ) -> None:
        self._head: bytes | None = head
        self._separator, self._bodies, self._shown, self._cost = separator, iter(bodies), shown, cost
        self.ended = False

    def step(self) -> bytes:
        """Return the next chunk."""
        left, room = SLICE_SECONDS, CHUNK_BYTES
        object_seconds, byte_seconds = self._cost
        shown, separator = self._shown, self._separator
        items: list[bytes | memoryview] = []
        for body in self._bodies:
            items.append(body if shown is None else shown(body))
            size = len(body)
            room -= size
            left -= object_seconds + byte_seconds * size
            if room <= 0 or left <= 0:
                break
        else:
            self.ended = True
        end = b"]}" if self.ended else b""
        if not items:
            head, self._head = self._head or b"", None
            return head + end
        lead = separator if self._head is None else self._head + separator[1:]
        self._head = None
        items[0] = b"".join((lead, items[0]))
        items[-1] = b"".join((items[-1], end))
        return separator.join(items)


def answered(dispatcher: Dispatcher, flow: Flow, text: ListText) -> Response:
    """Return the answer that carries a list: whole when it is short, otherwise made as it is read."""
    first = text.step()
    if text.ended:
        return Response(200, first)
    return Response(200, stream=_streamed(dispatcher, flow, text, first), is_text=True)


async def _streamed(dispatcher: Dispatcher, flow: Flow, text: ListText, first: bytes) -> AsyncIterator[bytes]:
    yield first
    async with dispatcher.seat(flow):
        while not text.ended:
            yield await dispatcher.run(flow, text.step)
