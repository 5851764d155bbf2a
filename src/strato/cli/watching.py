"""Follow objects of a cluster as they change, for ``-w`` of every list and view.

Each source is listed and watched; after a lost connection it is listed again, with growing, jittered waits. The
callback that shows the objects is called at most every half second, with the state at that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Final

from strato.api.kinds import Kind
from strato.client.backoff import Backoff
from strato.client.cluster import Cluster, EventType, Json
from strato.clock import Clock, SystemClock
from strato.errors import Gone, TooManyRequests, Unavailable

SHOW_SECONDS: Final = 0.5
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """A collection to watch."""

    kind: Kind
    namespace: str = ""
    """Empty is every namespace."""
    label_selector: str = ""
    field_selector: str = ""


Objects = Mapping[tuple[str, str], Json]
"""Objects by namespace and name, sorted by these."""
Show = Callable[[Sequence[Objects]], Awaitable[bool]]
"""Shows the objects of every source; returns whether `watch` is to end."""


async def watch(
    cluster: Cluster, sources: Sequence[Source], show: Show, *, clock: Clock | None = None, random: Random | None = None
) -> None:
    """Show objects, and again whenever some have changed, until ``show`` returns true or this is cancelled.

    Raises:
        ApiError: A source cannot be listed at all.
    """
    clock, random = clock or SystemClock(), random or SystemRandom()
    dirty = asyncio.Event()
    copies = [_Copy(cluster, source, clock, random, dirty.set) for source in sources]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(copy.run()) for copy in copies]
            for copy in copies:
                await copy.listed.wait()
            while True:
                dirty.clear()
                if await show([copy.objects for copy in copies]):
                    break
                await dirty.wait()
                await clock.sleep(SHOW_SECONDS)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


class _Copy:
    """A copy of one source's objects, kept current by a watch."""

    def __init__(
        self, cluster: Cluster, source: Source, clock: Clock, random: Random, on_change: Callable[[], None]
    ) -> None:
        self._cluster, self._source, self._clock, self._on_change = cluster, source, clock, on_change
        self._backoff = Backoff(random, initial_seconds=_FIRST_WAIT_SECONDS, max_seconds=_LONGEST_WAIT_SECONDS)
        self.objects: dict[tuple[str, str], Json] = {}
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not await self._follow():
                    await self._wait()
            except (Gone, Unavailable, TooManyRequests):
                if not self.listed.is_set():
                    raise
                await self._wait()

    async def _wait(self) -> None:
        await self._clock.sleep(self._backoff.next_delay(self._clock.monotonic()))

    async def _follow(self) -> bool:
        """List, then watch until the server ends the watch; return whether the server delivered anything."""
        source, moved = self._source, False
        page = await self._cluster.list(
            source.kind, source.namespace, label_selector=source.label_selector, field_selector=source.field_selector
        )
        found = {key_of(item): item for item in page.items}
        if found != self.objects or not self.listed.is_set():
            self.objects = dict(sorted(found.items()))
            self.listed.set()
            self._on_change()
        async for batch in self._cluster.watch(
            source.kind,
            source.namespace,
            resource_version=page.resource_version,
            label_selector=source.label_selector,
            field_selector=source.field_selector,
        ):
            moved = True
            for event in batch:
                if event.type is EventType.DELETED:
                    self.objects.pop(key_of(event.object), None)
                elif event.type is not EventType.BOOKMARK:
                    self.objects[key_of(event.object)] = event.object
            if any(event.type is not EventType.BOOKMARK for event in batch):
                self._on_change()
        return moved


def key_of(item: Json) -> tuple[str, str]:
    """Return namespace and name of an object."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
