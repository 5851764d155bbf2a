"""Who answers an extension point in a cycle, by tier or all together, worked out when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from strato.scheduler.framework.guard import Guard
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.plugin import Plugin

Fn = Callable[..., Any]

Answering = tuple[Plugin, Fn]
"""A plugin, and its answer to an extension point. A plain tuple: there are dozens in every cycle."""


class Opened(NamedTuple):
    """A plugin that takes part, and the extension points that it does not answer in this cycle."""

    plugin: Plugin
    off: Collection[str]


class Tiers(dict[str, list[list[Answering]]]):
    """By extension point and tier who answers there, worked out when it is asked for: most points never are.

    Args:
        guard: Calls the plugins.
        config: Says who may answer.
        opened: The plugins that take part, as they stand in the configuration: by tier and place there.
    """

    def __init__(self, guard: Guard, config: Config, opened: Mapping[tuple[int, int], Opened]) -> None:
        super().__init__()
        self._guard = guard
        self._config = config
        self._opened = opened

    def plugins(self, point: str) -> list[Plugin]:
        """Return who answers an extension point."""
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
    """By extension point the answers there, whatever the tier."""

    def __init__(self, tiers: Mapping[str, list[list[Answering]]]) -> None:
        super().__init__()
        self._tiers = tiers

    def __missing__(self, point: str) -> list[Fn]:
        found = self[point] = [fn for tier in self._tiers[point] for _, fn in tier]
        return found
