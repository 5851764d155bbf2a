"""The data of Gantt charts: a bar for each time that a pod ran; an image of node utilisation if there are too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.sim.results.columns import Floats, RunColumns
from strato.sim.results.overtime import samples_by_row

MOST_NODES: Final = 40
"""Most nodes that are drawn as rows of bars."""
MOST_BARS: Final = 1200
IMAGE_ROWS: Final = 120
IMAGE_STEPS: Final = 240
JOBS_DRAWN: Final = 800
"""Most jobs that are drawn, the largest by area first; the picture says how many are left out."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeBars:
    """A bar per interval, in lanes of its node."""

    names: tuple[str, ...]
    lane: Floats
    """Per bar, where it begins on the vertical axis: the node's row plus the offset in it, in [row, row + 1)."""
    height: Floats
    begin: Floats
    end: Floats
    queue: Numbers
    ending: Numbers
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Utilisation of groups of neighbouring nodes over time."""

    groups: int
    nodes: int
    end_seconds: float
    ratio: Floats
    """[group, step]: the mean used share of the resource that is used most, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class JobBars:
    """A bar per job, from start to end, in lanes of its queue."""

    queues: tuple[str, ...]
    lanes: tuple[int, ...]
    """Number of lanes of each queue."""
    lane: Numbers
    """Per bar, the number of its lane, counted over all queues."""
    begin: Floats
    end: Floats
    queue: Numbers
    weight: Floats
    """Dominant share of the cluster that the job requests, in (0, 1]."""
    names: tuple[str, ...]
    left_out: int


def node_rows(run: RunColumns) -> NodeBars | NodeUse:
    """Return bars if nodes and intervals are few enough to be seen, else an image."""
    record = run.record
    if len(record.nodes.names) <= MOST_NODES and len(record.interval_job) <= MOST_BARS:
        return _bars(run)
    return _image(run)


def _bars(run: RunColumns) -> NodeBars:
    record = run.record
    count = len(record.interval_job)
    lane, lanes = np.zeros(count, np.int64), np.ones(len(record.nodes.names), np.int64)
    for node in range(len(record.nodes.names)):
        mine = np.flatnonzero(record.interval_node == node)
        lane[mine] = packed(record.interval_begin[mine], record.interval_end[mine])
        if len(mine):
            lanes[node] = lane[mine].max() + 1
    height = 1.0 / lanes[record.interval_node] if count else np.zeros(0)
    return NodeBars(
        record.nodes.names,
        record.interval_node + lane * height,
        np.asarray(height),
        record.interval_begin,
        record.interval_end,
        run.queues.of_job[record.interval_job].astype(np.int64),
        record.interval_ending.astype(np.int64),
        run.queues.names,
    )


def packed(begin: Floats, end: Floats) -> Numbers:
    """Return for each interval the lowest lane in which no earlier interval overlaps it."""
    lanes: list[float] = []
    found = np.zeros(len(begin), np.int64)
    for row in np.lexsort((end, begin)).tolist():
        at = float(begin[row])
        lane = next((number for number, free_at in enumerate(lanes) if free_at <= at), len(lanes))
        if lane == len(lanes):
            lanes.append(0.0)
        lanes[lane] = float(end[row])
        found[row] = lane
    return found


def _image(run: RunColumns) -> NodeUse:
    record = run.record
    nodes = len(record.nodes.names)
    groups = min(IMAGE_ROWS, max(1, nodes))
    group_of = (np.arange(nodes, dtype=np.int64) * groups) // max(1, nodes)
    steps = 4 * IMAGE_STEPS
    end = run.makespan_seconds
    instants: Floats = (np.arange(steps, dtype=np.float64) + 0.5) * (end / steps)
    ratio = np.zeros((groups, IMAGE_STEPS))
    for name in run.resources:
        used = samples_by_row(
            group_of[record.interval_node],
            groups,
            record.interval_begin,
            record.interval_end,
            run.interval_amounts(name),
            instants,
        )
        capacity = np.bincount(group_of, record.nodes.capacity[name], groups)
        mean = used.reshape(IMAGE_STEPS, 4, groups).mean(axis=1)
        ratio = np.maximum(ratio, (mean / np.maximum(capacity, 1)).T)
    return NodeUse(groups, nodes, end, ratio)


def job_bars(run: RunColumns) -> JobBars:
    """Return the largest jobs of a run in lanes of their queues."""
    record = run.record
    begin = record.start_seconds
    end = np.where(np.isnan(record.finish_seconds), record.end_seconds, record.finish_seconds)
    started = np.flatnonzero(~np.isnan(begin))
    area = (end - begin)[started] * run.dominant_ratio[started]
    chosen = started[np.sort(np.argsort(-area, kind="stable")[:JOBS_DRAWN])]
    lane = np.zeros(len(chosen), np.int64)
    lanes: list[int] = []
    for number in range(len(run.queues.names)):
        mine = np.flatnonzero(run.queues.of_job[chosen] == number)
        own = packed(begin[chosen[mine]], end[chosen[mine]])
        lane[mine] = own + sum(lanes)
        lanes.append(int(own.max()) + 1 if len(mine) else 0)
    return JobBars(
        run.queues.names,
        tuple(lanes),
        lane,
        begin[chosen],
        end[chosen],
        run.queues.of_job[chosen].astype(np.int64),
        run.dominant_ratio[chosen],
        tuple(record.jobs[row].name for row in chosen),
        len(started) - len(chosen),
    )
