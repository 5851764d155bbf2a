"""Values that `Steps` yield to wait for: answers from elsewhere, and computations that are too long for one turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Elsewhere(Generic[T]):
    """A result that comes from elsewhere, a webhook say; awaited between two steps, while the loop serves others.

    Args:
        ask: Starts the request and returns its result; an exception of it ends the work.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self.ask = ask

    def __call__(self) -> T:
        """Raise: such a result cannot be had without waiting."""
        raise AssertionError("an answer from elsewhere is waited for between steps")


class Costly(Generic[T]):
    """A computation that runs in slices even in work that is otherwise short."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def __call__(self) -> T:
        """Run the computation in one call."""
        return self._work()


class Done(Generic[T]):
    """Work that has ended."""

    def __init__(self, result: T) -> None:
        self.result = result


def promptly(
    steps: Generator[Callable[[], Any] | None, Any, T], given: Any = None
) -> Elsewhere[Any] | Costly[Any] | Done[T]:
    """Run short work until it has ended, or yields something to wait for; then continue with that result."""
    while True:
        try:
            work = steps.send(given)
        except StopIteration as end:
            return Done(end.value)
        if isinstance(work, Elsewhere | Costly):
            return work
        given = None if work is None else work()
