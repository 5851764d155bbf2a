"""What a scheduler asks of the API, and makes there, before it begins."""

from __future__ import annotations

import logging

import msgspec

from strato.api import catalog
from strato.api.defaults.queues import initial_queues
from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, NotFound, StratoError, Unavailable
from strato.scheduler.cache.kinds import KINDS

_log = logging.getLogger(__name__)


async def absent_kinds(cluster: Cluster, *, among_all: bool = False) -> frozenset[Kind]:
    """Return the kinds that this API server lacks, of those that one may do without or ``among_all``."""
    absent: set[Kind] = set()
    served: dict[str, frozenset[str]] = {}
    for known in (known for known in KINDS if known.optional or among_all):
        kind = known.kind
        if kind.api_version not in served:
            try:
                answer = msgspec.json.decode(await cluster.raw("GET", kind.prefix))
                served[kind.api_version] = frozenset(r["name"] for r in answer["resources"])
            except NotFound:
                served[kind.api_version] = frozenset()
        if kind.plural not in served[kind.api_version]:
            absent.add(kind)
    return frozenset(absent)


async def ensure_queues(cluster: Cluster, clock: Clock, default_queue: str) -> None:
    """Create the queues ``root`` and the default one when they are missing."""
    for body in initial_queues(default_queue):
        name = body["metadata"]["name"]
        refusal: ApiError | None = None
        for attempt in range(60):
            try:
                await cluster.create(catalog.QUEUE, body)
            except AlreadyExists:
                break
            except ApiError as error:
                refusal = error
                if not isinstance(error, Unavailable):
                    _log.info("queue not created yet: queue=%s attempt=%d: %s", name, attempt, error)
                await clock.sleep(1.0)
            else:
                break
        else:
            advice = "; are the CRDs installed?" if isinstance(refusal, NotFound) else ""
            raise StratoError(f"queue {name!r} could not be created in 60 attempts: {refusal}{advice}")
