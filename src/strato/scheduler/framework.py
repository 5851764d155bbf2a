"""The plugin protocol: extension points, their toggles, and typed arguments.

A plugin is one class whose overridden methods are its extension points. It is built anew for every session from its
arguments and opened on it. Ordering points return sort keys (smaller first); filter and score points return arrays over
rows of the `NodeTable`; votes are PERMIT, ABSTAIN, REJECT (spec scheduler-core 10).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.scheduler.reporting.reasons import Reason

if TYPE_CHECKING:
    from strato.scheduler.cache.jobs import Job, Queue
    from strato.scheduler.cache.nodes import NodeTable, Rows
    from strato.scheduler.cache.resources import Vector
    from strato.scheduler.cache.subjobs import SubJob
    from strato.scheduler.cache.tasks import Task, TaskClass
    from strato.scheduler.session import Session
    from strato.scheduler.topology.proximity import Proximity

PERMIT: Final = 1
ABSTAIN: Final = 0
REJECT: Final = -1

ALLOCATE: Final = "allocate"
EVICT: Final = "evict"
"""Purposes of ``hyper_node_gradient``."""

GANG_PREEMPT: Final = "gangpreempt"
GANG_RECLAIM: Final = "gangreclaim"
"""Kinds of `Evictor`."""

FloatArray = npt.NDArray[np.float64]
SortKey = Any
"""Anything comparable; the one place where Any is honest: plugins choose numbers, tuples or text."""

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

POINTS: Final[dict[str, tuple[str, ...]]] = {
    "job_order": ("enableJobOrder",),
    "sub_job_order": ("enabledSubJobOrder",),
    "task_order": ("enableTaskOrder",),
    "queue_order": ("enableQueueOrder",),
    "victim_queue_order": (),
    "filter": ("enablePredicate",),
    "facet": (),
    "filter_facet": ("enablePredicate",),
    "score_facet": ("enableNodeOrder",),
    "filter_task": ("enablePredicate",),
    "filter_neighbours": ("enablePredicate",),
    "pre_filter": ("enablePredicate",),
    "static_scores": ("enableNodeOrder",),
    "resource_terms": ("enableNodeOrder",),
    "score": ("enableNodeOrder",),
    "score_task": ("enableNodeOrder",),
    "batch_score": ("enableNodeOrder",),
    "proximity": ("enableNodeOrder",),
    "hyper_node_order": ("enabledHyperNodeOrder",),
    "hyper_node_gradient": ("enabledHyperNodeGradient",),
    "preemptable": ("enablePreemptable",),
    "reclaimable": ("enableReclaimable",),
    "unified_evictable": (),
    "overused": ("enabledOverused",),
    "preemptive": ("enablePreemptive",),
    "allocatable": ("enabledAllocatable",),
    "simulate_allocatable": ("enabledAllocatable",),
    "job_ready": ("enableJobReady",),
    "sub_job_ready": ("enabledSubJobReady",),
    "job_pipelined": ("enableJobPipelined",),
    "sub_job_pipelined": ("enabledSubJobPipelined",),
    "job_starving": ("enableJobStarving",),
    "job_valid": (),
    "job_enqueueable": ("enableJobEnqueued",),
    "job_enqueued": ("enableJobEnqueued",),
    "victim_tasks": ("enabledVictim",),
    "on_place": (),
    "on_remove": (),
}
"""Extension points, and the toggles any of which switches them on; none means always on."""


class Verdicts(NamedTuple):
    """Answer of a filter: per row 0 for yes, else 1 + index into ``reasons``."""

    codes: npt.NDArray[np.uint8]
    reasons: tuple[Reason, ...]

    @classmethod
    def reject_where(cls, rejected: npt.NDArray[np.bool_], reason: Reason) -> Verdicts:
        """Reject the rows that are True, all for one reason."""
        return cls(rejected.astype(np.uint8), (reason,))


class ResourceTerm(NamedTuple):
    """A score that depends on the class's request and one node's columns only; the kernel knows these kinds.

    Attributes:
        kind: ``kernels.LEAST`` (Kubernetes LeastAllocated), MOST, BALANCED, or PACK (weighted mean of the used fraction
            after placing, over requested dimensions; 0 when one overflows).
        weight: Factor of the term; terms are in [0, 100] times it.
        weights: Weight by column; in PACK a negative one asks for the free fraction instead, with that weight.
    """

    kind: int
    weight: float
    weights: tuple[tuple[int, float], ...]


class StaticScore(NamedTuple):
    """A score that depends on the class and the node object only.

    Attributes:
        raw: float64 per row asked for.
        weight: Factor.
        normalise: Whether raw scores are stretched so that the best candidate has 100 (Kubernetes' default).
        reverse: Whether a higher raw score is worse (then 100 minus the stretched one).
    """

    raw: FloatArray
    weight: float
    normalise: bool = False
    reverse: bool = False


class Validity(NamedTuple):
    """Answer of ``job_valid`` when a job cannot run as it is."""

    reason: str
    message: str


class Evictor(NamedTuple):
    """Who evicts bundles: a job of a queue, by one of two actions, for a network domain."""

    kind: str
    job: Job
    domain: int


class Plugin:
    """Base of all plugins: every extension point with its contract; override the ones you need.

    Attributes:
        name: As written in the configuration.
        args_type: Frozen dataclass of its arguments, with ``read(arguments, where) -> (args, problems)`` semantics
            given by `strato.scheduler.arguments`.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Any] | None] = None
    time_based: ClassVar[bool] = False
    """Whether its answers change with time alone; then cycles also run when nothing changed."""
    same_for_alike: ClassVar[bool] = False
    """Whether it treats jobs the same that are alike: queue, namespace, priority, minima, and classes, roles and
    priorities of tasks that all wait. Then one job of many such is asked until anything changes (see
    `strato.scheduler.backlog`). It must not look at names, ages, labels, annotations, the clock or chance to admit,
    order or refuse a job or to name victims for it, nor keep count of being asked. Not inherited: a class says it
    itself."""
    weighs_claims: ClassVar[bool] = False
    """Whether its `preemptable` compares whose claim is stronger, instead of guarding the pods it is asked about."""

    hierarchy: bool = False
    """Its ``enableHierarchy`` toggle."""

    def __init__(self, args: Any = None) -> None:
        self.args = args

    def off_points(self) -> frozenset[str]:
        """Return extension points this configuration of the plugin does not answer although the class has them."""
        return frozenset()

    def resources(self) -> Sequence[str]:
        """Return resources it names in its arguments, so that their columns exist before any plugin opens."""
        return ()

    def open(self, ssn: Session) -> None:
        """Read what it needs from the session; called once, before any extension point."""

    def close(self, ssn: Session) -> None:
        """Leave conditions or metrics behind; called once, after all actions."""

    # -- order: smaller keys first -------------------------------------------------------------------------------------

    def job_order(self, job: Job) -> SortKey:
        """Return a job's key among the jobs of its queue."""

    def task_order(self, task: Task) -> SortKey:
        """Return a task's key within its job."""

    def queue_order(self, queue: Queue) -> SortKey:
        """Return a queue's key."""

    def victim_queue_order(self, queue: Queue, preemptor: Queue) -> SortKey:
        """Return a queue's key among queues to take victims from."""

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def pre_filter(self, task: Task) -> Reason | None:
        """Turn a task down before looking at nodes."""

    def filter(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by class and node object only; the answer is kept until the node object changes."""

    def facet(self, task: Task) -> Hashable:
        """Return what ``filter_facet`` and ``score_facet`` look at besides the class: a queue's rule, an annotation.

        Tasks of one class and equal facets get the same answers, which are kept like those of ``filter``.
        """

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by class, facet and node object only; kept until the node object or the facet changes."""

    def score_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Score rows by class, facet and node object only; kept until the node object or the facet changes."""
        return ()

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by what runs on them; asked again after every placement. None when it has nothing to say."""

    def filter_neighbours(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Judge rows by the part of ``filter_task`` that preemption by score takes as it stands before it evicts.

        Volcano prepares these rules once per task, so that evictions cannot cure them; topology-aware preemption can.
        """

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Score rows by class and node object only; kept until the node object changes."""
        return ()

    def resource_terms(self) -> Sequence[ResourceTerm]:
        """Return the resource scores the kernel computes for this plugin."""
        return ()

    def score(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score rows by class and what the row's columns hold; None when it has nothing to say."""

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score rows like ``score`` where the class is not all that counts; asked for every single task."""

    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Score the candidate rows together (normalised by the plugin); asked for every single task."""

    # -- network domains ----------------------------------------------------------------------------------------------

    def proximity(self, task: Task) -> Proximity | None:
        """Return how network domains score for a task and its equals; asked before every batch."""

    def hyper_node_order(self, sub: SubJob, domains: Sequence[int], together: bool) -> FloatArray:
        """Score domains for a sub-job.

        Args:
            sub: The sub-job.
            domains: Their numbers in the session's `Tree`.
            together: Whether they compete; otherwise each is judged as if it were the only one.
        """
        return np.zeros(len(domains))

    def hyper_node_gradient(self, part: Job | SubJob, root: int, purpose: str) -> Sequence[Sequence[int]]:
        """Return which domains inside ``root`` to try for a job or sub-job: groups in order, equals in each.

        Args:
            part: Who wants a place.
            root: Number of a domain.
            purpose: `ALLOCATE` or `EVICT`.
        """
        return ((root,),)

    def sub_job_order(self, sub: SubJob) -> SortKey:
        """Return a sub-job's key within its job."""

    def sub_job_ready(self, sub: SubJob) -> bool:
        """Whether a sub-job's placed tasks suffice."""
        return True

    def missing_until_sub_ready(self, sub: SubJob) -> int:
        """Return a lower bound, at least 1, of tasks to place before ``sub_job_ready`` may turn true."""
        return 1

    def sub_job_pipelined(self, sub: SubJob) -> int:
        """Vote whether a sub-job that only got promises may keep them."""
        return ABSTAIN

    # -- queues and jobs -----------------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has all it deserves; it gets nothing more in this cycle."""
        return False

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Return how many of ``count`` tasks equal to ``task`` the queue may still take, one after the other."""
        return count

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may take from others for these tasks."""
        return True

    def job_valid(self, job: Job) -> Validity | None:
        """Say why a job cannot run as it is; None when it can."""

    def job_ready(self, job: Job) -> bool:
        """Whether the job's placed tasks may be bound."""
        return True

    def missing_until_ready(self, job: Job, role: str) -> int:
        """Return a lower bound, at least 1, of tasks of a role to place before ``job_ready`` may turn true.

        Only asked of plugins that answer ``job_ready``; 1 is always right and places one by one.
        """
        return 1

    def job_pipelined(self, job: Job) -> int:
        """Vote whether a job that only got promises may keep them."""
        return ABSTAIN

    def job_starving(self, job: Job) -> bool:
        """Whether a job may take from others."""
        return False

    def job_enqueueable(self, job: Job) -> int:
        """Vote whether a waiting job may enter its queue."""
        return ABSTAIN

    def job_enqueued(self, job: Job) -> None:
        """Note that a job entered its queue."""

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may make room for ``preemptor`` within the queue, and a vote."""
        return (), ABSTAIN

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may make room for a task of another queue, and a vote."""
        return (), ABSTAIN

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Return the candidates that may make room for a whole job, and a vote."""
        return (), ABSTAIN

    def victim_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return tasks to evict for reasons of the plugin's own (action shuffle)."""
        return ()

    # -- events --------------------------------------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Note that tasks got or were promised places; sums in `Job` and `Queue` are current without this."""

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Note that tasks lost their places (evicted or undone)."""


def answers(plugin: Plugin, point: str) -> bool:
    """Whether a plugin's class (and configuration) answers an extension point."""
    return _has(type(plugin), point) and point not in plugin.off_points()


def points_of(plugin: type[Plugin], toggles: Mapping[str, bool]) -> frozenset[str]:
    """Return the extension points that a plugin's class answers and its toggles leave on."""
    return frozenset(
        point
        for point, switches in POINTS.items()
        if _has(plugin, point) and (not switches or any(toggles[switch] for switch in switches))
    )


def _has(plugin: type[Plugin], point: str) -> bool:
    return getattr(plugin, point, None) is not getattr(Plugin, point, None)


def how_many_fit(free: Sequence[float] | Vector | FloatArray, needs: Iterable[tuple[int, int]], count: int) -> int:
    """Return how many of ``count`` equal requests fit: ``needs`` are columns with the positive amount of one."""
    for column, need in needs:
        count = min(count, max(0, math.floor(float(free[column]) / need)))
    return count
