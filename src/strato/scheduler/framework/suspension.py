"""A cycle that waits for an answer from outside lets the event loop go on.

A cycle is one long synchronous function. `suspendable` runs such a function in a thread of its own while the loop's
thread stands still, as if it were called directly: the two never run at once. Where the function calls `wait_for`, it
stands still instead, and the loop goes on until the answer is there. What the function works on must not change
meanwhile: see `World.when_closed`.
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
    """A function under way in its thread, and whose turn it is."""

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
            except BaseException as error:  # a cancellation too: the function has to end by it
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
        except BaseException as error:  # it is raised where the function was called
            self._error = error
        finally:
            self._loops_turn.release()


async def suspendable(work: Callable[[], T]) -> T:
    """Call a function that may `wait_for` something; whatever it raises is raised here."""
    return await _Suspendable(work).run()


def wait_for(question: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine in a function that is not one.

    Within `suspendable` the loop goes on meanwhile. Elsewhere (dry runs, virtual time) the caller's thread waits.
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
        except BaseException as error:  # it is raised where the question was asked
            errors.append(error)

    thread = threading.Thread(target=run, name="question", daemon=True)  # this thread may have a loop that runs
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
