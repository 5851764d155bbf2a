"""A plugin that raises is left out for the rest of the cycle, and scheduling goes on without it.

Every extension point is called through a `Guard`. After a plugin's first exception the guard answers in its place as if
it were not configured (`Point.left_out`) and records the failure in the plan, from which the scheduler makes an event
and a metric. It also checks what plugins from outside Strato return, so that a wrong shape is reported as the plugin's
failure instead of breaking the engine later.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final

from strato.scheduler.framework.contract import POINTS, Fn, checked
from strato.scheduler.framework.options import PluginOption
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.plan import Failure

_log = logging.getLogger(__name__)

_OURS: Final = "strato.scheduler.plugins."


def _answering(plugin: Plugin, point: str) -> Fn:
    """Return the function of a plugin's extension point; answers are checked unless the plugin is built in."""
    fn: Fn = getattr(plugin, point)
    return fn if type(plugin).__module__.startswith(_OURS) else checked(fn, POINTS[point])


def _neutral(plugin: Plugin, point: str) -> Fn:
    """Return the function that answers in place of a plugin that is left out."""
    return POINTS[point].left_out or functools.partial(getattr(Plugin, point), plugin)


class Guard:
    """Calls the plugins of one session.

    Args:
        failures: Receives each failure; one per plugin.
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
        """Call a method that is no extension point (open, close, resources); return ``otherwise`` if it fails."""
        if plugin in self._out:
            return otherwise
        try:
            return getattr(plugin, point)(*args)
        except Exception as error:
            self.leave_out(plugin, point, error)
            return otherwise

    def wrap(self, plugin: Plugin, point: str) -> Fn:
        """Return an extension point as a function that never raises."""
        fn, out = _answering(plugin, point), self._out

        def guarded(*args: Any) -> Any:
            if out and plugin in out:
                return _neutral(plugin, point)(*args)
            try:
                return fn(*args)
            except Exception as error:
                self.leave_out(plugin, point, error)
                return _neutral(plugin, point)(*args)

        return guarded

    def wrap_each(self, plugin: Plugin, point: str) -> Callable[[Sequence[Any]], list[Any]]:
        """Return an extension point of one argument as a function of many such arguments that never raises.

        If the plugin fails for one of them, the neutral answer counts for all.
        """
        fn, out = _answering(plugin, point), self._out

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
