"""Sub-jobs: the parts of a PodGroup that ``subGroupPolicy`` splits it into (spec scheduler-core 7.3).

Only groups with such a policy or with a network topology have a `Layout`; all others pay nothing. A group that is not
split has one sub-job, the whole, which shares the job's own counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from strato.api.selectors import EVERYTHING, Selector, from_label_selector
from strato.api.volcano.scheduling import NetworkTopologySpec, SubGroupPolicySpec
from strato.scheduler.model.ledger import ABSENT
from strato.scheduler.model.tasks import (
    ALLOCATED,
    BINDING,
    BOUND,
    PENDING,
    PIPELINED,
    RUNNING,
    STATUS_COUNT,
    SUCCEEDED,
    Task,
)

if TYPE_CHECKING:
    from strato.scheduler.model.jobs import Job

_LONGEST_VALUES: Final = 128
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Alphabet of Kubernetes' SafeEncodeString."""


class SubJob:
    """A part of a job that is placed whole or not at all.

    Attributes:
        key: ``<job>/<policy>-<values>``, or the job's key for the tasks that no policy takes.
        policy: ``<job>/<policy>``, or the job's key; what ``minSubGroups`` counts by.
        whole: It is all of the job, which then has no policies.
        network: How far apart its tasks may be; None when that does not matter.
        tasks: Its tasks by key.
        allocated: Name of the domain its placed tasks lie in, as remembered between cycles; empty when unknown.
        priority: Highest priority of a task seen.
    """

    __slots__ = (
        "_best_effort",
        "_min_available",
        "allocated",
        "counts",
        "job",
        "key",
        "match_index",
        "network",
        "policy",
        "priority",
        "tasks",
        "whole",
    )

    def __init__(
        self, job: Job, key: str, policy: str, minimum: int, network: NetworkTopologySpec | None, *, whole: bool = False
    ) -> None:
        self.job = job
        self.key = key
        self.policy = policy
        self.whole = whole
        self.network = network
        self.match_index = 0
        self.priority = 0
        self.allocated = ""
        self._min_available = minimum
        self._best_effort = 0
        self.tasks: dict[str, Task] = job.tasks if whole else {}
        self.counts = job.counts if whole else [0] * STATUS_COUNT

    def __repr__(self) -> str:
        return f"SubJob({self.key}, {len(self.tasks)} tasks)"

    @property
    def min_available(self) -> int:
        """Tasks it needs to run at all."""
        return self.job.min_available if self.whole else self._min_available

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request nothing."""
        return self.job.pending_best_effort if self.whole else self._best_effort

    @property
    def ready(self) -> int:
        """Tasks that hold or held a place."""
        c = self.counts
        return c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED] + c[SUCCEEDED]

    @property
    def allocated_count(self) -> int:
        """Tasks in allocated statuses."""
        c = self.counts
        return c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED]

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have a place (pending best-effort ones count)."""
        return self.ready + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough tasks have a place or expect one."""
        return self.counts[PIPELINED] + self.ready + self.pending_best_effort >= self.min_available

    @property
    def missing(self) -> int:
        """How many more tasks must be placed before it is ready; at least 1."""
        return max(self.min_available - self.ready - self.pending_best_effort, 1)

    def pending(self) -> list[Task]:
        """Return its pending tasks."""
        if self.whole:
            return list(self.job.pending.values())
        return [task for task in self.tasks.values() if task.status == PENDING]

    def count(self, task: Task, status: int, by: int) -> None:
        """Add to its count of a status; the whole shares its job's counts, and none is kept of the absent."""
        if not self.whole and status != ABSENT:
            self.counts[status] += by
            if status == PENDING and task.cls.best_effort:
                self._best_effort += by

    def repair(self) -> bool:
        """Count its tasks anew; return whether the counts had been wrong."""
        if self.whole:
            return False
        before = [*self.counts, self._best_effort]
        self.counts[:], self._best_effort = [0] * STATUS_COUNT, 0
        for task in self.tasks.values():
            self.count(task, task.status, 1)
        return before != [*self.counts, self._best_effort]


class _Policy:
    """A policy, made ready for matching."""

    __slots__ = ("job", "key", "selector", "spec")

    def __init__(self, job: Job, spec: SubGroupPolicySpec) -> None:
        self.job = job
        self.key = f"{job.key}/{spec.name}"
        self.spec = spec
        chosen = spec.label_selector
        self.selector: Selector = EVERYTHING if chosen is None else from_label_selector(chosen)

    def values(self, labels: Mapping[str, str]) -> list[str] | None:
        """Return a pod's values of the keys that split the group, None when the policy does not take it."""
        keys = self.spec.match_label_keys
        values = [labels.get(key, "") for key in keys]
        return values if keys and all(values) and self.selector.matches(labels) else None

    def sub_job(self, values: list[str]) -> SubJob:
        """Make the sub-job of some values."""
        joined = "-".join(values)
        suffix = joined if len(joined) <= _LONGEST_VALUES else safe_hash(joined)
        spec = self.spec
        sub = SubJob(self.job, f"{self.key}-{suffix}", self.key, spec.sub_group_size or 1, spec.network_topology)
        sub.match_index = int(values[0]) if values[0].lstrip("+-").isdecimal() else 0
        return sub


class Layout:
    """How a job is split, and which network topology it asks for.

    Args:
        job: The job; its group is set.

    Attributes:
        split: Whether there are policies.
        subs: The sub-jobs by key; those without tasks are gone.
        network: The whole job's topology, None without one.
        minimum: By policy key, how many of its sub-jobs must be ready.
        allocated: Name of the domain the job's placed tasks lie in; empty when unknown.
        written: The domain as the group's annotation last said it.

    Raises:
        ValueError: A label selector cannot be read.
    """

    __slots__ = ("_job", "_policies", "allocated", "minimum", "network", "split", "subs", "written")

    def __init__(self, job: Job) -> None:
        assert job.group is not None
        spec = job.group.spec
        self._job = job
        self.network = spec.network_topology
        self._policies = [_Policy(job, policy) for policy in spec.sub_group_policy]
        self.split = bool(self._policies)
        self.minimum = {f"{job.key}/{p.name}": p.min_sub_groups for p in spec.sub_group_policy}
        self.allocated = self.written = ""
        self.subs: dict[str, SubJob] = {}
        if not self.split:
            self.subs[job.key] = SubJob(job, job.key, job.key, 0, self.network, whole=True)
        for task in job.tasks.values():
            self.add(task)

    @property
    def topological(self) -> bool:
        """Whether the job or any part of it asks for a network topology."""
        return self.network is not None or any(p.spec.network_topology is not None for p in self._policies)

    def add(self, task: Task) -> None:
        """Give a task to its sub-job."""
        sub = self._find(task)
        task.sub = sub
        sub.priority = max(sub.priority, task.priority)
        if not sub.whole:
            sub.tasks[task.key] = task
            sub.count(task, task.status, 1)

    def remove(self, task: Task) -> None:
        """Take a task off its sub-job."""
        sub, task.sub = task.sub, None
        if sub is None or sub.whole:
            return
        del sub.tasks[task.key]
        sub.count(task, task.status, -1)
        if not sub.tasks:
            self.subs.pop(sub.key, None)

    def _find(self, task: Task) -> SubJob:
        labels = task.pod.metadata.labels or {}
        for policy in self._policies:
            values = policy.values(labels)
            if values is not None:
                return self._known(policy.sub_job(values))
        if not self.split:
            return self.subs[self._job.key]
        return self._known(SubJob(self._job, self._job.key, self._job.key, 1, self.network))

    def _known(self, sub: SubJob) -> SubJob:
        return self.subs.setdefault(sub.key, sub)

    # -- checks (spec scheduler-core 7.2) ------------------------------------------------------------------------------

    def enough(self) -> bool:
        """Whether every policy has its minimum of sub-jobs (CheckSubJobValid)."""
        return self._reached(self.subs.values())

    def enough_ready(self) -> bool:
        """Whether every policy has its minimum of sub-jobs ready."""
        return self._reached(sub for sub in self.subs.values() if sub.is_ready)

    def enough_pipelined(self) -> bool:
        """Whether every policy has its minimum of sub-jobs ready or expected to be."""
        return self._reached(sub for sub in self.subs.values() if sub.is_pipelined)

    def _reached(self, subs: Iterable[SubJob]) -> bool:
        if not any(self.minimum.values()):
            return True
        found: dict[str, int] = {}
        for sub in subs:
            found[sub.policy] = found.get(sub.policy, 0) + 1
        return all(found.get(policy, 0) >= minimum for policy, minimum in self.minimum.items())


def safe_hash(text: str) -> str:
    """Return the 32-bit FNV-1a hash of a text in letters that are safe in names, as Kubernetes writes hashes."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_SAFE[ord(c) % len(_SAFE)] for c in str(value))
