"""The objects that the chain's rules read behind a webhook (queues, namespaces, autoscalers), fetched before it runs.

The chain is synchronous; its rules read few and known objects, so these are fetched first. A request is only refused by
a list that was read after it arrived, because a queue and its first job may arrive together. It may be admitted by a
list up to two seconds old, so that a thousand jobs do not read a thousand lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from strato.admission import queueacls, queueplacement
from strato.admission.recommendations import PATH as RECOMMENDED
from strato.admission.request import Json
from strato.admission.trainjobs import runtime_of
from strato.admission.webhook.review import ReviewRequest, kind_of
from strato.admission.webhook.services import WebhookService
from strato.api import catalog
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.api.meta import ObjectMeta
from strato.api.trainer import RUNTIMES
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, InvariantError, NotFound

_MAX_AGE_SECONDS = 2.0
_MOST_REFERENCES = 100
"""Most objects that one object may refer to, as a flow to its templates."""
_JOBS = (catalog.VCJOB, *BY_KIND)
"""Kinds whose new objects name a queue."""


class Known:
    """An `AdmissionReader` of plain objects."""

    def __init__(self, objects: Mapping[Kind, Mapping[str, Json]], *, fresh: bool = True) -> None:
        self._objects = objects
        self.fresh = fresh
        """Whether everything was read after the request arrived; if not, a refusal has to be checked with new reads."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return the object of a name among those that were read, or None."""
        return self._of(kind).get(name)

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind that were read."""
        return list(self._of(kind).values())

    def _of(self, kind: Kind) -> Mapping[str, Json]:
        found = self._objects.get(kind)
        if found is None:
            raise InvariantError(f"a webhook's rule looked at {kind.plural}, which are not read")
        return found


NOTHING = Known({catalog.QUEUE: {}, catalog.NAMESPACE: {}, catalog.VERTICALPODAUTOSCALER: {}})


class Reads:
    """Reads for the services; requests that arrive together share one list."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._queues: dict[str, Json] = {}
        self._read_at = float("-inf")
        self._next: asyncio.Future[dict[str, Json]] | None = None
        self._lock = asyncio.Lock()

    async def reader(self, service: WebhookService, review: ReviewRequest, *, fresh: bool) -> Known:
        """Return the objects that the rules of a service read for a request.

        Raises:
            ApiError: The cluster did not answer.
        """
        if service.path == "/podgroups/mutate":
            return await self._namespace(review)
        if service.path in (queueacls.NOTE, queueacls.JUDGE):
            return await self._for_access(service, review)
        if service.path == queueplacement.PATH:
            return Known({catalog.QUEUE: await self._all_queues()})
        if service.path == RECOMMENDED:
            try:
                return await self._autoscalers(review)
            except ApiError:
                return NOTHING  # without autoscalers, the pod keeps its own requests
        if service.kind is catalog.TRAINJOB:
            return await self._runtime(review)
        if service.mutates or service.kind not in (*_JOBS, catalog.PODGROUP, catalog.QUEUE):
            return NOTHING
        if service.kind in _JOBS and review.operation != "CREATE":
            return NOTHING
        # The rules of queues compare siblings, so a queue written just before must be in the list.
        recent = self._clock.monotonic() - self._read_at <= _MAX_AGE_SECONDS
        if recent and not fresh and service.kind is not catalog.QUEUE:
            return Known({catalog.QUEUE: self._queues}, fresh=False)
        return Known({catalog.QUEUE: await self._all_queues()})

    async def _all_queues(self) -> dict[str, Json]:
        """Return a list that is started after this call; calls during a list under way share the next one."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._read_queues())
        return await asyncio.shield(self._next)

    async def _read_queues(self) -> dict[str, Json]:
        async with self._lock:
            self._next = None  # calls from here on need a later list, as this one starts now
            page = await self._cluster.list(catalog.QUEUE)
            self._queues = {queue["metadata"]["name"]: queue for queue in page.items}
            self._read_at = self._clock.monotonic()
            return self._queues

    async def _namespace(self, review: ReviewRequest) -> Known:
        spec = (review.object or {}).get("spec")
        if not isinstance(spec, dict) or spec.get("queue") != "default":
            return NOTHING
        try:
            namespace = await self._cluster.get(catalog.NAMESPACE, review.namespace)
        except ApiError:
            return NOTHING  # without the namespace, the group stays in its queue
        return Known({catalog.NAMESPACE: {review.namespace: namespace}})

    async def _runtime(self, review: ReviewRequest) -> Known:
        """Read the runtime that a new job refers to."""
        found: dict[Kind, dict[str, Json]] = {kind: {} for kind in RUNTIMES.values()}
        if review.operation == "CREATE" and review.object is not None:
            kind, name = runtime_of(review.object)
            with suppress(NotFound):
                found[kind][name] = await self._cluster.get(kind, name, review.namespace if kind.namespaced else "")
        return Known(found)

    async def _for_access(self, service: WebhookService, review: ReviewRequest) -> Known:
        """Read the queues, the objects that an object refers to, and the controllers above it."""
        found: dict[Kind, dict[str, Json]] = {kind: {} for kind in service.kinds}
        found[catalog.QUEUE] = await self._all_queues()
        kind = kind_of(service, review)
        written = [obj for obj in (review.object, review.old_object) if obj is not None]
        asked = [one for obj in written if kind is not None for one in queueacls.references(kind, obj)]
        while asked:
            kind, name = asked.pop()
            if name in found[kind] or sum(map(len, found.values())) > _MOST_REFERENCES + len(found[catalog.QUEUE]):
                continue
            with suppress(NotFound):
                found[kind][name] = await self._cluster.get(kind, name, review.namespace)
                asked += queueacls.references(kind, found[kind][name])
        return Known(found)

    async def _autoscalers(self, review: ReviewRequest) -> Known:
        """Read the autoscalers of a namespace, and the objects that decide which one applies to a pod and how far."""
        autoscalers = await self._named(catalog.VERTICALPODAUTOSCALER, review.namespace)
        if not autoscalers or review.object is None:
            return NOTHING
        found = {catalog.VERTICALPODAUTOSCALER: autoscalers, catalog.REPLICASET: {}}
        owner = msgspec.convert(review.object.get("metadata") or {}, ObjectMeta).controller
        if owner is not None and owner.kind == catalog.REPLICASET.name:
            with suppress(NotFound):
                manager = await self._cluster.get(catalog.REPLICASET, owner.name, review.namespace)
                found[catalog.REPLICASET] = {owner.name: manager}
        return Known({**found, catalog.LIMITRANGE: await self._named(catalog.LIMITRANGE, review.namespace)})

    async def _named(self, kind: Kind, namespace: str) -> dict[str, Json]:
        page = await self._cluster.list(kind, namespace)
        return {one["metadata"]["name"]: one for one in page.items}
