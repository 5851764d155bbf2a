"""`PluginAnswers`: combines the answers of all plugins to each extension point (spec scheduler-core 10)."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from time import perf_counter
from typing import Any

import numpy as np

from strato.scheduler.cache.shards import HARD, SOFT
from strato.scheduler.cache.world import World
from strato.scheduler.framework.answering import Flat, Fn, OpenedPlugin, Tiers
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.guard import Guard
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin, answers
from strato.scheduler.model.answers import Evictor, ResourceTerm, Validity, Verdicts
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import FitErrors
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.topology.proximity import Proximity

_BY_DEFAULT, _BY_KEY = attrgetter("order"), itemgetter(0)
_BY_PODS = ("filter_task", "score", "score_task", "batch_score")
"""Extension points that may look at what runs on a node."""


class PluginAnswers(CycleContext):
    """A cycle and its plugins.

    Args:
        world, now, rng, uid: As for `CycleContext`.
        config: Plugins and actions.

    Attributes:
        answers: By extension point, the functions of the plugins that answer it.
        opened: How long each plugin took to open, in seconds; for metrics.
        simulates: Whether topology-aware preemption may see rules about other pods as its evictions leave them
            (SimulateAddTask and SimulateRemoveTask are switched on).
    """

    def __init__(self, world: World, config: Config, *, now: float, rng: random.Random, uid: str) -> None:
        super().__init__(world, now=now, rng=rng, uid=uid)
        self.config = config
        world.totals.rule = config.totals
        self.is_pooled = config.is_pooled
        self.guard = Guard(self.plan.failures)
        self.plugins: list[Plugin] = []
        self.opened: list[tuple[str, float]] = []
        self.simulates = False

    def open_plugins(self) -> None:
        """Build the plugins and open them on this cycle."""
        guard, config = self.guard, self.config
        made = [
            ((tier, place), option, plugin)
            for tier, options in enumerate(config.tiers)
            for place, option in enumerate(options)
            if (plugin := guard.make(option)) is not None
        ]
        for _, _, plugin in made:
            if type(plugin).resources is not Plugin.resources:
                for name in guard.call(plugin, "resources", otherwise=()):
                    self.world.column(name)
        opened = {
            where: OpenedPlugin(plugin, plugin.off_points())
            for where, option, plugin in made
            if self._open(option, plugin)
        }
        self.tiers = Tiers(guard, config, opened)
        self.answers = Flat(self.tiers)
        shards = self.world.shards
        if shards.mode == HARD:
            self.answers["filter"].insert(0, shards.filter)
        elif shards.mode == SOFT:
            self.answers["static_scores"].insert(0, shards.static_scores)

    # -- plugins by point: looked up on first use, because most cycles use few points ----------------------------------

    @property
    @abstractmethod
    def kernel_flags(self) -> int:
        """Return the flags that every kernel call of this session gets."""

    @cached_property
    def terms(self) -> tuple[ResourceTerm, ...]:
        """The resource scores of all plugins."""
        return tuple([term for fn in self.answers["resource_terms"] for term in fn()])

    @cached_property
    def queue_keys_move(self) -> bool:
        """Whether placing tasks of one queue changes the sort keys of others, as with queues that share ancestors."""
        return any(plugin.hierarchy for plugin in self._asked("queue_order"))

    @property
    def places_as_batch(self) -> bool:
        """Whether the place of a task does not depend on where other tasks of its gang went."""
        return self.search is None and not self.answers["proximity"]

    def _asked(self, point: str) -> list[Plugin]:
        """Return the plugins that answer an extension point."""
        return self.tiers.plugins(point)

    @cached_property
    def _missing(self) -> list[Fn]:
        return [self.guard.wrap(plugin, "missing_until_ready") for plugin in self._asked("job_ready")]

    @cached_property
    def _watchers(self) -> list[Fn]:
        looking = {plugin for point in _BY_PODS for plugin in self._asked(point)}
        return [self.guard.wrap(plugin, "watches_pods") for plugin in self.plugins if plugin in looking]

    @cached_property
    def _job_keys(self) -> list[Callable[[Sequence[Any]], list[Any]]]:
        return [self.guard.wrap_each(plugin, "job_order") for plugin in self._asked("job_order")]

    @cached_property
    def _task_keys(self) -> list[Callable[[Sequence[Any]], list[Any]]]:
        return [self.guard.wrap_each(plugin, "task_order") for plugin in self._asked("task_order")]

    @cached_property
    def _missing_sub(self) -> list[Fn]:
        return [self.guard.wrap(plugin, "missing_until_sub_ready") for plugin in self._asked("sub_job_ready")]

    def _open(self, option: PluginOption, plugin: Plugin) -> bool:
        """Open a plugin; return whether it did not fail."""
        plugin.hierarchy = option.toggles["enableHierarchy"]
        began = perf_counter()
        if type(plugin).open is not Plugin.open:
            self.guard.call(plugin, "open", self)
        self.opened.append((plugin.name, perf_counter() - began))
        if self.guard.is_out(plugin):
            return False
        self.plugins.append(plugin)
        if option.toggles["enablePreemptable"] or option.toggles["enabledAllocatable"]:
            self.simulates = self.simulates or answers(plugin, "filter_neighbours")
        return True

    # -- tasks and nodes -----------------------------------------------------------------------------------------------

    def proximity(self, task: Task) -> Proximity | None:
        """Return how network domains score for a task and others equal to it, by the first plugin with an answer."""
        for fn in self.answers["proximity"]:
            found: Proximity | None = fn(task)
            if found is not None:
                return found
        return None

    def facet(self, task: Task) -> tuple[Hashable, ...]:
        """Return the facets that plugins give a task, which tell it from others of its class; empty without such."""
        facets = self.answers["facet"]
        return tuple([fn(task) for fn in facets]) if facets else ()

    def equal_run(self, tasks: Sequence[Task], start: int, end: int) -> int:
        """Return how many tasks in a row, from ``start`` on and before ``end``, have the same facet."""
        if not self.answers["facet"]:
            return end - start
        facet = self.facet(tasks[start])
        return next((at for at in range(start + 1, end) if self.facet(tasks[at]) != facet), end) - start

    def one_by_one(self, task: Task) -> bool:
        """Whether a task must be placed by itself, because plugins look at pods for it or it uses claims.

        Tasks of one class may use different claims, which filters and the quotas of queues count.
        """
        if task.cls.uses_claims:
            return True
        for watches in self._watchers:  # noqa: SIM110 -- asked for every job of a burst, as a generator half as fast
            if watches(task):
                return True
        return False

    def judges_anew(self, task: Task) -> bool:
        """Whether refusing this task changed how plugins judge others, so that its verdict does not hold for them."""
        before = self.rejudged
        for watches in self._watchers:
            watches(task)
        return self.rejudged != before

    def fire_placed(self, tasks: Sequence[Task]) -> None:
        """Notify plugins that tasks of one job were placed or pipelined."""
        for fn in self.answers["on_place"]:
            fn(tasks[0].job, tasks)

    def fire_removed(self, tasks: Sequence[Task]) -> None:
        """Notify plugins that tasks of one job lost their places."""
        for fn in self.answers["on_remove"]:
            fn(tasks[0].job, tasks)

    # -- order ---------------------------------------------------------------------------------------------------------

    def job_key(self, job: Job) -> tuple[Any, ...]:
        """Return a job's sort key: plugins, then creation, then identity."""
        return (*[fn(job) for fn in self.answers["job_order"]], job.created, job.key)

    def job_plugin_key(self, job: Job) -> tuple[Any, ...]:
        """Return a job's sort key by plugins alone."""
        return tuple([fn(job) for fn in self.answers["job_order"]])

    def job_plugin_keys(self, jobs: Sequence[Job]) -> list[tuple[Any, ...]]:
        """Return the `job_plugin_key` of each."""
        keys = [fn(jobs) for fn in self._job_keys]
        return list(zip(*keys, strict=True)) if keys else [()] * len(jobs)

    def task_keys(self, tasks: Sequence[Task]) -> list[tuple[Any, ...]]:
        """Return the `task_key` of each."""
        return list(zip(*[fn(tasks) for fn in self._task_keys], map(_BY_DEFAULT, tasks), strict=True))

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        """Return a queue's sort key: plugins, then creation, then name."""
        return (*[fn(queue) for fn in self.answers["queue_order"]], queue.created, queue.name)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Any, ...]:
        """Return a queue's key among queues to take victims from, by plugins alone."""
        return tuple([fn(queue, preemptor) for fn in self.answers["victim_queue_order"]])

    def task_key(self, task: Task) -> tuple[Any, ...]:
        """Return a task's sort key: plugins, then the default order."""
        return (*[fn(task) for fn in self.answers["task_order"]], task.order)

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks sorted by `task_key`; each plugin's keys are computed for all tasks at once."""
        tasks = list(tasks)
        if len(tasks) < 2:
            return tasks
        keys = [column for column in (fn(tasks) for fn in self._task_keys) if column.count(column[0]) < len(tasks)]
        if not keys:  # no plugin orders them
            return sorted(tasks, key=_BY_DEFAULT)
        ranked = zip(zip(*keys, map(_BY_DEFAULT, tasks), strict=True), tasks, strict=True)
        return [task for _, task in sorted(ranked, key=_BY_KEY)]

    def sub_job_key(self, sub: SubJob) -> tuple[Any, ...]:
        """Return a sub-job's sort key: plugins, then the number in its label, then its key."""
        return (*[fn(sub) for fn in self.answers["sub_job_order"]], sub.match_index, sub.key)

    # -- network domains -----------------------------------------------------------------------------------------------

    def gradient(self, part: Job | SubJob, root: int, purpose: str) -> Sequence[Sequence[int]]:
        """Return which domains inside ``root`` to try: the first plugin that answers decides."""
        for fn in self.answers["hyper_node_gradient"]:
            groups: Sequence[Sequence[int]] = fn(part, root, purpose)
            return groups
        return ((root,),)

    def hyper_node_scores(self, sub: SubJob, domains: Sequence[int], *, together: bool) -> FloatArray:
        """Return the sum of the plugins' scores of domains; see `Plugin.hyper_node_order`."""
        total = np.zeros(len(domains))
        for fn in self.answers["hyper_node_order"]:
            total += fn(sub, domains, together)
        return total

    def sub_job_ready(self, sub: SubJob) -> bool:
        """Whether enough tasks of a sub-job are placed; for a job that is not split, `job_ready` decides."""
        return self.job_ready(sub.job) if sub.whole else all(fn(sub) for fn in self.answers["sub_job_ready"])

    def sub_job_pipelined(self, sub: SubJob) -> bool:
        """Whether a sub-job that is not ready may keep its pipelined tasks."""
        return self.job_pipelined(sub.job) if sub.whole else self._vote("sub_job_pipelined", sub)

    def missing_until_sub_ready(self, sub: SubJob, role: str) -> int:
        """Return how many tasks of a role can be placed before the sub-job may be ready; at least 1."""
        if sub.whole:
            return self.missing_until_ready(sub.job, role)
        return max([fn(sub) for fn in self._missing_sub], default=1)

    # -- questions -----------------------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has all it deserves, by any plugin."""
        for fn in self.answers["overused"]:  # noqa: SIM110 -- asked for every job of a burst, as a generator half as fast
            if fn(queue):
                return True
        return False

    def allocatable(self, queue: Queue, task: Task, count: int = 1) -> int:
        """Return how many of ``count`` tasks equal to ``task`` the queue may take."""
        for fn in self.answers["allocatable"]:
            if count <= 0:
                return 0
            count = min(count, fn(queue, task, count))
        return count

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may reclaim from others for these tasks, by all plugins."""
        return all(fn(queue, tasks) for fn in self.answers["preemptive"])

    def neighbours_allow(self, task: Task, rows: Rows) -> Rows:
        """Return the rows that rules about other pods allow with the pods that are there now."""
        for fn in self.answers["filter_neighbours"]:
            verdicts: Verdicts | None = fn(task, self.world.nodes, rows) if rows.size else None
            if verdicts is not None:
                rows = rows[verdicts.codes == 0]
        return rows

    def pre_filter(self, task: Task) -> FitErrors | None:
        """Return why a task is rejected before any node is looked at; None when it is not."""
        for fn in self.answers["pre_filter"]:
            reason = fn(task)
            if reason is not None:
                return FitErrors(note=reason.text, plugin=reason.plugin)
        return None

    def job_valid(self, job: Job) -> Validity | None:
        """Return the first reason why a job cannot run as it is."""
        for fn in self.answers["job_valid"]:
            validity: Validity | None = fn(job)
            if validity is not None:
                return validity
        return None

    def job_ready(self, job: Job) -> bool:
        """Whether the job's placed tasks may be bound."""
        for fn in self.answers["job_ready"]:  # noqa: SIM110 -- asked for every job of a burst, as a generator half as fast
            if not fn(job):
                return False
        return True

    def missing_until_ready(self, job: Job, role: str) -> int:
        """Return how many tasks of a role can be placed before the job may be ready; at least 1."""
        return max([fn(job, role) for fn in self._missing], default=1)

    def job_pipelined(self, job: Job) -> bool:
        """Whether a job that is not ready may keep its pipelined tasks."""
        return self._vote("job_pipelined", job)

    def job_enqueueable(self, job: Job) -> bool:
        """Whether a pending job may be enqueued."""
        return self._vote("job_enqueueable", job)

    def _vote(self, point: str, job: Job | SubJob) -> bool:
        for tier in self.tiers[point]:
            permitted = False
            for _, fn in tier:
                vote = fn(job)
                if vote <= REJECT:
                    return False
                permitted = permitted or vote >= PERMIT
            if permitted:
                return True
        return True

    def job_enqueued(self, job: Job) -> None:
        """Notify plugins that a job was enqueued."""
        for fn in self.answers["job_enqueued"]:
            fn(job)

    def job_starving(self, job: Job) -> bool:
        """Whether tasks may be evicted for a job: all plugins of the first tier that has this point must agree."""
        for tier in self.tiers["job_starving"]:
            return all(fn(job) for _, fn in tier)
        return False

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a task of their own queue."""
        return self._victims("preemptable", preemptor, candidates)

    def movable(self, task: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted to run again on another node, which makes room for a task.

        Every plugin that protects pods must agree, in whatever tier. Plugins that compare preemptor and victim
        (`Plugin.weighs_claims`) are not called, because the victim keeps its resources, only elsewhere.
        """
        left = list(candidates)
        for plugin, fn in chain.from_iterable(self.tiers["preemptable"]):
            if left and not plugin.weighs_claims:
                chosen, vote = fn(task, left)
                left = list(chosen) if vote else left
        return left

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a task of another queue."""
        return self._victims("reclaimable", reclaimer, candidates)

    def unified_evictable(self, evictor: Evictor, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a whole job."""
        return self._victims("unified_evictable", evictor, candidates)

    def _victims(self, point: str, evictor: Task | Evictor, candidates: Sequence[Task]) -> list[Task]:
        """Combine the plugins' victims (spec scheduler-core 10.1, with its quirks)."""
        victims: list[Task] | None = None
        for tier in self.tiers[point]:
            for _, fn in tier:
                chosen, vote = fn(evictor, candidates)
                if vote == 0:
                    continue
                if not chosen:
                    victims = None
                    break
                if victims is None:
                    victims = list(chosen)
                else:
                    allowed = {task.key for task in chosen}
                    victims = [task for task in victims if task.key in allowed] or None
            if victims is not None:
                return victims
        return []

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks to evict by the first tier in which any plugin names some."""
        for tier in self.tiers["victim_tasks"]:
            union = {task.key: task for _, fn in tier for task in fn(tasks)}
            if union:
                return list(union.values())
        return []
