"""nodegroup: which groups of nodes a queue uses, prefers and avoids, and how much of each (spec volcano-plugins 16)."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strato.api.volcano.scheduling import NodeGroupAffinity, QueueAffinity
from strato.scheduler.cache.totals import GROUP_LABEL
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import HOLDS_RESOURCES
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import Dimensions, Vector

LIMITS_ANNOTATION: Final = "volcano.sh/nodegroup-resource-limits"

BAD_LIMITS = Reason("nodegroup", "node group resource limit annotation invalid", curable=False)
NO_LABEL = Reason("nodegroup", "node group label not found", curable=False)
NO_AFFINITY = Reason("nodegroup", "node group affinity not specified", curable=False)
MISMATCH = Reason("nodegroup", "node does not satisfy the node group affinity", curable=False)
OVER_LIMIT = Reason("nodegroup", "node group resource limit exceeded", curable=False)
_REASONS = (BAD_LIMITS, NO_LABEL, NO_AFFINITY, MISMATCH)
_NONE = NodeGroupAffinity()

Limits = Mapping[str, Mapping[int, int]]
"""By node group, the amounts that a queue may hold there, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    strict: bool = arg("strict", True)
    """Whether queues without affinity may not even use nodes without a group. Default true."""
    preferred_order: bool = arg("enablePreferredOrder", False)
    """Whether groups named first are preferred to those named later. Default false."""


@dataclass(frozen=True, slots=True)
class QueueNodeGroups:
    """The rule for the tasks of a queue: its own affinity or an ancestor's."""

    affinity: QueueAffinity | None
    limits_valid: bool


class NodeGroup(Plugin):
    """Keep queues to their groups of nodes."""

    name = "nodegroup"
    args_type = NodeGroupArgs

    def open(self, ssn: CycleContext) -> None:
        """Read the queues that have jobs."""
        self._world = ssn.world
        self._rules: dict[str, QueueNodeGroups] = {}
        self._limits: dict[str, Limits] = {}
        self._held: dict[str, dict[str, Vector]] = {}
        for queue in ssn.world.queues.values():
            if queue.view is None or not queue.jobs:
                continue
            limits = read_limits(queue.view.metadata.annotation(LIMITS_ANNOTATION), ssn.world.dims)
            if limits:
                self._limits[queue.name] = limits
            affinity = affinity_of(queue, ssn.world.queues, hierarchy=self.hierarchy)
            self._rules[queue.name] = QueueNodeGroups(affinity, limits is not None)

    def facet(self, task: Task) -> Hashable:
        """The rule of the task's queue."""
        return self._rules.get(task.job.queue_name) if task.job is not None else None

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts:
        """Groups the queue may use."""
        rule = self.facet(task)
        assert rule is None or isinstance(rule, QueueNodeGroups)
        judged: dict[str, int] = {}
        codes = np.zeros(len(rows), np.uint16)
        for i, row in enumerate(rows.tolist()):
            group = group_of(nodes, row)
            if group not in judged:
                judged[group] = self._judge(rule, group)
            codes[i] = judged[group]
        return Verdicts(codes, _REASONS)

    def _judge(self, rule: QueueNodeGroups | None, group: str) -> int:
        affinity = _meant(rule.affinity) if rule is not None else None
        if rule is not None and not rule.limits_valid:
            return 1
        if not group:
            return 0 if not self.args.strict and affinity is None else 2
        if affinity is None:
            return 3
        towards, against = affinity.node_group_affinity or _NONE, affinity.node_group_anti_affinity or _NONE
        fits = group in towards.required or group in towards.preferred
        if group in against.required:
            fits = False
        if group in against.preferred:
            fits = True
        return 0 if fits else 4

    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """100 in required groups and 50 in preferred ones; -1 in those better avoided."""
        rule = self.facet(task)
        affinity = rule.affinity if isinstance(rule, QueueNodeGroups) else None
        if affinity is None:
            return (StaticScore(np.zeros(len(rows)), 1.0),)
        points = np.array([self._points(affinity, group_of(nodes, row)) for row in rows.tolist()], np.float64)
        return (StaticScore(points, 1.0),)

    def _points(self, affinity: QueueAffinity, group: str) -> float:
        towards, against = affinity.node_group_affinity or _NONE, affinity.node_group_anti_affinity or _NONE
        if not group:
            return 0.0
        if group in against.preferred:
            return -1.0
        points = 100.0 if group in towards.required else 0.0
        if group in towards.preferred:
            count = len(towards.preferred)
            behind = towards.preferred.index(group) if self.args.preferred_order else 0
            points += 50.0 * (count - behind) / count
        return points

    # -- limits --------------------------------------------------------------------------------------------------------

    def watches_pods(self, task: Task) -> bool:
        """Whether what the queue holds matters."""
        return task.job is not None and task.job.queue_name in self._limits

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Groups in which the queue has its limit."""
        limits = self._limits.get(task.job.queue_name) if task.job is not None else None
        if limits is None or task.job is None or task.job.queue is None:
            return None
        held = self._held_by(task.job.queue)
        request, zero = task.cls.request, self._world.dims.zeros()
        full = {
            group
            for group, limit in limits.items()
            if any(held.get(group, zero)[column] + request[column] > most for column, most in limit.items())
        }
        rejected = np.array([group_of(nodes, row) in full for row in rows.tolist()], np.bool_)
        return Verdicts.reject_where(rejected, OVER_LIMIT)

    def _held_by(self, queue: Queue) -> dict[str, Vector]:
        """Return what a queue holds by group; counted when first needed, then updated by placements."""
        held = self._held.get(queue.name)
        if held is None:
            held = self._held[queue.name] = {}
            for job in self._world.jobs_of(queue):
                for task in job.tasks.values():
                    if task.row >= 0 and HOLDS_RESOURCES[task.status]:
                        self._add(held, task)
        return held

    def _add(self, held: dict[str, Vector], task: Task) -> None:
        group = group_of(self._world.nodes, task.row)
        held[group] = held.get(group, self._world.dims.zeros()) + task.cls.request

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Update what queues with limits hold."""
        held = self._held.get(job.queue_name) if job is not None else None
        if held is not None:
            for task in tasks:
                self._add(held, task)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Drop the counts, because the rows the tasks were on are no longer known."""
        if job is not None:
            self._held.pop(job.queue_name, None)


def may_use(affinity: QueueAffinity | None, group: str) -> bool:
    """Whether a queue may use a group of nodes: one it requires, or any if it requires none; never one to avoid."""
    towards = (affinity.node_group_affinity if affinity is not None else None) or _NONE
    against = (affinity.node_group_anti_affinity if affinity is not None else None) or _NONE
    wanted = not towards.required or group in towards.required or group in towards.preferred
    return wanted and group not in against.required


def affinity_of(queue: Queue, queues: Mapping[str, Queue], *, hierarchy: bool) -> QueueAffinity | None:
    """Return a queue's affinity; with a hierarchy, that of the nearest ancestor that has one."""
    seen: set[str] = set()
    at: Queue | None = queue
    while at is not None and at.view is not None and at.name not in seen:
        if at.view.spec.affinity is not None:
            return at.view.spec.affinity
        seen.add(at.name)
        at = queues.get(at.parent or "root") if hierarchy else None
    return None


def _meant(affinity: QueueAffinity | None) -> QueueAffinity | None:
    """Return an affinity that names at least one group, else None."""
    if affinity is None:
        return None
    towards, against = affinity.node_group_affinity or _NONE, affinity.node_group_anti_affinity or _NONE
    named = towards.required or towards.preferred or against.required or against.preferred
    return affinity if named else None


def group_of(nodes: NodeTable, row: int) -> str:
    """Return the group a node belongs to, empty when to none."""
    node = nodes.facts[row]
    return node.metadata.label(GROUP_LABEL) if node is not None else ""


def read_limits(text: str, dims: Dimensions) -> Limits | None:
    """Read the annotation with a queue's limits; None when it cannot be read."""
    if not text:
        return {}
    try:
        decoded = json.loads(text)
        return {str(group): dims.parse(amounts) for group, amounts in decoded.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
