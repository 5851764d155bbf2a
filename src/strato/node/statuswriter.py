"""Writes the newest statuses of pods, and removes deleted pods from the API once they have stopped.

Statuses are written as strategic merge patches, as by a kubelet, so that they leave the conditions of other components
unchanged, also those written at the same time.

The final status of a deleted pod is written only if a finalizer keeps the object (`Pod.is_awaited`). Any other object
is removed right afterwards, so that nobody could read its status and the write would be wasted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Cluster, Patch, PatchType
from strato.client.statusqueue import InFlight, Reporter, Retries, StatusQueue, Write
from strato.clock import Clock
from strato.errors import ApiError, Conflict, Gone, InternalError, NotFound, TooManyRequests, Unavailable

_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 4.0

_GONE = (NotFound, Conflict, Gone)
_PASSING = (Unavailable, TooManyRequests, InternalError)
_log = logging.getLogger(__name__)


class Subject(Protocol):
    """A pod whose status is written."""

    namespace: str
    name: str
    uid: str
    is_stopped: bool
    """Whether it was deleted and all its containers have ended, so that it has to be removed from the API."""

    def next_write(self, now: float) -> dict[str, Any] | bytes | None:
        """Return what to merge into its status, or that as JSON; None for a stopped pod that no finalizer keeps."""


S = TypeVar("S", bound=Subject)


class _Request(NamedTuple, Generic[S]):
    """The requests to send for a pod."""

    subject: S
    patch: Patch | None
    """The patch of its status, if one is needed."""
    deletes: bool
    """Whether the pod is removed after that."""


class StatusWriter(Generic[S]):
    """Writes pods' statuses to the API through a `StatusQueue`.

    Args:
        on_written: Called after each answered write with the subject and whether the pod still exists.
        concurrency: Most requests in flight.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, *, on_written: Callable[[S, bool], None], concurrency: int = 64
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._on_written = on_written
        self._queue: StatusQueue[str, S, _Request[S]] = StatusQueue(
            clock,
            Reporter(
                self._build,
                self._send,
                on_confirmed=lambda _, subject, __: on_written(subject, True),
                on_refused=self._on_refused,
            ),
            InFlight(max(2, concurrency // cluster.at_once), cluster.at_once),
            retries=Retries(
                _RETRY_SECONDS, _LONGEST_RETRY_SECONDS, may_retry=lambda error: isinstance(error, _PASSING)
            ),
            name="pod statuses",
        )
        self.run = self._queue.run
        self.drain = self._queue.drain

    def submit(self, subject: S) -> None:
        """Queue a write of the newest status; further calls before that write have no effect."""
        self._queue.put(subject.uid, subject)

    def _build(self, uid: str, subject: S) -> Write[_Request[S]]:
        status = subject.next_write(self._clock.now())
        patch = None
        if status is not None:
            body = status if isinstance(status, bytes) else {"metadata": {"uid": uid}, "status": status}
            patch = Patch(subject.namespace, subject.name, body)
        return Write(_Request(subject, patch, subject.is_stopped))

    async def _send(self, requests: Sequence[_Request[S]]) -> Sequence[ApiError | None]:
        errors: dict[int, ApiError | None] = dict.fromkeys(range(len(requests)))
        patches = {number: request.patch for number, request in enumerate(requests) if request.patch is not None}
        if patches:
            written = await self._cluster.patch_all(
                catalog.POD, [*patches.values()], patch_type=PatchType.STRATEGIC, subresource="status"
            )
            errors.update(zip(patches, written, strict=True))
        deleted = [number for number, request in enumerate(requests) if request.deletes and errors[number] is None]
        answers = await asyncio.gather(*(self._delete(requests[number].subject) for number in deleted))
        errors.update(zip(deleted, answers, strict=True))
        for number, error in errors.items():
            if isinstance(error, Conflict):
                errors[number] = await self._judged(requests[number].subject, error)
        return [*errors.values()]

    async def _delete(self, subject: S) -> ApiError | None:
        try:
            await self._cluster.delete(
                catalog.POD, subject.name, subject.namespace, uid=subject.uid, grace_period_seconds=0
            )
        except ApiError as error:
            return error
        return None

    async def _judged(self, subject: S, conflict: Conflict) -> ApiError:
        """Find the cause of a Conflict: another pod has the name by now, or another client wrote at the same time."""
        try:
            found = await self._cluster.get(Pod, subject.name, subject.namespace)
        except ApiError as failure:
            return failure
        return conflict if found.metadata.uid != subject.uid else Unavailable(conflict.message)

    def _on_refused(self, _: str, subject: S, error: ApiError) -> None:
        if not isinstance(error, _GONE):
            _log.warning("a pod status was refused: pod=%s/%s error=%s", subject.namespace, subject.name, error)
        self._on_written(subject, not isinstance(error, _GONE))
