"""What runs in a cycle, as types; `strato.scheduler.config` reads them from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strato.scheduler.cache.totals import TotalsRule
from strato.scheduler.framework.plugin import Plugin, points_of

_FOR_WAITING: Final = frozenset(
    ("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "flow")
)
"""Actions that do nothing when no job waits."""
_OURS: Final = "strato."


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier.

    Attributes:
        name: Its name.
        plugin: Its class.
        args: Its decoded arguments.
        toggles: Which of its extension points are on; every key of `framework.TOGGLES`.
        file: The Python file it comes from, None for a built-in or installed one.
        points: The extension points that its class answers and its toggles leave on.
    """

    name: str
    plugin: type[Plugin]
    args: Any
    toggles: Mapping[str, bool]
    file: Path | None = None
    points: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", points_of(self.plugin, self.toggles))


@dataclass(frozen=True, slots=True)
class Config:
    """What runs in a cycle.

    Attributes:
        actions: Names in order of execution.
        tiers: Plugins in order, tier by tier.
        action_args: Decoded arguments by action.
        metrics: Where node usage is read from; passed on as written.
        text: What it was read from, for comparison and display.
        base: The directory that relative paths in it start from.
        totals: Which nodes count in what queues share.
        topology_aware: Whether preemption chooses nodes as kube-scheduler does.
    """

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_args: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    base: Path = Path()
    topology_aware: bool = False
    totals: TotalsRule = field(default_factory=TotalsRule)
    _answering: dict[str, tuple[tuple[int, int], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def answering(self, point: str) -> tuple[tuple[int, int], ...]:
        """Return the plugins that may answer an extension point, as pairs of tier and place in the tier."""
        found = self._answering.get(point)
        if found is None:
            found = self._answering[point] = tuple(
                (tier, place)
                for tier, options in enumerate(self.tiers)
                for place, option in enumerate(options)
                if point in option.points
            )
        return found

    @property
    def files(self) -> tuple[Path, ...]:
        """The files plugins come from."""
        return tuple(option.file for tier in self.tiers for option in tier if option.file is not None)

    @property
    def time_based(self) -> bool:
        """Whether a cycle can decide differently although nothing but time changed."""
        return any(option.plugin.time_based for tier in self.tiers for option in tier)

    @property
    def serves_waiting(self) -> bool:
        """Whether its actions and plugins do nothing when no job waits; False with plugins from outside Strato."""
        known = all(option.plugin.__module__.startswith(_OURS) for tier in self.tiers for option in tier)
        return known and not self.time_based and _FOR_WAITING.issuperset(self.actions)

    @property
    def is_pooled(self) -> bool:
        """Whether queues are restricted to groups of nodes, so that shares are computed per group."""
        return self.totals.strict and any(option.name == "nodegroup" for tier in self.tiers for option in tier)
