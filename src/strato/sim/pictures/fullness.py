"""Pictures of utilisation and fragmentation over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from strato.sim.pictures.canvas import Picture, nothing, percents_along, shown, time_unit
from strato.sim.pictures.groups import RunGroup
from strato.sim.report import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def fullness_pictures(groups: Sequence[RunGroup]) -> list[Picture]:
    """Return the pictures of utilisation and fragmentation."""
    used = sorted({name for group in groups for name in group.first.report.series.ratio})
    height = 0.6 + 1.7 * max(1, len(used))
    return [
        Picture(
            "utilisation",
            "Utilisation over time",
            "What running pods request, of the cluster's capacity; means of equal steps. First seed.",
            lambda figure: _panels(figure, groups, used, lambda series: series.ratio),
            height,
        ),
        Picture(
            "fragmentation",
            "Fragmentation over time",
            "What is free on nodes where no typical pod of the trace fits, of the cluster's capacity: the classes of "
            "pods with the most pods, each by its part (as in Weng et al., ATC 2023). First seed.",
            lambda figure: _panels(figure, groups, used, lambda series: series.fragmented),
            height,
        ),
    ]


def _panels(
    figure: Figure, groups: Sequence[RunGroup], names: Sequence[str], values: Callable[[Series], dict[str, list[float]]]
) -> None:
    if not names:
        nothing(figure, "nothing has run")
        return
    last = max(group.first.report.makespan_seconds for group in groups)
    size, unit = time_unit(last)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)
    for number, name in enumerate(names):
        axes = panels[number][0]
        for group in groups:
            series = group.first.report.series
            points = values(series).get(name, [])
            instants = [(at + 0.5) * series.step_seconds / size for at in range(len(points))]
            axes.plot(instants, points, color=group.colour, label=group.label)
        axes.set_title(shown(name), loc="left")
        percents_along(axes)
    panels[-1][0].set_xlabel(unit)
    if len(groups) > 1:
        panels[0][0].legend(ncols=min(4, len(groups)))
