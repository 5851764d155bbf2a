"""Pictures that compare policies: intervals over seeds, differences of waits job by job, evictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from strato.sim.pictures.canvas import FAINT, Picture, durations_along, nothing
from strato.sim.pictures.digest import RunDigest, cumulative
from strato.sim.pictures.groups import RunGroup
from strato.sim.results.statistics import Estimate, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def comparing_pictures(groups: Sequence[RunGroup]) -> list[Picture]:
    """Return the pictures that compare policies or variants; empty if there is only one."""
    found = []
    if len(groups) > 1:
        found.append(
            Picture(
                "side-by-side",
                "Side by side",
                "Means over seeds with Student's intervals of 95 %; without a line there is one seed only.",
                lambda figure: _intervals(figure, groups),
                0.9 + 0.32 * len(groups),
            )
        )
    pairs = _pairs(groups)
    if pairs:
        found.append(
            Picture(
                "job-by-job",
                "Job by job: how waits differ",
                "For each policy (or variant, of a single policy) the cumulative distribution of its waits minus those "
                "of the same jobs under the first, first seed: left of zero are the jobs that waited less. The scale "
                "is logarithmic away from zero.",
                lambda figure: _differences(figure, pairs),
            )
        )
    return found


def eviction_picture(groups: Sequence[RunGroup]) -> Picture | None:
    """Return the picture of evictions; None if no pod was evicted."""
    if not any(run.report.evictions.pods for group in groups for run in group.runs):
        return None
    return Picture(
        "evictions",
        "Evictions, and whether they helped",
        "Jobs that pods were evicted for: those that started afterwards, and those that did not; on the right the work "
        "that the evicted pods had done. Means over seeds.",
        lambda figure: _evictions(figure, groups),
        0.9 + 0.36 * len(groups),
    )


def _intervals(figure: Figure, groups: Sequence[RunGroup]) -> None:
    panels = figure.subplots(1, 4, sharey=True)
    titles = ("mean wait", "mean bounded slowdown", "makespan", "cpu use")
    for axes, title in zip(panels, titles, strict=True):
        for row, group in enumerate(groups):
            _interval(axes, row, over_seeds([_metric(run, title) for run in group.runs]), group.colour)
        axes.set_title(title, loc="left")
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=4)
        if title in ("mean wait", "makespan"):
            durations_along(axes, "x")
            axes.tick_params(axis="x", labelrotation=20)
    panels[0].set_yticks(range(len(groups)), [group.label for group in groups])


def _metric(run: RunDigest, title: str) -> float:
    report = run.report
    return {
        "mean wait": report.wait_seconds.mean,
        "mean bounded slowdown": report.bounded_slowdown.mean,
        "makespan": report.makespan_seconds,
        "cpu use": report.utilisation.get("cpu", 0.0),
    }[title]


def _interval(axes: Axes, row: int, found: Estimate, tint: str) -> None:
    axes.plot([found.mean], [row], marker="o", markersize=5, color=tint)
    if found.low is not None and found.high is not None:
        axes.plot([found.low, found.high], [row, row], color=tint)


def _pairs(groups: Sequence[RunGroup]) -> list[tuple[RunGroup, np.ndarray[tuple[int], np.dtype[np.float64]]]]:
    """Return each group with its differences of waits from the first policy of the same variant and seed.

    If there is only one policy, its variants with the same jobs are compared with the first variant.
    """
    is_one = len({group.first.policy for group in groups}) == 1
    first: dict[tuple[str, int], RunDigest] = {}
    found = []
    for group in groups:
        run = group.first
        base = first.setdefault(("" if is_one else run.variant, run.seed), run)
        if base is not run and _submissions(base) == _submissions(run):
            difference = run.waits - base.waits
            if not np.isnan(difference).all():
                found.append((group, difference))
    return found


def _submissions(run: RunDigest) -> list[float]:
    return [job.submit_seconds for job in run.report.job_list]


def _differences(
    figure: Figure, pairs: Sequence[tuple[RunGroup, np.ndarray[tuple[int], np.dtype[np.float64]]]]
) -> None:
    axes = figure.add_subplot()
    for group, difference in pairs:
        x, y = cumulative(difference, 400)
        axes.step(x, y, where="post", color=group.colour, label=group.label)
    axes.axvline(0, color=FAINT, linewidth=0.8)
    axes.set_xscale("symlog", linthresh=60)
    durations_along(axes, "x")
    axes.tick_params(axis="x", labelrotation=20)
    axes.set_ylabel("part of the jobs")
    axes.set_ylim(0, 1.02)
    axes.legend(ncols=min(4, len(pairs)))


def _evictions(figure: Figure, groups: Sequence[RunGroup]) -> None:
    if not groups:
        nothing(figure, "no evictions")
        return
    left, right = figure.subplots(1, 2, sharey=True)
    rows = list(range(len(groups)))
    reports = [[run.report.evictions for run in group.runs] for group in groups]
    helped = [sum(one.helped for one in some) / len(some) for some in reports]
    not_helped = [sum(one.never_helped for one in some) / len(some) for some in reports]
    tints = [group.colour for group in groups]
    left.barh(rows, helped, color=tints)
    left.barh(rows, not_helped, left=helped, color=FAINT)
    left.set_title("beneficiaries: started, and (grey) not", loc="left")
    right.barh(rows, [sum(one.cpu_seconds_lost for one in some) / len(some) / 3600 for some in reports], color=tints)
    right.set_title("work lost, cpu hours", loc="left")
    left.set_yticks(rows, [group.label for group in groups])
    left.set_ylim(len(groups) - 0.5, -0.5)
