"""Record ``v1.Event`` objects, which tell users what happened to an object; a background queue writes them.

Recording never waits and never fails: events go through a bounded status queue. A repeated event becomes a count on the
existing one, many similar messages are aggregated into one event, and what exceeds the rate is dropped and counted. The
rules and numbers are those of client-go's event correlator.

No component acts upon an event, so events are written with low priority: during load they wait two seconds and are then
written one after the other, unless the queue is half full. Several share one call where the transport allows.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.api import catalog
from strato.api.meta import Object
from strato.api.shapes import ObjectReference
from strato.client.cluster import Cluster, Json, Patch
from strato.client.codec import kind_of
from strato.client.load import LoadMeter
from strato.client.retry import is_outcome_unknown
from strato.client.statusqueue import InFlight, Reporter, Retries, StatusQueue, Write
from strato.clock import Clock, format_time
from strato.errors import AlreadyExists, ApiError, NotFound
from strato.lru import LruCache
from strato.metrics import Registry

NORMAL = "Normal"
WARNING = "Warning"

_QUEUE_LENGTH = 5000
_SERIES_BYTES, _SIMILAR_BYTES, _BUCKETS_BYTES = 16 << 20, 8 << 20, 4 << 20
"""Sizes of the caches of earlier events. `_SERIES_BYTES` holds more series than the queue does, so a series is never
evicted while it waits to be written."""
_SIMILAR_LIMIT = 10
_SIMILAR_WINDOW_SECONDS = 600.0
_SPAM_BURST = 25.0
_SPAM_PER_SECOND = 1 / 300
_GIVE_UP_SECONDS = 3600.0
"""How long a failed write is retried: the server itself deletes an event after an hour."""
_REMOTE_WRITERS = 4
_BATCH_SIZE = 16
"""Most events written with one call, as other requests wait behind it."""


_Identity = tuple[str, str, str, str]
"""Kind, namespace, name and UID of an object."""


@dataclass(slots=True)
class _Series:
    """Repeats of one event: how many were recorded, and how many the API has confirmed."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    first: float
    last: float
    count: int = 0
    sent: int = 0
    """The count in the write that is in flight, or in the last one."""
    written: int = 0
    """The count that the API confirmed; 0 while there is no event."""
    name: str = ""
    """Name of the event; a retried creation uses it again, so that it cannot create a second event."""

    def reset(self) -> None:
        """Start a new event, which counts only the repeats that the API has not confirmed."""
        self.count -= self.written
        self.sent, self.written, self.name, self.first = self.count, 0, "", self.last


@dataclass(slots=True)
class _Similar:
    """The different messages recorded with one reason about one object."""

    since: float
    messages: set[int] = field(default_factory=set)
    """The messages' hashes."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class EventRecorder:
    """Records events of one component.

    Args:
        component: The component's name, which ``kubectl describe`` shows under *From*.
        registry: Counts dropped events under ``strato_events_dropped`` when given.
    """

    def __init__(self, cluster: Cluster, clock: Clock, component: str, *, registry: Registry | None = None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._component = component
        self._series: LruCache[Hashable, _Series] = LruCache(_SERIES_BYTES, _series_size)
        self._similar: LruCache[Hashable, _Similar] = LruCache(_SIMILAR_BYTES, lambda *_: 1500)
        self._buckets: LruCache[_Identity, _Bucket] = LruCache(_BUCKETS_BYTES, lambda *_: 500)
        self._sequence = zlib.crc32(component.encode()) % 1_000_000  # names differ by component
        self._dropped = (
            registry.counter("strato_events_dropped", "Events not written: overload or errors", ("component",))
            if registry
            else None
        )
        self._load = LoadMeter()
        writers = _REMOTE_WRITERS if cluster.remote else 1
        self._queue: StatusQueue[Hashable, _Series, _Series] = StatusQueue(
            clock,
            Reporter(
                lambda _, series: Write(series),
                self._send,
                on_confirmed=self._on_confirmed,
                on_refused=self._on_refused,
            ),
            InFlight(writers, min(_BATCH_SIZE, cluster.at_once), low_workers=writers, low_workers_in_load=1),
            retries=Retries(
                first_seconds=1.0,
                give_up_seconds=_GIVE_UP_SECONDS,
                may_retry=lambda error: is_outcome_unknown(error) or error.code == 429,  # no 403 or 404
            ),
            load=self._load,
            capacity=_QUEUE_LENGTH,
            name=f"events {component}",
        )
        self.dropped = 0
        """How many events were dropped."""

    def event(
        self,
        regarding: Object | ObjectReference | Mapping[str, Any],
        type: str,  # noqa: A002 -- the wire's name
        reason: str,
        message: str,
    ) -> None:
        """Record an event and return at once; the queue writes it later.

        Args:
            regarding: A view, a whole object as JSON, or a reference.
            type: ``Normal`` or ``Warning``.
            reason: One CamelCase word for machines.
            message: A sentence for people.
        """
        about = _reference(regarding)
        identity = about.kind, about.namespace, about.name, about.uid
        now = self._clock.now()
        self._load.add(1, self._clock.monotonic())
        if self._is_spam(identity, now):
            self._drop(1)
            return
        key, text = self._correlate((identity, type, reason), message, now)
        series = self._series.get(key)
        if series is None:
            series = self._series.put(key, _Series(about, type, reason, text, now, now))
        series.last, series.message = now, text
        if not series.count:
            series.first = now
        if self._queue.put(key, series, low_priority=True):
            series.count += 1
        else:
            self._drop(1)

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped."""
        await self._queue.drain()

    async def _send(self, some: Sequence[_Series]) -> Sequence[ApiError | None]:
        """Create new events, and patch the count of existing ones; one that the server has deleted is created anew."""
        for series in some:
            series.sent = series.count
        answers: list[ApiError | None] = [None] * len(some)
        known = [number for number, series in enumerate(some) if series.written]
        if known:
            patches = [_repeat(some[number]) for number in known]
            for number, error in zip(known, await self._cluster.patch_all(catalog.EVENT, patches), strict=True):
                answers[number] = error
                if isinstance(error, NotFound):
                    some[number].reset()
        new = [number for number, series in enumerate(some) if not series.written]
        retried = {number for number in new if some[number].name}
        await self._create(some, new, answers)
        for number in new:
            if isinstance(answers[number], AlreadyExists):
                if number in retried:
                    answers[number] = None  # an earlier attempt created it, and its answer was lost
                else:
                    some[number].name = ""
        await self._create(some, [number for number in new if not some[number].name], answers)
        return answers

    async def _create(self, some: Sequence[_Series], new: Sequence[int], answers: list[ApiError | None]) -> None:
        bodies: dict[str, list[tuple[int, Json]]] = {}
        for number in new:
            series = some[number]
            bodies.setdefault(_namespace(series), []).append((number, self._compose(series)))
        for namespace, pairs in bodies.items():
            made = await self._cluster.create_all(catalog.EVENT, [body for _, body in pairs], namespace)
            for (number, _), answer in zip(pairs, made, strict=True):
                answers[number] = answer if isinstance(answer, ApiError) else None

    def _on_confirmed(self, _: Hashable, series: _Series, __: _Series) -> None:
        series.written = series.sent

    def _on_refused(self, _: Hashable, series: _Series, __: ApiError) -> None:
        """Drop the unconfirmed repeats: the namespace is being deleted, say; an event is not worth more attempts."""
        self._drop(series.count - series.written)
        series.count = series.written

    def _correlate(self, group: tuple[Hashable, ...], message: str, now: float) -> tuple[Hashable, str]:
        """Return the key of the event's series, and the message to write; many similar messages share one series."""
        similar = self._similar.get(group)
        if similar is None or now - similar.since > _SIMILAR_WINDOW_SECONDS:
            similar = self._similar.put(group, _Similar(now))
        number = hash(message)
        if len(similar.messages) < _SIMILAR_LIMIT or number in similar.messages:
            similar.messages.add(number)
            return (group, message), message
        return group, f"(combined from similar events): {message}"

    def _is_spam(self, identity: _Identity, now: float) -> bool:
        bucket = self._buckets.get(identity)
        if bucket is None:
            bucket = self._buckets.put(identity, _Bucket(_SPAM_BURST, now))
        bucket.tokens = min(_SPAM_BURST, bucket.tokens + (now - bucket.filled_at) * _SPAM_PER_SECOND)
        bucket.filled_at = now
        if bucket.tokens < 1.0:
            return True
        bucket.tokens -= 1.0
        return False

    def _compose(self, series: _Series) -> Json:
        if not series.name:
            self._sequence += 1
            series.name = f"{series.regarding.name}.{int(series.last * 1e9) + self._sequence:x}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": _namespace(series)},
            "involvedObject": series.regarding,
            "reason": series.reason,
            "message": series.message,
            "type": series.type,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": format_time(series.first),
            "lastTimestamp": format_time(series.last),
            "count": series.sent,
        }

    def _drop(self, count: int) -> None:
        self.dropped += count
        if self._dropped is not None:
            self._dropped.labels(self._component).inc(count)


def _series_size(_: Hashable, series: _Series) -> int:
    return 1000 + 2 * len(series.message)


def _repeat(series: _Series) -> Patch:
    changes = {"count": series.sent, "lastTimestamp": format_time(series.last), "message": series.message}
    return Patch(_namespace(series), series.name, changes)


def _namespace(series: _Series) -> str:
    return series.regarding.namespace or "default"


def _reference(regarding: Object | ObjectReference | Mapping[str, Any]) -> ObjectReference:
    if isinstance(regarding, ObjectReference):
        return regarding
    if isinstance(regarding, Object):
        kind, metadata = kind_of(type(regarding)), regarding.metadata
        return ObjectReference(
            api_version=kind.api_version,
            kind=kind.name,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
    place = regarding.get("metadata", regarding)
    return ObjectReference(
        api_version=regarding.get("apiVersion", ""),
        kind=regarding.get("kind", ""),
        namespace=place.get("namespace", ""),
        name=place.get("name", ""),
        uid=place.get("uid", ""),
        resource_version=place.get("resourceVersion", ""),
        field_path=regarding.get("fieldPath", ""),
    )
