"""yarnfair: share among queues and applications as YARN's Fair Scheduler does (spec yarn, parts A and C).

Queues are ordered level by level by their parents' policies, jobs by their queue's policy. No allocation exceeds the
maximum of a queue or of its ancestors; applications over a limit wait. If preemption is on, pods of jobs above their
fair share are marked for starved jobs and evicted after the wait. The decisions themselves are in
`strato.interop.yarn.fair`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strato.errors import InvalidInput, UsageError
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile, starvation
from strato.interop.yarn.fair.allocation import Allocations
from strato.interop.yarn.fair.cluster import EngineApp
from strato.interop.yarn.fair.options import FairOptions
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.fairplugin.mirror import Mirror, how_many
from strato.interop.yarn.fairplugin.preemption import FairPreemption, Remembered
from strato.interop.yarn.fairplugin.sources import AnnotationSource, file_source
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.locality import HEARTBEAT_MS, NO_WAIT, RACK_LABEL, Allowed, LocalityDelay, Waited
from strato.interop.yarn.resources import (
    LEAST,
    Amounts,
    ResourceTypes,
    add,
    fits,
    is_zero,
    largest,
    raised,
    subtract,
    times,
)
from strato.interop.yarn.sharing import NO_LEAF, SharingPlugin, SharingTree
from strato.interop.yarn.units import resource_pairs
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Failure
from strato.scheduler.model.queues import Queue
from strato.scheduler.plugins.proportion import QueueFacts

MAX_APPS = "MaxRunningApps"
MAX_SHARE = "MaxResources"
MAX_CONTAINER = "MaxContainerAllocation"
AM_SHARE = "MaxAMShare"
FAIR_SHARE = "FairShare"
STARVED = "Starved"
"""Codes of its verdicts, besides those of `sharing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnFairArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    allocation_file: str = arg("yarnfair.allocationFile", "")
    """Path of a ``fair-scheduler.xml``, read again when it changes. Default: annotations of the Queue objects."""
    resources: Mapping[str, str] = arg("yarnfair.resources", {}, read=resource_pairs)
    """Kubernetes' names of further resource types: ``gpu=nvidia.com/gpu``. Default: memory and vcores alone."""
    user: str = arg("yarnfair.userKey", "")
    """Label or annotation of a PodGroup that names its user. Default: its namespace is the user."""
    master: str = arg("yarnfair.amLabel", "")
    """Label ``key=value`` (or ``key``) of pods that are application masters. Default: none, maxAMShare is inert."""
    preemption: bool = arg("yarnfair.preemption", False)
    """Whether starved applications are made room for. Default false, as in YARN."""
    utilization_threshold: float = arg("yarnfair.preemptionUtilizationThreshold", 0.8, minimum=0, maximum=1)
    """Share of the cluster that must be in use before anybody is starved."""
    wait_before_kill_ms: int = arg("yarnfair.waitTimeBeforeKill", 15_000, minimum=0)
    """Milliseconds between a pod's mark and its eviction."""
    wait_before_check_ms: int = arg("yarnfair.waitTimeBeforeNextStarvationCheck", 10_000, minimum=0)
    """Milliseconds until an application for which pods were marked may have more marked, besides the wait."""
    am_preemption: bool = arg("yarnfair.amPreemption", True)
    """Whether application masters may be evicted, when nothing else suffices."""
    size_based_weight: bool = arg("yarnfair.sizeBasedWeight", False)
    """Whether the weight of an application is log2 of its demand of memory."""
    reservable_nodes: float = arg("yarnfair.reservableNodes", 0.05, minimum=0, maximum=1)
    """Share of the nodes that an application below its fair share may reserve for pods that fit nowhere. 0: none."""
    reservation_threshold: float = arg("yarnfair.reservationThreshold", 2.0, minimum=0)
    """Increments of 1024 MB and 1 vcore; a smaller pod reserves no node."""
    node_threshold: float = arg("yarnfair.localityThresholdNode", -1.0)
    """Share of the nodes that a pod lets pass before it takes others than it prefers. Negative: does not wait."""
    rack_threshold: float = arg("yarnfair.localityThresholdRack", -1.0)
    """The same before it takes nodes of other racks."""
    node_delay_ms: int = arg("yarnfair.localityDelayNode", -1)
    """Milliseconds instead of a share; both delays, or none. Negative: the shares count."""
    rack_delay_ms: int = arg("yarnfair.localityDelayRack", -1)
    """The same for other racks."""
    heartbeat_ms: int = arg("yarnfair.heartbeatInterval", HEARTBEAT_MS, minimum=1)
    """Milliseconds in which every node counts as one scheduling opportunity."""
    rack_label: str = arg("yarnfair.rackLabel", RACK_LABEL)
    """Key of the node label whose value is a node's rack."""

    @property
    def waits_for_places(self) -> bool:
        """Whether pods wait for nodes that they prefer."""
        return min(self.node_delay_ms, self.rack_delay_ms) >= 0 or min(self.node_threshold, self.rack_threshold) >= 0


class YarnFair(SharingPlugin[FairQueue, FairPreemption, Remembered]):
    """Share as YARN's Fair Scheduler does."""

    name = "yarnfair"
    args_type = YarnFairArgs
    standing_code = FAIR_SHARE
    marked_code = STARVED
    remembers = Remembered

    @classmethod
    def contradictions(cls, args: YarnFairArgs) -> Sequence[tuple[str, str]]:
        """Refuse an allocation file that cannot be read."""
        if not args.allocation_file:
            return ()
        try:
            root = hadoopxml.read_file(Path(args.allocation_file))
            allocationfile.read(root, ResourceTypes.with_others(args.resources), args.allocation_file)
        except InvalidInput as error:
            return [("yarnfair.allocationFile", f"{error.what}: {p.where}: {p.message}") for p in error.problems]
        return ()

    def off_points(self) -> frozenset[str]:
        """Return the extension points on nodes as off, unless pods wait for preferred nodes or reserve nodes."""
        off = () if self.args.waits_for_places else ("facet", "filter_facet")
        return frozenset((*off, *(() if self.args.reservable_nodes else ("watches_pods", "filter_task"))))

    def _grow(self) -> SharingTree[FairQueue]:
        self._mirror = Mirror(
            self._ssn.world,
            self._units,
            self._units.scaled(self._allocations()),
            self._options(),
            self._user_of,
            self._is_master,
        )
        return self._mirror

    def _allocations(self) -> Allocations:
        """Return the allocations in force: the present ones, or if these are invalid the last valid ones."""
        memory, types = self._ssn.world.plugin_state, self._units.types
        path = self.args.allocation_file
        source: FollowedFile[Allocations] | AnnotationSource | None = memory.get(f"{self.name} {path} {types}")
        if source is None:
            source = file_source(Path(path), types) if path else AnnotationSource(types)
            memory[f"{self.name} {path} {types}"] = source
        is_news = (
            source.refresh(self._ssn.now)
            if isinstance(source, FollowedFile)
            else source.refresh(self._ssn.world.queues.values())
        )
        if source.content is None:
            raise UsageError(source.problem)
        if is_news:
            self._ssn.plan.failures.append(Failure(self.name, "open", source.problem))
        return source.content

    def _options(self) -> FairOptions:
        args = self.args
        return FairOptions(
            types=self._units.types,
            preemption=args.preemption,
            utilization_threshold=args.utilization_threshold,
            wait_before_kill_ms=args.wait_before_kill_ms,
            wait_before_check_ms=args.wait_before_check_ms,
            am_preemption={"": args.am_preemption},
            size_based_weight=args.size_based_weight,
        )

    # -- limits --------------------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> int:
        """Whether limits on running applications admit a job."""
        if job.queue is None:
            return ABSTAIN
        app = self._mirror.apps.get(job.key)
        if app is None:
            self._say(job, NO_LEAF, self._no_leaf(job.queue))
            return REJECT
        limit = self._mirror.limit_of(app)
        if limit:
            self._say(job, MAX_APPS, self._too_many(app, limit))
            return REJECT
        if job.min_resources is None:
            return PERMIT
        least = self._units.asked(job.min_resources.tolist())
        for above in app.queue.lineage():
            if not fits(least, above.max_share):
                most = f"the maximum of queue {above.name} is {self._text(above.max_share)}"
                self._say(job, MAX_SHARE, f"{most}; the job asks for {self._text(least)} at least, so it never fits")
                return REJECT
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the job as running, if limits allow; otherwise it waits on without placed pods."""
        app = self._mirror.apps.get(job.key)
        if app is not None and not self._mirror.limit_of(app):
            self._mirror.start(app)

    def overused(self, queue: Queue) -> bool:
        """Whether usage exceeds the maximum of the queue or of one above it."""
        leaf = self._mirror.leaf(queue)
        return leaf is None or leaf.over_maximum(self._mirror.state.zero) is not None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that still fit into the maxima up the tree; none of an application that waits."""
        leaf, job = self._mirror.leaf(queue), task.job
        app = self._mirror.apps.get(job.key) if job is not None else None
        if leaf is None or app is None or job is None:
            if job is not None:
                self._say(job, NO_LEAF, self._no_leaf(queue))
            return 0
        limit = self._mirror.limit_of(app)
        if limit:
            self._say(job, MAX_APPS, self._too_many(app, limit))
            return 0
        need = self._units.asked(task.cls.amounts)
        text = self._too_large(leaf, task, need)
        if text:
            self._say(job, MAX_CONTAINER, text)
            return 0
        if self._is_master(task) and not self._master_fits(leaf, job, need):
            return 0
        for above in leaf.lineage():
            most = above.max_share
            count = how_many(subtract(most, above.usage), need, count)
            if count <= 0:
                held = f"queue {above.name} holds {self._text(above.usage)} of its maximum of {self._text(most)}"
                self._say(job, MAX_SHARE, f"{held}; {task.key} asks for {self._text(need)}")
                return 0
        return count

    def _too_large(self, leaf: FairQueue, task: Task, need: Amounts) -> str:
        """Return why a pod is too large for its queue, empty when it is not; YARN would cut the request."""
        for above in leaf.lineage():
            most = above.settings.max_container
            if not fits(need, most):
                allowed = f"queue {above.name} allows containers of at most {self._text(most)}"
                return f"{allowed}; {task.key} asks for {self._text(need)}"
        return ""

    def _master_fits(self, leaf: FairQueue, job: Job, need: Amounts) -> bool:
        state = self._mirror.shares()
        exact = leaf.am_limit(state.free())
        used = self._mirror.masters_use(leaf)
        if exact is None:
            return True
        limit = raised(exact, self._units.per_unit)
        if fits(add(used, need), limit):
            return True
        text = (
            f"application masters of queue {leaf.name} hold {self._text(used)} of the {self._text(limit)} that its "
            f"maxAMShare of {leaf.settings.max_am_share:g} allows; it waits until one ends"
        )
        self._say(job, AM_SHARE, text)
        return False

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _locality_delay(self) -> LocalityDelay | None:
        return self._after if self.args.waits_for_places else None

    def _after(self, waited: Waited) -> Allowed:
        """Return where a pod may go after a wait: it waits first for its nodes, then for their racks."""
        args = self.args
        if min(args.node_delay_ms, args.rack_delay_ms) >= 0:
            node, rack = args.node_delay_ms / 1000, args.rack_delay_ms / 1000
        else:
            node, rack = (
                min(part, 1.0) * args.heartbeat_ms / 1000 for part in (args.node_threshold, args.rack_threshold)
            )
        return Allowed(waited.seconds > node, waited.seconds > node + rack) if waited.nodes else NO_WAIT

    def _may_keep(self, job: Job, task: Task) -> bool:
        app = self._mirror.apps.get(job.key)
        fitting = app is not None and app.queue.over_maximum(self._units.asked(task.cls.amounts)) is None
        return app is not None and app in app.queue.runnable and fitting

    def _reserve(self, job: Job, task: Task) -> bool:
        app, args = self._mirror.apps.get(job.key), self.args
        most = math.ceil(int(self._ssn.world.nodes.present.sum()) * args.reservable_nodes)
        if app is None or not self._may_keep(job, task) or len(self._reservations.of(job)) >= most:
            return False
        calculator, size = app.queue.policy.calculator, self._units.asked(task.cls.amounts)
        least = times(self._units.scaled_amounts(LEAST), args.reservation_threshold)
        if calculator.compare(self._mirror.tree.cluster, size, least) < 0:
            return False
        cluster = self._mirror.shares().tree.cluster
        if not starvation.below(calculator, cluster, app.usage, app.fair_share) and is_zero(app.min_starvation):
            return False
        taken = self._room.nodes_making_room(job) if self._room is not None else frozenset()
        return self._reservations.reserve(task, but=taken) is not None

    # -- preemption ----------------------------------------------------------------------------------------------------

    def _make_room(self) -> FairPreemption | None:
        if not self.args.preemption:
            return None
        return FairPreemption(self._mirror, self._kept, self._ssn.now, self._reservations)

    # -- updates, and the end of a cycle -------------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Recompute a job's usage; with its first placed pod the job counts as running."""
        super().on_place(job, tasks)
        app = self._mirror.apps.get(job.key) if job is not None else None
        if app is not None:
            self._mirror.start(app)

    def _facts(self, leaf: FairQueue) -> QueueFacts:
        types = len(self._mirror.shares().tree.cluster)
        shares = _looked_at(leaf, leaf.fair_share)
        return QueueFacts(
            deserved=self._units.wire((*shares, *((0,) * (types - len(shares)))), self._ssn.world.dims),
            share=_ratio(leaf.usage, shares),
            overused=leaf.over_maximum(self._mirror.state.zero) is not None,
            weight=leaf.weight,
            vectors={"deserved": self._vector(shares)},
        )

    # -- words ---------------------------------------------------------------------------------------------------------

    def _standing(self, leaf: FairQueue, job: Job) -> str:
        app = self._mirror.apps.get(job.key)
        self._mirror.shares()
        return self._share_text(leaf) if app is not None and app in leaf.runnable else ""

    def _text(self, amounts: Amounts) -> str:
        return self._units.text(amounts)

    def _too_many(self, app: EngineApp, limit: str) -> str:
        if limit == "user":
            most = self._mirror.allocations.max_apps_of_user(app.user)
            return (
                f"user {app.user} runs {self._mirror.running[app.user]} applications of {most}; it waits for one to end"
            )
        queue = self._mirror.tree.queues[limit]
        most = queue.settings.max_apps
        return (
            f"queue {limit} runs {queue.runnable_count} applications, its maxRunningApps is {most}; "
            "it waits for one to end"
        )

    def _no_leaf(self, queue: Queue) -> str:
        return f"queue {queue.name} is no leaf of YARN's tree; name one below it"

    def _share_text(self, leaf: FairQueue) -> str:
        used, shares = _looked_at(leaf, leaf.usage), _looked_at(leaf, leaf.fair_share)
        percent = 100 * _ratio(used, shares)
        padded = [(*numbers, *((0,) * (len(self._units.types) - len(numbers)))) for numbers in (used, shares)]
        words = [", ".join(self._text(numbers).split(", ")[: len(used)]) for numbers in padded]
        return f"queue {leaf.name} is at {percent:.0f} % of its instantaneous fair share ({words[0]} of {words[1]})"


def _looked_at(leaf: FairQueue, amounts: Amounts) -> Amounts:
    """Return the amounts of the types by which a queue's share is computed."""
    by_all = leaf.parent is not None and leaf.parent.policy is QueuePolicy.DRF
    return amounts if by_all else amounts[:1]


def _ratio(usage: Amounts, share: Amounts) -> float:
    """Return the largest used fraction of a share over all types."""
    return max(
        (used / max(1, of) for used, of in zip(usage, largest(share, (0,) * len(share)), strict=False)), default=0.0
    )
