"""Utilisation over time: means over equal steps, and samples by queue or node; exact, from sorted instants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from strato.sim.results.columns import Floats, Numbers, RunColumns


def edges_of(end_seconds: float, steps: int) -> Floats:
    """Return the ends of so many equal steps of [0, ``end_seconds``], beginning with 0."""
    return np.linspace(0.0, end_seconds, steps + 1)


def mean_of_steps(begin: Floats, end: Floats, amount: Floats, edges: Floats) -> Floats:
    """Return the mean of a sum of intervals in each step of time.

    Args:
        begin: Per interval, seconds.
        end: Per interval, seconds, at least ``begin``.
        amount: Per interval, the amount that it adds to the sum from ``begin`` to ``end``.
        edges: Ends of the steps, one more than steps; the mean of a step without length is 0.

    Complexity: O(n log n) for n intervals.
    """
    area = np.diff(_area_until(begin, amount, edges) - _area_until(end, amount, edges))
    length = np.diff(edges)
    return np.divide(area, length, out=np.zeros_like(area), where=length > 0)


def _area_until(instants: Floats, amount: Floats, edges: Floats) -> Floats:
    """Return the integral until each edge of a function that rises by ``amount`` at each of ``instants``."""
    order = np.argsort(instants, kind="stable")
    ordered, weights = instants[order], amount[order]
    level = np.concatenate([[0.0], np.cumsum(weights)])
    moment = np.concatenate([[0.0], np.cumsum(weights * ordered)])
    at = np.searchsorted(ordered, edges, side="right")
    return np.asarray(level[at] * edges - moment[at])


def samples(begin: Floats, end: Floats, amount: Floats, instants: Floats) -> Floats:
    """Return the sum of intervals at ascending instants; an interval counts from ``begin`` to before ``end``."""
    found: Floats = samples_by_row(np.zeros(len(begin), np.int64), 1, begin, end, amount, instants)[:, 0]
    return found


def samples_by_row(row: Numbers, rows: int, begin: Floats, end: Floats, amount: Floats, instants: Floats) -> Floats:
    """Return the sum of the intervals of each row at ascending instants.

    Args:
        row: Per interval, its row, in [0, ``rows``).
        rows: Number of rows.
        begin: Per interval.
        end: Per interval; it counts to before this.
        amount: Per interval, the amount that it adds.
        instants: The instants, ascending.

    Returns:
        float64[len(instants), rows].
    """
    width = len(instants) + 1
    first = np.searchsorted(instants, begin, side="left")
    last = np.searchsorted(instants, end, side="left")
    places = np.concatenate([first * rows + row, last * rows + row])
    changes = np.bincount(places, np.concatenate([amount, -amount]), width * rows)
    return np.asarray(np.cumsum(changes.reshape(width, rows), axis=0)[:-1])


def utilisation(run: RunColumns, steps: int) -> dict[str, Floats]:
    """Return the mean use of each resource in equal steps of the makespan, as a ratio of the capacity."""
    record = run.record
    edges = edges_of(run.makespan_seconds, steps)
    return {
        name: mean_of_steps(record.interval_begin, record.interval_end, run.interval_amounts(name), edges)
        / run.capacity[name]
        for name in run.resources
    }


def use_by_queue(run: RunColumns, instants: Floats) -> Mapping[str, Floats]:
    """Return the requests of the running pods of each queue: resource → float64[instants, queues]."""
    record = run.record
    queue = run.queues.of_job[record.interval_job].astype(np.int64)
    count = len(run.queues.names)
    return {
        name: samples_by_row(
            queue, count, record.interval_begin, record.interval_end, run.interval_amounts(name), instants
        )
        for name in run.resources
    }


def demand_by_queue(run: RunColumns, instants: Floats) -> Mapping[str, Floats]:
    """Return the requests of jobs that are submitted and have not ended: resource → float64[instants, queues]."""
    finish = np.where(np.isnan(run.record.finish_seconds), np.inf, run.record.finish_seconds)
    queue, count = run.queues.of_job.astype(np.int64), len(run.queues.names)
    return {
        name: samples_by_row(
            queue, count, run.submit_seconds, finish, (run.requests[name] * run.replicas).astype(np.float64), instants
        )
        for name in run.resources
    }


def free_by_node(run: RunColumns, resource: str, instants: Floats) -> Floats:
    """Return the free amount of a resource on each node: float64[instants, nodes]."""
    record = run.record
    capacity = record.nodes.capacity[resource].astype(np.float64)
    used = samples_by_row(
        record.interval_node.astype(np.int64),
        len(record.nodes.names),
        record.interval_begin,
        record.interval_end,
        run.interval_amounts(resource),
        instants,
    )
    return np.asarray(capacity - used)
