"""Share one event loop fairly: requests wait in the queue of their flow, and long work runs in slices.

All requests are served on one thread, so the resource to share is that thread's time. `Dispatcher` does it by weighted
fair queueing of measured time: among priority levels by their shares, and within a level equally among its flows (a
flow is the requests of one user or namespace). A round serves requests for `ROUND_SECONDS` and as many slices as should
fit into `SLICE_SECONDS`; then the loop reads its sockets. A request is served at once if no other waits and the round
has time left.

The virtual time of a flow or level is the time it was served, divided by its share; the one with the least is served
next. A flow that becomes active again starts at the virtual time of the active ones, and virtual times are reset when
no request waits. So a flow cannot save up time, and is not charged for time that no other flow wanted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from strato.clock import work_timer
from strato.server.flowcontrol.timeslice import Computation, current
from strato.server.flowcontrol.waiting import Elsewhere

T = TypeVar("T")
Steps = Generator[Callable[[], Any] | None, Any, T]
"""A generator that does work, yields wherever the loop may serve other requests, and returns the result.

It yields None, or a long computation whose result it is then sent. The computation must not read the server's state.
"""

ROUND_SECONDS = 0.005
"""How long a round serves requests before the loop reads its sockets."""
SLICE_SECONDS = 0.002
"""How long a slice of work should take. Of the 5 ms for which the loop may be held, the rest is left to a call into C
that handles a whole object, which cannot be divided."""
WAIT_SECONDS = 15.0
"""A request that has waited longer is refused: a quarter of the time that clients wait, as in Kubernetes."""
SEATS = 16
"""Most collections that one flow reads or deletes at the same time, which bounds the memory of unread answers."""
_MOST_FLOWS = 4096
"""Number of flows from which on idle ones are dropped."""


class PriorityLevel:
    """A priority level.

    Args:
        name: The PriorityLevelConfiguration's.
        shares: Its share of the loop's time, relative to other active levels.
        queue_length: Most requests of one flow that may wait.
        total_length: Most requests of all its flows that may wait.
    """

    def __init__(self, name: str, shares: float, queue_length: int, total_length: int) -> None:
        self.name, self.shares = name, shares
        self.queue_length, self.total_length = queue_length, total_length
        self.virtual = 0.0
        self.now = 0.0
        """Virtual time of the flow of this level that was served last."""
        self.epoch = 0
        self.waiting = 0
        """Number of waiting requests of its flows."""
        self.served = self.refused = 0


class Flow:
    """Requests that share one queue, those of one user, say; flows of a level compete with each other."""

    def __init__(self, level: PriorityLevel, name: str, seats: int = SEATS) -> None:
        self.level, self.name = level, name
        self.virtual = 0.0
        self.epoch = 0
        self.requests: deque[_Waiting] = deque()
        self.slices: deque[Callable[[], None]] = deque()
        self.requests_queued = self.slices_queued = False
        """Whether the flow is in the dispatcher's queue of requests, and in that of slices."""
        self.free_seats = seats
        self.waiting_for_seat: deque[asyncio.Future[None]] = deque()
        """Futures of work that waits for a seat."""

    @property
    def is_idle(self) -> bool:
        """Whether no request or slice waits, and no seat is taken."""
        return not (self.requests or self.slices or self.waiting_for_seat) and self.free_seats >= SEATS


class _Waiting:
    """A waiting request."""

    __slots__ = ("refuse", "since", "start")

    def __init__(self, start: Callable[[], None], refuse: Callable[[], None], since: float) -> None:
        self.start, self.refuse, self.since = start, refuse, since


class _Queue:
    """The flows with waiting requests (or, in another queue, slices), ordered by virtual time of level and flow."""

    def __init__(self) -> None:
        self._heaps: dict[PriorityLevel, list[tuple[float, int, Flow]]] = {}
        self._pushed = 0

    def __bool__(self) -> bool:
        return bool(self._heaps)

    def push(self, flow: Flow) -> None:
        """Add a flow, which must not be in the queue."""
        self._pushed += 1
        heappush(self._heaps.setdefault(flow.level, []), (flow.virtual, self._pushed, flow))

    def pop(self) -> Flow:
        """Remove and return the flow to serve next."""
        level = min(self._heaps, key=_virtual)
        heap = self._heaps[level]
        flow = heappop(heap)[2]
        if not heap:
            del self._heaps[level]
        return flow


def _virtual(level: PriorityLevel) -> float:
    return level.virtual


class Divisible(Generic[T]):
    """A computation that can run in steps, so that others can be served, or in one call, which is faster.

    Args:
        whole: Runs it in one call.
        steps: Runs it in steps.
    """

    def __init__(self, whole: Callable[[], T], steps: Callable[[], Steps[T]]) -> None:
        self._whole, self.steps = whole, steps

    def __call__(self) -> T:
        """Run the computation in one call."""
        return self._whole()


def divided(steps: Steps[T]) -> Steps[T]:
    """Run `Divisible` computations in steps and all others at once, for a caller that handles only yields of None."""
    given = None
    while True:
        try:
            work = steps.send(given)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(work, Divisible):
            given = yield from divided(work.steps())
        else:
            given = (yield None) if work is None else work()


def continued(first: Callable[[], Any] | None, steps: Steps[T]) -> Steps[T]:
    """Continue work whose first step has been run already; ``first`` is the value it yielded."""
    work = first
    while True:
        given = yield work
        try:
            work = steps.send(given)
        except StopIteration as end:
            result: T = end.value
            return result


def at_once(steps: Steps[T]) -> T:
    """Run short work without yielding to the loop; inside a `Computation` its yields may pause that."""
    given = None
    while True:
        try:
            work = steps.send(given)
        except StopIteration as end:
            result: T = end.value
            return result
        if work is not None:
            given = work()
        else:
            given = None
            around = current()
            if around is not None:
                with around.pausing_itself():
                    around.pause()


def counting_timer() -> Callable[[], float]:
    """Return a timer that advances with each call: it counts work instead of measuring it, so simulations repeat."""
    return itertools.count().__next__


class Dispatcher:
    """Decides which request or slice runs next on the loop.

    Args:
        timer: Measures work, in seconds; a simulation counts work instead, so that it is repeatable.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self.timer = timer
        self.flows: dict[tuple[str, str], Flow] = {}
        """By level and name."""
        self.rounds = self.slices = 0
        """Numbers of rounds and of slices so far."""
        self._requests, self._slices = _Queue(), _Queue()
        self._is_due = False
        self._used_seconds = 0.0
        """Seconds of this round spent on requests."""
        self._epoch = 1
        self._now = 0.0
        """Virtual time of the level that was served last."""

    def flow(self, level: PriorityLevel, name: str) -> Flow:
        """Return the flow of a level with that name."""
        key = (level.name, name)
        flow = self.flows.get(key)
        if flow is None or flow.level is not level:
            if len(self.flows) >= _MOST_FLOWS:
                self.flows = {key: flow for key, flow in self.flows.items() if not flow.is_idle}
            flow = self.flows[key] = Flow(level, name)
        return flow

    # -- requests -----------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return whether a request may be served at once; the caller then reports the time it took to `served`."""
        return not self._requests and self._used_seconds < ROUND_SECONDS

    def served(self, flow: Flow, seconds: float) -> None:
        """Count the time of a request that was served at once."""
        self._used_seconds += seconds
        if not self._is_due:
            self._schedule()
        if self._slices:
            self._charge(flow, seconds)

    def enqueue(self, flow: Flow, start: Callable[[], None], refuse: Callable[[], None]) -> bool:
        """Queue a request; return False if too many wait already.

        Args:
            flow: The request's flow.
            start: Serves it; must not raise.
            refuse: Answers it with 429, after too long a wait.
        """
        level = flow.level
        if len(flow.requests) >= level.queue_length or level.waiting >= level.total_length:
            level.refused += 1
            return False
        if not self._is_due:
            self._schedule()
        flow.requests.append(_Waiting(start, refuse, asyncio.get_running_loop().time()))
        level.waiting += 1
        self._await_requests(flow)
        return True

    def _await_requests(self, flow: Flow) -> None:
        if flow.requests and not flow.requests_queued:
            flow.requests_queued = True
            self._arrive(flow)
            self._requests.push(flow)

    # -- slices -------------------------------------------------------------------------------------------------------

    def submit(self, flow: Flow, work: Callable[[], None]) -> None:
        """Queue a slice of work, which must not raise; it never runs in this call."""
        if not self._is_due:
            self._schedule()
        flow.slices.append(work)
        self._await_slices(flow)

    def _await_slices(self, flow: Flow) -> None:
        if flow.slices and not flow.slices_queued:
            flow.slices_queued = True
            self._arrive(flow)
            self._slices.push(flow)

    async def run(self, flow: Flow, work: Callable[[], T]) -> T:
        """Queue a slice of work, and return its result."""
        waiting: list[asyncio.Future[T]] = [asyncio.get_running_loop().create_future()]

        def do() -> None:
            if not waiting or waiting[0].done():
                return
            try:
                waiting[0].set_result(work())
            except Exception as error:
                waiting[0].set_exception(error)

        self.submit(flow, do)
        try:
            return await waiting[0]
        finally:
            waiting.clear()  # an exception in it refers to both frames: a circle with all that was read

    async def finish(self, flow: Flow, steps: Steps[T]) -> T:
        """Run work with each step as a slice, and return its result."""
        given: Any = None
        ended: list[T] = []

        def step() -> Callable[[], Any] | None:
            try:
                return steps.send(given)
            except StopIteration as end:
                ended.append(end.value)
                return None

        while not ended:
            computation = await self.run(flow, step)
            given = None if computation is None else await self.awaited(flow, computation)
        return ended[0]

    async def awaited(self, flow: Flow, work: Callable[[], T]) -> T:
        """Run a long computation in slices, or await one that runs elsewhere, and return its result."""
        return await work.ask() if isinstance(work, Elsewhere) else await self._computed(flow, work)

    async def finish_seated(self, flow: Flow, steps: Steps[T]) -> T:
        """Run work as `finish` does, holding one of the flow's seats."""
        async with self.seat(flow):
            return await self.finish(flow, steps)

    async def _computed(self, flow: Flow, work: Callable[[], T]) -> T:
        """Run a long computation in slices; in a simulation in one call, because slices depend on measured time."""
        if self.timer is not work_timer:
            return await self.run(flow, work)
        if isinstance(work, Divisible):
            return await self.finish(flow, work.steps())
        computation = Computation(work, SLICE_SECONDS)
        try:
            while not computation.has_ended:
                await self.run(flow, computation.step)
        finally:
            computation.abandon()
        return computation.result()

    @asynccontextmanager
    async def seat(self, flow: Flow) -> AsyncIterator[None]:
        """Take one of the flow's seats, and wait for one if none is free."""
        if flow.free_seats > 0:
            flow.free_seats -= 1
        else:
            given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            flow.waiting_for_seat.append(given)
            try:
                await given
            except asyncio.CancelledError:
                if given.done() and not given.cancelled():
                    self._release_seat(flow)
                raise
        try:
            yield
        finally:
            self._release_seat(flow)

    def _release_seat(self, flow: Flow) -> None:
        """Pass a seat on to the work that waits longest, or free it."""
        while flow.waiting_for_seat:
            given = flow.waiting_for_seat.popleft()
            if not given.done():
                given.set_result(None)
                return
        flow.free_seats += 1

    # -- turns --------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._is_due = False
        self._used_seconds = 0.0
        if not (self._requests or self._slices):
            self._epoch += 1  # no flow waits: resets all virtual times
            return
        self.rounds += 1
        try:
            while self._requests and self._used_seconds < ROUND_SECONDS:
                self._used_seconds += self._serve_request()
            used_seconds = longest = 0.0
            while self._slices and used_seconds + longest < SLICE_SECONDS:  # another one may take as long
                seconds = self._serve_slice()
                used_seconds, longest = used_seconds + seconds, max(longest, seconds)
        finally:
            if not self._is_due:
                self._schedule()

    def _serve_request(self) -> float:
        flow = self._requests.pop()
        flow.requests_queued = False
        waiting = flow.requests.popleft()
        flow.level.waiting -= 1
        flow.level.served += 1
        is_late = asyncio.get_running_loop().time() - waiting.since > WAIT_SECONDS
        try:
            return self._measured(flow, waiting.refuse if is_late else waiting.start)
        finally:
            self._await_requests(flow)

    def _serve_slice(self) -> float:
        flow = self._slices.pop()
        flow.slices_queued = False
        self.slices += 1
        try:
            return self._measured(flow, flow.slices.popleft())
        finally:
            self._await_slices(flow)

    def _measured(self, flow: Flow, work: Callable[[], None]) -> float:
        level = flow.level
        self._now, level.now = max(self._now, level.virtual), max(level.now, flow.virtual)
        began = self.timer()
        try:
            work()
        finally:
            seconds = self.timer() - began
            self._charge(flow, seconds)
        return seconds

    def _charge(self, flow: Flow, seconds: float) -> None:
        self._arrive(flow)
        flow.virtual += seconds
        flow.level.virtual += seconds / flow.level.shares

    def _arrive(self, flow: Flow) -> None:
        """Advance the virtual time of a flow that becomes active, and of its level, to that of the active ones."""
        level = flow.level
        if level.epoch != self._epoch:
            level.epoch = self._epoch
            level.virtual = self._now
            level.now = 0.0
        else:
            level.virtual = max(level.virtual, self._now)
        if flow.epoch != self._epoch:
            flow.epoch = self._epoch
            flow.virtual = level.now
        else:
            flow.virtual = max(flow.virtual, level.now)
