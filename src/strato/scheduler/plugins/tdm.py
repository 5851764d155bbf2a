"""tdm: nodes that preemptable pods may use in windows of the day only (spec volcano-plugins 21)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from strato.scheduler.cache.ingest import PREEMPTABLE_KEY, go_bool
from strato.scheduler.framework.arguments import arg, seconds
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin
from strato.scheduler.model.answers import StaticScore, Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import FAILED, PENDING, RUNNING, SUCCEEDED

ZONE_KEY: Final = "volcano.sh/revocable-zone"
"""Label of nodes with the name of their zone; annotation of pods with ``*``."""
MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"

INACTIVE = Reason("tdm", "revocable zone of the node is not active now", curable=False)
NOT_ALLOWED = Reason("tdm", "not allow to dispatch to revocable node", curable=False)

Minutes = int


@dataclass(frozen=True, slots=True)
class Window:
    """A part of every day, in minutes since local midnight; the end may be on the next day."""

    start: Minutes
    end: Minutes

    def contains(self, now: datetime) -> bool:
        """Whether a local time is within today's window."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(minutes=self.start) <= now <= midnight + timedelta(minutes=self.end)


def read_window(value: Any) -> Window:
    """Read ``HH:MM-HH:MM``.

    Raises:
        ValueError: It is not that.
    """
    start, _, end = value.strip().partition("-") if isinstance(value, str) else ("", "", "")
    try:
        begin, stop = (_minutes(part.strip()) for part in (start, end))
    except ValueError:
        raise ValueError(f"{value!r} is not HH:MM-HH:MM") from None
    return Window(begin, stop if stop > begin else stop + 24 * 60)


def _minutes(text: str) -> Minutes:
    hours, colon, minutes = text.partition(":")
    if not colon or not hours.isdecimal() or not minutes.isdecimal() or int(hours) > 23 or int(minutes) > 59:
        raise ValueError(text)
    return int(hours) * 60 + int(minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TdmArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    zones: Mapping[str, Window] = arg("tdm.revocable-zone.*", {}, read=read_window)
    """By zone: ``HH:MM-HH:MM``, local time, when its nodes may be used."""
    period_seconds: float = arg("tdm.evict.period", 60.0, read=seconds)
    """How often preemptable pods are removed from zones out of their window (action shuffle). Default 1m."""


class Tdm(Plugin):
    """Lend nodes to preemptable pods in time windows."""

    name = "tdm"
    weighs_claims = True
    args_type = TdmArgs
    time_based = True

    def open(self, ssn: CycleContext) -> None:
        """Find the zones that are active now."""
        self._ssn = ssn
        local = datetime.fromtimestamp(ssn.now)  # windows are written in the machine's local time
        self._active = frozenset(name for name, window in self.args.zones.items() if window.contains(local))
        ssn.world.plugin_state.setdefault(self.name, -math.inf)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def facet(self, task: Task) -> Hashable:
        """Whether the task may use revocable nodes, and the zones that are active now."""
        return is_revocable(task), self._active

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts:
        """Revocable nodes take revocable tasks only, in their window."""
        revocable = is_revocable(task)
        codes = np.zeros(len(rows), np.uint16)
        for i, row in enumerate(rows.tolist()):
            zone = zone_of(nodes, row)
            if zone and zone not in self._active:
                codes[i] = 1
            elif zone and not revocable:
                codes[i] = 2
        return Verdicts(codes, (INACTIVE, NOT_ALLOWED))

    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Revocable tasks prefer active revocable nodes."""
        if not is_revocable(task):
            return (StaticScore(np.zeros(len(rows)), 1.0),)
        points = [100.0 if zone_of(nodes, row) in self._active else 0.0 for row in rows.tolist()]
        return (StaticScore(np.array(points, np.float64), 1.0),)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def job_order(self, job: Job) -> bool:
        """Jobs that are not preemptable first."""
        return job.preemptable

    def job_pipelined(self, job: Job) -> int:
        """Permit pipelined tasks once they complete the minimum."""
        return PERMIT if job.is_pipelined else REJECT

    def job_starving(self, job: Job) -> bool:
        """Whether the job is not preemptable: preemptable jobs never evict others."""
        return not job.preemptable and job.counts[PENDING] > 0

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Preemptable tasks on ordinary nodes, as many as their jobs' budgets allow."""
        if is_marked_preemptable(preemptor) or is_revocable(preemptor):
            return (), REJECT
        nodes = self._ssn.world.nodes
        chosen = [t for t in candidates if t.status == RUNNING and t.preemptable and not zone_of(nodes, t.row)]
        return within_budgets(chosen), PERMIT

    def victim_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Once per period: preemptable tasks on the nodes of zones that are out of their window."""
        memory = self._ssn.world.plugin_state
        if memory[self.name] + self.args.period_seconds > self._ssn.now:
            return ()
        memory[self.name] = self._ssn.now
        closed = {name for name in self.args.zones if name not in self._active}
        nodes = self._ssn.world.nodes
        found = []
        for row, node in enumerate(nodes.facts):
            if node is not None and node.metadata.label(ZONE_KEY) in closed:
                found += [t for t in nodes.tasks[row].values() if t.status == RUNNING and t.preemptable]
        return within_budgets(found)


def zone_of(nodes: NodeTable, row: int) -> str:
    """Return the revocable zone of a node, empty for ordinary ones."""
    node = nodes.facts[row] if row >= 0 else None
    return node.metadata.label(ZONE_KEY) if node is not None else ""


def is_marked_preemptable(task: Task) -> bool:
    """Whether a pod's annotation says that it may be preempted."""
    return go_bool(task.pod.metadata.annotation(PREEMPTABLE_KEY)) is True


def is_revocable(task: Task) -> bool:
    """Whether a pod may use revocable nodes (spec scheduler-core 5.2)."""
    annotations = task.pod.metadata.annotations or {}
    if ZONE_KEY in annotations:
        return annotations[ZONE_KEY] == "*"
    return is_marked_preemptable(task)


def within_budgets(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks, limited per job to what its budget lets be evicted at once."""
    left: dict[str, int] = {}
    chosen = []
    for task in tasks:
        job = task.job
        if job is None:
            continue
        if job.key not in left:
            left[job.key] = max_victims(job)
        if left[job.key] > 0:
            left[job.key] -= 1
            chosen.append(task)
    return chosen


def max_victims(job: Job) -> int:
    """Return how many running tasks a job's disruption budget lets be evicted; 1 without a budget."""
    meta = job.group.metadata if job.group is not None else None
    total, running = len(job.tasks), job.counts[RUNNING]
    if meta is not None and meta.annotation(MIN_AVAILABLE):
        spare = running - _count(meta.annotation(MIN_AVAILABLE), total)
        return spare if spare >= 0 else 1
    if meta is not None and meta.annotation(MAX_UNAVAILABLE):
        most = _count(meta.annotation(MAX_UNAVAILABLE), total)
        finished = job.counts[SUCCEEDED] + job.counts[FAILED]
        return max(0, most - (total - finished - running))
    return 1


def _count(text: str, total: int) -> int:
    """Read a number or a percentage of the tasks, rounded up; what is neither counts 0."""
    try:
        return math.ceil(total * int(text[:-1]) / 100) if text.endswith("%") else int(text)
    except ValueError:
        return 0
