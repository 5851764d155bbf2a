"""Groups a job's tasks by its task topology: the buckets of the plugin task-topology (spec volcano-plugins 18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.resources import MEMORY, Vector
from strato.scheduler.model.tasks import PENDING

AFFINITY: Final = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER: Final = "volcano.sh/task-topology-task-order"

_SELF_ANTI, _INTER, _SELF, _INTER_ANTI = 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class Topology:
    """Rules between the roles of a job; a role in its own set has a rule with itself.

    Attributes:
        near, apart: By role, the roles that its tasks are to be near to, or apart from.
        order: Rank of a role, higher first; absent is 0.
    """

    near: Mapping[str, frozenset[str]]
    apart: Mapping[str, frozenset[str]]
    order: Mapping[str, int]

    def covers(self, role: str) -> bool:
        """Whether a role has a rule; tasks of a role with an order alone are in no bucket."""
        return role in self.near or role in self.apart

    def priority(self, role: str) -> int:
        """Return the priority of a role's strongest rule; 0 without one."""
        near, apart = self.near.get(role, frozenset()), self.apart.get(role, frozenset())
        found = [0]
        if role in apart:
            found.append(_SELF_ANTI)
        if near - {role}:
            found.append(_INTER)
        if role in near:
            found.append(_SELF)
        if apart - {role}:
            found.append(_INTER_ANTI)
        return max(found)

    def affinity(self, role: str, counts: Mapping[str, int]) -> int:
        """Return how many tasks, of those counted by role, a role wants to be near to, less those it avoids."""
        near = self.near.get(role, ())
        return sum(n for other, n in counts.items() if other in near) - self.avoided(role, counts)

    def avoided(self, role: str, counts: Mapping[str, int]) -> int:
        """Return how many tasks, of those counted by role, a role avoids."""
        apart = self.apart.get(role, ())
        return sum(n for other, n in counts.items() if other in apart)


def read_topology(annotations: Mapping[str, str], roles: Iterable[str]) -> Topology | None:
    """Read a PodGroup's annotations; None when there are none, or a role in them is unknown or repeated."""
    known = set(roles)
    groups = {key: [_names(g) for g in annotations.get(key, "").split(";") if g.strip()] for key in _KEYS}
    order = _names(annotations.get(TASK_ORDER, ""))
    lists = [*groups[AFFINITY], *groups[ANTI_AFFINITY], order]
    if not any(lists) or any(len(set(names)) != len(names) or not known.issuperset(names) for names in lists):
        return None
    return Topology(
        _pairs(groups[AFFINITY]), _pairs(groups[ANTI_AFFINITY]), {name: len(order) - i for i, name in enumerate(order)}
    )


_KEYS = (AFFINITY, ANTI_AFFINITY)


def _names(listed: str) -> list[str]:
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def _pairs(groups: Sequence[Sequence[str]]) -> dict[str, frozenset[str]]:
    out: dict[str, frozenset[str]] = {}
    for group in groups:
        for name in group:
            others = frozenset(group) if len(group) == 1 else frozenset(group) - {name}
            out[name] = out.get(name, frozenset()) | others
    return out


@dataclass(slots=True, eq=False)
class Bucket:
    """Tasks to be placed near to each other.

    Attributes:
        index: Position among the job's buckets.
        counts: Tasks by role.
        waiting: Tasks without a place, by key; ``request`` is what they ask for together.
        bound: Tasks with a place, by row; ``bound_count`` their number.
        weight: Decides between equally good buckets.
    """

    index: int
    request: Vector
    counts: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, Task] = field(default_factory=dict)
    bound: dict[int, int] = field(default_factory=dict)
    bound_count: int = 0
    weight: float = 0.0

    def add(self, task: Task) -> None:
        """Add a task."""
        self.counts[task.role] = self.counts.get(task.role, 0) + 1
        if task.row >= 0:
            self._bind(task.row)
            return
        self.waiting[task.key] = task
        self.request = self.request + task.cls.request
        request = task.cls.request
        self.weight += float(request.sum() - request[MEMORY]) + float(request[MEMORY]) / (1 << 20)

    def _bind(self, row: int) -> None:
        self.bound[row] = self.bound.get(row, 0) + 1
        self.bound_count += 1

    def place(self, task: Task) -> None:
        """Note that a task of the bucket got a place."""
        if self.waiting.pop(task.key, None) is not None:
            self.request = self.request - task.cls.request
        self._bind(task.row)


class JobTopology:
    """A job's buckets, and its tasks placed in this session."""

    def __init__(self, job: Job, topology: Topology, names: Sequence[str]) -> None:
        self.topology = topology
        self.buckets: list[Bucket] = []
        self.bucket_of: dict[str, Bucket] = {}
        self.placed: dict[int, dict[str, int]] = {}
        """By row, the tasks placed in this session by role."""
        by_row: dict[int, Bucket] = {}
        tasks = [t for t in job.tasks.values() if topology.covers(t.role) and (t.status == PENDING or _placed(t))]
        for task in sorted(tasks, key=lambda t: self._rank(t, names)):
            bucket = by_row.get(task.row) if task.row >= 0 else self._best(task)
            if bucket is None:
                bucket = Bucket(len(self.buckets), task.cls.request * 0)
                self.buckets.append(bucket)
            if task.row >= 0:
                by_row[task.row] = bucket
            bucket.add(task)
            self.bucket_of[task.key] = bucket
        self.largest = max([len(b.waiting) + b.bound_count for b in self.buckets], default=0)

    def _rank(self, task: Task, names: Sequence[str]) -> tuple[object, ...]:
        order, priority = self.topology.order.get(task.role, 0), self.topology.priority(task.role)
        node = names[task.row] if task.row >= 0 else ""
        return task.row < 0, node, -order, -priority, task.name

    def _best(self, task: Task) -> Bucket | None:
        best: tuple[int, float, Bucket] | None = None
        for bucket in self.buckets:
            affinity = self.topology.affinity(task.role, bucket.counts)
            if best is None or affinity > best[0] or (affinity == best[0] and bucket.weight < best[1]):
                best = affinity, bucket.weight, bucket
        return best[2] if best is not None and best[0] >= 0 else None

    def place(self, task: Task) -> None:
        """Note that a task got a place in this session."""
        counts = self.placed.setdefault(task.row, {})
        counts[task.role] = counts.get(task.role, 0) + 1
        bucket = self.bucket_of.get(task.key)
        if bucket is not None:
            bucket.place(task)


def _placed(task: Task) -> bool:
    return task.row >= 0 and ON_NODE[task.status]
