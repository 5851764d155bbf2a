"""Pictures of fairness: held and deserved shares of queues over time, and their distance from DRF shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from strato.sim.pictures.canvas import FAINT, Picture, nothing, percents_along, shown, time_unit
from strato.sim.pictures.digest import RunDigest
from strato.sim.pictures.groups import RunGroup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_QUEUES: Final = 8


def share_picture(group: RunGroup, number: int) -> Picture:
    """Return the picture of the queues' shares over time, in the first run of a group."""
    run = group.first
    count = min(_MOST_QUEUES, len(run.shares.names))
    return Picture(
        f"queue-shares-{number}",
        f"Queue shares over time: {group.label}",
        "Dominant share of the cluster. Filled: what a queue held; line: what it deserves by weight, as the plugin "
        "proportion shares the cluster out; dotted: its share under dominant resource fairness. First seed"
        + (f"; the {count} queues that held most." if len(run.shares.names) > count else "."),
        lambda figure: _shares(figure, run, group.colour),
        0.7 + 1.25 * max(1, count),
    )


def distance_picture(groups: Sequence[RunGroup]) -> Picture:
    """Return the picture of the queues' distances from their DRF shares."""
    return Picture(
        "fairness",
        "Distance of queues from their DRF share",
        "How much more or less than its share under dominant resource fairness a queue held, on average over time, "
        "in parts of the cluster; 0 is fair. Mean over seeds.",
        lambda figure: _distances(figure, groups),
        2.8,
    )


def _shares(figure: Figure, run: RunDigest, tint: str) -> None:
    shares = run.shares
    if not shares.names or not run.report.makespan_seconds:
        nothing(figure, "nothing has run")
        return
    order = np.argsort(-shares.held.sum(axis=0), kind="stable")[:_MOST_QUEUES]
    chosen = sorted(order.tolist())
    size, unit = time_unit(run.report.makespan_seconds)
    panels = figure.subplots(len(chosen), 1, sharex=True, sharey=True, squeeze=False)
    x = shares.instants / size
    drawn = (part[:, chosen] for part in (shares.held, shares.deserved, shares.drf))
    top = 1.05 * max(1e-6, *(float(part.max()) for part in drawn))
    for row, queue in enumerate(chosen):
        axes = panels[row][0]
        axes.fill_between(x, shares.held[:, queue], step="mid", color=tint, alpha=0.45, linewidth=0, label="held")
        axes.step(x, shares.deserved[:, queue], where="mid", color=tint, label="deserved")
        axes.step(x, shares.drf[:, queue], where="mid", color=FAINT, linestyle=":", linewidth=1, label="fair (DRF)")
        axes.set_title(shown(shares.names[queue]), loc="left")
        percents_along(axes)
        axes.set_ylim(0, top)
    panels[0][0].legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    panels[-1][0].set_xlabel(unit)


def _distances(figure: Figure, groups: Sequence[RunGroup]) -> None:
    names = sorted({name for group in groups for name in group.first.report.queues})
    if not names:
        nothing(figure, "no jobs")
        return
    total = {
        name: max(
            (
                run.report.queues[name].drf_distance
                for group in groups
                for run in group.runs
                if name in run.report.queues
            ),
            default=0.0,
        )
        for name in names
    }
    names = sorted(sorted(names, key=lambda name: (-total[name], name))[:15])
    axes = figure.add_subplot()
    width = 0.8 / len(groups)
    for number, group in enumerate(groups):
        places = [at - 0.4 + (number + 0.5) * width for at in range(len(names))]
        values = [
            group.mean([run.report.queues[name].drf_distance for run in group.runs if name in run.report.queues])
            for name in names
        ]
        axes.bar(places, values, width * 0.9, color=group.colour, label=group.label)
    axes.set_xticks(range(len(names)), [shown(name) for name in names])
    if len(names) > 6:
        axes.tick_params(axis="x", labelrotation=30)
    axes.grid(visible=False, axis="x")
    percents_along(axes)
    if len(groups) > 1:
        axes.legend(ncols=min(4, len(groups)))
