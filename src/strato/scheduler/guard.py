"""Plugins' errors stay theirs: a plugin that raises is left out for the rest of the cycle, and scheduling goes on.

Every extension point is called through a guard. After the first exception the plugin answers as if it were not
configured (`_neutral`); the failure is recorded in the plan, from where an event and a metric are made. What plugins
that are not ours return is checked too, so that a wrong shape is the plugin's failure and not the engine's.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strato.scheduler.cache.tasks import Task
from strato.scheduler.framework import ABSTAIN, Plugin, StaticScore, Validity, Verdicts
from strato.scheduler.plan import Failure
from strato.scheduler.reporting.reasons import Reason

if TYPE_CHECKING:
    from strato.scheduler.config import PluginOption

_log = logging.getLogger(__name__)

Fn = Callable[..., Any]
_OURS: Final = "strato.scheduler.plugins."


class _Equal:
    """A sort key that is equal to every other, of whatever type."""

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__
    __hash__ = None  # type: ignore[assignment] # equal to everything, so no hash is right


EQUAL: Final = _Equal()

_NEUTRAL: Final[dict[str, Fn]] = {
    "job_ready": lambda job, *_: job.is_ready,  # the core's own count: no half gang, whoever failed
    "sub_job_ready": lambda sub, *_: sub.is_ready,
    "hyper_node_order": lambda _, domains, *__: np.zeros(len(domains)),
    "job_starving": lambda *_: True,
    "simulate_allocatable": lambda *_: True,
    "unified_evictable": lambda *_: ((), ABSTAIN),
    "watches_pods": lambda *_: False,
}
"""What a plugin that is left out answers where the base class's own answer would decide something."""


def _neutral(plugin: Plugin, point: str) -> Fn:
    """Return the answer of a plugin that is left out."""
    if point in _NEUTRAL:
        return _NEUTRAL[point]
    if point.endswith("_order"):
        return lambda *_: EQUAL
    base: Fn | None = getattr(Plugin, point, None)
    return functools.partial(base, plugin) if base is not None else lambda *_: None


class Guard:
    """Calls the plugins of one session.

    Args:
        failures: Receives what went wrong, once per plugin.
    """

    def __init__(self, failures: list[Failure]) -> None:
        self._failures = failures
        self._out: set[Plugin] = set()

    def make(self, option: PluginOption) -> Plugin | None:
        """Build a plugin; None when it cannot be built."""
        try:
            return option.plugin(option.args)
        except Exception as error:
            self.note(option.name, "__init__", error)
            return None

    def call(self, plugin: Plugin, point: str, *args: Any, otherwise: Any = None) -> Any:
        """Call a method once, outside the extension points (open, close, resources)."""
        if plugin in self._out:
            return otherwise
        try:
            return getattr(plugin, point)(*args)
        except Exception as error:
            self.leave_out(plugin, point, error)
            return otherwise

    def wrap(self, plugin: Plugin, point: str) -> Fn:
        """Return an extension point as a function that never raises."""
        fn: Fn = getattr(plugin, point)
        out = self._out
        if not type(plugin).__module__.startswith(_OURS):
            fn = _checked(fn, point)

        def guarded(*args: Any) -> Any:
            if out and plugin in out:
                return _neutral(plugin, point)(*args)
            try:
                return fn(*args)
            except Exception as error:
                self.leave_out(plugin, point, error)
                return _neutral(plugin, point)(*args)

        guarded.__self__ = plugin  # type: ignore[attr-defined] # as a bound method has it
        return guarded

    def wrap_each(self, plugin: Plugin, point: str) -> Callable[[Sequence[Any]], list[Any]]:
        """Return an extension point of one argument as a function of many such arguments; it never raises.

        A plugin that fails at one of them has said nothing about any.
        """
        fn: Fn = getattr(plugin, point)
        out = self._out
        if not type(plugin).__module__.startswith(_OURS):
            fn = _checked(fn, point)

        def guarded(items: Sequence[Any]) -> list[Any]:
            if plugin not in out:
                try:
                    return [fn(item) for item in items]
                except Exception as error:
                    self.leave_out(plugin, point, error)
            neutral = _neutral(plugin, point)
            return [neutral(item) for item in items]

        return guarded

    def is_out(self, plugin: Plugin) -> bool:
        """Whether a plugin failed in this session."""
        return plugin in self._out

    def leave_out(self, plugin: Plugin, point: str, error: Exception) -> None:
        """Leave a plugin out for the rest of the session."""
        self._out.add(plugin)
        self.note(plugin.name or type(plugin).__name__, point, error)

    def note(self, name: str, point: str, error: Exception) -> None:
        """Record a failure."""
        where = traceback.extract_tb(error.__traceback__)[-1:]
        place = f" ({where[0].filename.rpartition('/')[2]}:{where[0].lineno})" if where else ""
        text = f"{type(error).__name__}: {error}{place}"
        self._failures.append(Failure(name, point, text))
        _log.error("left out of this cycle: plugin=%s point=%s: %s", name, point, text, exc_info=error)


class WrongAnswer(TypeError):
    """A plugin returned something that its extension point does not allow."""


def _checked(fn: Fn, point: str) -> Fn:
    """Return the extension point with its answers checked."""
    check = _CHECKS.get(point)
    if check is not None:
        known = check
        return lambda *args: known(fn(*args), args)
    if point.endswith("_order"):
        return _ordered(fn)
    return fn


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


def _verdicts(answer: Any, args: Sequence[Any]) -> Any:
    if answer is None:
        return None
    if not isinstance(answer, Verdicts) or np.shape(answer.codes) != (len(args[-1]),):
        raise WrongAnswer(
            f"must return None or Verdicts with one code for each of {len(args[-1])} rows, not {answer!r}"
        )
    if len(answer.codes) and int(answer.codes.max()) > len(answer.reasons):
        raise WrongAnswer(f"code {int(answer.codes.max())} names no reason; there are {len(answer.reasons)}")
    return answer


def _scores(answer: Any, args: Sequence[Any]) -> Any:
    if answer is None:
        return None
    points = np.asarray(answer, np.float64)
    if points.shape != (len(args[-1]),) or not np.isfinite(points).all():
        raise WrongAnswer(f"must return None or one finite number for each of {len(args[-1])} rows, not {answer!r}")
    return points


def _static(answer: Any, args: Sequence[Any]) -> Any:
    scores = tuple(answer)
    if not all(isinstance(score, StaticScore) for score in scores):
        raise WrongAnswer(f"must return a sequence of StaticScore, not {answer!r}")
    return tuple(score._replace(raw=_scores(score.raw, args)) for score in scores)


def _vote(answer: Any, _: Sequence[Any]) -> int:
    if not isinstance(answer, int | np.integer):
        raise WrongAnswer(f"must return PERMIT, ABSTAIN or REJECT, not {answer!r}")
    return int(answer)


def _count(answer: Any, args: Sequence[Any]) -> int:
    if not isinstance(answer, int | np.integer):
        raise WrongAnswer(f"must return how many tasks are allowed, not {answer!r}")
    most: int = args[2]
    return max(0, min(int(answer), most))


def _at_least_one(answer: Any, _: Sequence[Any]) -> int:
    return max(1, int(answer))


def _victims(answer: Any, args: Sequence[Any]) -> Any:
    chosen, vote = answer
    return _tasks(chosen, args), _vote(vote, args)


def _tasks(answer: Any, _: Sequence[Any]) -> list[Task]:
    tasks = list(answer)
    if not all(isinstance(task, Task) for task in tasks):
        raise WrongAnswer(f"must return tasks, not {answer!r}")
    return tasks


def _maybe(wanted: type) -> Callable[[Any, Sequence[Any]], Any]:
    def check(answer: Any, _: Sequence[Any]) -> Any:
        if answer is not None and not isinstance(answer, wanted):
            raise WrongAnswer(f"must return None or {wanted.__name__}, not {answer!r}")
        return answer

    return check


def _truth(answer: Any, _: Sequence[Any]) -> bool:
    return bool(answer)


_CHECKS: Final[dict[str, Callable[[Any, Sequence[Any]], Any]]] = {
    "filter": _verdicts,
    "filter_task": _verdicts,
    "filter_neighbours": _verdicts,
    "filter_facet": _verdicts,
    "score_facet": _static,
    "score_task": _scores,
    "static_scores": _static,
    "score": _scores,
    "batch_score": _scores,
    "pre_filter": _maybe(Reason),
    "job_valid": _maybe(Validity),
    "job_pipelined": _vote,
    "job_enqueueable": _vote,
    "allocatable": _count,
    "missing_until_ready": _at_least_one,
    "preemptable": _victims,
    "reclaimable": _victims,
    "victim_tasks": _tasks,
    "overused": _truth,
    "preemptive": _truth,
    "job_ready": _truth,
    "sub_job_ready": lambda sub, *_: sub.is_ready,
    "hyper_node_order": lambda _, domains, *__: np.zeros(len(domains)),
    "job_starving": _truth,
    "watches_pods": _truth,
}
