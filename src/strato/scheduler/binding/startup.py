"""What a scheduler reads from the API and creates there before its first cycle."""

from __future__ import annotations

import logging

import msgspec

from strato.api import catalog
from strato.api.defaults.queues import initial_queues
from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.client.retry import is_server_error
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, NotFound, StratoError, Unavailable
from strato.scheduler.cache.kinds import KINDS

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


async def absent_kinds(cluster: Cluster, clock: Clock | None = None, *, among_all: bool = False) -> frozenset[Kind]:
    """Return the kinds that this API server lacks, among the optional ones or among all that the scheduler reads.

    With a clock, retry until the API server answers; without one, raise its error.
    """
    absent: set[Kind] = set()
    served: dict[str, frozenset[str]] = {}
    for known in (known for known in KINDS if known.optional or among_all):
        kind = known.kind
        if kind.api_version not in served:
            try:
                answer = msgspec.json.decode(await _answer(cluster, clock, kind.prefix))
                served[kind.api_version] = frozenset(r["name"] for r in answer["resources"])
            except NotFound:
                served[kind.api_version] = frozenset()
        if kind.plural not in served[kind.api_version]:
            absent.add(kind)
    return frozenset(absent)


async def _answer(cluster: Cluster, clock: Clock | None, path: str) -> bytes:
    while True:
        try:
            return await cluster.raw("GET", path)
        except ApiError as error:
            if clock is None or not is_server_error(error):
                raise
            _log.info("kinds not read yet: path=%s: %s", path, error)
            await clock.sleep(_RETRY_SECONDS)


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
                await clock.sleep(_RETRY_SECONDS)
            else:
                break
        else:
            advice = "; are the CRDs installed?" if isinstance(refusal, NotFound) else ""
            raise StratoError(f"queue {name!r} could not be created in 60 attempts: {refusal}{advice}")
