"""`StatusQueue`: statuses on their way to the API, one per key; the latest wins, and it is retried until confirmed.

Guarantees:

- Coalescing: what is put under a key replaces what waits there, and is due at the earlier of both instants.
- One write per key is in flight at a time; what is put meanwhile is written afterwards.
- The write is built when its turn comes, from what is known then; if there is nothing left to write, nothing is sent.
- Only what the API confirmed counts as written. What failed is retried with back-off until it is superseded, or until
  the API answers that it will never accept it (the object is gone, the status is invalid).
- A low-priority status waits while there is load (`Load`), but not for longer than `LOW_PRIORITY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from strato.client.load import Load
from strato.client.retry import delay_seconds, in_time, may_succeed_later
from strato.client.workqueue import LOW_PRIORITY_SECONDS
from strato.client.writequeue import WriteQueue
from strato.clock import Clock, is_due
from strato.errors import ApiError, InternalError, TooManyRequests

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
D = TypeVar("D")
R = TypeVar("R")

_LOW_STEP_SECONDS: Final = 0.05
"""Shortest time between two checks of low-priority entries: what becomes due meanwhile is written with one call."""
_NEVER: Final = float("-inf")


class Write(Struct, Generic[R], frozen=True):
    """A write that is ready to be sent."""

    request: R
    stamp: object = None
    """What it says, and to which version of the object. A write with the stamp of the one that was confirmed last is
    not sent again: the watch has not shown it yet. None is always sent."""


# Where an entry is.
_IN_FLIGHT: Final = 0
"""Nothing newer waits."""
_DROPPED: Final = 1
"""Nothing waits; what is in flight, if anything, is not retried."""
_QUEUED: Final = 2
_LOW: Final = 3
"""It is due, and of low priority."""
_SUCCESSOR: Final = 4
"""It waits for the answer to the write in flight."""


class _Entry(Struct, Generic[K, D, R], eq=False):
    """What waits under a key, and what is in flight."""

    key: K
    desired: D
    """What waits; if nothing does, what is in flight."""
    low: bool
    since: float
    """When the first of those that were coalesced was put."""
    at: float = 0.0
    """When it is due."""
    place: int = _DROPPED
    failures: int = 0
    retry_at: float = _NEVER
    """After a failure nothing is sent before this instant."""
    writing: Write[R] | None = None


_Taken = tuple[_Entry[K, D, R], D, Write[R]]
"""An entry, what of it is written, and how."""


class _Confirmed(NamedTuple):
    stamp: object
    at: float


Build = Callable[[K, D], Write[R] | float | None]
"""Returns what to send now; None when there is nothing to write any more; a monotonic instant to be asked again at."""

Send = Callable[[Sequence[R]], Awaitable[Sequence[ApiError | None]]]
"""Sends writes and says of each what came of it."""


@dataclass(frozen=True, slots=True)
class Reporter(Generic[K, D, R]):
    """Who reports: builds the writes of a queue, sends them, and is told what came of them."""

    build: Build[K, D, R]
    """Builds a write late; cheap and synchronous."""
    send: Send[R]
    """Sends up to as many writes as a batch has."""
    on_confirmed: Callable[[K, D, R], None] | None = None
    """Called with a key, what was confirmed, and the request that wrote it; must not fail."""
    on_refused: Callable[[K, D, ApiError], None] | None = None
    """Called with a key, what will never be written, and why; must not fail."""


@dataclass(frozen=True, slots=True)
class Retries:
    """When a failed write is sent again."""

    first_seconds: float = 0.25
    """Delay after the first failure of a key; it doubles, unless the server asks for another."""
    longest_seconds: float = 30.0
    """The delay stops growing here."""
    give_up_seconds: float = float("inf")
    """A status that still fails so long after it was put is given up."""
    may_retry: Callable[[ApiError], bool] = may_succeed_later
    """Whether a failed write may succeed later."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """How much is written at once."""

    workers: int
    """Batches in flight."""
    batch: int = 1
    """Most writes of a batch."""
    low_workers: int = 1
    """Batches of low-priority statuses in flight, so that new work finds the API free."""


class StatusQueue(Generic[K, D, R]):
    """See the module. Single-threaded, on a `WriteQueue`.

    Args:
        in_flight: How much at once.
        retries: When again.
        load: What low-priority statuses give way to; None is nothing.
        capacity: Keys that may wait; more are refused. 0 is no bound: the keys are those of objects in memory.
        remembered: Confirmed stamps kept.
    """

    def __init__(
        self,
        clock: Clock,
        reporter: Reporter[K, D, R],
        in_flight: InFlight,
        *,
        retries: Retries | None = None,
        load: Load | None = None,
        capacity: int = 0,
        remembered: int = 20_000,
        name: str = "statuses",
    ) -> None:
        self._clock = clock
        self._reporter = reporter
        self._build = reporter.build
        self._batch = in_flight.batch
        self._load = load if load is not None else Load()
        self._low_workers = in_flight.low_workers
        self._retries = retries if retries is not None else Retries()
        self._capacity = capacity
        self._remembered = remembered
        self._name = name
        self._entries: dict[K, _Entry[K, D, R]] = {}
        self._low: OrderedDict[K, _Entry[K, D, R]] = OrderedDict()
        """Due low-priority entries, longest first."""
        self._low_looks = 0
        """Looks at it that are under way or wait their time."""
        self._confirmed: OrderedDict[K, _Confirmed] = OrderedDict()
        """The newest last."""
        self._drained: asyncio.Future[None] | None = None
        self._writes: WriteQueue[_Entry[K, D, R] | None] = WriteQueue(
            clock, self._work, in_flight.workers, batch=in_flight.batch, name=name
        )
        """None is a check of the low-priority entries. An entry may be in it several times; it counts when due."""
        self.pause, self.resume = self._writes.pause, self._writes.resume

    def __len__(self) -> int:
        """Return how many keys wait or are in flight."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether a status waits under a key; what is in flight does not."""
        entry = self._entries.get(key)
        return entry is not None and entry.place > _DROPPED

    def put(self, key: K, desired: D, at: float = _NEVER, *, low_priority: bool = False) -> bool:
        """Have a status written, instead of what waits under its key.

        Args:
            key: Of the object.
            desired: What ``build`` makes the write of.
            at: Monotonic instant before which it is not written; by default it is due at once.
            low_priority: Whether it waits for other work once it is due.

        Returns:
            False when it was refused because too many wait.
        """
        now = self._clock.monotonic()
        entry = self._entries.get(key)
        if entry is not None:
            self._supersede(entry, desired, at, now, low_priority=low_priority)
        elif self._capacity and len(self._entries) >= self._capacity:
            return False
        else:
            entry = self._entries[key] = _Entry(key, desired, low_priority, now)
            self._schedule(entry, at, now)
        return True

    def drop(self, key: K) -> None:
        """Forget what waits under a key; what is in flight is not taken back."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.place = _DROPPED
            self._low.pop(key, None)
            if entry.writing is None:
                self._remove(entry)

    def stamp(self, key: K) -> object:
        """Return the stamp of the write in flight, else of the one that was confirmed last; None when none is known."""
        entry = self._entries.get(key)
        if entry is not None and entry.writing is not None:
            return entry.writing.stamp
        confirmed = self._confirmed.get(key)
        return confirmed.stamp if confirmed is not None else None

    def confirmed_at(self, key: K) -> float:
        """Return when a stamped write under a key was confirmed last; minus infinity when none is known."""
        confirmed = self._confirmed.get(key)
        return confirmed.at if confirmed is not None else _NEVER

    async def drain(self) -> None:
        """Write all that waits, without further delay; return when it is confirmed or given up."""
        if not self._entries:
            return
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        now = self._clock.monotonic()
        for entry in self._entries.values():
            if entry.place == _SUCCESSOR:
                entry.at = entry.retry_at
            elif entry.place == _QUEUED and entry.at > max(now, entry.retry_at):
                self._schedule(entry, entry.retry_at, now)
        self._low_looks += 1
        self._writes.add(None)
        await asyncio.shield(self._drained)

    async def run(self) -> None:
        """Wait until cancelled, and forget then what is not written; without this it is written all the same."""
        try:
            await self._writes.run()
        finally:
            self._entries.clear()
            self._low.clear()
            self._low_looks = 0

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _supersede(self, entry: _Entry[K, D, R], desired: D, at: float, now: float, *, low_priority: bool) -> None:
        place = entry.place
        if place <= _DROPPED:
            entry.since = now
        elif entry.at < at:
            at = entry.at
        entry.desired, entry.low = desired, low_priority
        at = max(at, entry.retry_at)
        if entry.writing is not None or place == _IN_FLIGHT:
            entry.place, entry.at = _SUCCESSOR, at
        elif place == _DROPPED or (place == _QUEUED and at < entry.at) or (place == _LOW and not low_priority):
            if place == _LOW:
                del self._low[entry.key]
            self._schedule(entry, at, now)

    def _schedule(self, entry: _Entry[K, D, R], at: float, now: float) -> None:
        entry.at = at
        if not is_due(at, now):
            entry.place = _QUEUED
            self._writes.add_after(entry, at - now)
        elif entry.low:
            entry.place = _LOW
            self._low[entry.key] = entry
            if self._low_looks < self._low_workers:
                self._schedule_low(now)
        else:
            entry.place = _QUEUED
            self._writes.add(entry)

    def _schedule_low(self, now: float) -> None:
        """Have a worker check the low-priority entries once load is over."""
        if self._low and self._low_looks < self._low_workers:
            self._low_looks += 1
            due = min(self._low_expires(), self._load.over_at) if self._defers_low(now) else now
            self._writes.add_after(None, max(due - now, _LOW_STEP_SECONDS) if due > now else 0.0)

    def _defers_low(self, now: float) -> bool:
        """Whether low-priority statuses wait, unless they have waited too long."""
        is_half_full = self._capacity and len(self._entries) > self._capacity // 2
        return not is_half_full and self._drained is None and self._load.is_high(now)

    def _low_expires(self) -> float:
        """Return when the low-priority status that waits longest need not give way any more; there is one."""
        return next(iter(self._low.values())).since + LOW_PRIORITY_SECONDS

    def _remove(self, entry: _Entry[K, D, R]) -> None:
        del self._entries[entry.key]
        entry.place = _DROPPED  # it may still be in the write queue
        if self._drained is not None and not self._entries:
            self._drained.set_result(None)
            self._drained = None

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _work(self, entries: Sequence[_Entry[K, D, R] | None]) -> None:
        now = self._clock.monotonic()
        taken = self._take(self._due(entries, now), now)
        if taken:
            await self._write(taken)
        looks = entries.count(None)
        if looks:
            self._low_looks -= looks
            self._schedule_low(self._clock.monotonic())

    def _due(self, entries: Sequence[_Entry[K, D, R] | None], now: float) -> list[_Entry[K, D, R]]:
        """Return what is to be written now."""
        due: list[_Entry[K, D, R]] = []
        for entry in entries:
            if entry is None:
                self._take_low(due, now)
            elif entry.place == _QUEUED and is_due(entry.at, now):
                if entry.low:
                    self._schedule(entry, entry.at, now)
                else:
                    entry.place = _IN_FLIGHT  # before it comes a second time
                    due.append(entry)
        return due

    def _take_low(self, due: list[_Entry[K, D, R]], now: float) -> None:
        """Add a batch of what need not give way any more."""
        low, defers_low = self._low, self._defers_low(now)
        for _ in range(min(self._batch, len(low))):
            if defers_low and self._low_expires() > now:
                break
            entry = low.popitem(last=False)[1]
            entry.place = _IN_FLIGHT
            due.append(entry)

    def _take(self, due: Sequence[_Entry[K, D, R]], now: float) -> list[_Taken[K, D, R]]:
        """Build entries' writes; return those that there are to send now."""
        taken: list[_Taken[K, D, R]] = []
        build = self._build
        for entry in due:
            key, desired = entry.key, entry.desired
            try:
                write = build(key, desired)
            except Exception:  # a fault in one status must not stop the others
                _log.exception("status cannot be built and is dropped: queue=%s key=%s", self._name, key)
                write = None
            if isinstance(write, float):
                self._schedule(entry, write, now)
            elif write is None or (write.stamp is not None and write.stamp == self.stamp(key)):
                self._remove(entry)
            else:
                entry.writing = write
                taken.append((entry, desired, write))
        return taken

    async def _write(self, taken: Sequence[_Taken[K, D, R]]) -> None:
        answers: Sequence[ApiError | None]
        try:
            answers = await in_time(self._reporter.send([write.request for _, _, write in taken]))
        except ApiError as error:
            answers = [error] * len(taken)
        except Exception as error:  # a fault of ours, or of a transport: the statuses wait
            _log.exception("statuses not written: queue=%s", self._name)
            answers = [InternalError(str(error))] * len(taken)
        if answers[0] is None:
            self._writes.speed_up()
        now, on_confirmed = self._clock.monotonic(), self._reporter.on_confirmed
        for (entry, desired, write), answer in zip(taken, answers, strict=True):
            entry.writing = None
            if answer is not None:
                self._on_failure(entry, desired, answer, now)
            else:
                if entry.failures:
                    entry.failures, entry.retry_at = 0, _NEVER
                if write.stamp is not None:
                    self._remember(entry.key, _Confirmed(write.stamp, now))
                if on_confirmed is not None:
                    on_confirmed(entry.key, desired, write.request)
            if entry.place == _SUCCESSOR:
                self._schedule(entry, max(entry.at, entry.retry_at), now)
            else:
                self._remove(entry)
        if self._batch > 1:
            await self._clock.sleep(0)  # a server in this process may have answered without a turn for anybody else

    def _remember(self, key: K, confirmed: _Confirmed) -> None:
        self._confirmed.pop(key, None)
        self._confirmed[key] = confirmed
        if len(self._confirmed) > self._remembered:
            self._confirmed.popitem(last=False)

    def _on_failure(self, entry: _Entry[K, D, R], desired: D, error: ApiError, now: float) -> None:
        _log.debug("status not written: queue=%s key=%s: %s", self._name, entry.key, error)
        if isinstance(error, TooManyRequests):
            self._writes.slow_down()
        retries = self._retries
        if retries.may_retry(error) and now - entry.since < retries.give_up_seconds:
            entry.failures += 1
            wait = delay_seconds(error, entry.failures, first=retries.first_seconds, longest=retries.longest_seconds)
            entry.retry_at = now + wait
            if entry.place == _IN_FLIGHT:
                entry.place, entry.at = _SUCCESSOR, entry.retry_at
        else:
            entry.failures, entry.retry_at = 0, _NEVER
            if self._reporter.on_refused is not None:
                self._reporter.on_refused(entry.key, desired, error)
