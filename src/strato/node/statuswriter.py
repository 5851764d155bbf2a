"""Writes pod statuses, the newest state only, and removes pods from the API once they have stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Cluster, Patch
from strato.client.statusqueue import StatusQueue, Write
from strato.clock import Clock
from strato.errors import ApiError, Conflict, Gone, InternalError, NotFound, TooManyRequests, Unavailable

_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 4.0

_GONE = (NotFound, Conflict, Gone)
_PASSING = (Unavailable, TooManyRequests, InternalError)
_log = logging.getLogger(__name__)


class Subject(Protocol):
    """A pod whose status is to be written."""

    namespace: str
    name: str
    uid: str

    def next_write(self, now: float) -> dict[str, Any] | bytes | None:
        """Return the status to write now, or the whole patch as JSON, or None to delete the pod."""
        ...


S = TypeVar("S", bound=Subject)


class _Request(NamedTuple):
    namespace: str
    name: str
    uid: str
    patch: Patch | None
    """None deletes the pod."""


class StatusWriter(Generic[S]):
    """Brings pods' statuses to the API through a `StatusQueue`.

    Args:
        on_written: Called after each answered write with the subject and whether the pod still exists.
        concurrency: Requests in flight at most.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, *, on_written: Callable[[S, bool], None], concurrency: int = 64
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._on_written = on_written
        self._queue: StatusQueue[str, S, _Request] = StatusQueue(
            clock,
            self._build,
            self._send,
            workers=max(2, concurrency // cluster.at_once),
            batch=cluster.at_once,
            may_retry=lambda error: isinstance(error, _PASSING),
            first_retry_seconds=_RETRY_SECONDS,
            longest_retry_seconds=_LONGEST_RETRY_SECONDS,
            on_confirmed=lambda _, subject, __: on_written(subject, True),
            on_refused=self._on_refused,
            name="pod statuses",
        )
        self.run = self._queue.run

    def submit(self, subject: S) -> None:
        """Ask for a write; asking again before it happened costs nothing."""
        self._queue.put(subject.uid, subject)

    def _build(self, _: str, subject: S) -> Write[_Request]:
        status = subject.next_write(self._clock.now())
        namespace, name, uid = subject.namespace, subject.name, subject.uid
        if status is None:
            return Write(_Request(namespace, name, uid, None))
        body = status if isinstance(status, bytes) else {"metadata": {"uid": uid}, "status": status}
        return Write(_Request(namespace, name, uid, Patch(namespace, name, body)))

    async def _send(self, requests: Sequence[_Request]) -> Sequence[ApiError | None]:
        errors: dict[str, ApiError | None] = {}
        patched = [request for request in requests if request.patch is not None]
        if patched:
            patches = [request.patch for request in patched if request.patch is not None]
            answers = await self._cluster.patch_all(catalog.POD, patches, subresource="status")
            errors.update((request.uid, error) for request, error in zip(patched, answers, strict=True))
        ended = [request for request in requests if request.patch is None]
        if ended:
            ends = await asyncio.gather(*map(self._delete, ended))
            errors.update((request.uid, error) for request, error in zip(ended, ends, strict=True))
        return [
            await self._judged(request, error) if (error := errors[request.uid]) is not None else None
            for request in requests
        ]

    async def _delete(self, request: _Request) -> ApiError | None:
        try:
            await self._cluster.delete(
                catalog.POD, request.name, request.namespace, uid=request.uid, grace_period_seconds=0
            )
        except ApiError as error:
            return error
        return None

    async def _judged(self, request: _Request, error: ApiError) -> ApiError:
        """Tell the two conflicts apart: another pod has the name by now, or somebody wrote at the same time."""
        if not isinstance(error, Conflict):
            return error
        try:
            found = await self._cluster.get(Pod, request.name, request.namespace)
        except ApiError as failure:
            return failure
        return error if found.metadata.uid != request.uid else Unavailable(error.message)

    def _on_refused(self, _: str, subject: S, error: ApiError) -> None:
        if not isinstance(error, _GONE):
            _log.warning("a pod status was refused: pod=%s/%s error=%s", subject.namespace, subject.name, error)
        self._on_written(subject, not isinstance(error, _GONE))
