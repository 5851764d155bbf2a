"""The plugin protocol: extension points, their toggles, and typed arguments.

`Plugin` declares every method that the scheduler calls. A plugin is one class; the methods it overrides are its
extension points. Every session builds it anew from its arguments and opens it. Ordering points return sort keys
(smaller first); filter and score points return arrays over rows of the `NodeTable`; votes are PERMIT, ABSTAIN, REJECT
(spec scheduler-core 10).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from strato.scheduler.framework import contract
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.contract import order, point
from strato.scheduler.model.answers import Evictor, ResourceTerm, StaticScore, Validity, Verdicts
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray, Vector
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.topology.proximity import Proximity

POINTS = contract.POINTS

PERMIT: Final = 1
ABSTAIN: Final = 0
REJECT: Final = -1

ALLOCATE: Final = "allocate"
EVICT: Final = "evict"
"""Purposes of ``hyper_node_gradient``."""

GANG_PREEMPT: Final = "gangpreempt"
GANG_RECLAIM: Final = "gangreclaim"
"""Kinds of `Evictor`."""

SortKey = Any
"""Anything comparable: each plugin chooses numbers, tuples or text, so no narrower type is right."""

TOGGLES: Final[dict[str, bool]] = {
    "enableJobOrder": True,
    "enableHierarchy": False,
    "enableJobReady": True,
    "enableJobPipelined": True,
    "enableTaskOrder": True,
    "enablePreemptable": True,
    "enableReclaimable": True,
    "enablePreemptive": True,
    "enableQueueOrder": True,
    "enabledClusterOrder": False,
    "enablePredicate": True,
    "enableBestNode": True,
    "enableNodeOrder": True,
    "enableTargetJob": True,
    "enableReservedNodes": True,
    "enableJobEnqueued": True,
    "enabledVictim": True,
    "enableJobStarving": True,
    "enabledOverused": True,
    "enabledAllocatable": True,
    "enabledHyperNodeOrder": True,
    "enabledSubJobReady": True,
    "enabledSubJobPipelined": True,
    "enabledSubJobOrder": True,
    "enabledHyperNodeGradient": True,
}
"""Toggle keys with their irregular spellings, and what an absent one means (spec scheduler-core 2.2)."""


JOB_FACTS: Final = frozenset(
    (
        "created",
        "min_available",
        "minimum",
        "name",
        "namespace",
        "priority",
        "roles",
        "stated_seconds",
        "uid",
        "waiting_seconds",
    )
)
"""Attributes of a job that a plugin may declare to read (`Plugin.job_facts`)."""
EVICTOR_FACTS: Final = frozenset(("job.priority", "preemptable", "priority"))
"""Attributes of an evicting task that a plugin may declare to read (`Plugin.evictor_facts`)."""


class Plugin:
    """Base of all plugins: every extension point with its contract; override the ones you need.

    Attributes:
        name: As written in the configuration.
        args_type: Frozen dataclass of its arguments, each declared with `arg`; None for a plugin without.
        args: Its arguments as the configuration sets them, an ``args_type``.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Any] | None] = None
    time_based: ClassVar[bool] = False
    """Whether its answers change with time alone; then cycles also run when nothing changed."""
    job_facts: ClassVar[tuple[str, ...] | None] = None
    """Attributes of a job that the plugin reads, as names out of `JOB_FACTS`. Every plugin may also read the job's
    queue, priority and minima, and the classes, roles and priorities of its tasks. Jobs equal in all of these form a
    job class, of which one is visited until anything changes (see `strato.scheduler.ordering.jobclasses`). To admit,
    order or refuse a job, or to choose victims for it, the plugin must therefore read nothing else of it (name,
    labels), use neither the clock nor chance, and not count its calls. None puts every job in a class of its own. Not
    inherited: each class declares its own."""
    evictor_facts: ClassVar[tuple[str, ...] | None] = None
    """Attributes of an evicting task by which `preemptable` and `reclaimable` choose among other jobs' tasks, as names
    out of `EVICTOR_FACTS`. A node that offered one task too little is not tried again for tasks equal in these until a
    task moves. None when the choice may depend on anything else, such as its request. Not inherited."""
    weighs_claims: ClassVar[bool] = False
    """Whether `preemptable` decides by comparing preemptor and victim, rather than to protect the victim as such."""

    limits_pods: ClassVar[bool] = False
    """Whether `filter` enforces each node's limit on the number of pods."""

    hierarchy: bool = False
    """Its ``enableHierarchy`` toggle."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for what, named, known in (
            ("job_facts", cls.job_facts, JOB_FACTS),
            ("evictor_facts", cls.evictor_facts, EVICTOR_FACTS),
        ):
            unknown = sorted(set(named or ()) - known)
            if unknown:
                raise TypeError(f"{cls.__name__}.{what}: {unknown[0]!r} is none of {', '.join(sorted(known))}")

    def __init__(self, args: Any = None) -> None:
        self.args = args

    @classmethod
    def contradictions(cls, args: Any) -> Sequence[tuple[str, str]]:
        """Return contradictions between its arguments, as key and problem each; any makes a configuration invalid."""
        return ()

    def off_points(self) -> frozenset[str]:
        """Return extension points this configuration of the plugin does not answer although the class has them."""
        return frozenset()

    def resources(self) -> Sequence[str]:
        """Return the resources its arguments name, so that their columns exist before any plugin is opened."""
        return ()

    def open(self, ssn: CycleContext) -> None:
        """Read from the session what the plugin needs; called once, before any extension point."""

    def close(self, ssn: CycleContext) -> None:
        """Set conditions or metrics; called once, after all actions."""

    # -- order: smaller keys first -------------------------------------------------------------------------------------

    @order("enableJobOrder")
    def job_order(self, job: Job) -> SortKey:
        """Return a job's key among the jobs of its queue."""

    @order("enableTaskOrder")
    def task_order(self, task: Task) -> SortKey:
        """Return a task's key within its job."""

    @order("enableQueueOrder")
    def queue_order(self, queue: Queue) -> SortKey:
        """Return a queue's key."""

    @order()
    def victim_queue_order(self, queue: Queue, preemptor: Queue) -> SortKey:
        """Return a queue's key among queues to take victims from."""

    # -- nodes ---------------------------------------------------------------------------------------------------------

    @point("enablePredicate", check=contract.maybe(Reason))
    def pre_filter(self, task: Task) -> Reason | None:
        """Reject a task before any node is looked at; None lets it pass."""

    @point("enablePredicate", check=contract.verdicts)
    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by class and node object only; the answer is cached until the node object changes."""

    @point()
    def facet(self, task: Task) -> Hashable:
        """Return what ``filter_facet`` and ``score_facet`` read besides the class: a queue's rule, an annotation.

        Tasks of one class and equal facets get the same answers, which are cached like those of ``filter``.
        """

    @point("enablePredicate", check=contract.verdicts)
    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by class, facet and node object only; cached until the node object or the facet changes."""

    @point("enableNodeOrder", check=contract.static)
    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Score rows by class, facet and node object only; cached until the node object or the facet changes."""
        return ()

    @point("enablePredicate", check=contract.verdicts)
    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by what runs on them; called again after every placement. None allows all rows."""

    @point("enablePredicate", check=contract.verdicts)
    def filter_neighbours(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by the rules about other pods, which are part of ``filter_task`` too.

        Plain preemption checks these before it evicts, because Volcano computes them once per task, so that evictions
        cannot make a node pass. Topology-aware preemption evaluates them with the victims gone.
        """

    @point("enableNodeOrder", check=contract.static)
    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Score rows by class and node object only; cached until the node object changes."""
        return ()

    @point("enableNodeOrder")
    def resource_terms(self) -> Sequence[ResourceTerm]:
        """Return the resource scores the kernel computes for this plugin."""
        return ()

    @point("enableNodeOrder", check=contract.scores)
    def score(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score rows by class and the rows' columns; None adds nothing to the scores."""

    @point("enableNodeOrder", check=contract.scores)
    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score rows by more of the task than its class; called for every single task."""

    @point("enableNodeOrder", check=contract.scores)
    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score the candidate rows together (normalised by the plugin); called for every single task."""

    @point(check=contract.truth, left_out=lambda _: False)
    def watches_pods(self, task: Task) -> bool:
        """Whether ``filter_task`` or the scores of this task depend on pods on the nodes, or on more than its class.

        Called for plugins with ``filter_task``, ``score``, ``score_task`` or ``batch_score``. Tasks for which all of
        them return False are placed in batches by their class, without calling these points.
        """
        return True

    # -- network domains ----------------------------------------------------------------------------------------------

    @point("enableNodeOrder")
    def proximity(self, task: Task) -> Proximity | None:
        """Return how network domains score for a task and others equal to it; called before every batch."""

    @point("enabledHyperNodeOrder", check=contract.domain_scores)
    def hyper_node_order(self, sub: SubJob, domains: Sequence[int], together: bool) -> FloatArray:
        """Score domains for a sub-job.

        Args:
            sub: The sub-job.
            domains: Their numbers in the session's `Tree`.
            together: Whether they are compared with each other; otherwise each is scored as if it were the only one.
        """
        return np.zeros(len(domains))

    @point("enabledHyperNodeGradient")
    def hyper_node_gradient(self, part: Job | SubJob, root: int, purpose: str) -> Sequence[Sequence[int]]:
        """Return which domains inside ``root`` to try for a job or sub-job: groups in order, equals in each.

        Args:
            part: The job or sub-job to place.
            root: Number of a domain.
            purpose: `ALLOCATE` or `EVICT`.
        """
        return ((root,),)

    @order("enabledSubJobOrder")
    def sub_job_order(self, sub: SubJob) -> SortKey:
        """Return a sub-job's key within its job."""

    @point("enabledSubJobReady", check=contract.truth, left_out=lambda sub: sub.is_ready)
    def sub_job_ready(self, sub: SubJob) -> bool:
        """Whether enough tasks of a sub-job are placed."""
        return True

    @point(check=contract.at_least_one)
    def missing_until_sub_ready(self, sub: SubJob) -> int:
        """Return a lower bound, at least 1, of tasks to place before ``sub_job_ready`` may turn true."""
        return 1

    @point("enabledSubJobPipelined", check=contract.vote)
    def sub_job_pipelined(self, sub: SubJob) -> int:
        """Vote whether a sub-job that is not ready may keep its pipelined tasks."""
        return ABSTAIN

    # -- queues and jobs -----------------------------------------------------------------------------------------------

    @point("enabledOverused", check=contract.truth)
    def overused(self, queue: Queue) -> bool:
        """Whether a queue has all it deserves; then nothing more of it is placed in this cycle."""
        return False

    @point("enabledAllocatable", check=contract.count)
    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Return how many of ``count`` tasks equal to ``task`` the queue may still take, one after the other."""
        return count

    @point("enablePreemptive", check=contract.truth)
    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may reclaim from others for these tasks."""
        return True

    @point(check=contract.maybe(Validity))
    def job_valid(self, job: Job) -> Validity | None:
        """Return why a job cannot run as it is; None when it can."""

    @point("enableJobReady", check=contract.truth, left_out=lambda job: job.is_ready)
    def job_ready(self, job: Job) -> bool:
        """Whether the job's placed tasks may be bound."""
        return True

    @point(check=contract.at_least_one)
    def missing_until_ready(self, job: Job, role: str) -> int:
        """Return a lower bound, at least 1, of tasks of a role to place before ``job_ready`` may turn true.

        Only called for plugins that answer ``job_ready``; 1 is always right, but has tasks placed one by one.
        """
        return 1

    @point("enableJobPipelined", check=contract.vote)
    def job_pipelined(self, job: Job) -> int:
        """Vote whether a job that is not ready may keep its pipelined tasks."""
        return ABSTAIN

    @point("enableJobStarving", check=contract.truth, left_out=lambda _: True)
    def job_starving(self, job: Job) -> bool:
        """Whether a job has less than its minimum, so that tasks may be evicted for it."""
        return False

    @point("enableJobEnqueued", check=contract.vote)
    def job_enqueueable(self, job: Job) -> int:
        """Vote whether a pending job may be enqueued."""
        return ABSTAIN

    @point("enableJobEnqueued")
    def job_enqueued(self, job: Job) -> None:
        """Take note that a job was enqueued."""

    # -- victims -------------------------------------------------------------------------------------------------------

    @point("enablePreemptable", check=contract.victims)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may be evicted for ``preemptor``, a task of the same queue, and a vote."""
        return (), ABSTAIN

    @point("enableReclaimable", check=contract.victims)
    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may be evicted for a task of another queue, and a vote."""
        return (), ABSTAIN

    @point(check=contract.victims)
    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may be evicted for a whole job, and a vote."""
        return (), ABSTAIN

    @point("enabledVictim", check=contract.tasks)
    def victim_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return tasks to evict for reasons of the plugin's own (action shuffle)."""
        return ()

    # -- events --------------------------------------------------------------------------------------------------------

    @point()
    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Take note that tasks were placed or pipelined; the sums in `Job` and `Queue` are updated already."""

    @point()
    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Take note that tasks lost their places (evicted, or a statement was undone)."""


def answers(plugin: Plugin, name: str) -> bool:
    """Whether a plugin's class (and configuration) answers an extension point."""
    return _has(type(plugin), name) and name not in plugin.off_points()


def points_of(plugin: type[Plugin], toggles: Mapping[str, bool]) -> frozenset[str]:
    """Return the extension points that a plugin's class answers and its toggles leave on."""
    return frozenset(
        name
        for name, found in POINTS.items()
        if _has(plugin, name) and (not found.toggles or any(toggles[toggle] for toggle in found.toggles))
    )


def _has(plugin: type[Plugin], name: str) -> bool:
    return getattr(plugin, name) is not getattr(Plugin, name)


def how_many_fit(free: Sequence[float] | Vector | FloatArray, needs: Iterable[tuple[int, int]], count: int) -> int:
    """Return how many of ``count`` equal requests fit into ``free``.

    ``needs`` is one request as pairs of column and positive amount.
    """
    for column, need in needs:
        count = min(count, max(0, math.floor(float(free[column]) / need)))
    return count
