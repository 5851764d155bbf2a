"""What every controller offers, and the loop most of them share."""

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
        """The name it is switched by."""

    async def run(self) -> None:
        """Work until cancelled; informers are synced before this is called."""


Factory = Callable[[ControllerContext], Controller]
"""Makes one controller: mostly its class."""


class KeyedController:
    """A controller that brings one object at a time up to date, by key.

    Subclasses add keys to ``queue`` from informer handlers and implement `reconcile`, which must be idempotent: the
    queue repeats whatever it raises.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 4
    longest_backoff_seconds: ClassVar[float] = 1000.0
    """Within which an object that could not be brought up to date is tried again."""

    def __init__(self, context: ControllerContext) -> None:
        self.clock, self._cluster, self._recorder = context.clock, context.cluster, context.recorder
        self.queue: WorkQueue[Key] = WorkQueue(
            context.clock, RetryLimiter(context.clock, max_seconds=self.longest_backoff_seconds)
        )

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object up to date; returns seconds after which to look again, or None."""
        raise NotImplementedError

    async def write_status(self, kind: Kind | type[Object], key: Key, status: Mapping[str, Any]) -> None:
        """Write members of an object's status; one that went meanwhile needs none."""
        with suppress(NotFound):
            await self._cluster.patch(kind, key.name, key.namespace, {"status": status}, subresource="status")

    async def run(self) -> None:
        """Work until cancelled."""
        await run_workers(self.queue, self.reconcile, self.workers, name=self.name)
