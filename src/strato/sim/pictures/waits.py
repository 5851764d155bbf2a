"""Pictures of waits: by size of job, by tenant, and the distribution of slowdowns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from strato.sim.pictures.canvas import Picture, durations_along, nothing, shown
from strato.sim.pictures.groups import RunGroup
from strato.sim.report import GroupReport, SimulationReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TENANTS: Final = 15


def wait_pictures(groups: Sequence[RunGroup]) -> list[Picture]:
    """Return the pictures of waits."""
    unit = groups[0].first.report.size_unit
    return [
        Picture(
            "wait-by-size",
            f"Wait by size ({unit} of a job)",
            "Bars: mean wait from submission to start; marks: 95 % of the jobs waited at most so long. "
            "Means over seeds.",
            lambda figure: _bars(figure, groups, lambda report: report.sizes, unit),
        ),
        Picture(
            "wait-by-tenant",
            "Wait by tenant",
            f"Likewise, for the {_MOST_TENANTS} users (or queues, where the trace names no users) with the most jobs.",
            lambda figure: _bars(figure, groups, lambda report: report.tenants, "", most=_MOST_TENANTS),
        ),
        Picture(
            "slowdown",
            "Bounded slowdown",
            "Part of the finished jobs whose time in the system was at most so many times their run time; run times "
            "below 10 s count as 10 s. First seed.",
            lambda figure: _curves(figure, groups),
        ),
    ]


def _bars(
    figure: Figure,
    groups: Sequence[RunGroup],
    parts: Callable[[SimulationReport], dict[str, GroupReport]],
    unit: str,
    most: int = 0,
) -> None:
    jobs: dict[str, int] = {}
    for group in groups:
        for name, part in parts(group.first.report).items():
            jobs[name] = max(jobs.get(name, 0), part.jobs)
    names = list(jobs)
    if most:
        names = sorted(sorted(jobs, key=lambda name: (-jobs[name], name))[:most])
    if not names:
        nothing(figure, "no jobs")
        return
    axes = figure.add_subplot()
    width = 0.8 / len(groups)
    for number, group in enumerate(groups):
        places = [at - 0.4 + (number + 0.5) * width for at in range(len(names))]
        means, ends = (_values(group, parts, names, which) for which in ("mean", "p95"))
        axes.bar(places, means, width * 0.9, color=group.colour, label=group.label)
        axes.scatter(places, ends, marker="_", s=60, color=group.colour)
    axes.set_xticks(range(len(names)), [f"{shown(name)}\n{jobs[name]:,} jobs" for name in names])
    if len(names) > 6:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel(unit)
    axes.grid(visible=False, axis="x")
    _finish(axes, groups)
    axes.set_ylim(bottom=0)
    durations_along(axes, "y")


def _values(
    group: RunGroup, parts: Callable[[SimulationReport], dict[str, GroupReport]], names: Sequence[str], which: str
) -> list[float]:
    found = []
    for name in names:
        some = [parts(run.report)[name].wait_seconds for run in group.runs if name in parts(run.report)]
        found.append(group.mean([float(getattr(one, which)) for one in some]))
    return found


def _curves(figure: Figure, groups: Sequence[RunGroup]) -> None:
    drawn = [group for group in groups if len(group.first.slowdown_curve[0])]
    if not drawn:
        nothing(figure, "no job has finished")
        return
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes = figure.add_subplot()
    for group in drawn:
        x, y = group.first.slowdown_curve
        axes.step([1.0, *x], [0.0, *y], where="post", color=group.colour, label=group.label)
    axes.set_xscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(plain)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("bounded slowdown")
    axes.set_ylabel("part of the jobs")
    axes.set_ylim(0, 1.02)
    _finish(axes, groups)


def _finish(axes: Axes, groups: Sequence[RunGroup]) -> None:
    if len(groups) > 1:
        axes.legend(ncols=min(4, len(groups)), loc="best")
