"""Which endpoint a new connection goes to."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence

from strato.node.services.records import Backend

MAX_CLIENTS = 65536
"""Clients of which it is remembered where they went; the one that came longest ago is forgotten first."""


class Balancer:
    """Chooses by chance among the endpoints of one port; with affinity a client gets the same again."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.backends: tuple[Backend, ...] = ()
        self._affinity_seconds = 0
        self._chosen: OrderedDict[str, tuple[Backend, float]] = OrderedDict()
        """Client → its endpoint, and when it last came; in that order."""

    def update(self, backends: Sequence[Backend], affinity_seconds: int) -> None:
        """Choose among these from now on."""
        self.backends, self._affinity_seconds = tuple(backends), affinity_seconds
        if not affinity_seconds:
            self._chosen.clear()

    def choose(self, client: str, now: float, failed: frozenset[Backend] = frozenset()) -> Backend | None:
        """Return where a client's connection goes, None when there is nothing.

        Args:
            client: Its address.
            now: Seconds on a clock that never goes back.
            failed: Endpoints that have just not answered it.
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
