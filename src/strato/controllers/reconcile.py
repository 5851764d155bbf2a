"""The interface of controllers, and the base class with the loop that most of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from strato.api.kinds import Kind
from strato.api.meta import Key, Object
from strato.client.workqueue import RetryLimiter, WorkQueue, run_workers
from strato.controllers.context import ControllerContext
from strato.errors import NotFound


class Controller(Protocol):
    """Anything the manager runs."""

    @property
    def name(self) -> str:
        """The name by which the controller is switched on and off."""

    async def run(self) -> None:
        """Work until cancelled; informers are synced before this is called."""


Factory = Callable[[ControllerContext], Controller]
"""Makes one controller; mostly the class itself."""


class KeyedController:
    """A controller that brings one object at a time up to date, by key.

    Subclasses add keys to ``queue`` from informer handlers and implement `reconcile`. That must be idempotent, because
    the queue retries a key for which it raises.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 4
    longest_backoff_seconds: ClassVar[float] = 1000.0
    """Longest back-off before a failed `reconcile` of an object is retried."""

    def __init__(self, context: ControllerContext) -> None:
        self.clock, self._cluster, self._recorder = context.clock, context.cluster, context.recorder
        self.queue: WorkQueue[Key] = WorkQueue(
            context.clock, RetryLimiter(context.clock, max_seconds=self.longest_backoff_seconds)
        )

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object up to date; returns the seconds until it is to be reconciled again, or None."""
        raise NotImplementedError

    async def write_status(self, kind: Kind | type[Object], key: Key, status: Mapping[str, Any]) -> None:
        """Write members of an object's status; does nothing if the object was deleted meanwhile."""
        with suppress(NotFound):
            await self._cluster.patch(kind, key.name, key.namespace, {"status": status}, subresource="status")

    async def run(self) -> None:
        """Work until cancelled."""
        await run_workers(self.queue, self.reconcile, self.workers, name=self.name)
