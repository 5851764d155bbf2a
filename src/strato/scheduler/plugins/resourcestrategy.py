"""resource-strategy-fit: fill or spread nodes resource by resource, and keep scarce ones free (spec plugins 15)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.scheduler.framework.arguments import arg, numbers, structured
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import PACK, ResourceTerm, StaticScore, Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray, counts
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.placement.scoring import packed

TYPE_ANNOTATION: Final = "volcano.sh/resource-strategy-scoring-type"
WEIGHT_ANNOTATION: Final = "volcano.sh/resource-strategy-weight"
MOST_ALLOCATED, LEAST_ALLOCATED = "MostAllocated", "LeastAllocated"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyArgs:
    """How one resource is scored."""

    type: str = arg("type", LEAST_ALLOCATED)
    """``MostAllocated`` fills nodes; anything else spreads."""
    weight: int = arg("weight", 1, minimum=1)
    """Its weight among the resources of a pod, at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SraArgs:
    """Scarce resource avoidance: pods that do not ask for listed resources stay off nodes that have them."""

    enable: bool = arg("enable", False)
    resources: str = arg("resources", "")
    """Names, separated by commas."""
    weight: int = arg("weight", 1)
    """Factor; nothing is scored unless it is above 0."""
    resource_weights: Mapping[str, float] = arg("resourceWeight", {}, read=numbers)
    """Weight per listed resource; default 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProportionalArgs:
    """Keeps cpu and memory free beside idle scarce resources."""

    enable: bool = arg("enable", False)
    resources: str = arg("resources", "")
    """Names, separated by commas."""
    rates: Mapping[str, float] = arg("resourceProportion", {}, read=numbers)
    """``<resource>.cpu`` in cores and ``<resource>.memory`` in gigabytes per idle unit; default 1."""


def _strategies(value: Any) -> dict[str, StrategyArgs]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    out, wrong = {}, []
    for name, given in value.items():
        star = str(name).find("*")
        if star >= 0 and (star != len(name) - 1 or name == "*"):
            wrong.append(f"{name}: only one * at the end of a prefix is possible")
            continue
        try:
            out[str(name)] = structured(StrategyArgs)(given)
        except ValueError as error:
            wrong += [f"{name}.{line}" for line in str(error).splitlines()]
    if wrong:
        raise ValueError("\n".join(wrong))
    return out


_NO_SRA, _NOT_PROPORTIONAL = SraArgs(), ProportionalArgs()
_read_proportional = structured(ProportionalArgs)
_DEFAULT: Final = {"cpu": StrategyArgs(), "memory": StrategyArgs()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStrategyArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("resourceStrategyFitWeight", 10, minimum=0)
    """Factor of the score by resources; default 10."""
    resources: Mapping[str, StrategyArgs] = arg("resources", {}, read=_strategies)
    """By resource name, or prefix with a trailing ``*``: how it is scored. Default: cpu and memory are spread."""
    sra: SraArgs = arg("sra", _NO_SRA, read=structured(SraArgs))  # noqa: RUF009 # arg makes a field
    proportional: ProportionalArgs = arg("proportional", _NOT_PROPORTIONAL, read=_read_proportional)  # noqa: RUF009 # arg makes a field


class ResourceStrategyFit(Plugin):
    """A strategy per resource; pods may bring their own in annotations."""

    name = "resource-strategy-fit"
    args_type = ResourceStrategyArgs

    def off_points(self) -> frozenset[str]:
        """Points whose arguments are not configured, so that they have no cost."""
        off = set()
        if not self.args.weight:
            off |= {"resource_terms", "score_task"}
        if not self.args.sra.enable or self.args.sra.weight <= 0:
            off.add("static_scores")
        if not self.args.proportional.enable:
            off.add("filter_task")
        return frozenset(off)

    def resources(self) -> Sequence[str]:
        """Return every resource named in full."""
        named = [*self.args.resources, *names(self.args.sra.resources), *names(self.args.proportional.resources)]
        return [name for name in named if counts(name) and not name.endswith("*")]

    def open(self, ssn: CycleContext) -> None:
        """Resolve names and prefixes to columns."""
        self._dims = ssn.world.dims
        strategies = self.args.resources or _DEFAULT
        columns = []
        for column, name in enumerate(self._dims.names):
            chosen = strategy_of(name, strategies)
            if chosen is not None:
                sign = 1.0 if chosen.type == MOST_ALLOCATED else -1.0
                columns.append((column, sign * chosen.weight))
        self._weights = tuple(columns)

    def resource_terms(self) -> Sequence[ResourceTerm]:
        """One term for the kernel."""
        return (ResourceTerm(PACK, float(self.args.weight), self._weights),)

    def watches_pods(self, task: Task) -> bool:
        """Whether the task has its own strategy, or must leave cpu and memory beside scarce resources."""
        own = self.args.weight > 0 and has_strategy(task)
        return own or (self.args.proportional.enable and not self._asks(task, self.args.proportional.resources))

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """What the pod's own strategy changes in the score of the configured one."""
        if not has_strategy(task):
            return None
        own = self._own_weights(task)
        points: FloatArray = packed(nodes, task.cls, rows, own) - packed(nodes, task.cls, rows, self._weights)
        return points * float(100 * self.args.weight)

    def _own_weights(self, task: Task) -> tuple[tuple[int, float], ...]:
        """Return a pod's strategy; empty (score 0) when its annotations cannot be read."""
        meta = task.pod.metadata
        sign = 1.0 if meta.annotation(TYPE_ANNOTATION) == MOST_ALLOCATED else -1.0
        try:
            given = json.loads(meta.annotation(WEIGHT_ANNOTATION, "null"))
        except (ValueError, RecursionError):
            return ()
        if not isinstance(given, dict) or not all(type(weight) is int for weight in given.values()):
            return ()
        found = [(self._dims.find(name), sign * weight) for name, weight in given.items()]
        return tuple((column, weight) for column, weight in found if column is not None)

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Avoid nodes with scarce resources; nodes that lack something requested get nothing."""
        sra = self.args.sra
        weights = {name: float(sra.resource_weights.get(name, 1.0)) for name in names(sra.resources)}
        whole = sum(weights.values())
        if whole == 0:
            return ()
        present = np.zeros(len(rows))
        for name, weight in weights.items():
            column = self._dims.find(name)
            if column is not None:
                present += np.where(nodes.allocatable[rows, column] > 0, weight, 0.0)
        lacking = np.zeros(len(rows), np.bool_)
        for column, need in enumerate(cls.request.tolist()):
            if need > 0:
                lacking |= nodes.allocatable[rows, column] == 0
        raw = np.where(lacking, 0.0, (1.0 - present / whole) * 100.0)
        return (StaticScore(raw, float(sra.weight)),)

    def _asks(self, task: Task, listed: str) -> bool:
        columns = [self._dims.find(name) for name in names(listed)]
        return any(column is not None and task.cls.request[column] > 0 for column in columns)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Keep cpu and memory in proportion to the idle scarce resources free of pods that do not use those."""
        args = self.args.proportional
        if self._asks(task, args.resources):
            return None
        request = task.cls.request
        cpu = nodes.idle[rows, CPU] - request[CPU]
        memory = nodes.idle[rows, MEMORY] - request[MEMORY]
        codes, reasons = np.zeros(len(rows), np.uint16), []
        for name in names(args.resources):
            column = self._dims.find(name)
            if column is None:
                continue
            idle = nodes.idle[rows, column]
            short = (cpu < idle * _rate(args.rates, f"{name}.cpu")) | (
                memory < idle * _rate(args.rates, f"{name}.memory") * 1e6
            )
            reasons.append(Reason(self.name, f"proportional of resource {name} check failed", curable=False))
            codes[(codes == 0) & short & (nodes.allocatable[rows, column] > 0)] = len(reasons)
        return Verdicts(codes, tuple(reasons))


def names(listed: str) -> list[str]:
    """Return the names in a list separated by commas."""
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def _rate(rates: Mapping[str, float], key: str) -> float:
    rate = rates.get(key, 1.0)
    return rate if rate >= 0 else 1.0


def strategy_of(name: str, strategies: Mapping[str, StrategyArgs]) -> StrategyArgs | None:
    """Return the strategy of a resource: by its name, else by the longest prefix that matches."""
    if name in strategies:
        return strategies[name]
    prefixes = [key for key in strategies if key.endswith("*") and name.startswith(key[:-1])]
    return strategies[max(prefixes, key=len)] if prefixes else None


def has_strategy(task: Task) -> bool:
    """Whether a pod brings its own strategy."""
    return TYPE_ANNOTATION in (task.pod.metadata.annotations or ())
