"""Writes pod statuses: one patch per change, bounded concurrency, never two at once for one pod."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from strato.api import catalog
from strato.client.cluster import Cluster, PatchType
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

    def next_write(self, now: float) -> dict[str, Any] | None:
        """Return the status to write now, or None to delete the pod (its deletion is done)."""
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
        self._queue: asyncio.Queue[Subject] = asyncio.Queue()
        self._encode = msgspec.json.Encoder().encode

    def submit(self, subject: Subject) -> None:
        """Ask for a write; asking again before it happened costs nothing."""
        if subject.queued:
            return
        subject.queued = True
        if not subject.writing:
            self._queue.put_nowait(subject)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            subject = await self._queue.get()
            subject.queued, subject.writing = False, True
            retry = False
            try:
                await self._write(subject)
                self._on_written(subject, True)
            except _GONE:
                self._on_written(subject, False)
            except _PASSING as err:
                _log.debug("a pod status is written later: pod=%s/%s error=%s", subject.namespace, subject.name, err)
                retry = True
            except ApiError as err:
                _log.warning("a pod status was refused: pod=%s/%s error=%s", subject.namespace, subject.name, err)
                self._on_written(subject, True)
            finally:
                subject.writing = False
            if retry:
                subject.queued = True
                self._timers.after(RETRY_SECONDS, self._queue.put_nowait, subject)
            elif subject.queued:
                self._queue.put_nowait(subject)

    async def _write(self, subject: Subject) -> None:
        status = subject.next_write(self._clock.now())
        if status is None:
            await self._cluster.delete(
                catalog.POD, subject.name, subject.namespace, uid=subject.uid, grace_period_seconds=0
            )
            return
        # raw: the answer, a whole pod, is of no interest and need not be decoded.
        await self._cluster.raw(
            "PATCH",
            f"/api/v1/namespaces/{subject.namespace}/pods/{subject.name}/status",
            body=self._encode({"metadata": {"uid": subject.uid}, "status": status}),
            content_type=PatchType.MERGE.value,
        )
