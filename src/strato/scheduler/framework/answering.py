"""Which plugins answer an extension point in a cycle, by tier or flat; looked up when the point is first used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from strato.scheduler.framework.guard import Guard
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.plugin import Plugin

Fn = Callable[..., Any]

Answering = tuple[Plugin, Fn]
"""A plugin and its guarded function for an extension point. A plain tuple is cheap: each cycle makes dozens."""


class OpenedPlugin(NamedTuple):
    """A plugin that was opened, and the extension points that it does not answer in this cycle."""

    plugin: Plugin
    off: Collection[str]


class Tiers(dict[str, list[list[Answering]]]):
    """By extension point, the plugins that answer it, tier by tier; filled on first use, as most cycles use few points.

    Args:
        guard: Calls the plugins.
        config: Says which plugins may answer a point.
        opened: The plugins that were opened, by tier and place in the configuration.
    """

    def __init__(self, guard: Guard, config: Config, opened: Mapping[tuple[int, int], OpenedPlugin]) -> None:
        super().__init__()
        self._guard = guard
        self._config = config
        self._opened = opened

    def plugins(self, point: str) -> list[Plugin]:
        """Return the plugins that answer an extension point."""
        opened = [self._opened.get(place) for place in self._config.answering(point)]
        return [one.plugin for one in opened if one is not None and point not in one.off]

    def __missing__(self, point: str) -> list[list[Answering]]:
        found = self[point] = []
        last = -1
        for place in self._config.answering(point):
            opened = self._opened.get(place)
            if opened is None or point in opened.off:
                continue
            if place[0] != last:
                last = place[0]
                found.append([])
            found[-1].append((opened.plugin, self._guard.wrap(opened.plugin, point)))
        return found


class Flat(dict[str, list[Fn]]):
    """By extension point, the functions of the plugins that answer it, without regard to tiers."""

    def __init__(self, tiers: Mapping[str, list[list[Answering]]]) -> None:
        super().__init__()
        self._tiers = tiers

    def __missing__(self, point: str) -> list[Fn]:
        found = self[point] = [fn for tier in self._tiers[point] for _, fn in tier]
        return found
