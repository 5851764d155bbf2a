"""yarnfair: share among queues and applications as YARN's Fair Scheduler does (spec yarn, parts A and C).

Queues come level by level in the order of their parents' policies, jobs in that of their queue's; nothing goes over a
maximum up the tree; applications over a limit wait; with preemption on, pods of who has more than the fair share are
marked for who is starved, and go after the wait. What it decides with is in `strato.interop.yarn.fair`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strato.errors import InvalidInput, UsageError
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile
from strato.interop.yarn.fair.allocation import Allocations
from strato.interop.yarn.fair.cluster import EngineApp
from strato.interop.yarn.fair.options import FairOptions
from strato.interop.yarn.fair.policies import Policy
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.fairplugin.making_room import MakingRoom, Remembered
from strato.interop.yarn.fairplugin.mirror import Mirror, how_many
from strato.interop.yarn.fairplugin.sources import AnnotationSource, file_source
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.objects import is_master, user_of
from strato.interop.yarn.resources import Amounts, ResourceTypes, add, fits, largest, raised, subtract
from strato.interop.yarn.units import Units, resource_pairs
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT, Plugin
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Failure
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.plugins.proportion import QueueFacts

MAX_APPS = "MaxRunningApps"
MAX_SHARE = "MaxResources"
MAX_CONTAINER = "MaxContainerAllocation"
AM_SHARE = "MaxAMShare"
FAIR_SHARE = "FairShare"
NO_LEAF = "NoLeafQueue"
STARVED = "Starved"
"""Codes of its verdicts."""


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


class YarnFair(Plugin):
    """Share as YARN's Fair Scheduler does."""

    name = "yarnfair"
    args_type = YarnFairArgs
    time_based = True

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

    def resources(self) -> Sequence[str]:
        """Name the resources of further types."""
        return tuple(self.args.resources.values())

    def open(self, ssn: CycleContext) -> None:
        """Read the allocations and count who has what."""
        self._ssn = ssn
        self.hierarchy = True  # placing for one queue moves those that share ancestors with it
        self._noted: set[tuple[str, str]] = set()
        self._units = Units.of(ssn.world.dims, self.args.resources)
        self._mirror = Mirror(
            ssn.world,
            self._units,
            self._units.scaled(self._allocations()),
            self._options(),
            self._user_of,
            self._is_master,
        )
        self._room: MakingRoom | None = None

    def _allocations(self) -> Allocations:
        """Return what holds now: what can be read, else what could be read last."""
        memory, types = self._ssn.world.memory, self._units.types
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

    def _user_of(self, job: Job) -> str:
        return user_of(job, self.args.user)

    def _is_master(self, task: Task) -> bool:
        return is_master(task, self.args.master)

    # -- order ---------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Level by level from the root, by the policy of each parent; queues that are no leaves come last."""
        leaf = self._mirror.leaf(queue)
        return (0, self._mirror.position_of(leaf)) if leaf is not None else (1,)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """By the policy of the job's queue."""
        app = self._mirror.apps.get(job.key)
        return (0, self._mirror.position_in_leaf(app)) if app is not None else (1,)

    # -- limits --------------------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> int:
        """Whether limits on running applications let a job in."""
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
        """Count the job among those that run; one that no plugin was asked about waits on, without pods placed."""
        app = self._mirror.apps.get(job.key)
        if app is not None and not self._mirror.limit_of(app):
            self._mirror.start(app)

    def overused(self, queue: Queue) -> bool:
        """Whether the queue or one above it has its maximum exceeded."""
        leaf = self._mirror.leaf(queue)
        return leaf is None or leaf.over_maximum(self._mirror.state.zero) is not None

    def allocatable(self, queue: Queue, task: Task, count: int) -> int:
        """Tasks that maxima up the tree still hold; none of an application that waits."""
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
        """Return why a pod is too large for its queue; empty when it is not. YARN cuts requests, pods cannot be."""
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

    # -- making room ---------------------------------------------------------------------------------------------------

    @property
    def _making_room(self) -> MakingRoom | None:
        """Preemption, worked out when it is first asked for in a cycle: after what fits was placed."""
        if self._room is None and self.args.preemption:
            memory = self._ssn.world.memory.setdefault(self.name, Remembered())
            self._room = MakingRoom(self._mirror, memory, self._ssn.now)
        return self._room

    def job_starving(self, job: Job) -> bool:
        """Whether the job is starved, or pods are marked for it."""
        room = self._making_room
        return room is not None and bool(job.pending) and room.starves(job)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether others make room for these tasks."""
        room = self._making_room
        return room is not None and any(task.job is not None and room.starves(task.job) for task in tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of the queue whose wait is over."""
        return self._victims(preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of other queues whose wait is over."""
        return self._victims(reclaimer, candidates)

    def _victims(self, starved: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        room = self._making_room
        if room is None or starved.job is None:
            return (), REJECT
        return room.victims(starved.job, candidates), PERMIT

    # -- what changes, and what is left behind -------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again; from its first on it runs."""
        self._mirror.refresh(job)
        app = self._mirror.apps.get(job.key) if job is not None else None
        if app is not None:
            self._mirror.start(app)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again."""
        self._mirror.refresh(job)

    def close(self, ssn: CycleContext) -> None:
        """Say how far waiting applications are from their share, and leave shares of queues for status and metrics."""
        room = self._making_room
        state = self._mirror.shares()
        for key in list(ssn.notes):
            app, job = self._mirror.apps.get(key), ssn.world.jobs.get(key)
            if app is None or job is None or not job.pending:
                continue
            if app in app.queue.runnable:
                self._say(job, FAIR_SHARE, self._share_text(app.queue))
            for mark in (room.marks_for(job) if room is not None else [])[:5]:
                seconds = max(0.0, mark.goes_ms / 1000.0 - ssn.now)
                self._say(job, STARVED, f"pod {mark.pod} makes room for it and goes in {seconds:.0f} s")
        for queue in ssn.world.queues.values():
            leaf = self._mirror.leaf(queue) if queue.view is not None and queue.jobs else None
            if leaf is not None:
                ssn.queue_facts[queue.name] = self._facts(leaf, state.tree.cluster)

    def _facts(self, leaf: FairQueue, cluster: Amounts) -> QueueFacts:
        shares = _looked_at(leaf, leaf.fair_share)
        dims = self._ssn.world.dims
        vector = dims.zeros()
        for at, share, per in zip(self._units.columns, shares, self._units.per_column, strict=False):
            vector[at] = share * per
        return QueueFacts(
            deserved=self._units.wire((*shares, *((0,) * (len(cluster) - len(shares)))), dims),
            share=_ratio(leaf.usage, shares),
            overused=leaf.over_maximum(self._mirror.state.zero) is not None,
            weight=leaf.weight,
            vectors={"deserved": vector},
        )

    # -- words ---------------------------------------------------------------------------------------------------------

    def _say(self, job: Job, code: str, text: str) -> None:
        if (job.key, text) not in self._noted:
            self._noted.add((job.key, text))
            self._ssn.record_verdict(job, Verdict(self.name, code, text))

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
    """Return the types by which a queue's share is computed."""
    by_all = leaf.parent is not None and leaf.parent.policy is Policy.DRF
    return amounts if by_all else amounts[:1]


def _ratio(usage: Amounts, share: Amounts) -> float:
    """Return the largest part of a share that is used."""
    return max(
        (used / max(1, of) for used, of in zip(usage, largest(share, (0,) * len(share)), strict=False)), default=0.0
    )
