"""Gantt charts of a run: pods by node, and jobs in lanes of their queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strato.sim.pictures.canvas import INK, Picture, colour, nothing, shown, time_unit
from strato.sim.pictures.digest import RunDigest
from strato.sim.pictures.groups import RunGroup
from strato.sim.results.gantt import NodeBars
from strato.sim.results.record import Ending

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEGEND_QUEUES: Final = 8
_CUT: Final = {Ending.EVICTED: "#c2453f", Ending.LOST: "#000000"}


def row_pictures(group: RunGroup, number: int) -> list[Picture]:
    """Return the pictures of the first run of a group."""
    run = group.first
    return [_by_node(run, group.label, number), _by_queue(run, group.label, number)]


def _by_node(run: RunDigest, label: str, number: int) -> Picture:
    nodes = run.nodes
    if isinstance(nodes, NodeBars):
        text = "A bar for each time that a pod ran, coloured by queue; evicted ones end in red, lost ones in black."
        height = 0.8 + 0.25 * max(4, len(nodes.names))
    else:
        text = (
            f"How full the {nodes.nodes:,} nodes were, in {nodes.groups} groups of neighbours: the fullest of their "
            "resources."
        )
        height = 4.2
    return Picture(
        f"nodes-{number}",
        f"Gantt by node: {label}",
        f"{text} First seed.",
        lambda figure: _draw_nodes(figure, run),
        height,
    )


def _draw_nodes(figure: Figure, run: RunDigest) -> None:
    nodes = run.nodes
    size, unit = time_unit(run.report.makespan_seconds)
    if not run.report.makespan_seconds:
        nothing(figure, "nothing has run")
        return
    axes = figure.add_subplot()
    if not isinstance(nodes, NodeBars):
        image = axes.imshow(
            nodes.ratio,
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            extent=(0.0, nodes.end_seconds / size, 0.0, float(nodes.nodes)),
            vmin=0.0,
            vmax=1.0,
            cmap="viridis",
        )
        figure.colorbar(image, ax=axes, label="full")
        axes.set_ylabel("node")
        axes.grid(visible=False)
    else:
        _bars(axes, nodes, size)
    axes.set_xlabel(unit)


def _bars(axes: Axes, nodes: NodeBars, size: float) -> None:
    for queue in range(len(nodes.queues)):
        mine = nodes.queue == queue
        if mine.any():
            axes.barh(
                nodes.lane[mine],
                (nodes.end - nodes.begin)[mine] / size,
                nodes.height[mine] * 0.92,
                nodes.begin[mine] / size,
                align="edge",
                color=colour(queue),
                label=shown(nodes.queues[queue]) if queue < _LEGEND_QUEUES else None,
            )
    for ending, tint in _CUT.items():
        cut = nodes.ending == ending
        axes.vlines(nodes.end[cut] / size, nodes.lane[cut], (nodes.lane + nodes.height)[cut], colors=tint)
    axes.set_yticks([row + 0.5 for row in range(len(nodes.names))], [shown(name) for name in nodes.names])
    axes.set_ylim(len(nodes.names), 0)
    axes.grid(visible=False, axis="y")
    axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.0))


def _by_queue(run: RunDigest, label: str, number: int) -> Picture:
    left_out = f" The {run.jobs.left_out:,} smallest by area are not drawn." if run.jobs.left_out else ""
    return Picture(
        f"jobs-{number}",
        f"Gantt by queue: {label}",
        "A bar for each job from start to end, in lanes of its queue; the darker, the more of the cluster it requests."
        f"{left_out} First seed.",
        lambda figure: _draw_jobs(figure, run),
        min(8.0, 1.2 + 0.05 * sum(run.jobs.lanes) + 0.2 * len(run.jobs.queues)),
    )


def _draw_jobs(figure: Figure, run: RunDigest) -> None:
    jobs = run.jobs
    if not len(jobs.begin):
        nothing(figure, "no job has started")
        return
    size, unit = time_unit(float(jobs.end.max()))
    axes = figure.add_subplot()
    dark = jobs.weight / max(float(jobs.weight.max()), 1e-12)
    for queue in range(len(jobs.queues)):
        for level in range(3):
            mine = (jobs.queue == queue) & ((dark * 2.999).astype(int) == level)
            if mine.any():
                axes.barh(
                    jobs.lane[mine],
                    (jobs.end - jobs.begin)[mine] / size,
                    0.9,
                    jobs.begin[mine] / size,
                    align="edge",
                    color=colour(queue),
                    alpha=(0.45, 0.7, 1.0)[level],
                )
    at, ticks, labels = 0, [], []
    for name, lanes in zip(jobs.queues, jobs.lanes, strict=True):
        if lanes:
            ticks.append(at + lanes / 2)
            labels.append(shown(name))
            axes.axhline(at, color=INK, linewidth=0.4)
        at += lanes
    axes.set_yticks(ticks, labels)
    axes.set_ylim(at, 0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
