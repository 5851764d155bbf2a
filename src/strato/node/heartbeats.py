"""Renew the leases by which the control plane knows that nodes live, at a bounded rate for any number of nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from strato.api import catalog
from strato.api.coordination import Lease
from strato.client.cluster import Cluster, Patch, PatchType
from strato.client.codec import encode
from strato.clock import Clock, format_micro_time
from strato.errors import AlreadyExists, ApiError, NotFound

LEASE_NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
"""Seconds between two renewals of a kubelet; with many nodes the interval is longer."""
RENEWALS_PER_LEASE = 4
"""A lease lasts this many renewal intervals, so that one or two failed renewals do no harm (the kubelet: 40 s)."""
FOREVER_SECONDS = 2**31 - 1
_RETRY_SECONDS = 1.0
_WORTH_A_LIST = 64
"""From this number of nodes on, one list finds the leases from before a restart."""

_log = logging.getLogger(__name__)


def renew_interval(nodes: int, max_rate: float) -> float:
    """Return the seconds between two renewals of one node, such that all nodes renew at most ``max_rate`` a second."""
    return max(RENEW_SECONDS, nodes / max_rate) if max_rate > 0 else float("inf")


class Heartbeats:
    """Renews one Lease per node, spread evenly over the renewal interval.

    Args:
        names: Node name → uid of its Node object. Read in each round, as nodes may be added and deleted.
        is_stopped: Returns whether a node has stopped, so that its lease must expire. Report changes by `note_change`.
        max_rate: Renewals per second of all nodes together. 0 writes one lease per node that never expires, for
            simulations of weeks. kube-controller-manager uses its own ``node-monitor-grace-period`` (50 s) instead of
            the lease's duration, so against a real control plane keep ``nodes / max_rate`` below that.
        concurrency: Most requests in flight.
        expected: How many nodes there will be when all are registered.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        names: Mapping[str, str],
        *,
        is_stopped: Callable[[str], bool] = lambda _name: False,
        max_rate: float = 100.0,
        concurrency: int = 16,
        expected: int = 1,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._names = names
        self._is_stopped = is_stopped
        self._max_rate = max_rate
        self._slots = asyncio.Semaphore(concurrency)
        self._expected = expected
        self._failing = False
        self._changed: asyncio.Queue[str] = asyncio.Queue()

    def note_change(self, name: str) -> None:
        """Handle that a node has stopped or started.

        Only where leases never expire is there something to do: the lease of a stopped node is rewritten so that it
        does, that of a started node so that it does not.
        """
        if self._max_rate <= 0:
            self._changed.put_nowait(name)

    @property
    def duration_seconds(self) -> int:
        """How long a lease lasts without renewal."""
        interval = renew_interval(max(self._expected, len(self._names)), self._max_rate)
        return FOREVER_SECONDS if interval == float("inf") else round(interval * RENEWALS_PER_LEASE)

    async def run(self) -> None:
        """Write the first lease of every registered node, then renew the leases, until cancelled."""
        await self._begin()
        while self._max_rate <= 0:
            name = await self._changed.get()
            while name in self._names and not await self._attempt(self._rewrite, name):
                await self._clock.sleep(_RETRY_SECONDS)
        position, renewals_due = 0, 0.0
        while True:
            count = len(self._names)
            interval = renew_interval(count, self._max_rate)
            tick = max(1.0, interval / max(1, count))
            await self._clock.sleep(tick)
            renewals_due = min(renewals_due + count * tick / interval, float(count))
            due = int(renewals_due)
            renewals_due -= due
            names = list(self._names)
            chosen = [names[(position + i) % len(names)] for i in range(due)] if names else []
            position += due
            await self.renew([name for name in chosen if not self._is_stopped(name)])

    async def _begin(self) -> None:
        """Write all first leases at once: leases from before a restart may expire before the first renewal round."""
        waiting = [name for name in self._names if not self._is_stopped(name)]
        known = await self._known() if len(waiting) >= _WORTH_A_LIST else frozenset()
        while waiting:
            there = [name for name in waiting if name in known]
            written = dict(zip(there, await self._rewrite_all(there), strict=True))
            new = [name for name in waiting if not written.get(name)]
            done = await asyncio.gather(*(self._attempt(self.create, name) for name in new))
            waiting = [name for name, is_done in zip(new, done, strict=True) if not is_done]
            if waiting:
                await self._clock.sleep(_RETRY_SECONDS)

    async def _known(self) -> frozenset[str]:
        """Return the names of nodes that have leases; empty if they were not or could not be listed."""
        try:
            page = await self._cluster.list(Lease, LEASE_NAMESPACE)
        except ApiError:
            return frozenset()
        return frozenset(lease.metadata.name for lease in page.items)

    async def _rewrite_all(self, names: Sequence[str]) -> Sequence[bool]:
        """Rewrite leases from before a restart, many at a time; return for each whether it was written."""
        size = self._cluster.at_once

        async def rewrite(some: Sequence[str]) -> Sequence[ApiError | None]:
            async with self._slots:
                patches = [Patch(LEASE_NAMESPACE, name, encode({"spec": self._spec(name)})) for name in some]
                return await self._cluster.patch_all(catalog.LEASE, patches)

        parts = await asyncio.gather(*(rewrite(names[at : at + size]) for at in range(0, len(names), size)))
        return [error is None for part in parts for error in part]

    async def create(self, name: str) -> None:
        """Create the node's lease, or rewrite the one from before a restart.

        Raises:
            ApiError: The API refused the write for another reason than that the lease exists.
        """
        try:
            await self._cluster.create(catalog.LEASE, self._lease(name), LEASE_NAMESPACE)
        except AlreadyExists:
            await self._patch(name, self._spec(name))

    async def _rewrite(self, name: str) -> None:
        """Rewrite a lease: one that never expires, or for a stopped node one that does."""
        spec = self._spec(name)
        if self._is_stopped(name):
            spec["leaseDurationSeconds"] = round(RENEW_SECONDS * RENEWALS_PER_LEASE)
        await self._patch(name, spec)

    async def renew(self, names: Sequence[str]) -> None:
        """Renew leases; a failure is logged once, and the next round retries."""
        size = self._cluster.at_once
        await asyncio.gather(*(self._renew(names[start : start + size]) for start in range(0, len(names), size)))

    async def _renew(self, names: Sequence[str]) -> None:
        async with self._slots:
            body = encode({"spec": {"renewTime": format_micro_time(self._clock.now())}})
            patches = [Patch(LEASE_NAMESPACE, name, body) for name in names]
            errors = await self._cluster.patch_all(catalog.LEASE, patches)
        for name, error in zip(names, errors, strict=True):
            if isinstance(error, NotFound):
                await self._attempt(self.create, name)
            else:
                self._note(name, error)

    async def _attempt(self, write: Callable[[str], Awaitable[None]], name: str) -> bool:
        """Write one lease, once fewer than ``concurrency`` requests are in flight; return whether it succeeded."""
        async with self._slots:
            try:
                await write(name)
            except ApiError as error:
                return self._note(name, error)
            return self._note(name, None)

    def _note(self, name: str, error: ApiError | None) -> bool:
        """Log the first of several failures; return whether the write succeeded."""
        if error is not None and not self._failing:
            _log.warning("a node lease cannot be written: node=%s error=%s", name, error)
        self._failing = error is not None
        return error is None

    async def _patch(self, name: str, spec: dict[str, Any]) -> None:
        await self._cluster.patch(catalog.LEASE, name, LEASE_NAMESPACE, {"spec": spec}, patch_type=PatchType.MERGE)

    def _spec(self, name: str) -> dict[str, Any]:
        return {
            "holderIdentity": name,
            "leaseDurationSeconds": self.duration_seconds,
            "renewTime": format_micro_time(self._clock.now()),
        }

    def _lease(self, name: str) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._names[name]}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": self._spec(name),
        }
