"""Extension points: how `Plugin` declares them, how their answers are checked, and what replaces a failed answer.

The contract of each is on its method of `strato.scheduler.framework.plugin.Plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.resources import FloatArray

Fn = Callable[..., Any]
Check = Callable[[Any, Sequence[Any]], Any]
"""Takes an answer and the arguments of the call; returns the answer in its normal form, or raises `WrongAnswer`."""
_Method = TypeVar("_Method", bound=Callable[..., Any])


class Point(NamedTuple):
    """One extension point.

    Attributes:
        toggles: It is on if any of these toggles is; always on without toggles.
        check: Checks the answers of plugins from outside Strato.
        left_out: Answers in place of a plugin that failed; None: the method of `Plugin` does.
        orders: Whether it returns sort keys.
    """

    toggles: tuple[str, ...]
    check: Check | None
    left_out: Fn | None
    orders: bool


POINTS: Final[dict[str, Point]] = {}
"""Every extension point of `Plugin` by name."""


def point(*toggles: str, check: Check | None = None, left_out: Fn | None = None) -> Callable[[_Method], _Method]:
    """Declare a method as an extension point; see `Point`."""
    return _declare(Point(toggles, check, left_out, orders=False))


def order(*toggles: str) -> Callable[[_Method], _Method]:
    """Declare a method as an extension point that returns sort keys; for a plugin that failed all keys are equal."""
    return _declare(Point(toggles, None, lambda *_: EQUAL, orders=True))


def _declare(found: Point) -> Callable[[_Method], _Method]:
    def declare(method: _Method) -> _Method:
        POINTS[method.__name__] = found
        return method

    return declare


class _Equal:
    """A sort key that is equal to every other, of whatever type."""

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__
    __hash__ = None  # type: ignore[assignment] # equal to everything, so no hash is right


EQUAL: Final = _Equal()


# -- checks of answers -------------------------------------------------------------------------------------------------


class WrongAnswer(TypeError):
    """A plugin returned something that its extension point does not allow."""


def checked(fn: Fn, found: Point) -> Fn:
    """Wrap an extension point's function so that its answers are checked."""
    if found.orders:
        return _ordered(fn)
    if found.check is None:
        return fn
    check = found.check
    return lambda *args: check(fn(*args), args)


def _ordered(fn: Fn) -> Fn:
    """Demand sort keys that compare with each other: all numbers, all text, or all tuples."""
    family: list[type] = []

    def call(*args: Any) -> Any:
        key = fn(*args)
        kind = float if isinstance(key, int | float | np.number) else type(key)
        if not family and kind in (float, str, tuple):
            family.append(kind)
        elif kind not in family:
            raise WrongAnswer(f"sort keys must all be numbers, all text or all tuples, not {key!r}")
        return key

    return call


def verdicts(answer: Any, args: Sequence[Any]) -> Any:
    """Demand None, or verdicts with a code for each row."""
    if answer is None:
        return None
    if not isinstance(answer, Verdicts) or np.shape(answer.codes) != (len(args[-1]),):
        raise WrongAnswer(
            f"must return None or Verdicts with one code for each of {len(args[-1])} rows, not {answer!r}"
        )
    if len(answer.codes) and int(answer.codes.max()) > len(answer.reasons):
        raise WrongAnswer(f"code {int(answer.codes.max())} names no reason; there are {len(answer.reasons)}")
    return answer


def scores(answer: Any, args: Sequence[Any]) -> Any:
    """Demand None, or a number for each row."""
    return None if answer is None else _numbers(answer, len(args[-1]), "None or one finite number for each of {} rows")


def domain_scores(answer: Any, args: Sequence[Any]) -> Any:
    """Demand a number for each domain."""
    return _numbers(answer, len(args[1]), "one finite number for each of {} domains")


def _numbers(answer: Any, count: int, wanted: str) -> FloatArray:
    numbers = np.asarray(answer, np.float64)
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        raise WrongAnswer(f"must return {wanted.format(count)}, not {answer!r}")
    return numbers


def static(answer: Any, args: Sequence[Any]) -> Any:
    """Demand static scores with a number for each row."""
    found = tuple(answer)
    if not all(isinstance(score, StaticScore) for score in found):
        raise WrongAnswer(f"must return a sequence of StaticScore, not {answer!r}")
    return tuple(score._replace(raw=scores(score.raw, args)) for score in found)


def vote(answer: Any, _: Sequence[Any]) -> int:
    """Demand a vote."""
    if not isinstance(answer, int | np.integer):
        raise WrongAnswer(f"must return PERMIT, ABSTAIN or REJECT, not {answer!r}")
    return int(answer)


def count(answer: Any, args: Sequence[Any]) -> int:
    """Demand a number of tasks; clip it to what was asked for."""
    if not isinstance(answer, int | np.integer):
        raise WrongAnswer(f"must return how many tasks are allowed, not {answer!r}")
    most: int = args[2]
    return max(0, min(int(answer), most))


def at_least_one(answer: Any, _: Sequence[Any]) -> int:
    """Demand a number; less than one counts as one."""
    return max(1, int(answer))


def victims(answer: Any, args: Sequence[Any]) -> Any:
    """Demand tasks, and a vote."""
    chosen, ballot = answer
    return tasks(chosen, args), vote(ballot, args)


def tasks(answer: Any, _: Sequence[Any]) -> list[Task]:
    """Demand tasks."""
    found = list(answer)
    if not all(isinstance(task, Task) for task in found):
        raise WrongAnswer(f"must return tasks, not {answer!r}")
    return found


def maybe(wanted: type) -> Check:
    """Demand None, or an instance of a class."""

    def check(answer: Any, _: Sequence[Any]) -> Any:
        if answer is not None and not isinstance(answer, wanted):
            raise WrongAnswer(f"must return None or {wanted.__name__}, not {answer!r}")
        return answer

    return check


def truth(answer: Any, _: Sequence[Any]) -> bool:
    """Convert any answer to a bool."""
    return bool(answer)
