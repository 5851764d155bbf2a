"""Tell users what happened to an object: ``v1.Event`` objects, written in the background.

Recording never waits and never fails: events go through a bounded queue, repeats become a count on the event that
is there, a flood of different messages is folded into one, and what is too much is dropped and counted. The rules
and numbers are those of client-go's event correlator, so that our events look like everybody's.

Nobody acts upon an event. While they come by the dozen there is work that goes first: they wait for a lull, or two
seconds at most, and are written many with one call where that is cheaper.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from strato.api import catalog
from strato.api.core import Event
from strato.api.meta import Object
from strato.api.shapes import ObjectReference
from strato.client.burst import Burst
from strato.client.cluster import Cluster, Json
from strato.client.codec import encode, kind_of
from strato.client.retry import delay_seconds, is_outcome_unknown
from strato.client.workqueue import PATIENCE_SECONDS
from strato.clock import Clock, format_time
from strato.errors import AlreadyExists, ApiError, NotFound
from strato.metrics import Registry

_log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

_QUEUE_LENGTH = 5000
_REMEMBERED = 4096
_SIMILAR_LIMIT = 10
_SIMILAR_WINDOW_SECONDS = 600.0
_SPAM_BURST = 25.0
_SPAM_PER_SECOND = 1 / 300
_ATTEMPTS = 15
"""Two minutes in all, as client-go's recorder; meanwhile what comes waits in the queue."""
_LONGEST_RETRY_SECONDS = 10.0
_REMOTE_SENDERS = 4
_TOGETHER = 16
"""Most that are created with one call: they hold up what comes after them."""

T = TypeVar("T")


_Identity = tuple[str, str, str, str]
"""Kind, namespace, name and UID of an object."""


class _Noted(NamedTuple):
    """Something as it was recorded; what follows from it is worked out when it is written."""

    at: float
    since: float
    """Monotonic."""
    regarding: Object | ObjectReference
    type: str
    reason: str
    message: str


class _Happened(NamedTuple):
    at: float
    regarding: ObjectReference
    identity: _Identity
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Written:
    """An event on the server that repeats are counted on."""

    namespace: str
    name: str
    count: int


@dataclass(slots=True)
class _Similar:
    """Different messages of one reason on one object."""

    since: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class _Recent(Generic[T]):
    """The last few thousand entries by use."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: T) -> T:
        self._entries[key] = entry
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        return entry

    def drop(self, key: Hashable) -> None:
        self._entries.pop(key, None)


class EventRecorder:
    """Records events of one component.

    Args:
        cluster: Where events are written.
        clock: Dates them.
        component: Who reports, as ``kubectl describe`` shows under *From*.
        registry: Counts dropped events under ``strato_events_dropped`` when given.
    """

    def __init__(self, cluster: Cluster, clock: Clock, component: str, *, registry: Registry | None = None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._component = component
        self._queue: deque[_Noted] = deque()
        self._written: _Recent[_Written] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()
        self._senders: set[asyncio.Task[None]] = set()
        self._max_senders = _REMOTE_SENDERS if cluster.remote else 1
        self._sequence = zlib.crc32(component.encode()) % 1_000_000  # components that report at one instant differ
        self._dropped = (
            registry.counter("strato_events_dropped", "Events not written: overload or errors", ("component",))
            if registry
            else None
        )
        self._burst = Burst()
        self.dropped = 0
        """How many events were not written."""

    def event(
        self,
        regarding: Object | ObjectReference | Mapping[str, Any],
        type: str,  # noqa: A002 -- the wire's name
        reason: str,
        message: str,
    ) -> None:
        """Record that something happened; returns at once.

        Args:
            regarding: A view, a whole object as JSON, or a reference.
            type: ``Normal`` or ``Warning``.
            reason: One CamelCase word for machines.
            message: A sentence for people.
        """
        if len(self._queue) >= _QUEUE_LENGTH:
            self._drop()
            return
        since = self._clock.monotonic()
        about = regarding if isinstance(regarding, Object) else _reference(regarding)  # views never change
        self._burst.worked(1, since)
        self._queue.append(_Noted(self._clock.now(), since, about, type, reason, message))
        if len(self._senders) < self._max_senders:
            task = asyncio.get_running_loop().create_task(self._send_all(), name=f"events {self._component}")
            self._senders.add(task)
            task.add_done_callback(self._senders.discard)

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped."""
        while self._senders:
            await asyncio.wait(tuple(self._senders))

    async def _send_all(self) -> None:
        while self._queue:
            rest = self._rest_seconds(self._queue[0])
            if rest > 0.0:
                await self._clock.sleep(rest)
                continue
            some = self._next(min(_TOGETHER, self._cluster.at_once))
            if len(some) == 1:
                await self._try(some[0])
            elif some:
                await self._send_some(some)

    def _next(self, most: int) -> list[_Happened]:
        """Take the oldest that need not wait; what is spam is dropped."""
        some: list[_Happened] = []
        while self._queue and len(some) < most and self._rest_seconds(self._queue[0]) <= 0.0:
            at, _, about, type_, reason, message = self._queue.popleft()
            reference = _reference(about)
            identity = reference.kind, reference.namespace, reference.name, reference.uid
            happened = _Happened(at, reference, identity, type_, reason, message)
            if self._is_spam(happened):
                self._drop()
            else:
                some.append(happened)
        return some

    def _rest_seconds(self, oldest: _Noted) -> float:
        """Return how long the events that wait let everything else pass."""
        if len(self._queue) > _QUEUE_LENGTH // 2:
            return 0.0
        return min(oldest.since + PATIENCE_SECONDS, self._burst.over_at) - self._clock.monotonic()

    async def _send_some(self, some: Sequence[_Happened]) -> None:
        """Create with one call per namespace what is new; whatever repeats, or is not taken, goes by itself then."""
        first: dict[Hashable, _Happened] = {}
        later: list[_Happened] = []
        bodies: dict[str, list[tuple[Hashable, Json]]] = {}
        for happened in some:
            key, message = self._correlate(happened)
            if key in first or self._written.get(key) is not None:
                later.append(happened)
                continue
            first[key] = happened
            body = self._compose(happened, message)
            bodies.setdefault(body["metadata"]["namespace"], []).append((key, body))
        for namespace, new in bodies.items():
            answers = await self._cluster.create_all(catalog.EVENT, [body for _, body in new], namespace)
            for (key, body), answer in zip(new, answers, strict=True):
                if not isinstance(answer, ApiError):
                    self._written.put(key, _Written(namespace, body["metadata"]["name"], 1))
                elif isinstance(answer, AlreadyExists) or is_outcome_unknown(answer) or answer.code == 429:
                    later.append(first[key])
                else:
                    self._refused(first[key], answer)
        for happened in later:
            await self._try(happened)

    async def _try(self, happened: _Happened) -> None:
        try:
            await self._send(happened)
        except ApiError as error:
            self._refused(happened, error)

    def _refused(self, happened: _Happened, error: ApiError) -> None:
        """Give up; the namespace may be going away, or we may not write there: an event is not worth more."""
        _log.debug("event not written: reason=%s object=%s: %s", happened.reason, happened.regarding.name, error)
        self._drop()

    async def _send(self, happened: _Happened) -> None:
        key, message = self._correlate(happened)
        for attempt in range(_ATTEMPTS):
            try:
                return await self._write(key, happened, message)
            except ApiError as error:
                if attempt == _ATTEMPTS - 1 or not (is_outcome_unknown(error) or error.code == 429):
                    raise
                await self._clock.sleep(delay_seconds(error, attempt + 1, first=1.0, longest=_LONGEST_RETRY_SECONDS))
        return None

    async def _write(self, key: Hashable, happened: _Happened, message: str) -> None:
        known = self._written.get(key)
        if known is not None:
            changes = {"count": known.count + 1, "lastTimestamp": format_time(happened.at), "message": message}
            try:
                await self._cluster.patch(Event, known.name, known.namespace, changes)
            except NotFound:
                self._written.drop(key)  # expired on the server; begin anew
            else:
                known.count += 1
                return
        body = self._compose(happened, message)
        namespace = body["metadata"]["namespace"]
        path = catalog.EVENT.path(namespace)
        try:
            await self._cluster.raw("POST", path, body=encode(body))  # raw: nobody reads the answer
        except AlreadyExists:
            body["metadata"]["name"] = self._name(happened)
            await self._cluster.raw("POST", path, body=encode(body))
        self._written.put(key, _Written(namespace, body["metadata"]["name"], 1))

    def _correlate(self, happened: _Happened) -> tuple[Hashable, str]:
        """Return what repeats of this event share, and the message to write."""
        group = (happened.identity, happened.type, happened.reason)
        similar = self._similar.get(group)
        if similar is None or happened.at - similar.since > _SIMILAR_WINDOW_SECONDS:
            similar = self._similar.put(group, _Similar(happened.at))
        if len(similar.messages) < _SIMILAR_LIMIT or happened.message in similar.messages:
            similar.messages.add(happened.message)
            return (group, happened.message), happened.message
        return group, f"(combined from similar events): {happened.message}"

    def _is_spam(self, happened: _Happened) -> bool:
        bucket = self._buckets.get(happened.identity)
        if bucket is None:
            bucket = self._buckets.put(happened.identity, _Bucket(_SPAM_BURST, happened.at))
        bucket.tokens = min(_SPAM_BURST, bucket.tokens + (happened.at - bucket.filled_at) * _SPAM_PER_SECOND)
        bucket.filled_at = happened.at
        if bucket.tokens < 1.0:
            return True
        bucket.tokens -= 1.0
        return False

    def _compose(self, happened: _Happened, message: str) -> Json:
        instant = format_time(happened.at)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self._name(happened), "namespace": happened.regarding.namespace or "default"},
            "involvedObject": happened.regarding,
            "reason": happened.reason,
            "message": message,
            "type": happened.type,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": instant,
            "lastTimestamp": instant,
            "count": 1,
        }

    def _name(self, happened: _Happened) -> str:
        self._sequence += 1
        return f"{happened.regarding.name}.{int(happened.at * 1e9) + self._sequence:x}"

    def _drop(self) -> None:
        self.dropped += 1
        if self._dropped is not None:
            self._dropped.labels(self._component).inc()


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
