"""rescheduling: move pods from busy nodes to idle ones, by what nodes really use (spec volcano-plugins 23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.api.pods import qos_class
from strato.scheduler.framework.arguments import arg, seconds, structured
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray

LOW_NODE_UTILIZATION: Final = "lowNodeUtilization"
_QOS: Final = ("BestEffort", "Burstable", "Guaranteed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Percents:
    """A percentage per resource; 100 when not given."""

    cpu: int = arg("cpu", 100)
    memory: int = arg("memory", 100)
    pods: int = arg("pods", 100)
    pod: int = arg("pod", 100)

    @property
    def array(self) -> FloatArray:
        """Return the percentages of cpu and memory, the resources that metrics cover."""
        return np.array([self.cpu, self.memory], np.float64)


_ALL = Percents()
_read_percents = structured(Percents)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowNodeUtilizationArgs:
    """``params`` of the strategy."""

    thresholds: Percents = arg("thresholds", _ALL, read=_read_percents)  # noqa: RUF009 # arg makes a field
    """A node that uses less of everything is idle."""
    targets: Percents = arg("targetThresholds", _ALL, read=_read_percents)  # noqa: RUF009 # arg makes a field
    """A node that uses more of anything is busy; pods leave it until it does not."""
    priority_class: str = arg("thresholdPriorityClassName", "")
    """Accepted for compatibility, without effect."""
    node_fit: bool = arg("nodeFit", True)
    """Accepted for compatibility, without effect."""


_read_params = structured(LowNodeUtilizationArgs)


def _strategies(given: Any) -> tuple[LowNodeUtilizationArgs, ...]:
    if not isinstance(given, list):
        raise ValueError(f"{given!r} is not a list")
    out, wrong = [], []
    for i, entry in enumerate(given):
        if not isinstance(entry, dict) or entry.get("name") != LOW_NODE_UTILIZATION:
            wrong.append(f"[{i}].name: the only strategy is {LOW_NODE_UTILIZATION}")
            continue
        wrong += [f"[{i}].{key}: no such key; known: name, params" for key in entry if key not in ("name", "params")]
        try:
            out.append(_read_params(entry.get("params") or {}))
        except ValueError as error:
            wrong += [f"[{i}].params.{line}" for line in str(error).splitlines()]
    if wrong:
        raise ValueError("\n".join(wrong))
    return tuple(out)


_DEFAULT = (LowNodeUtilizationArgs(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReschedulingArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    interval_seconds: float = arg("interval", 300.0, read=seconds)
    """How often pods are moved; the first time one interval after start. Default 5m."""
    metrics_period: str = arg("metricsPeriod", "5m")
    """Window of the averages looked at; collected is ``10m`` only."""
    strategies: tuple[LowNodeUtilizationArgs, ...] = arg("strategies", _DEFAULT, read=_strategies)
    """A list of ``{name: lowNodeUtilization, params: {…}}``."""


class Rescheduling(Plugin):
    """Choose pods of busy nodes to evict, once per interval (action shuffle)."""

    name = "rescheduling"
    args_type = ReschedulingArgs
    time_based = True

    def open(self, ssn: CycleContext) -> None:
        """Check whether the interval is over."""
        self._ssn = ssn
        memory = ssn.world.plugin_state
        last = memory.setdefault(self.name, ssn.now)
        self._due = ssn.now - last >= self.args.interval_seconds
        if self._due:
            memory[self.name] = ssn.now

    def victim_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Pods of busy nodes for which idle ones have room."""
        if not self._due:
            return ()
        found: dict[str, Task] = {}
        for params in self.args.strategies:
            found |= {task.key: task for task in self._low_node_utilization(params, tasks)}
        return list(found.values())

    def _low_node_utilization(self, params: LowNodeUtilizationArgs, tasks: Sequence[Task]) -> list[Task]:
        nodes = self._ssn.world.nodes
        low_below, target = params.thresholds.array, params.targets.array
        low: list[int] = []
        high: list[int] = []
        used = self._used()
        for row, percent in used.items():
            node = nodes.facts[row]
            if node is not None and not node.spec.unschedulable and (percent < low_below).all():
                low.append(row)
            elif (percent > target).any():
                high.append(row)
        if not low or not high:
            return []
        capacity = nodes.allocatable[:, [CPU, MEMORY]].astype(np.float64)
        budget = sum(((target - used[row]) / 100.0 * capacity[row] for row in low), np.zeros(2))
        offered = {task.key for task in tasks}
        victims: list[Task] = []
        for row in sorted(high, key=lambda r: -float(used[r].sum())):
            holds = used[row] / 100.0 * capacity[row]
            wanted = target / 100.0 * capacity[row]
            for task in sorted(nodes.tasks[row].values(), key=_least_important):
                if (holds < wanted).all() or (budget == 0).any():
                    break
                if task.key in offered:
                    victims.append(task)
                    request = task.cls.request[[CPU, MEMORY]]
                    budget, holds = budget - request, holds - request
        return victims

    def _used(self) -> dict[int, FloatArray]:
        """Return percents of cpu and memory by row, for nodes with metrics."""
        world, period = self._ssn.world, self.args.metrics_period
        out = {}
        for name, usage in world.usages.by_node.items():
            row = world.nodes.row_of.get(name)
            if row is not None and period in usage.cpu and period in usage.memory:
                out[row] = np.array([usage.cpu[period], usage.memory[period]])
        return out


def _least_important(task: Task) -> tuple[bool, int, int, str]:
    priority = task.pod.spec.priority
    return priority is not None, priority or 0, _QOS.index(qos_class(task.pod.spec)), task.key
