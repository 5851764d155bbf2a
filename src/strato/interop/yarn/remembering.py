"""What the plugins keep from cycle to cycle, and how it outlives the scheduler.

It is written to annotations of Queue objects, which only administrators may change, when it differs from what they say,
and is read when a scheduler begins; from then on memory counts. What can be worked out anew is not written: that an
application has lacked its share since it was submitted, or since when a pod waits for the nodes that it prefers.
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
"""Annotation of a Queue: what is remembered of its applications, as JSON; times in milliseconds since the epoch."""
_MOST_BYTES: Final = 100_000
"""Of one annotation; all annotations of an object have at most 256 KiB together."""


Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Since the epoch; no more than a float holds exactly."""


class QueueMemory(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """What is remembered of the applications of one Queue."""

    below_minimum_since_ms: Milliseconds | None = None
    """Since when the queue lacks something of its minimum."""
    lacking_since_ms: dict[str, Milliseconds] = {}
    """By job since when it lacks something of its fair share, if it once had it."""
    next_check_ms: dict[str, Milliseconds] = {}
    """By job until when it is not looked at again."""
    making_room: dict[str, tuple[str, str, Milliseconds]] = {}
    """By UID of pods that are marked: the pod, the job they make room for, when they go."""
    marked_since_ms: dict[str, Milliseconds] = {}
    """By UID since when pods are chosen to go."""
    due: dict[str, str] = {}
    """By UID of pods whose wait is over, their queue's path."""
    reserved: dict[str, tuple[str, str, Milliseconds]] = {}
    """By node the pod it is reserved for, its job, since when."""


_EMPTY: Final = QueueMemory()


@dataclass(slots=True)
class Kept:
    """What both plugins keep."""

    reserved: dict[str, Reserved] = field(default_factory=dict)
    """By node for whom it is reserved."""
    first_seen: dict[str, float] = field(default_factory=dict)
    """By UID since when a pod waits for nodes that it prefers, in seconds since the epoch."""
    is_restarted: bool = True
    """Whether this is the first cycle."""

    def recall(self, queue: str, found: QueueMemory) -> None:
        """Take what a queue's annotation says."""
        for node, (pod, job, since) in found.reserved.items():
            self.reserved[node] = Reserved(pod, job, since / 1000)


def recalled(queues: Iterable[Queue], kept: Kept) -> None:
    """Read what annotations of queues say into a plugin's memory; what cannot be read is left out, and logged."""
    for queue in queues:
        text = queue.view.metadata.annotation(REMEMBERED) if queue.view is not None else ""
        if text:
            try:
                kept.recall(queue.name, msgspec.json.decode(text, type=QueueMemory))
            except UNDECODABLE as error:
                log.warning("annotation is not read: queue=%s annotation=%s: %s", queue.name, REMEMBERED, error)


def text_of(found: QueueMemory) -> str:
    """Return the annotation; empty when there is nothing to remember. What would make it too long is left out."""
    if found == _EMPTY:
        return ""
    text = msgspec.json.encode(found, order="sorted").decode()
    if len(text) > _MOST_BYTES:
        shorter = msgspec.structs.replace(found, making_room={}, marked_since_ms={}, due={})
        log.warning("too many marks to remember; a restart begins their waits again: bytes=%d", len(text))
        text = msgspec.json.encode(shorter, order="sorted").decode()
    return text if len(text) <= _MOST_BYTES else ""
