"""usage: filter and score by measured usage plus the expected usage of recent pods (spec volcano-plugins 22)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strato.api.quantity import milli, value
from strato.clock import parse_time
from strato.scheduler.cache.usage import WINDOW, Usages
from strato.scheduler.framework.arguments import arg, structured
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import JOURNAL_SIZE, NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray
from strato.scheduler.model.tasks import ALLOCATED, BINDING, BOUND, RUNNING

FRESH_SECONDS: Final = 300.0
"""Older metrics are ignored."""

CPU_LOAD = Reason("usage", "the CPU load of the node exceeds the upper limit.", curable=False)
MEMORY_LOAD = Reason("usage", "the memory load of the node exceeds the upper limit.", curable=False)

_STARTING = frozenset((ALLOCATED, BINDING, BOUND))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdArgs:
    """Percent above which a node takes no more pods."""

    cpu: int = arg("cpu", 80, minimum=0, maximum=100)
    memory: int = arg("mem", 80, minimum=0, maximum=100)


def _cpu(given: Any) -> int:
    return given if type(given) is int else milli(given)


def _memory(given: Any) -> int:
    return given << 20 if type(given) is int else value(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorArgs:
    """What pods are expected to use that metrics do not show yet."""

    request_ratio: float = arg("request_ratio", 0.7, minimum=0, maximum=1)
    """Part of its request that a pod uses."""
    burst_ratio: float = arg("burst_ratio", 0.0, minimum=0, maximum=1)
    """Part of what lies between its request and its limit."""
    risk_threshold: float = arg("risk_threshold", 0.6, minimum=0, maximum=1)
    """Load from which estimates are raised."""
    risk_factor: float = arg("risk_factor", 1.2, minimum=1)
    """By what."""
    best_effort_cpu: int = arg("be_cpu", 250, read=_cpu)
    """For pods that request nothing; a quantity, or a whole number of milli-cpu."""
    best_effort_memory: int = arg("be_mem", 200 << 20, read=_memory)
    """For pods that request nothing; a quantity, or a whole number of MiB."""


_THRESHOLDS, _ESTIMATOR = ThresholdArgs(), EstimatorArgs()
_read_thresholds, _read_estimator = structured(ThresholdArgs), structured(EstimatorArgs)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("usage.weight", 5, minimum=0)
    cpu_weight: int = arg("cpu.weight", 1, minimum=0)
    memory_weight: int = arg("memory.weight", 1, minimum=0)
    thresholds: ThresholdArgs = arg("thresholds", _THRESHOLDS, read=_read_thresholds)  # noqa: RUF009 # arg makes a field
    estimator: EstimatorArgs = arg("estimator", _ESTIMATOR, read=_read_estimator)  # noqa: RUF009 # arg makes a field


class Shadow:
    """Expected usage of recent pods by row; kept between sessions, updated from the node table's journal.

    Attributes:
        load: float64[rows, 2], cpu in milli and memory in bytes.
        given: By task key, its row and share of the load.
        live: Rows that hold such tasks.
    """

    def __init__(self) -> None:
        self.load = np.zeros((0, 2))
        self.given: dict[str, tuple[int, FloatArray]] = {}
        self.live: dict[int, set[str]] = {}
        self.cursor = -JOURNAL_SIZE

    def stale_rows(self, nodes: NodeTable) -> list[int]:
        """Return the rows to compute again, and mark them as done."""
        now = int(nodes.cursor[0])
        if len(self.load) < nodes.capacity:
            self.load = np.zeros((nodes.capacity, 2))
            self.given, self.live, self.cursor = {}, {}, -JOURNAL_SIZE
        if now - self.cursor >= JOURNAL_SIZE:
            rows: Iterable[int] = range(nodes.size)
        else:
            at = np.arange(self.cursor, now) % JOURNAL_SIZE
            rows = sorted({*nodes.journal[at].tolist(), *self.live})
        self.cursor = now
        return list(rows)

    def clear(self, row: int) -> None:
        """Forget the tasks of a row."""
        for key in self.live.pop(row, ()):
            self.given.pop(key, None)
        self.load[row] = 0.0

    def add(self, task: Task, row: int, amount: FloatArray) -> None:
        """Count a task."""
        self.given[task.key] = (row, amount)
        self.live.setdefault(row, set()).add(task.key)
        self.load[row] += amount

    def remove(self, task: Task) -> None:
        """Stop counting a task."""
        row, amount = self.given.pop(task.key, (-1, None))
        if amount is not None:
            self.live[row].discard(task.key)
            self.load[row] -= amount


class Usage(Plugin):
    """Avoid busy nodes."""

    name = "usage"
    args_type = UsageArgs
    time_based = True

    def open(self, ssn: CycleContext) -> None:
        """Begin a session; metrics are read when first needed."""
        self._ssn = ssn
        self._real: FloatArray | None = None
        self._shadow: Shadow = ssn.world.plugin_state.setdefault(self.name, Shadow())
        self._weights = np.array([self.args.cpu_weight, self.args.memory_weight], np.float64)

    def _load(self) -> FloatArray:
        """Return float64[rows, 2] with measured percents, and update the estimates."""
        if self._real is None:
            nodes, usages = self._ssn.world.nodes, self._ssn.world.usages
            self._real, self._fresh = measured(nodes, usages, self._ssn.now)
            self._capacity = capacities(nodes, np.arange(nodes.size))
            for row in self._shadow.stale_rows(nodes):
                self._estimate_row(row)
        return self._real

    def _estimate_row(self, row: int) -> None:
        self._shadow.clear(row)
        starting = [t for t in self._ssn.world.nodes.tasks[row].values() if self._is_recent(t)]
        for task in sorted(starting, key=lambda t: t.key):
            self._shadow.add(task, row, self._estimate(task, row))

    def _is_recent(self, task: Task) -> bool:
        if task.status in _STARTING:
            return True
        started = task.pod.status.start_time if task.status == RUNNING else None
        return started is not None and self._ssn.now - parse_time(started) < self._ssn.world.usages.interval_seconds

    def _composite(self, rows: Rows) -> FloatArray:
        """Return float64[n, 2]: measured plus expected load in [0, 1]."""
        load = self._load()
        expected = self._shadow.load[rows] / self._capacity[rows]
        composite: FloatArray = np.clip(load[rows] / 100.0 + expected, 0.0, 1.0)
        return composite

    def _estimate(self, task: Task, row: int) -> FloatArray:
        """Return what a task is expected to use on a row as it stands."""
        args, weights = self.args.estimator, self._weights
        whole = weights.sum()
        load = float((self._composite(np.array([row])) * weights).sum() / whole) if whole else 0.0
        risk = args.risk_factor if load >= args.risk_threshold else 1.0
        if task.cls.best_effort:
            return np.array([args.best_effort_cpu * risk, args.best_effort_memory * risk])
        request = task.cls.request[[CPU, MEMORY]].astype(np.float64)
        limit = limits(task)
        burst = np.maximum(limit - request, 0.0) * args.burst_ratio
        expected: FloatArray = (request * args.request_ratio + burst) * risk
        return expected.clip(0.0, np.maximum(limit, request))

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts:
        """Nodes whose measured load is below the thresholds, or unknown."""
        load, thresholds = self._load()[rows], self.args.thresholds
        codes = np.zeros(len(rows), np.uint16)
        codes[load[:, 1] > thresholds.memory] = 2
        codes[load[:, 0] > thresholds.cpu] = 1
        codes[~self._fresh[rows]] = 0
        return Verdicts(codes, (CPU_LOAD, MEMORY_LOAD))

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray:
        """Weighted mean of what is free, in [0, 100], times the plugin's weight; 0 where nothing is known."""
        whole = self._weights.sum()
        free = ((1.0 - self._composite(rows)) * self._weights).sum(axis=1) / (whole or 1.0)
        points: FloatArray = np.where(self._fresh[rows], free * 100.0 * float(self.args.weight), 0.0)
        return points

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Add the expected usage of the tasks."""
        if self._real is not None:
            for task in tasks:
                if task.key not in self._shadow.given:
                    self._shadow.add(task, task.row, self._estimate(task, task.row))

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Subtract the expected usage of the tasks."""
        if self._real is not None:
            for task in tasks:
                self._shadow.remove(task)


def measured(nodes: NodeTable, usages: Usages, now: float) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return percents of cpu and memory by row, and which rows have recent ones."""
    real, fresh = np.zeros((nodes.capacity, 2)), np.zeros(nodes.capacity, np.bool_)
    for name, usage in usages.by_node.items():
        row = nodes.row_of.get(name)
        if row is not None:
            real[row] = usage.cpu.get(WINDOW, 0.0), usage.memory.get(WINDOW, 0.0)
            fresh[row] = now - usage.at <= FRESH_SECONDS
    return real, fresh


def capacities(nodes: NodeTable, rows: Rows) -> FloatArray:
    """Return capacities of nodes in milli-cpu and bytes; allocatable where a node has no capacity."""
    out = np.maximum(nodes.allocatable[rows][:, [CPU, MEMORY]], 1).astype(np.float64)
    for i, row in enumerate(rows.tolist()):
        node = nodes.facts[row]
        whole: Mapping[str, Any] = node.status.capacity if node is not None else {}
        if whole:
            out[i] = max(milli(whole.get("cpu", 0)), 1), max(value(whole.get("memory", 0)), 1)
    return out


def limits(task: Task) -> FloatArray:
    """Return the limits of a pod's containers in milli-cpu and bytes."""
    total = np.zeros(2)
    for container in task.cls.spec.containers:
        given = container.resources.limits
        total += milli(given.get("cpu", 0)), value(given.get("memory", 0))
    return total
