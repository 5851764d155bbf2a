"""`StatusQueue`: writes the latest status of each key to the API, and retries until the API confirms it.

Guarantees:

- Coalescing: a status put under a key replaces the one that waits there, and is due at the earlier of both instants.
- One write per key is in flight at a time; a status put meanwhile is written afterwards.
- The reporter builds the write when a worker takes the entry, from the state of that moment, and may find that nothing
  is left to write.
- Only a status that the API confirmed counts as written. A failed one is retried with back-off until a newer status
  replaces it, or until the API answers that it will never accept it (the object is gone, the status is invalid).
- A low-priority status waits while there is load (`LoadMeter`), but not for longer than `LOW_PRIORITY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from strato.client.load import LoadMeter
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
"""Shortest time between two checks of low-priority entries; those that become due meanwhile share one call."""
_NEVER: Final = float("-inf")


class Write(Struct, Generic[R], frozen=True):
    """A write that is ready to be sent."""

    request: R
    stamp: object = None
    """Identifies the content, and the version of the object that it was built from. A write with the stamp of the one
    confirmed last is not sent: the watch only has not shown that one yet. A write without a stamp is always sent."""


# Where an entry is (`_Entry.place`).
_IN_FLIGHT: Final = 0
"""Its write is being built or in flight, and no newer status waits."""
_DROPPED: Final = 1
"""Nothing waits, and a write in flight, if any, is not retried."""
_QUEUED: Final = 2
_LOW: Final = 3
"""It is due and waits among the low-priority entries."""
_SUCCESSOR: Final = 4
"""Its status waits for the answer to the write in flight, or for the retry of it."""


class _Entry(Struct, Generic[K, D, R], eq=False):
    """The status that waits under a key, and the write in flight."""

    key: K
    desired: D
    """The status that waits; if none does, the one in flight."""
    low: bool
    since: float
    """When the first of the coalesced statuses was put."""
    at: float = 0.0
    """When the entry is due."""
    place: int = _DROPPED
    failures: int = 0
    retry_at: float = _NEVER
    """The entry is not sent before this instant; set after a failure."""
    writing: Write[R] | None = None


_Taken = tuple[_Entry[K, D, R], D, Write[R]]
"""An entry, the status of it that is being written, and the write."""


class _Confirmed(NamedTuple):
    stamp: object
    at: float


Build = Callable[[K, D], Write[R] | float | None]
"""Returns the write to send now, None if there is nothing to write, or a monotonic instant at which to ask again."""

Send = Callable[[Sequence[R]], Awaitable[Sequence[ApiError | None]]]
"""Sends writes and returns the error of each, None if the API confirmed it."""


@dataclass(frozen=True, slots=True)
class Reporter(Generic[K, D, R]):
    """The functions of a queue's owner that build and send its writes, and are called with the outcome."""

    build: Build[K, D, R]
    """Builds a write when a worker takes the entry; must be cheap."""
    send: Send[R]
    """Sends at most a batch of writes."""
    on_confirmed: Callable[[K, D, R], None] | None = None
    """Called with the key, the confirmed status, and the request that wrote it; must not raise."""
    on_refused: Callable[[K, D, ApiError], None] | None = None
    """Called with the key, the status that is given up, and the error; must not raise."""


@dataclass(frozen=True, slots=True)
class Retries:
    """When failed writes are sent again."""

    first_seconds: float = 0.25
    """Delay after the first failure of a key; it doubles, unless the server asks for another."""
    longest_seconds: float = 30.0
    """The delay stops growing here."""
    give_up_seconds: float = float("inf")
    """A status that still fails this long after it was put is given up."""
    may_retry: Callable[[ApiError], bool] = may_succeed_later
    """Whether a failed write may succeed later."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """How many writes may be in flight."""

    workers: int
    """Batches in flight."""
    batch: int = 1
    """Most writes of a batch."""
    low_workers: int = 1
    """Most batches of low-priority statuses in flight; few, so that other work finds the API free."""
    low_workers_in_load: int = 0
    """The same while there is load; 0 is as many as without."""


class StatusQueue(Generic[K, D, R]):
    """See the module. Single-threaded; its workers are those of a `WriteQueue`.

    Args:
        in_flight: How many writes at once.
        retries: When failed writes are sent again.
        load: The work that low-priority statuses give way to; with None they do not wait.
        capacity: Most keys that may wait; more are refused. 0 is no bound, where keys are those of objects in memory.
        remembered: Stamps of confirmed writes kept.
    """

    def __init__(
        self,
        clock: Clock,
        reporter: Reporter[K, D, R],
        in_flight: InFlight,
        *,
        retries: Retries | None = None,
        load: LoadMeter | None = None,
        capacity: int = 0,
        remembered: int = 20_000,
        name: str = "statuses",
    ) -> None:
        self._clock = clock
        self._reporter = reporter
        self._build = reporter.build
        self._batch = in_flight.batch
        self._load = load if load is not None else LoadMeter()
        self._low_workers = in_flight.low_workers
        self._low_workers_in_load = in_flight.low_workers_in_load or in_flight.low_workers
        self._retries = retries if retries is not None else Retries()
        self._capacity = capacity
        self._remembered = remembered
        self._name = name
        self._entries: dict[K, _Entry[K, D, R]] = {}
        self._low: OrderedDict[K, _Entry[K, D, R]] = OrderedDict()
        """Due low-priority entries, the one that waits longest first."""
        self._low_looks = 0
        """Checks of `_low` that are under way or scheduled."""
        self._confirmed: OrderedDict[K, _Confirmed] = OrderedDict()
        """The last confirmed stamp by key, the newest last."""
        self._drained: asyncio.Future[None] | None = None
        self._writes: WriteQueue[_Entry[K, D, R] | None] = WriteQueue(
            clock, self._work, in_flight.workers, batch=in_flight.batch, name=name
        )
        """None is a check of the low-priority entries. An entry may be in the queue several times; a worker takes it
        when it is due and ignores it otherwise."""
        self.pause, self.resume = self._writes.pause, self._writes.resume

    def __len__(self) -> int:
        """Return how many keys wait or are in flight."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether a status waits under a key; one in flight does not count."""
        entry = self._entries.get(key)
        return entry is not None and entry.place > _DROPPED

    def put(self, key: K, desired: D, at: float = _NEVER, *, low_priority: bool = False) -> bool:
        """Have a status written; it replaces one that waits under its key.

        Args:
            key: The object's.
            desired: Passed to the reporter's ``build``.
            at: Monotonic instant before which it is not written; by default it is due at once.
            low_priority: Whether it gives way to other work once it is due.

        Returns:
            False if it was refused because too many keys wait.
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
        """Drop the status that waits under a key; a write in flight goes on."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.place = _DROPPED
            self._low.pop(key, None)
            if entry.writing is None:
                self._remove(entry)

    def stamp(self, key: K) -> object:
        """Return the stamp of the key's write in flight, else of its last confirmed one; None if neither is known."""
        entry = self._entries.get(key)
        if entry is not None and entry.writing is not None:
            return entry.writing.stamp
        confirmed = self._confirmed.get(key)
        return confirmed.stamp if confirmed is not None else None

    def confirmed_at(self, key: K) -> float:
        """Return when a stamped write of the key was confirmed last; minus infinity if none is known."""
        confirmed = self._confirmed.get(key)
        return confirmed.at if confirmed is not None else _NEVER

    async def drain(self) -> None:
        """Write all waiting statuses without further delay; return when all are confirmed or given up."""
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
        """Wait until cancelled, then drop all waiting statuses. Statuses are written also while this does not run."""
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
        """Have workers check the low-priority entries when the load ends or the first has waited long enough."""
        defers_low = self._defers_low(now)
        workers = self._low_workers_in_load if defers_low else self._low_workers
        while self._low_looks < min(workers, len(self._low)):
            self._low_looks += 1
            due = min(self._low_expires(), self._load.over_at) if defers_low else now
            self._writes.add_after(None, max(due - now, _LOW_STEP_SECONDS) if due > now else 0.0)

    def _defers_low(self, now: float) -> bool:
        """Whether low-priority statuses give way now, unless they have waited for `LOW_PRIORITY_SECONDS`."""
        is_half_full = self._capacity and len(self._entries) > self._capacity // 2
        return not is_half_full and self._drained is None and self._load.is_high(now)

    def _low_expires(self) -> float:
        """Return when the low-priority status that waits longest stops giving way; `_low` must not be empty."""
        return next(iter(self._low.values())).since + LOW_PRIORITY_SECONDS

    def _remove(self, entry: _Entry[K, D, R]) -> None:
        del self._entries[entry.key]
        entry.place = _DROPPED  # so that a worker which finds it in the write queue ignores it
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
        """Return the entries that are to be written now."""
        due: list[_Entry[K, D, R]] = []
        for entry in entries:
            if entry is None:
                self._take_low(due, now)
            elif entry.place == _QUEUED and is_due(entry.at, now):
                if entry.low:
                    self._schedule(entry, entry.at, now)
                else:
                    entry.place = _IN_FLIGHT  # the same entry may follow in ``entries``
                    due.append(entry)
        return due

    def _take_low(self, due: list[_Entry[K, D, R]], now: float) -> None:
        """Add up to a batch of the low-priority entries that do not give way to ``due``."""
        low, defers_low = self._low, self._defers_low(now)
        for _ in range(min(self._batch, len(low))):
            if defers_low and self._low_expires() > now:
                break
            entry = low.popitem(last=False)[1]
            entry.place = _IN_FLIGHT
            due.append(entry)

    def _take(self, due: Sequence[_Entry[K, D, R]], now: float) -> list[_Taken[K, D, R]]:
        """Build the entries' writes; return those to send now."""
        taken: list[_Taken[K, D, R]] = []
        build = self._build
        for entry in due:
            key, desired = entry.key, entry.desired
            try:
                write = build(key, desired)
            except Exception:  # a bug in building one status must not stop the others
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
        except Exception as error:  # a bug of ours or of a transport: retried like a server error
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
            await self._clock.sleep(0)  # an in-process server may have answered without yielding to the loop

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
