"""YARN's tree of queues and applications, built from the world: a job is an application that uses what its pods do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

from strato.clock import parse_time
from strato.interop.yarn.fair.allocation import ROOT, Allocations
from strato.interop.yarn.fair.catalogue import Catalogue
from strato.interop.yarn.fair.cluster import EngineApp
from strato.interop.yarn.fair.options import FairOptions
from strato.interop.yarn.fair.order import Comparator, Standing, comparator
from strato.interop.yarn.fair.runnable import binding_limit
from strato.interop.yarn.fair.state import FairState
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.objects import path_of
from strato.interop.yarn.resources import Amounts, add, subtract
from strato.interop.yarn.units import Units
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PHASE_COMPLETED, Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED_SET

IsMaster = Callable[[Task], bool]


class Position:
    """Sort key of a queue or application; holds values copied at one time, so that later changes do not reorder.

    Args:
        steps: From the root down, the comparator of each level and the sharer at that level.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: tuple[tuple[Comparator, Standing], ...]) -> None:
        self._steps = steps

    def _against(self, other: Position) -> int:
        for (compare, mine), (_, theirs) in zip(self._steps, other._steps, strict=False):
            if mine.name != theirs.name:
                return compare(mine, theirs)
        return len(self._steps) - len(other._steps)

    def __lt__(self, other: Position) -> bool:
        return self._against(other) < 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._against(other) == 0

    def __hash__(self) -> int:
        return hash(tuple(standing.name for _, standing in self._steps))


class Mirror:
    """The tree of one cycle.

    Args:
        world: The scheduler's state.
        units: Converts between the world's columns and YARN's types.
        allocations: The allocations, with amounts in these units.
        options: The scheduler's options.
        user_of: Returns a job's user.
        is_master: Returns whether a pod is an application master.
    """

    def __init__(
        self,
        world: World,
        units: Units,
        allocations: Allocations,
        options: FairOptions,
        user_of: Callable[[Job], str],
        is_master: IsMaster,
    ) -> None:
        self.world = world
        self.units = units
        self.allocations = allocations
        self.state = FairState(options, allocations.settings_of(ROOT))
        self.tree = self.state.tree
        self.tree.cluster = units.held(world.totals.total.tolist())
        self.catalogue = Catalogue(self.tree, allocations)
        self.apps: dict[str, EngineApp] = {}
        """Applications by the job's key."""
        self.running: Counter[str] = Counter()
        self.is_master = is_master
        self._user_of = user_of
        self._leaves: dict[str, FairQueue | None] = {}
        self._dirty = True
        self._add_apps()
        self.tree.update_demand(by_size=options.size_based_weight)

    # -- building ------------------------------------------------------------------------------------------------------

    def _add_apps(self) -> None:
        """Add every job, those with resources first: they count as running even beyond the present limits."""
        found: list[tuple[FairQueue, Job]] = []
        for queue in self.world.queues.values():
            leaf = self.leaf(queue) if queue.view is not None and queue.jobs else None
            for key in queue.jobs if leaf is not None else ():
                job = self.world.jobs.get(key)
                if leaf is not None and job is not None and job.phase != PHASE_COMPLETED:
                    found.append((leaf, job))
        found.sort(key=lambda pair: _first_come(pair[1]))
        for leaf, job in found:
            holds = bool(job.used.any())
            app = EngineApp(job.key, self._user_of(job), leaf, _seconds(job.created) * 1000.0)
            limit = "" if holds else binding_limit(leaf, app.user, self.running, self.allocations.max_apps_of_user)
            may_run = holds or (not limit and not job.is_waiting_for_queue)
            leaf.add_app(app, runnable=may_run)
            self.running[app.user] += may_run
            self.apps[job.key] = app
            self._count(job, app)

    def _count(self, job: Job, app: EngineApp) -> None:
        app.use(subtract(self.units.asked(job.used.tolist()), app.usage))
        app.pending = self.units.asked(job.pending_request.tolist())

    def leaf(self, queue: Queue) -> FairQueue | None:
        """Return the leaf of a Queue object; None if it is a parent or cannot be created."""
        if queue.name not in self._leaves:
            self._leaves[queue.name] = self.catalogue.leaf(path_of(queue), steady=False)
        return self._leaves[queue.name]

    def refresh(self, job: Job | None) -> None:
        """Recompute the usage and requests of a job."""
        app = self.apps.get(job.key) if job is not None else None
        if job is not None and app is not None:
            self._count(job, app)

    def shares(self) -> FairState:
        """Return the state with shares among all applications that run now; demand is that of the cycle's start."""
        if self._dirty:
            self._dirty = False
            self.tree.update_shares()
        return self.state

    # -- limits --------------------------------------------------------------------------------------------------------

    def limit_of(self, app: EngineApp) -> str:
        """Return the limit that keeps an application from running: a queue's full name, ``user``, or ""."""
        if app in app.queue.runnable:
            return ""
        return binding_limit(app.queue, app.user, self.running, self.allocations.max_apps_of_user)

    def start(self, app: EngineApp) -> None:
        """Count a waiting application as running."""
        if app not in app.queue.runnable:
            app.queue.remove_app(app)
            app.queue.add_app(app, runnable=True)
            self.running[app.user] += 1
            self._dirty = True

    def masters_use(self, leaf: FairQueue) -> Amounts:
        """Return the resources of a leaf's application masters."""
        used = self.state.zero
        for app in leaf.runnable:
            for task in self.masters_of(app.name):
                used = add(used, self.units.asked(task.cls.amounts))
        return used

    def masters_of(self, key: str) -> Iterator[Task]:
        """Yield a job's application masters that hold resources."""
        job = self.world.jobs.get(key)
        for task in job.tasks.values() if job is not None else ():
            if task.status in ALLOCATED_SET and self.is_master(task):
                yield task

    # -- order ---------------------------------------------------------------------------------------------------------

    def position_of(self, leaf: FairQueue) -> Position:
        """Return a leaf's sort key among all, level by level from the root."""
        cluster = self.tree.cluster
        lineage = [*leaf.lineage()][::-1]
        below = itertools.pairwise(lineage)
        return Position(tuple([(comparator(above.policy, cluster), _standing(queue)) for above, queue in below]))

    def position_of_job(self, job: Job) -> tuple[Position] | None:
        """Return a job's sort key in its queue; None for a job whose queue is no leaf."""
        app = self.apps.get(job.key)
        if app is None:
            return None
        return (Position(((comparator(app.queue.policy, self.tree.cluster), _standing(app)),)),)


def _standing(one: FairQueue | EngineApp) -> Standing:
    return Standing(one.name, one.usage, one.demand, one.min_share, one.weight, one.start_time)


def _first_come(job: Job) -> tuple[bool, bool, str, str]:
    """Return a sort key for counting jobs as running: those with resources, then admitted ones, then by age."""
    return not job.used.any(), job.is_waiting_for_queue, job.created, job.key


def _seconds(created: str) -> float:
    return parse_time(created) if created else 0.0


def how_many(free: Amounts, need: Amounts, count: int) -> int:
    """Return how many equal requests fit into a free amount."""
    for room, one in zip(free, need, strict=True):
        if one > 0:
            count = min(count, max(0, room) // one)
    return count
