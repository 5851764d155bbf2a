"""Remove unused pulled images before the disk runs short, the least recently used first.

Source: the kubelet's image garbage collection. Its thresholds are shares of a disk for images alone. Here they are two
and three times the eviction threshold of free space, so that images are removed before pods are evicted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator

from strato.clock import Clock
from strato.errors import StratoError, one_line
from strato.node.images.store import Image, ImageStore
from strato.node.sandbox.storage import PodsFileSystem, disk_of

MIN_AGE_SECONDS = 120.0
"""An image that was pulled or used within this time is kept."""
_PERIOD_SECONDS = 60.0
_HIGH, _LOW = 2, 3
"""Free space, in units of the eviction threshold, below which removal begins and at which it stops."""

_log = logging.getLogger(__name__)


def to_collect(images: Iterable[Image], in_use: Collection[str], disk: PodsFileSystem, now: float) -> Iterator[Image]:
    """Yield the images to remove, in order; the caller measures the disk after each, because images share files."""
    if disk.free_bytes >= _HIGH * disk.threshold_bytes:
        return
    unused = (i for i in images if i.repo_digest and i.root not in in_use and now - i.used_at >= MIN_AGE_SECONDS)
    yield from sorted(unused, key=lambda image: image.used_at)


class ImageCollector:
    """See the module."""

    def __init__(self, store: ImageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Check the disk until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD_SECONDS)
            try:
                await asyncio.to_thread(self._collect, self._clock.now())
            except (OSError, StratoError) as err:
                _log.warning("images cannot be removed: %s", one_line(err))

    def _collect(self, now: float) -> None:
        disk = disk_of(self._store.directory)
        for image in to_collect(self._store.list(), self._store.in_use(), disk, now):
            self._store.remove(image.name)
            _log.info("an unused image was removed because the disk runs short: image=%s", image.name)
            if disk_of(self._store.directory).free_bytes >= _LOW * disk.threshold_bytes:
                return
