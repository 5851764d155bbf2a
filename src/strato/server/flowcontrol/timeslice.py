"""Run long computations in slices, between which the loop serves requests.

A computation has its own thread but never runs at the same time as the loop: the loop waits during a slice. After a few
milliseconds the thread stops between two function calls and waits for its next slice. A thread that ran in parallel
would take the interpreter lock from the loop at each of the loop's system calls.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from time import perf_counter
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_CALLS_BETWEEN_LOOKS = 32
"""Function calls and returns between two checks of the clock: some microseconds."""


_HARDLY_BEGUN = 0.75
"""Part of a slice that is left when the slice has hardly begun."""


class _Abandoned(BaseException):
    """Ends the computation's thread, because its caller no longer waits for the result."""


class Computation(Generic[T]):
    """A function that runs in slices.

    Args:
        work: The function. It must not read the server's state, which changes between slices.
        seconds: How long a slice takes.
    """

    def __init__(self, work: Callable[[], T], seconds: float) -> None:
        self._work, self._seconds = work, seconds
        self.has_ended = False
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._is_abandoned = False
        self.calls = 0
        """Function calls and returns so far."""
        self._until = 0.0
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="timeslice", daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let the thread run a slice, and wait for its end."""
        self._go.release()
        self._stopped.acquire()

    def result(self) -> T:
        """Return the function's result, or raise its exception; once."""
        error, self._error = self._error, None  # its traceback has frames that refer to this object
        if error is not None:
            try:
                raise error
            finally:
                del error
        return self._result[0]

    def abandon(self) -> None:
        """End the thread at its next pause."""
        if not self.has_ended:
            self._is_abandoned = True
            self._go.release()

    def _run(self) -> None:
        self._await_slice()
        _current.set(self)
        try:
            if not self._is_abandoned:
                sys.setprofile(self._look)
                self._result.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            sys.setprofile(None)
            self.has_ended = True
            self._stopped.release()

    @contextmanager
    def pausing_itself(self) -> Iterator[None]:
        """Turn off the check at each function call within the block, which has to call `pause` itself.

        The check would make code with many calls several times slower.
        """
        look = sys.getprofile()
        sys.setprofile(None)
        try:
            yield
        finally:
            sys.setprofile(look)

    def pause(self) -> None:
        """Wait for the next slice if the current one is over."""
        if perf_counter() > self._until:
            self._stopped.release()
            self._await_slice()
            if self._is_abandoned:
                raise _Abandoned

    def begin_slice(self) -> None:
        """Wait for the next slice, unless the current one has hardly begun."""
        if self._until - perf_counter() < self._seconds * _HARDLY_BEGUN:
            with self.pausing_itself():
                self._until = 0.0
                self.pause()

    def _look(self, frame: Any, event: str, arg: Any) -> None:
        """Check now and then whether the slice is over; the interpreter calls this at each function call and return."""
        del frame, event, arg
        self.calls += 1
        if self.calls % _CALLS_BETWEEN_LOOKS == 0:
            self.pause()

    def _await_slice(self) -> None:
        self._go.acquire()
        self._until = perf_counter() + self._seconds


_current: ContextVar[Computation[Any] | None] = ContextVar("computation", default=None)


def current() -> Computation[Any] | None:
    """Return the computation on whose thread this code runs, if any."""
    return _current.get()


def is_divided() -> bool:
    """Tell whether this code runs in slices."""
    return _current.get() is not None


def alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that is one call into C for a whole object, so it cannot pause: in a slice of its own."""
    computation = _current.get()
    if computation is None:
        return function(*args, **kwargs)
    computation.begin_slice()
    result = function(*args, **kwargs)
    computation.begin_slice()  # to free a large result takes as long as a slice, too
    return result
