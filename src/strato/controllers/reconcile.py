"""What every controller offers, and the loop most of them share."""

from __future__ import annotations

from typing import ClassVar, Protocol

from strato.api.meta import Key
from strato.client.workqueue import WorkQueue, run_workers
from strato.clock import Clock


class Controller(Protocol):
    """Anything the manager runs."""

    @property
    def name(self) -> str:
        """The name it is switched by."""

    async def run(self) -> None:
        """Work until cancelled; informers are synced before this is called."""


class KeyedController:
    """A controller that brings one object at a time up to date, by key.

    Subclasses add keys to ``queue`` from informer handlers and implement `reconcile`, which must be idempotent: the
    queue repeats whatever it raises.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 4

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queue: WorkQueue[Key] = WorkQueue(clock)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object up to date; returns seconds after which to look again, or None."""
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled."""
        await run_workers(self.queue, self.reconcile, self.workers, name=self.name)
