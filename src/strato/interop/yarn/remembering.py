"""State that the plugins keep from cycle to cycle, and its persistence across restarts of the scheduler.

The state is written to annotations of Queue objects, which only administrators may change, whenever it differs from
them. It is read once, when a scheduler starts; after that the state in memory is authoritative. State that can be
derived is not written: that an application has been starved since its submission, or since when a pod waits for
preferred nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from strato.decoding import UNDECODABLE
from strato.interop.yarn.reservations import Reserved
from strato.scheduler.model.queues import Queue

log = logging.getLogger(__name__)

REMEMBERED: Final = "yarn.strato.io/remembered"
"""Annotation of a Queue with the state of its applications as JSON; times are milliseconds since the epoch."""
_MOST_BYTES: Final = 100_000
"""Largest annotation; Kubernetes allows 256 KiB for all annotations of an object together."""


Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Milliseconds since the epoch, at most the largest integer that a float holds exactly."""


class QueueMemory(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """The persisted state of one Queue's applications."""

    below_minimum_since_ms: Milliseconds | None = None
    """Since when the queue is below its minimum."""
    lacking_since_ms: dict[str, Milliseconds] = {}
    """Since when each job is below its fair share, by key, for jobs that once had it."""
    next_check_ms: dict[str, Milliseconds] = {}
    """When each job is checked for starvation again, by key."""
    making_room: dict[str, tuple[str, str, Milliseconds]] = {}
    """For each marked pod, by UID: its key, the job for which it is marked, and when it may be evicted."""
    marked_since_ms: dict[str, Milliseconds] = {}
    """Since when each pod is marked, by UID."""
    due: dict[str, str] = {}
    """Queue path of each pod whose wait is over, by UID."""
    reserved: dict[str, tuple[str, str, Milliseconds]] = {}
    """For each reserved node: the pod, the pod's job, and since when."""


_EMPTY: Final = QueueMemory()


@dataclass(slots=True)
class Kept:
    """State that both plugins keep across cycles."""

    reserved: dict[str, Reserved] = field(default_factory=dict)
    """Reservations by node."""
    first_seen: dict[str, float] = field(default_factory=dict)
    """Since when each pod waits for preferred nodes, by UID, in seconds since the epoch."""
    is_restarted: bool = True
    """Whether this is the first cycle."""

    def recall(self, queue: str, found: QueueMemory) -> None:
        """Restore state from a queue's annotation."""
        for node, (pod, job, since) in found.reserved.items():
            self.reserved[node] = Reserved(pod, job, since / 1000)


def recalled(queues: Iterable[Queue], kept: Kept) -> None:
    """Restore a plugin's state from annotations of queues; unreadable ones are skipped and logged."""
    for queue in queues:
        text = queue.view.metadata.annotation(REMEMBERED) if queue.view is not None else ""
        if text:
            try:
                kept.recall(queue.name, msgspec.json.decode(text, type=QueueMemory))
            except UNDECODABLE as error:
                log.warning("annotation is not read: queue=%s annotation=%s: %s", queue.name, REMEMBERED, error)


def text_of(found: QueueMemory) -> str:
    """Return the annotation's text; empty without state. Entries that would make it too long are left out."""
    if found == _EMPTY:
        return ""
    text = msgspec.json.encode(found, order="sorted").decode()
    if len(text) > _MOST_BYTES:
        shorter = msgspec.structs.replace(found, making_room={}, marked_since_ms={}, due={})
        log.warning("too many marks to remember; a restart begins their waits again: bytes=%d", len(text))
        text = msgspec.json.encode(shorter, order="sorted").decode()
    return text if len(text) <= _MOST_BYTES else ""
