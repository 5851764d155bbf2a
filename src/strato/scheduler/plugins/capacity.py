"""capacity: queues with a deserved amount each, elastic up to their capability, flat or as a tree (plugins 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from strato.scheduler.cache.usageaverages import UsageAverages
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import GANG_PREEMPT, PERMIT, REJECT, Plugin, how_many_fit
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import CPU, MEMORY, PODS, FloatArray, Vector
from strato.scheduler.model.tasks import PENDING
from strato.scheduler.plugins.capacityshares import QueuePosition, Shares, dense, exceeds, partly_within
from strato.scheduler.plugins.claimquota import ClaimQuota
from strato.scheduler.plugins.proportion import QueueFacts, closed_verdict, quota_verdict

ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    ancestor_reclaim_level: int = arg("ancestorReclaimLevel", 0, minimum=0)
    """How many levels of ancestors take part in reclaiming; 0 looks at the queues themselves only."""
    claims: bool = arg("capacity.DynamicResourceAllocationEnable", True)
    """Whether ``deviceclass/…`` in a queue's capability limits the devices its pods claim."""
    half_life_seconds: float = arg("usageHalfLifeSeconds", 0.0, minimum=0)
    """Time after which what a queue held counts half in the order of queues. Default 0, no memory, as in Volcano."""
    consumable_claims: bool = arg("capacity.DRAConsumableCapacityEnable", False)
    """Whether ``….deviceclass/…`` limits the capacity of those devices."""


class Capacity(Plugin):
    """Give each queue what it deserves, lend what is idle, take it back when it is needed."""

    name = "capacity"
    job_facts = ("minimum",)
    args_type = CapacityArgs

    def off_points(self) -> frozenset[str]:
        """Queues of victims are only ordered in a tree."""
        return frozenset() if self.hierarchy else frozenset(("victim_queue_order",))

    def open(self, ssn: CycleContext) -> None:
        """Compute what every queue may hold."""
        self._ssn = ssn
        self._ready = True
        world = ssn.world
        world.settle()
        self._shares: dict[str, Shares] = {}
        known = {n: q for n, q in world.queues.items() if q.view is not None and (self.hierarchy or q.jobs)}
        for queue in known.values():
            self._shares[queue.name] = self._shares_of(queue)
        if self.hierarchy:
            self._ready = self._build_tree()
        else:
            self._entitle_flat(ssn.total.astype(np.float64))
        if self.args.half_life_seconds:
            memory = world.usage_averages.setdefault(self.name, UsageAverages())
            held = {name: mine.used for name, mine in self._shares.items()}
            memory.advance(ssn.now, self.args.half_life_seconds, held)
            for name, mine in self._shares.items():
                mine.remembered = memory.of(name, world.dims.width)
        lineages = {name: (*mine.ancestors, name) for name, mine in self._shares.items() if mine.queue.jobs}
        quota = ClaimQuota(world, lineages, consumable=self.args.consumable_claims) if self.args.claims else None
        self._claims = quota if quota is not None and quota.on else None

    # -- attributes ----------------------------------------------------------------------------------------------------

    def _shares_of(self, queue: Queue) -> Shares:
        width = self._ssn.world.dims.width
        deserved, guarantee = dense(queue.deserved, width), dense(queue.guarantee, width)
        capability = np.full(width, np.inf)
        for column, amount in queue.capability.items():
            if amount > 0 or column not in (CPU, MEMORY):
                capability[column] = amount
        named = (*queue.deserved.items(), *queue.guarantee.items())
        declared = frozenset(c for c, amount in named if c not in (CPU, MEMORY) or amount)
        return Shares(
            queue=queue,
            ancestors=(),
            children=[],
            deserved=deserved,
            guarantee=guarantee,
            capability=capability,
            real_capability=capability,
            used=queue.used.copy(),
            inqueue=queue.inqueue.copy(),
            elastic=queue.elastic.copy(),
            declared=declared,
        )

    def _entitle_flat(self, total: FloatArray) -> None:
        guaranteed = np.zeros_like(total)
        for queue in self._ssn.world.queues.values():
            guaranteed += dense(queue.guarantee, len(total))
        for mine in self._shares.values():
            mine.real_capability = np.minimum(np.maximum(total - guaranteed, 0) + mine.guarantee, mine.capability)
            mine.deserved = np.maximum(np.minimum(mine.deserved, mine.real_capability), mine.guarantee)

    def _build_tree(self) -> bool:
        """Link queues to their parents and pass limits down; False when the tree is broken."""
        if ROOT not in self._shares:
            return False
        lineages: dict[str, tuple[str, ...]] = {ROOT: ()}
        for name in self._shares:
            path: list[str] = []
            while name not in lineages:
                if name not in self._shares or len(path) > len(self._shares):
                    return False
                path.append(name)
                name = self._shares[name].queue.parent or ROOT
            for below in reversed(path):
                lineages[below] = (*lineages[name], name)
                name = below
        for name, mine in self._shares.items():
            mine.ancestors = lineages[name]
            if name != ROOT:
                self._shares[mine.ancestors[-1]].children.append(name)
        if any(mine.children and mine.queue.jobs for mine in self._shares.values()):
            return False
        for mine in self._shares.values():
            if not mine.children:
                for ancestor in mine.ancestors:
                    above = self._shares[ancestor]
                    above.used = above.used + mine.used
                    above.inqueue = above.inqueue + mine.inqueue
                    above.elastic = above.elastic + mine.elastic
        root = self._shares[ROOT]
        root.real_capability = root.capability = self._limit_of_root(root)
        waiting = [root]
        while waiting:  # a tree may be deeper than calls may nest
            waiting += self._entitle_below(waiting.pop())
        return True

    def _limit_of_root(self, root: Shares) -> FloatArray:
        """Return what the whole tree may hold; 0 of resources that no node has and no queue names."""
        scalars = np.ones(len(root.capability), np.bool_)
        scalars[[CPU, MEMORY]] = False
        named = root.capability < np.inf if root.queue.capability else self._ssn.total > 0
        named[PODS] = True
        return np.where(scalars & ~named, 0.0, root.capability)

    def _entitle_below(self, parent: Shares) -> list[Shares]:
        """Pass limits down to the children of a queue; return the children."""
        children = [self._shares[name] for name in parent.children]
        for child in children:
            child.deserved = np.maximum(child.deserved, child.guarantee)
            child.capability = np.where(np.isinf(child.capability), parent.capability, child.capability)
        guaranteed = sum((child.guarantee for child in children), np.zeros_like(parent.guarantee))
        if parent.queue.name == ROOT and children:
            parent.guarantee = guaranteed
            parent.deserved = sum((child.deserved for child in children), np.zeros_like(parent.deserved))
        for child in children:
            room = np.maximum(parent.real_capability - guaranteed, 0) + child.guarantee
            child.real_capability = np.minimum(room, child.capability)
        return children

    def _lineage(self, queue: Queue) -> list[Shares]:
        """Return a queue's shares and those of its ancestors."""
        mine = self._shares.get(queue.name)
        if mine is None:
            return []
        return [mine, *(self._shares[name] for name in mine.ancestors)]

    # -- order ---------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[object, ...]:
        """Higher priority first; leaves before inner queues; then by share, level by level from the top."""
        mine = self._shares.get(queue.name)
        if mine is None:
            return -queue.priority, False, QueuePosition(()) if self.hierarchy else ((False, 0.0), True)
        if not self.hierarchy:
            return -queue.priority, False, (mine.rank, not mine.has_deserved)
        path = [(name, self._shares[name].rank) for name in mine.ancestors[1:]]
        return -queue.priority, bool(mine.children), QueuePosition([*path, (queue.name, mine.rank)])

    def victim_queue_order(self, queue: Queue, preemptor: Queue) -> int:
        """Closer relatives of the preemptor's queue first."""
        a, b = self._shares.get(queue.name), self._shares.get(preemptor.name)
        if a is None or b is None:
            return 0
        level = 0
        for left, right in zip((*a.ancestors, queue.name), (*b.ancestors, preemptor.name), strict=False):
            if left != right:
                break
            level += 1
        return -level

    # -- room ----------------------------------------------------------------------------------------------------------

    def _leaf(self, queue: Queue) -> bool:
        mine = self._shares.get(queue.name)
        return mine is not None and not mine.children

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that the queue and all its ancestors may still hold."""
        if not self._ready or not queue.is_open or not self._leaf(queue):
            return 0
        if self._claims is not None and task.pod.spec.resource_claims and not self._claims.allows(queue, task):
            return 0
        reserved = self._reserved(task) if self._ssn.world.queue_gated else {}
        for mine in self._lineage(queue):
            free = np.minimum(mine.real_capability - mine.used, 1e18)
            if reserved:
                free = free - reserved.get(mine.queue.name, 0)
            count = how_many_fit(free, task.cls.needs, count)
        return count

    def _reserved(self, task: Task) -> dict[str, Vector]:
        """Return by queue the requests of pending tasks whose queue-admission gate was removed or is being removed.

        Room is kept for these. A task without the gate does not count equal tasks of its own job, as any of them may
        take the room.
        """
        out: dict[str, Vector] = {}
        admitted = self._ssn.plan.admitted
        was_let_in = not task.gated and task.key in self._ssn.world.queue_gated
        for other in self._ssn.world.queue_gated.values():
            if other.status != PENDING or other is task or (other.gated and other.key not in admitted):
                continue
            if other.job is None or other.job.queue is None:
                continue
            if was_let_in and other.job is task.job and other.cls is task.cls:
                continue
            for mine in self._lineage(other.job.queue):
                out[mine.queue.name] = out.get(mine.queue.name, 0) + other.cls.request
        return out

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether with these tasks the queue (or an ancestor within the level) stays partly within its deserved."""
        mine = self._shares.get(queue.name)
        if not self._ready or mine is None or not queue.is_open:
            return False
        want = sum((task.cls.request for task in tasks), self._ssn.world.dims.zeros())
        columns = [c for c, need in enumerate(want.tolist()) if need > 0 and c != PODS]
        if any(mine.used[c] + want[c] > mine.real_capability[c] for c in columns):
            return False
        if partly_within(mine, want, columns):
            return True
        levels = self.args.ancestor_reclaim_level if self.hierarchy else 0
        nearest = [self._shares[n] for n in reversed(mine.ancestors) if n != ROOT][:levels]
        return any(partly_within(above, want, columns) for above in nearest)

    def job_enqueueable(self, job: Job) -> int:
        """Whether the job's minimum fits into the queue's and its ancestors' capability."""
        queue = job.queue
        if queue is None or not self._ready or (self.hierarchy and not self._leaf(queue)):
            return REJECT
        if not queue.is_open:
            self._ssn.record_verdict(job, closed_verdict(self.name, queue))
            return REJECT
        if job.min_resources is None:
            return PERMIT
        for mine in self._lineage(queue):
            held = mine.used + mine.inqueue - mine.elastic
            verdict = quota_verdict(self.name, job, held, mine.real_capability, self._ssn.world.dims)
            if verdict is not None:
                self._ssn.record_verdict(job, verdict)
                return REJECT
        lacking_devices = self._claims.admits(job) if self._claims is not None else ""
        if lacking_devices:
            text = f"queue resource quota insufficient: insufficient {lacking_devices}"
            self._ssn.record_verdict(job, Verdict(self.name, "QueueQuota", text))
            return REJECT
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the job among the admitted."""
        if self._claims is not None:
            self._claims.enqueued(job)
        if job.min_resources is None or job.queue is None:
            return
        amount = self._ssn.world.deduct_gated(job, job.min_resources)
        for mine in self._lineage(job.queue):
            mine.inqueue = mine.inqueue + amount

    # -- reclaiming ----------------------------------------------------------------------------------------------------

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks of queues that hold more than they deserve, in the order they would be evicted."""
        if not self._ready or reclaimer.job is None or reclaimer.job.queue is None:
            return (), REJECT
        theirs = self._shares.get(reclaimer.job.queue.name)
        left = {name: mine.used for name, mine in self._shares.items()}
        victims = []
        for task in self._ssn.victims_in_order(candidates, reclaimer):
            taken = self._gives(reclaimer, theirs, task, left)
            if taken:
                victims.append(task)
                for name in taken:
                    left[name] = left[name] - task.cls.request
        return victims, PERMIT

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Within a queue all candidates; between queues, in order, those beyond what their queue deserves."""
        if evictor.kind == GANG_PREEMPT:
            return candidates, PERMIT
        if not self._ready:
            return (), REJECT
        needs = [c for c, need in enumerate(evictor.job.pending_request.tolist()) if need > 0]
        left = {name: mine.used for name, mine in self._shares.items()}
        victims = []
        for task in candidates:
            queue = task.job.queue if task.job is not None else None
            mine = self._shares.get(queue.name) if queue is not None else None
            if mine is None:
                continue
            used = left[mine.queue.name]
            if (mine.guarantee > used - task.cls.request).any():
                continue
            if self._shared_dims(task, mine) and not exceeds(used, mine, needs):
                continue
            victims.append(task)
            left[mine.queue.name] = used - task.cls.request
        return victims, PERMIT

    def _gives(self, reclaimer: Task, theirs: Shares | None, task: Task, left: dict[str, Vector]) -> list[str]:
        """Return the queues whose holdings shrink when a task is reclaimed; none if it may not be.

        Args:
            reclaimer: The task that asks.
            theirs: Shares of its queue.
            task: The task that may have to go.
            left: What each queue still holds.
        """
        queue = task.job.queue if task.job is not None else None
        mine = self._shares.get(queue.name) if queue is not None else None
        needs = [c for c, need in enumerate(reclaimer.cls.request.tolist()) if need > 0]
        relevant = [c for c in needs if c != PODS and task.cls.request[c] > 0]
        if mine is None or not relevant:
            return []
        used = left[mine.queue.name]
        if (mine.guarantee > used - task.cls.request).any():
            return []
        if not self._shared_dims(task, mine):
            if self._kept_within_family(reclaimer, theirs, mine):
                return []
        elif not exceeds(used, mine, needs):
            return []
        taken = [mine.queue.name]
        for above in self._consulted(theirs, mine):
            if self._shared_dims(task, above) and not exceeds(left[above.queue.name], above, needs):
                return []
            taken.append(above.queue.name)
        return taken

    @staticmethod
    def _shared_dims(task: Task, mine: Shares) -> bool:
        return any(need > 0 and mine.deserved[c] >= 0.1 for c, need in enumerate(task.cls.request.tolist()))

    def _kept_within_family(self, reclaimer: Task, theirs: Shares | None, mine: Shares) -> bool:
        """Whether a queue's tasks are safe from a near relative, as neither queue deserves any of their resources."""
        levels = self.args.ancestor_reclaim_level
        if not self.hierarchy or levels <= 0 or theirs is None:
            return False
        near = {n for n in mine.ancestors[::-1][:levels] if n != ROOT}
        if not near & {n for n in theirs.ancestors[::-1][:levels] if n != ROOT}:
            return False
        return not self._shared_dims(reclaimer, theirs)

    def _consulted(self, theirs: Shares | None, mine: Shares) -> list[Shares]:
        """Return the queue's ancestors that must also exceed what they deserve for a task to be reclaimed."""
        levels = self.args.ancestor_reclaim_level if self.hierarchy else 0
        out = []
        for level in range(1, levels + 1):
            name = mine.ancestors[-level] if level <= len(mine.ancestors) else ""
            other = theirs.ancestors[-level] if theirs is not None and level <= len(theirs.ancestors) else ""
            if name and name not in (ROOT, other):
                out.append(self._shares[name])
        return out

    # -- events --------------------------------------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Add to the queue and its ancestors."""
        self._shift(job, tasks, np.add)
        if self._claims is not None:
            self._claims.shift(tasks, 1)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Subtract from the queue and its ancestors."""
        self._shift(job, tasks, np.subtract)
        if self._claims is not None:
            self._claims.shift(tasks, -1)

    def _shift(self, job: Job | None, tasks: Sequence[Task], by: Callable[[Vector, Vector], Vector]) -> None:
        if job is None or job.queue is None:
            return
        amount = tasks[0].cls.request * len(tasks)
        for mine in self._lineage(job.queue):
            mine.used = by(mine.used, amount)

    def close(self, ssn: CycleContext) -> None:
        """Record what queues deserve, for their status, metrics and explanations."""
        if not ssn.reports_queues:
            return
        for name, mine in self._shares.items():
            ssn.queue_facts[name] = QueueFacts(
                deserved=ssn.world.dims.to_wire([int(v) for v in mine.deserved]),
                share=mine.share,
                overused=mine.share > 1,
                weight=float(mine.queue.weight),
                vectors={"deserved": mine.deserved, "capacity": mine.capability, "real_capacity": mine.real_capability},
            )
