"""What work in steps waits for: answers from elsewhere, and computations that are too long for one turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Elsewhere(Generic[T]):
    """What others compute, a webhook say: awaited between two steps, while nothing else of the loop waits for it.

    Args:
        ask: Begins to wait; what it may raise ends the work.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self.ask = ask

    def __call__(self) -> T:
        """Refuse: who is asked elsewhere cannot be waited for at once."""
        raise AssertionError("an answer from elsewhere is waited for between steps")


class Costly(Generic[T]):
    """A computation that is made in slices even where all else is short."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def __call__(self) -> T:
        """Return the result, made in one go."""
        return self._work()


class Done(Generic[T]):
    """Work that has ended."""

    def __init__(self, result: T) -> None:
        self.result = result


def promptly(
    steps: Generator[Callable[[], Any] | None, Any, T], given: Any = None
) -> Elsewhere[Any] | Costly[Any] | Done[T]:
    """Do short work until it ends, or up to what has to be waited for; go on with the result of that."""
    while True:
        try:
            work = steps.send(given)
        except StopIteration as end:
            return Done(end.value)
        if isinstance(work, Elsewhere | Costly):
            return work
        given = None if work is None else work()
