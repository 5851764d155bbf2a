"""Write the newest state of objects by key, retried until confirmed; callers may wait for the confirmation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.clock import Clock
from strato.errors import ApiError

_log = logging.getLogger(__name__)
R = TypeVar("R")


class LatestWrites(Generic[R]):
    """Writes of one kind of object.

    Args:
        build: Makes the request for a key from the state at the time of sending; None if nothing is to be written.
        send: Sends requests and returns the error of each, None for success.
        name: Kind of the objects, for logs.
    """

    def __init__(
        self,
        clock: Clock,
        build: Callable[[str], R | None],
        send: Callable[[Sequence[R]], Awaitable[Sequence[ApiError | None]]],
        *,
        name: str,
        workers: int = 2,
        batch: int = 100,
    ) -> None:
        self._build_request, self._name = build, name
        self._number = 0
        self._waiting: dict[str, list[tuple[int, asyncio.Future[bool]]]] = {}
        reporter: Reporter[str, int, R] = Reporter(self._build, send, self._confirmed, self._refused)
        self._queue: StatusQueue[str, int, R] = StatusQueue(clock, reporter, InFlight(workers, batch), name=name)

    def put(self, key: str) -> None:
        """Schedule a write of a key."""
        self._number += 1
        self._queue.put(key, self._number)

    def written(self, key: str) -> asyncio.Future[bool]:
        """Schedule a write of a key; the future tells whether it was confirmed (true) or refused for good."""
        self.put(key)
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((self._number, future))
        return future

    async def run(self) -> None:
        """Send writes until cancelled."""
        try:
            await self._queue.run()
        finally:
            for waiting in self._waiting.values():
                for _, future in waiting:
                    future.cancel()
            self._waiting.clear()

    def _build(self, key: str, number: int) -> Write[R] | float | None:
        request = self._build_request(key)
        if request is None:
            self._answer(key, number, written=True)
            return None
        return Write(request)

    def _confirmed(self, key: str, number: int, request: R) -> None:
        del request
        self._answer(key, number, written=True)

    def _refused(self, key: str, number: int, error: ApiError) -> None:
        _log.info("not written: %s=%s: %s", self._name, key, error)
        self._answer(key, number, written=False)

    def _answer(self, key: str, number: int, *, written: bool) -> None:
        waiting = self._waiting.pop(key, [])
        later = [(other, future) for other, future in waiting if other > number]
        if later:
            self._waiting[key] = later
        for other, future in waiting:
            if other <= number and not future.done():
                future.set_result(written)
