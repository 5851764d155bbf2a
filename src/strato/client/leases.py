"""One leader among several processes, by a Lease object.

The rules are client-go's, so that our processes and others can share a lease: the holder renews every 2 s and
steps down when it could not for 10 s; others take over when the lease has not changed for its 15 s. Timestamps in
the lease are never compared with our clock, as machines' clocks differ: we measure how long *we* saw no change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from strato.api import catalog
from strato.client.cluster import Cluster, Json
from strato.clock import Clock, format_micro_time
from strato.errors import ApiError, Conflict, NotFound, StratoError, UsageError

_log = logging.getLogger(__name__)

_JITTER_RATIO = 1.2
_RELEASE_SECONDS = 2.0


class LeadershipLost(StratoError):
    """The lease could not be renewed in time; another process may lead now."""

    def __init__(self, lease: str, identity: str) -> None:
        self.lease = lease
        self.identity = identity
        super().__init__(f"{identity} no longer leads: lease {lease} could not be renewed in time")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """The durations of a lease.

    Raises:
        UsageError: The durations contradict each other.
    """

    duration_seconds: float = 15.0
    """Other candidates wait this long after the last renewal before they take over. Whole seconds on the wire."""
    renew_deadline_seconds: float = 10.0
    """The holder stops leading after this long without a successful renewal; less than the duration."""
    retry_seconds: float = 2.0
    """Pause between attempts to take or renew the lease; times 1.2 (jitter) it is less than the deadline."""

    def __post_init__(self) -> None:
        if not self.retry_seconds > 0:
            raise UsageError(f"the retry period of a lease must be positive, not {self.retry_seconds} s")
        if self.duration_seconds < 1 or self.duration_seconds <= self.renew_deadline_seconds:
            raise UsageError(
                f"the lease duration ({self.duration_seconds} s) must be at least 1 s and longer than its renew "
                f"deadline ({self.renew_deadline_seconds} s)"
            )
        if self.renew_deadline_seconds <= self.retry_seconds * _JITTER_RATIO:
            raise UsageError(
                f"the renew deadline ({self.renew_deadline_seconds} s) must be longer than {_JITTER_RATIO} times the "
                f"retry period ({self.retry_seconds} s)"
            )


class LeaderElector:
    """Competes for a lease and leads while it holds it.

    Args:
        identity: The holder's name in the lease; different for every process.
        timing: The lease's durations.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._name = name
        self._namespace = namespace
        self.identity = identity
        self._timing = timing if timing is not None else LeaseTiming()
        self._observed: Json | None = None
        self._observed_at = 0.0
        self._leader = ""

    @property
    def leader(self) -> str:
        """The holder in the lease as last observed; empty if it has none."""
        return self._leader

    @property
    def is_leader(self) -> bool:
        """Whether we hold the lease."""
        return self._leader == self.identity

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run ``lead`` while holding it, and release it when that ends or we are cancelled.

        Raises:
            LeadershipLost: The lease was lost; ``lead`` has been cancelled and has ended.
        """
        await self._acquire()
        _log.info("leading: lease=%s/%s identity=%s", self._namespace, self._name, self.identity)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leading, renewing):
                task.cancel()
            await asyncio.wait((leading, renewing))
            # after `lead` has ended, so that two processes never lead at once
            await self._release()
        if leading.cancelled():
            raise LeadershipLost(f"{self._namespace}/{self._name}", self.identity)
        leading.result()

    async def _acquire(self) -> None:
        while not await self._try():
            await self._clock.sleep(self._timing.retry_seconds * (1.0 + _JITTER_RATIO * self._random.random()))

    async def _renew(self) -> None:
        """Renew the lease until that fails for the deadline, then return."""
        renewed_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._timing.retry_seconds)
            left = renewed_at + self._timing.renew_deadline_seconds - self._clock.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):  # a request that hangs must not keep us leading
                    held = await self._try()
            except TimeoutError:
                return
            if held:
                renewed_at = self._clock.monotonic()
            elif self._leader not in ("", self.identity):
                return

    async def _try(self) -> bool:
        """Take or renew the lease; return whether we hold it now."""
        try:
            if not (self.is_leader and self._observed is not None):
                await self._read()
            if self._is_held_by_other():
                return False
            await self._take()
        except ApiError as error:
            _log.info("lease not taken: lease=%s/%s: %s", self._namespace, self._name, error)
            await self._reread()
            return False
        return True

    async def _read(self) -> None:
        try:
            lease = await self._cluster.get(catalog.LEASE, self._name, self._namespace)
        except NotFound:
            self._observed = None
            return
        self._observe(lease)

    async def _reread(self) -> None:
        with suppress(ApiError):  # the next attempt reads again
            await self._read()

    def _is_held_by_other(self) -> bool:
        spec = (self._observed or {}).get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return False
        duration = float(spec.get("leaseDurationSeconds") or 0)
        return self._clock.monotonic() < self._observed_at + duration

    async def _take(self) -> None:
        now = format_micro_time(self._clock.now())
        old = (self._observed or {}).get("spec") or {}
        spec: Json = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._timing.duration_seconds),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0),
        }
        if self._observed is None:
            body = {
                "apiVersion": catalog.LEASE.api_version,
                "kind": catalog.LEASE.name,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            self._observe(await self._cluster.create(catalog.LEASE, body, self._namespace))
            return
        if old.get("holderIdentity") == self.identity:
            spec["acquireTime"] = old.get("acquireTime") or now
        else:
            spec["leaseTransitions"] += 1
        self._observe(await self._cluster.replace(catalog.LEASE, {**self._observed, "spec": {**old, **spec}}))

    async def _release(self) -> None:
        """Release the lease, so that another process can lead at once; if that fails, the lease expires by itself."""
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):  # a server that hangs must not delay our end
                await self._give_back()
        except (ApiError, TimeoutError) as error:
            _log.info("lease not released: lease=%s/%s: %s", self._namespace, self._name, error)

    async def _give_back(self) -> None:
        while self.is_leader and self._observed is not None:
            try:
                await self._write_no_holder(self._observed)
            except Conflict:
                # a renewal that was under way when we were stopped has changed the lease
                await self._read()

    async def _write_no_holder(self, observed: Json) -> None:
        now = format_micro_time(self._clock.now())
        spec = {
            **(observed.get("spec") or {}),
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
        }
        self._observe(await self._cluster.replace(catalog.LEASE, {**observed, "spec": spec}))

    def _observe(self, lease: Json) -> None:
        changed = self._observed is None or self._observed.get("spec") != lease.get("spec")
        self._observed = lease
        if changed:
            self._observed_at = self._clock.monotonic()
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        if holder != self._leader:
            self._leader = holder
