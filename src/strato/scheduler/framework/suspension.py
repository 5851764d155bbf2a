"""Lets the event loop run while a cycle waits for an HTTP extender.

A cycle is one long synchronous function. `suspendable` runs such a function in a thread of its own and blocks the
loop's thread meanwhile, as a direct call would: the two never run at once. While the function waits in `wait_for`, it
is the other way round: its thread is blocked and the loop runs until the answer is there. The world must not change
meanwhile; `World.when_closed` defers changes.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_CURRENT: Final[contextvars.ContextVar[_Suspendable[Any] | None]] = contextvars.ContextVar("suspendable", default=None)


class _Suspendable(Generic[T]):
    """A function running in its thread; two semaphores hand control to and fro between that thread and the loop's."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._works_turn = threading.Semaphore(0)
        self._loops_turn = threading.Semaphore(0)
        self._question: Awaitable[Any] | None = None
        self._answer: Any = None
        self._error: BaseException | None = None
        self._outcome: list[T] = []

    async def run(self) -> T:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="suspendable", daemon=True)
        thread.start()
        self._loops_turn.acquire()
        while (question := self._question) is not None:
            self._question = None
            try:
                self._answer, self._error = await question, None
            except BaseException as error:  # a cancellation too: `wait_for` raises it in the function, which ends it
                self._answer, self._error = None, error
            self._works_turn.release()
            self._loops_turn.acquire()
        thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def wait_for(self, question: Awaitable[Any]) -> Any:
        self._question = question
        self._loops_turn.release()
        self._works_turn.acquire()
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        _CURRENT.set(self)
        self._error = None
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # `run` raises it in the caller's thread
            self._error = error
        finally:
            self._loops_turn.release()


async def suspendable(work: Callable[[], T]) -> T:
    """Call a function that may use `wait_for`; return what it returns, raise what it raises."""
    return await _Suspendable(work).run()


def wait_for(question: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a synchronous function and return its result.

    Within `suspendable` the event loop runs meanwhile. Elsewhere (dry runs, virtual time) the caller's thread blocks.
    """
    current = _CURRENT.get()
    if current is not None:
        answer: T = current.wait_for(question)
        return answer
    outcome: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(question))
        except BaseException as error:  # raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="question", daemon=True)  # `asyncio.run` fails in a loop's own thread
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
