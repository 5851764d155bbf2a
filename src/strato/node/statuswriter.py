"""Writes pod statuses: one patch per change, bounded concurrency, never two at once for one pod."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Cluster, Patch
from strato.clock import Clock
from strato.errors import ApiError, Conflict, Gone, InternalError, NotFound, TooManyRequests, Unavailable
from strato.node.timers import Timers

RETRY_SECONDS = 1.0

_GONE = (NotFound, Conflict, Gone)
_PASSING = (Unavailable, TooManyRequests, InternalError)
_log = logging.getLogger(__name__)


class Subject(Protocol):
    """A pod whose status is to be written."""

    namespace: str
    name: str
    uid: str
    queued: bool
    """Owned by the writer: waits in the queue."""
    writing: bool
    """Owned by the writer: a request is under way."""

    def next_write(self, now: float) -> dict[str, Any] | bytes | None:
        """Return the status to write now, or the whole patch as JSON, or None to delete the pod."""
        ...


class StatusWriter:
    """Brings pods' statuses to the API, the newest state only: what changes while a write runs is written next.

    Args:
        on_written: Called after each answered write with the subject and whether the pod still exists.
        concurrency: Requests in flight at most.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        timers: Timers,
        *,
        on_written: Callable[[Any, bool], None],
        concurrency: int = 64,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._timers = timers
        self._on_written = on_written
        self._concurrency = concurrency
        self._queue: deque[Subject] = deque()
        self._idle: list[asyncio.Future[None]] = []

    def submit(self, subject: Subject) -> None:
        """Ask for a write; asking again before it happened costs nothing."""
        if subject.queued:
            return
        subject.queued = True
        if not subject.writing:
            self._put(subject)

    def _put(self, subject: Subject) -> None:
        self._queue.append(subject)
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                return

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(max(2, self._concurrency // self._cluster.at_once)):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._queue:
                await self._wait()
            subjects = [self._queue.popleft() for _ in range(min(len(self._queue), self._cluster.at_once))]
            now = self._clock.now()
            written: list[Subject] = []
            over: list[Subject] = []
            patches: list[Patch] = []
            for subject in subjects:
                subject.queued, subject.writing = False, True
                status = subject.next_write(now)
                if status is None:
                    over.append(subject)
                else:
                    written.append(subject)
                    whole = isinstance(status, bytes)
                    body = status if whole else {"metadata": {"uid": subject.uid}, "status": status}
                    patches.append(Patch(subject.namespace, subject.name, body))
            if patches:
                errors = await self._cluster.patch_all(catalog.POD, patches, subresource="status")
                for subject, error in zip(written, errors, strict=True):
                    self._written(subject, await self._judged(subject, error) if error is not None else None)
            if over:
                for subject, gone in zip(over, await asyncio.gather(*map(self._delete, over)), strict=True):
                    self._written(subject, await self._judged(subject, gone) if gone is not None else None)

    async def _wait(self) -> None:
        """Wait for a subject; another worker may be faster."""
        waiting = asyncio.get_running_loop().create_future()
        self._idle.append(waiting)
        await waiting

    async def _delete(self, subject: Subject) -> ApiError | None:
        try:
            await self._cluster.delete(
                catalog.POD, subject.name, subject.namespace, uid=subject.uid, grace_period_seconds=0
            )
        except ApiError as error:
            return error
        return None

    async def _judged(self, subject: Subject, error: ApiError) -> ApiError:
        """Tell the two conflicts apart: another pod has the name by now, or somebody wrote at the same time."""
        if not isinstance(error, Conflict):
            return error
        try:
            found = await self._cluster.get(Pod, subject.name, subject.namespace)
        except ApiError as failure:
            return failure
        return error if found.metadata.uid != subject.uid else Unavailable(error.message)

    def _written(self, subject: Subject, error: ApiError | None) -> None:
        """Tell of a write and see to the next one."""
        subject.writing = False
        if error is None:
            self._on_written(subject, True)
            if subject.queued:
                self._put(subject)
            return
        if isinstance(error, _PASSING):
            _log.debug("a pod status is written later: pod=%s/%s error=%s", subject.namespace, subject.name, error)
            subject.queued = True
            self._timers.after(RETRY_SECONDS, self._put, subject)
            return
        if not isinstance(error, _GONE):
            _log.warning("a pod status was refused: pod=%s/%s error=%s", subject.namespace, subject.name, error)
        self._on_written(subject, not isinstance(error, _GONE))
        if subject.queued:
            self._put(subject)
