"""Keep a copy in step with the server: list once, then watch, and list again if the watch cannot be resumed.

The reflector passes whole states and batches of changes to a `Sink`, such as an informer. It resumes a watch that
ends from the last revision seen (bookmarks move it forward too). If the server no longer has that revision (410), the
reflector lists again, and the sink finds the differences. After any other error it retries with growing delays, for
ever, as a server that is away comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from strato.api.meta import Object
from strato.client.backoff import Backoff
from strato.client.cluster import Cluster, WatchEvent
from strato.client.codec import kind_of
from strato.clock import Clock
from strato.errors import ApiError, Gone

_log = logging.getLogger(__name__)

V = TypeVar("V", bound=Object)
V_contra = TypeVar("V_contra", bound=Object, contravariant=True)

PAGE_SIZE = 500
"""Objects per page of a list over the network, as client-go asks."""

LOCAL_PAGE_SIZE = 10_000
"""Objects per page of a list within one machine, so that neither side holds the JSON of a million pods at once."""

_WATCH_SECONDS = (300, 600)
"""A remote watch lasts a random time in this range, so that watches spread over servers and are not renewed at once."""

_FAILURES_BEFORE_RELIST = 3
"""Watches that fail in a row before the reflector lists again: the revision itself may be bad after a restored backup,
and servers answer that with different errors."""

_SHORT_WATCH_SECONDS = 1.0


class Sink(Protocol[V_contra]):
    """Receives the state of a collection from a reflector."""

    def replace(self, objects: Sequence[V_contra], resource_version: str) -> None:
        """Replace the whole state."""

    def apply(self, events: Sequence[WatchEvent[V_contra]], resource_version: str) -> None:
        """Apply changes in order; bookmarks are among them."""


class Reflector(Generic[V]):
    """Lists and watches one collection for a sink.

    Args:
        sink: Called on the loop's thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: type[V],
        sink: Sink[V],
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._sink = sink
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._resource_version = ""
        self._backoff = Backoff(random)
        self._failures = 0  # of watches in a row, without an event in between

    async def run(self) -> None:
        """List and watch until cancelled."""
        listed = False
        while True:
            try:
                if not listed:
                    await self._list()
                    listed = True
                if await self._watch():
                    self._failures = 0
                    continue
                cause = "the watch ended at once without an event"
                self._failures += 1
            except Gone as error:
                # the revision is too old to resume from, so only a list shows what has changed since
                listed, cause = False, str(error)
                _log.info("watch expired, listing again: kind=%s", self._kind_name)
            except ApiError as error:
                self._failures += 1
                cause = str(error)
            if self._failures >= _FAILURES_BEFORE_RELIST:
                listed, self._failures = False, 0
            delay = self._backoff.next_delay(self._clock.monotonic())
            _log.log(
                logging.INFO if listed else logging.WARNING,
                "reading is interrupted: kind=%s retry_seconds=%.1f: %s",
                self._kind_name,
                delay,
                cause,
            )
            await self._clock.sleep(delay)

    async def _list(self) -> None:
        page_size = PAGE_SIZE if self._cluster.remote else LOCAL_PAGE_SIZE
        try:
            objects, resource_version = await self._list_pages(page_size)
        except Gone:
            # a page's token expired: paging takes longer than the server keeps a revision, so list in one page
            objects, resource_version = await self._list_pages(0)
        self._resource_version = resource_version
        self._sink.replace(objects, resource_version)

    async def _list_pages(self, page_size: int) -> tuple[Sequence[V], str]:
        objects: list[V] = []
        resource_version = ""
        async for page in self._cluster.pages(
            self._view,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=page_size,
        ):
            objects.extend(page.items)
            resource_version = page.resource_version
        return objects, resource_version

    async def _watch(self) -> bool:
        """Watch until the server ends it; return whether the watch was healthy."""
        started = self._clock.monotonic()
        received = False
        seconds = self._random.randint(*_WATCH_SECONDS) if self._cluster.remote else 0
        watch = self._cluster.watch(
            self._view,
            self._namespace,
            resource_version=self._resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
        )
        async for events in watch:
            received = True
            self._failures = 0
            self._resource_version = events[-1].object.metadata.resource_version or self._resource_version
            self._sink.apply(events, self._resource_version)
        return received or self._clock.monotonic() - started >= _SHORT_WATCH_SECONDS

    @property
    def _kind_name(self) -> str:
        return kind_of(self._view).name
