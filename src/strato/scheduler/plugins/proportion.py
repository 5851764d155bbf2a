"""proportion: queues share the cluster by weight, and borrow what others leave (spec volcano-plugins 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strato.scheduler.cache.usageaverages import UsageAverages, boost
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin, how_many_fit
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import PODS, Dimensions, FloatArray, Vector
from strato.scheduler.plugins.nodegroup import affinity_of, may_use
from strato.scheduler.plugins.waterfilling import NodePool, QueueEntitlement, attributes_of, fill_pools, water_fill


@dataclass(frozen=True, slots=True, kw_only=True)
class ProportionArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    half_life_seconds: float = arg("usageHalfLifeSeconds", 0.0, minimum=0)
    """Time after which what a queue held counts half: one that had less than its part lately weighs more. Default 0, no
    memory, as in Volcano."""


class Proportion(Plugin):
    """Give each queue its weighted part, and divide what queues do not need among the others."""

    name = "proportion"
    job_facts = ("minimum",)
    evictor_facts = ()
    args_type = ProportionArgs

    def open(self, ssn: CycleContext) -> None:
        """Compute what every queue with jobs deserves."""
        self._ssn = ssn
        self._free: dict[str, tuple[int, list[float]]] = {}  # by queue, the world's version and what was left then
        world = ssn.world
        world.settle()
        total = ssn.total.astype(np.float64)
        queues = [q for q in world.queues.values() if q.view is not None and q.jobs]
        guaranteed = np.zeros(world.dims.width)
        for queue in world.queues.values():
            for column, amount in queue.guarantee.items():
                guaranteed[column] += amount
        left, nothing = np.maximum(total - guaranteed, 0.0), np.zeros(world.dims.width)
        self._queues = {q.name: attributes_of(q, left, nothing) for q in queues}
        if self.args.half_life_seconds:
            self._weigh_by_memory(total)
        self._total = total
        self._is_filled = False

    def _filled(self) -> dict[str, QueueEntitlement]:
        """Return the queues by name with what they deserve; computed when first needed."""
        if self._is_filled:
            return self._queues
        self._is_filled = True
        world = self._ssn.world
        if self._ssn.is_pooled:
            affinities = {
                name: affinity_of(mine.queue, world.queues, hierarchy=False) for name, mine in self._queues.items()
            }
            pools = [
                NodePool(
                    total=amounts.astype(np.float64),
                    members=[n for n, one in affinities.items() if may_use(one, group)],
                )
                for group, amounts in world.totals.pools.items()
            ]
            fill_pools(self._queues, pools)
        else:
            water_fill(list(self._queues.values()), self._total)
        return self._queues

    def _weigh_by_memory(self, total: FloatArray) -> None:
        """Raise the weights of queues that held less than their part lately, and lower those of the others."""
        world = self._ssn.world
        memory = world.usage_averages.setdefault(self.name, UsageAverages())
        held = {name: queue.used for name, queue in world.queues.items() if queue.view is not None}
        memory.advance(self._ssn.now, self.args.half_life_seconds, held)
        width, safe = world.dims.width, np.maximum(total, 1.0)
        past = {name: float((memory.of(name, width) / safe).max()) for name in self._queues}
        whole, weights = sum(past.values()), sum(mine.weight for mine in self._queues.values())
        if whole > 0 and weights > 0:
            for name, mine in self._queues.items():
                mine.weight *= boost(past[name] / whole, mine.weight / weights)

    def of(self, queue: Queue) -> QueueEntitlement | None:
        """Return a queue's attributes; None for one without jobs."""
        return self._filled().get(queue.name)

    def queue_order(self, queue: Queue) -> tuple[int, float]:
        """Higher priority first, then smaller share."""
        mine = self._filled().get(queue.name)
        return -queue.priority, mine.share if mine is not None else 0.0

    def overused(self, queue: Queue) -> bool:
        """Whether the queue holds at least what it deserves in every resource."""
        mine = self._filled().get(queue.name)
        if mine is None:
            return False
        used = queue.used.tolist()  # runs before every visit of a queue: Python numbers allow to stop at the first lack
        return all(d <= u + 0.1 for d, u in zip(mine.deserved.tolist(), used, strict=True))

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that fit into what the queue deserves; none while it is not open."""
        mine = self._filled().get(queue.name)
        if mine is None:
            return count
        if not queue.is_open:
            return 0
        return how_many_fit(self._left(queue, mine), task.cls.needs, count)

    def _left(self, queue: Queue, mine: QueueEntitlement) -> list[float]:
        """Return what a queue deserves less what it holds; cached, as a backlog asks often while nothing moves."""
        version = self._ssn.world.version
        known = self._free.get(queue.name)
        if known is None or known[0] != version:
            known = self._free[queue.name] = version, (mine.deserved - queue.used).tolist()
        return known[1]

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue may reclaim from others to place these tasks."""
        mine = self._filled().get(queue.name)
        if mine is None:
            return True
        if not queue.is_open:
            return False
        want = sum((task.cls.request for task in tasks), self._ssn.world.dims.zeros())
        after = queue.used + want
        return all(after[c] <= mine.deserved[c] for c, need in enumerate(want.tolist()) if need > 0 and c != PODS)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks of queues that hold more than they deserve."""
        left: dict[str, tuple[list[int], list[float]]] = {}
        victims = []
        for task in candidates:
            queue = task.job.queue if task.job is not None else None
            mine = self._filled().get(queue.name) if queue is not None else None
            if queue is None or mine is None:
                continue
            if queue.name not in left:
                left[queue.name] = queue.used.tolist(), (mine.deserved + 0.1).tolist()
            used, most = left[queue.name]
            for held, limit in zip(used, most, strict=True):
                if float(held) > limit:
                    for column, need in task.cls.asked:
                        used[column] -= need
                    victims.append(task)
                    break
        return victims, PERMIT

    def job_enqueueable(self, job: Job) -> int:
        """Whether the job's minimum fits into the most its queue may hold."""
        mine = self._queues.get(job.queue.name) if job.queue is not None else None
        if mine is None:
            return PERMIT
        queue = mine.queue
        if not queue.is_open:
            self._ssn.record_verdict(job, closed_verdict(self.name, queue))
            return REJECT
        held = queue.used + mine.inqueue - mine.elastic
        verdict = quota_verdict(self.name, job, held, mine.real_capability, self._ssn.world.dims)
        if verdict is None:
            return PERMIT
        self._ssn.record_verdict(job, verdict)
        return REJECT

    def job_enqueued(self, job: Job) -> None:
        """Count the job among the admitted of its queue."""
        mine = self._queues.get(job.queue_name)
        if mine is not None and job.min_resources is not None:
            mine.inqueue = mine.inqueue + self._ssn.world.deduct_gated(job, job.min_resources)

    def close(self, ssn: CycleContext) -> None:
        """Record what queues deserve, for their status, metrics and explanations."""
        if not ssn.reports_queues:
            return
        for name, mine in self._filled().items():
            ssn.queue_facts[name] = QueueFacts(
                deserved=ssn.world.dims.to_wire([int(v) for v in mine.deserved]),
                share=mine.share,
                overused=self.overused(mine.queue),
                weight=mine.weight,
                vectors={"deserved": mine.deserved},
            )


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue's share at the end of a session, by a plugin such as proportion or capacity."""

    deserved: Mapping[str, str]
    share: float
    overused: bool
    weight: float
    vectors: Mapping[str, FloatArray | Vector]


def closed_verdict(plugin: str, queue: Queue) -> Verdict:
    """Return the verdict that a queue is not open."""
    return Verdict(plugin, "QueueClosed", f"queue {queue.name} is not open, it is {queue.state or 'unknown'}")


def quota_verdict(plugin: str, job: Job, held: Vector, limit: FloatArray, dims: Dimensions) -> Verdict | None:
    """Return a verdict if a queue's capability is too small for what it holds and a job's minimum; None if not."""
    if job.min_resources is None:
        return None
    want = job.min_resources + held
    lacking = [c for c in job.min_columns if c != PODS and want[c] > limit[c]]
    if not lacking:
        return None
    names = [dims.names[c] for c in lacking]
    text = "queue resource quota insufficient: " + ", ".join(f"insufficient {name}" for name in names)
    numbers = {f"wanted {n}": float(want[c]) for n, c in zip(names, lacking, strict=True)}
    numbers |= {f"capability {n}": float(limit[c]) for n, c in zip(names, lacking, strict=True)}
    return Verdict(plugin, "QueueQuota", text, numbers)
