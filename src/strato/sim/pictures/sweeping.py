"""Pictures of a sweep: curves of metrics over one parameter, heat maps over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strato.sim.pictures.canvas import INK, Picture, colour, durations_along, percents_along, shown
from strato.sim.report import short_duration
from strato.sim.results.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SWEPT: Final = ("mean wait, s", "mean bounded slowdown", "makespan, s", "cpu use")
_MOST_POLICIES: Final = 4
"""Most policies that have a row of heat maps."""


@dataclass(frozen=True, slots=True)
class GridPoint:
    """The metrics of one policy at one point of the grid."""

    policy: str
    values: Mapping[str, str]
    metrics: Mapping[str, Estimate]


def sweep_pictures(points: Sequence[GridPoint]) -> list[Picture]:
    """Return the pictures of a sweep over one or two parameters; empty for more."""
    names = list(points[0].values) if points else []
    policies = list(dict.fromkeys(point.policy for point in points))
    if len(names) == 1:
        text = "Means over seeds; bands are Student's intervals of 95 %, where there are several seeds."
        return [Picture("sweep", f"Over {names[0]}", text, lambda figure: _curves(figure, points, names[0]), 5.4)]
    if len(names) == 2:
        shown_policies = policies[:_MOST_POLICIES]
        return [
            Picture(
                f"sweep-{number}",
                f"Over {names[0]} and {names[1]}: {metric.removesuffix(', s')}",
                "Means over seeds, a map for each policy.",
                lambda figure, metric=metric: _maps(figure, points, names, metric, shown_policies),  # type: ignore[misc]  # mypy infers no defaults
                3.6,
            )
            for number, metric in enumerate(SWEPT)
        ]
    return []


def _curves(figure: Figure, points: Sequence[GridPoint], name: str) -> None:
    panels = figure.subplots(2, 2).ravel()
    values = list(dict.fromkeys(point.values[name] for point in points))
    numbers = _numbers(values)
    for metric, axes in zip(SWEPT, panels, strict=True):
        for number, policy in enumerate(dict.fromkeys(point.policy for point in points)):
            mine = [point for point in points if point.policy == policy]
            x = [numbers[point.values[name]] for point in mine]
            found = [point.metrics[metric] for point in mine]
            axes.plot(
                x, [one.mean for one in found], marker="o", markersize=3, color=colour(number), label=shown(policy)
            )
            if all(one.low is not None for one in found):
                low, high = [one.low or 0.0 for one in found], [one.high or 0.0 for one in found]
                axes.fill_between(x, low, high, color=colour(number), alpha=0.2, linewidth=0)
        axes.set_title(metric.removesuffix(", s"), loc="left")
        axes.set_xticks(list(numbers.values()), [shown(value) for value in numbers])
        _scale(axes, metric)
        axes.set_xlabel(name)
    if len({point.policy for point in points}) > 1:
        panels[0].legend()


def _scale(axes: Axes, metric: str) -> None:
    if metric.endswith(", s"):
        axes.set_ylim(bottom=0)
        durations_along(axes, "y")
    elif metric.startswith("cpu"):
        percents_along(axes)


def _numbers(values: Sequence[str]) -> dict[str, float]:
    """Return the position of each value on an axis: the number itself if all values are numbers, else its index."""
    try:
        return {value: float(value) for value in values}
    except ValueError:
        return {value: float(at) for at, value in enumerate(values)}


def _maps(
    figure: Figure, points: Sequence[GridPoint], names: Sequence[str], metric: str, policies: Sequence[str]
) -> None:
    rows, columns = (list(dict.fromkeys(point.values[name] for point in points)) for name in names)
    panels = figure.subplots(1, len(policies), squeeze=False)[0]
    means = {
        (point.policy, point.values[names[0]], point.values[names[1]]): point.metrics[metric].mean for point in points
    }
    low, high = min(means.values()), max(means.values())
    for policy, axes in zip(policies, panels, strict=True):
        grid = [[means.get((policy, row, column), float("nan")) for column in columns] for row in rows]
        axes.imshow(grid, aspect="auto", origin="lower", cmap="viridis", vmin=low, vmax=high)
        for y, line in enumerate(grid):
            for x, value in enumerate(line):
                dark = high > low and (value - low) / (high - low) < 0.6
                axes.text(x, y, _written(metric, value), ha="center", va="center", fontsize=8,
                          color="#ffffff" if dark else "#000000")  # fmt: skip
        axes.set_xticks(range(len(columns)), [shown(value) for value in columns])
        axes.set_yticks(range(len(rows)), [shown(value) for value in rows])
        axes.set_title(shown(policy), loc="left", color=INK)
        axes.set_xlabel(names[1])
        axes.grid(visible=False)
    panels[0].set_ylabel(names[0])


def _written(metric: str, value: float) -> str:
    if value != value:
        return "–"
    if metric.endswith(", s"):
        return short_duration(value)
    return f"{value:.0%}" if metric.startswith("cpu") else f"{value:.2f}"
