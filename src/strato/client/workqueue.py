"""A queue of keys to work on: each at most once in the queue and never worked on twice at once.

A key added while it is being worked on is dirty and runs again afterwards. A failed key is retried after an exponential
delay, and a token bucket bounds the retries of all keys. Keys whose work only writes a status may be of low priority:
they run after all others, but after `LOW_PRIORITY_SECONDS` they get every third turn.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from strato.client.retry import is_server_error
from strato.clock import Clock
from strato.errors import ApiError, Conflict, InvariantError, StratoError, one_line

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_SERVER_DELAY_SECONDS = 30.0

_ITEMS_BEFORE_YIELD = 16
"""Keys a worker reconciles before it yields to the loop, in case ``reconcile`` never waits."""

LOW_PRIORITY_SECONDS = 2.0
"""How long a low-priority key gives way to all others; afterwards `_LOW_PRIORITY_SHARE` applies."""

_LOW_PRIORITY_SHARE = 3
"""Every n-th key handed out may be a low-priority one that has waited long enough."""


_WOKEN_AT_FIRST = 4
_WOKEN_BY_EACH = 2
"""How many workers are woken when keys arrive, and how many more by each worker that leaves keys in the queue. Not all
at once: a worker may take all keys (`WorkQueue.take_more`), and a needless wake-up costs as much as a key's work."""


class ShutDown(StratoError):
    """The queue is shut down and empty."""


class RetryLimiter:
    """When a failed key may come back: the later of its own exponential delay and a shared token bucket.

    Defaults are client-go's: 5 ms doubling to 1,000 s; 10 per second after a burst of 100.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        initial_seconds: float = 0.005,
        max_seconds: float = 1000.0,
        per_second: float = 10.0,
        burst: int = 100,
    ) -> None:
        self._clock = clock
        self._initial = initial_seconds
        self._max = max_seconds
        self._per_second = per_second
        self._burst = float(burst)
        self._failures: dict[Hashable, int] = {}
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def delay(self, key: Hashable) -> float:
        """Count a failure of ``key`` and return the seconds until it may be tried again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        own = self._max if failures > 60 else min(self._initial * 2.0**failures, self._max)
        return max(own, self._take_token())

    def server_delay(self, key: Hashable) -> float:
        """Count a failure of ``key`` that the server caused, and return the seconds until it may be tried again.

        The delay grows to half a minute only, so that keys run soon after the server is back. It takes no token from
        the bucket, which limits keys that fail by their own fault.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._initial * 2.0 ** min(failures, 60), _SERVER_DELAY_SECONDS)

    def failures(self, key: Hashable) -> int:
        """Return how often in a row ``key`` has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: Hashable) -> None:
        """Start ``key`` over; call when it succeeded."""
        self._failures.pop(key, None)

    def _take_token(self) -> float:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0 else -self._tokens / self._per_second


class WorkQueue(Generic[K]):
    """See the module. Single-threaded: every method is called on the loop's thread.

    Args:
        limiter: Delays of failures; the default is client-go's.
    """

    def __init__(self, clock: Clock, limiter: RetryLimiter | None = None) -> None:
        self.clock = clock
        self._limiter = limiter if limiter is not None else RetryLimiter(clock)
        self._ready: deque[K] = deque()
        self._low_priority: OrderedDict[K, float] = OrderedDict()  # ready since when; not also in _ready
        self._gets = 0
        self._dirty: dict[K, bool] = {}  # ready, or ready once the work on them is done; True: of low priority
        self._working: set[K] = set()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._woken = 0  # waiters that were woken and have not run yet
        self._later: list[tuple[float, int, K, bool]] = []
        self._due: dict[K, float] = {}  # when each delayed key is due; _later may hold stale entries of it
        self._order = itertools.count()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys are ready now."""
        return len(self._ready) + len(self._low_priority)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ready and nothing is being worked on (delayed keys do not count)."""
        return not len(self) and not self._working

    def add(self, key: K, *, low_priority: bool = False) -> None:
        """Mark ``key`` dirty. On a key that waits already the only effect is that it may lose its low priority."""
        if self._closed:
            return
        known = self._dirty.get(key)
        if known is not None and (low_priority or not known):
            return
        self._dirty[key] = low_priority
        if key not in self._working:
            self._low_priority.pop(key, None)
            self._push(key, low_priority)

    def add_after(self, key: K, seconds: float, *, low_priority: bool = False) -> None:
        """Add ``key`` after a delay; of several delays the one that ends first counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key, low_priority=low_priority)
            return
        due = self.clock.monotonic() + seconds
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        heapq.heappush(self._later, (due, next(self._order), key, low_priority))
        if self._timer is None or due < self._timer_at:
            self._set_timer()

    def add_rate_limited(self, key: K) -> None:
        """Add ``key`` after the delay its failures ask for."""
        self.add_after(key, self._limiter.delay(key))

    def add_failed(self, key: K, error: Exception) -> None:
        """Add ``key`` again after an error; `RetryLimiter.server_delay` applies if the server caused the error."""
        if isinstance(error, ApiError) and is_server_error(error):
            self.add_after(key, max(self._limiter.server_delay(key), error.retry_after_seconds or 0.0))
        else:
            self.add_rate_limited(key)

    def forget(self, key: K) -> None:
        """Reset the failures of ``key``."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return how often in a row ``key`` has failed."""
        return self._limiter.failures(key)

    async def get(self) -> K:
        """Wait for a key and take it; the caller must call `done`.

        Raises:
            ShutDown: The queue is shut down and empty.
        """
        while not self._ready and not self._low_priority:
            if self._closed:
                raise ShutDown("the work queue is shut down")
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._woken -= 1
                    self._wake()  # this worker was woken for a key, which another one has to take now
                raise
            self._woken -= 1
        key = self._next()
        self._take(key)
        for _ in range(min(len(self), _WOKEN_BY_EACH)):
            self._wake()
        return key

    def take_more(self, matches: Callable[[K], bool], limit: int) -> list[K]:
        """Take keys that a worker can reconcile together with the one it has; the caller must call `done` for each.

        Keys are taken in the order of `get`, up to the first that does not match.

        Args:
            matches: Called with each key once; must not change the queue.
            limit: Most keys to take.
        """
        taken: list[K] = []
        while len(taken) < limit and (self._ready or self._low_priority):
            key = self._next()
            if not matches(key):
                break
            self._take(key)
            taken.append(key)
        return taken

    def done(self, key: K) -> None:
        """Note that the work on ``key`` is over; it becomes ready again if it was added meanwhile."""
        self._working.discard(key)
        low_priority = self._dirty.get(key)
        if low_priority is not None:
            self._push(key, low_priority)

    def shutdown(self) -> None:
        """Accept no more keys and drop the delayed ones; `get` still hands out those that are ready."""
        self._closed = True
        self._later.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                self._woken += 1
        self._waiters.clear()

    def _push(self, key: K, low_priority: bool) -> None:
        if low_priority:
            self._low_priority[key] = self.clock.monotonic()
        else:
            self._ready.append(key)
        if self._woken < _WOKEN_AT_FIRST:
            self._wake()

    def _next(self) -> K:
        """Return the key to hand out next; there must be one."""
        if not self._low_priority:
            return self._ready[0]
        self._gets += 1
        oldest, since = next(iter(self._low_priority.items()))
        is_low_due = self._gets % _LOW_PRIORITY_SHARE == 0 and self.clock.monotonic() - since >= LOW_PRIORITY_SECONDS
        return self._ready[0] if self._ready and not is_low_due else oldest

    def _take(self, key: K) -> None:
        if key in self._low_priority:
            del self._low_priority[key]
        else:
            self._ready.popleft()
        del self._dirty[key]
        self._working.add(key)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._woken += 1
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._later[0][0]
        self._timer = asyncio.get_running_loop().create_task(self._run_timer(), name="work queue timer")

    async def _run_timer(self) -> None:
        while self._later:
            self._timer_at = self._later[0][0]
            await self.clock.sleep(max(0.0, self._timer_at - self.clock.monotonic()))
            now = self.clock.monotonic()
            while self._later and self._later[0][0] <= now:
                due, _, key, low_priority = heapq.heappop(self._later)
                if self._due.get(key) == due:
                    del self._due[key]
                    self.add(key, low_priority=low_priority)
        self._timer = None


Reconcile = Callable[[K], Awaitable[float | None]]
"""Reconciles one key. Returns None when done, or the seconds after which to run again."""


async def run_workers(queue: WorkQueue[K], reconcile: Reconcile[K], count: int, *, name: str = "") -> None:
    """Reconcile keys with ``count`` concurrent workers until cancelled or the queue is shut down.

    Any exception of ``reconcile`` is logged and its key retried with back-off, so that one bad object does not stop
    the others. A conflict is logged without a warning: the object has changed, and its watch event is on the way.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(_work(queue, reconcile, name), name=f"{name or 'worker'} {number}")
    finally:
        queue.shutdown()


def log_failure(worker: str, key: Hashable, error: Exception) -> None:
    """Log that work on a key failed and will be retried: in one line, with a traceback only for a bug of ours."""
    level = logging.DEBUG if isinstance(error, Conflict) else logging.WARNING
    is_ours = isinstance(error, InvariantError) or not isinstance(error, StratoError | OSError)
    trace = error if is_ours else None
    _log.log(level, "work failed, will retry: worker=%s key=%s: %s", worker, key, one_line(error), exc_info=trace)


async def _work(queue: WorkQueue[K], reconcile: Reconcile[K], name: str) -> None:
    taken = 0
    while True:
        try:
            key = await queue.get()
        except ShutDown:
            return
        try:
            again_after_seconds = await reconcile(key)
        except Exception as error:
            log_failure(name, key, error)
            queue.add_failed(key, error)
        else:
            queue.forget(key)
            if again_after_seconds is not None:
                queue.add_after(key, again_after_seconds)
        finally:
            queue.done(key)
        taken += 1
        if taken % _ITEMS_BEFORE_YIELD == 0:
            await queue.clock.sleep(0)
