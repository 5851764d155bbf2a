"""Shared informers, tracked per controller, so that each controller waits only for the caches that it reads."""

from __future__ import annotations

from typing import Any, TypeVar

from strato.api.meta import Object
from strato.client.informer import Informer, Informers

V = TypeVar("V", bound=Object)


class TrackedInformers(Informers):
    """A controller's view of shared informers, which tracks the informers that the controller has asked for.

    A cluster may lack a kind (JobFlow comes in a chart of its own): then only the controllers that read it wait.

    Args:
        shared: The informers; the owner of this object starts and stops them.
    """

    def __init__(self, shared: Informers) -> None:  # without super().__init__: this view owns no informers
        self._shared = shared
        self.absent = shared.absent
        self._used: list[Informer[Object]] = []

    def informer(
        self, view: type[V], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Informer[V]:
        """Return the shared informer of a kind, and track it."""
        found = self._shared.informer(
            view, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        self._used.append(found)  # type: ignore[arg-type] # only ever waited for
        return found

    def drop(self, informer: Informer[Any]) -> None:
        """Stop an informer, for all controllers that share it."""
        self._used = [used for used in self._used if used is not informer]
        self._shared.drop(informer)

    def start(self) -> None:
        """Start the tracked informers."""
        for informer in self._used:
            informer.start()

    async def wait_synced(self) -> None:
        """Wait until every tracked informer has its first list."""
        self.start()
        for informer in self._used:
            await informer.wait_synced()

    async def stop(self) -> None:
        """Do nothing, because other controllers may still read the shared informers."""
