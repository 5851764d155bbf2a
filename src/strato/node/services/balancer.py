"""Choose the endpoint of a new connection."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence

from strato.node.services.records import Backend

MAX_CLIENTS = 65536
"""Most clients whose endpoints are remembered for affinity; the least recently seen one is forgotten first."""


class Balancer:
    """Chooses randomly among the endpoints of one port; with affinity a client gets the same endpoint again."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.backends: tuple[Backend, ...] = ()
        self._affinity_seconds = 0
        self._chosen: OrderedDict[str, tuple[Backend, float]] = OrderedDict()
        """Client → its endpoint, and when it was last seen; the least recently seen first."""

    def update(self, backends: Sequence[Backend], affinity_seconds: int) -> None:
        """Set the endpoints and the affinity."""
        self.backends, self._affinity_seconds = tuple(backends), affinity_seconds
        if not affinity_seconds:
            self._chosen.clear()

    def choose(self, client: str, now: float, failed: frozenset[Backend] = frozenset()) -> Backend | None:
        """Return the endpoint for a client's connection, None when there is none.

        Args:
            client: Address of the client.
            now: A monotonic instant.
            failed: Endpoints to which this connection could not be made.
        """
        usable = [one for one in self.backends if one not in failed]
        if not usable:
            return None
        if not self._affinity_seconds:
            return self._rng.choice(usable)
        kept = self._chosen.pop(client, None)
        if kept is not None and now - kept[1] < self._affinity_seconds and kept[0] in usable:
            chosen = kept[0]
        else:
            chosen = self._rng.choice(usable)
        self._chosen[client] = (chosen, now)
        if len(self._chosen) > MAX_CLIENTS:
            self._chosen.popitem(last=False)
        return chosen
