"""`Scheduler`: runs a cycle when informers have changed the world, and has the plan carried out."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from strato.api.meta import Object
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.client.informer import Informers
from strato.clock import Clock, VirtualClock
from strato.errors import InvalidInput
from strato.metrics import Registry
from strato.scheduler.binding.binder import Binder, BindObserver
from strato.scheduler.binding.startup import absent_kinds, ensure_queues
from strato.scheduler.cache import kinds
from strato.scheduler.cache.audit import Audit
from strato.scheduler.cache.feed import Feed
from strato.scheduler.cache.journal import Beginning
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.usagesource import UsageSource
from strato.scheduler.cache.world import World
from strato.scheduler.configfile import ConfigFile
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.suspension import suspendable
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Eviction, Failure, Plan
from strato.scheduler.model.tasks import AGENT_SCHEDULER
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.placement.placer import Placer, warm_up
from strato.scheduler.plugins.extender import EXTENDER
from strato.scheduler.plugins.gang import GANG
from strato.scheduler.reporting.evictionrecords import EvictionRecord, EvictionRecords
from strato.scheduler.reporting.explain import Diagnosis
from strato.scheduler.reporting.keptverdicts import KeptVerdicts
from strato.scheduler.reporting.measures import Measures
from strato.scheduler.reporting.reports import Reports
from strato.scheduler.reporting.series import Series
from strato.scheduler.shadow.service import Decisions, Shadow
from strato.scheduler.throttle import Throttle

_log = logging.getLogger(__name__)

T = TypeVar("T")

_TICKS = 3
"""Turns of the event loop an idle scheduler waits after a change, so that one cycle decides on all that arrived."""


def _agents(names: Sequence[str]) -> str:
    """Return the NodeShard of the agent scheduler's pods; empty unless this scheduler serves those and other pods."""
    return AGENT_SCHEDULER if AGENT_SCHEDULER in names and len(names) > 1 else ""


class Scheduler:
    """Schedules the pods of some scheduler names.

    Args:
        config: The configuration, or the path of a file in Volcano's format, which is read again whenever it changes (a
            bad one is reported and ignored); absent means the built-in configuration.
        random: Used by nothing else: a recorded run can only be replayed if the scheduler alone draws from it.
        load_flow: Loads the kernels of the action `flow` without blocking the event loop. Called once a job needs them;
            until it returns, `allocate` places these jobs. None: the cycle that needs the kernels loads them itself.

    Raises:
        InvalidInput: The configuration file is bad at start.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        random: Random,
        *,
        config: Config | Path | str | None = None,
        options: SchedulerOptions | None = None,
        metrics: Registry | None = None,
        load_flow: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._informers = informers
        self._clock = clock
        self._random = random
        self._source = ConfigFile(config)
        self._options = options = options or SchedulerOptions()
        names = options.names
        registry = metrics or Registry()
        self._measures = Measures(registry)
        self._recorder = EventRecorder(cluster, clock, options.name, registry=metrics)
        self.world = World(names, options.default_queue)
        self.world.flow_loaded = load_flow is None
        self._load_flow = load_flow
        self._flow_wanted = asyncio.Event()
        self.world.shards = Shards(self.world.nodes, options.shard_mode, options.shard_name, _agents(names))
        self.world.gangs_are_whole = GANG in self._plugin_names()
        self.world.journal = options.journal
        self.world.journal.begin(self._beginning())
        self._series = Series(self.world, registry)
        self._placer_seed = 0
        self._placer = self._new_placer()
        self._reports = Reports(cluster, clock, self.world, self._recorder, options.period_seconds)
        self._binder = Binder(
            cluster,
            clock,
            self.world,
            self._recorder,
            self._reports.pods,
            self.wake,
            observer=BindObserver(self._on_bound, self._on_staged, self._on_eviction_refused),
            workers=options.workers,
        )
        self._feed = Feed(self.world, self.wake, self._on_refused, options.replicas, options.node_labels)
        owns = options.replicas.owns if options.replicas is not None else lambda _: True
        self._audit = Audit(
            cluster, clock, self.world, self._recorder, registry, self.wake, options.audit_seconds, owns
        )
        self._usage = UsageSource(cluster, clock, self.world.usages, lambda: self.config.metrics, self._on_usage)
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._decided_generation = -1
        self._decided_version = -1
        self._cycles = 0
        self.eviction_records = EvictionRecords(settled=self._measures.settled, there=self._holds_its_place)
        """Evictions with their beneficiaries, and whether the beneficiary got the place."""
        self._kept = KeptVerdicts(self.world)
        self._shadow = self._new_shadow(registry)
        self.reconfigured = asyncio.Event()
        """Set when another configuration is in force; the one task that waits for it clears it."""
        self.ready = asyncio.Event()
        """Set once the informers have synced and the kernels are loaded."""

    def _beginning(self) -> Beginning:
        options, config = self._options, self.config
        return Beginning(
            names=options.names,
            default_queue=options.default_queue,
            shard_mode=options.shard_mode,
            shard_name=options.shard_name,
            agent_shard=_agents(options.names),
            flow_loaded=self.world.flow_loaded,
            config=config.text,
            base=config.base,
            rng=self._random.getstate(),
        )

    @property
    def full_name(self) -> str:
        """Its name, with that of the replica where there are several."""
        return self._options.full_name

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._source.config

    def wake(self) -> None:
        """Request a cycle; it is not delayed to gather changes if something may be schedulable that was not before."""
        self._changed.set()
        if self.world.schedulable_generation != self._decided_generation:
            self._urgent.set()

    def diagnosis(self, key: str) -> Diagnosis | None:
        """Explain why a pod or PodGroup (``namespace/name``) waits; None when it is unknown."""
        return self._kept.diagnosis(key, self._placer.job_classes.visited_for)

    async def run(self) -> None:
        """Schedule until cancelled."""
        await ensure_queues(self._cluster, self._clock, self._options.default_queue)
        self._feed.absent = await absent_kinds(self._cluster, self._clock)
        self._feed.attach(self._informers, self._watched_for())
        warm_up()
        await self._informers.wait_synced()
        if self._load_flow is not None and (self._runs_flow() or self.world.for_flow):
            await self._have_flow(self._load_flow)
        self.ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._binder.run(), name="scheduler binder")
            group.create_task(self._reports.run(), name="scheduler reports")
            group.create_task(self._tick(), name="scheduler tick")
            group.create_task(self._loop(), name="scheduler cycles")
            if self._load_flow is not None and not self.world.flow_loaded:
                group.create_task(self._have_flow_when_wanted(self._load_flow), name="scheduler flow kernels")
            if self._shadow is not None:
                group.create_task(self._shadow.run(), name="scheduler shadow policy")
            if self._options.audit_seconds:
                group.create_task(self._audit.run(), name="scheduler self-audit")
            if self.config.metrics.get("type") or self._source.path is not None:
                group.create_task(self._usage.run(), name="scheduler node usage")

    async def _have_flow_when_wanted(self, load: Callable[[], Awaitable[None]]) -> None:
        await self._flow_wanted.wait()
        _log.info("kernels of the action flow are being loaded; until then allocate places")
        await self._have_flow(load)
        self.world.when_closed(self._decide_anew)

    def _decide_anew(self) -> None:
        self.world.journal.reopen()
        self.world.schedulable_generation += 1
        self.world.version += 1
        self.wake()

    async def _have_flow(self, load: Callable[[], Awaitable[None]]) -> None:
        try:
            await load()
        except Exception:  # whatever the error: `allocate` can place every job without these kernels
            _log.exception("kernels of the action flow cannot be loaded; allocate goes on placing")
        else:
            self.world.flow_loaded = True
            self.world.journal.load_flow()

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _loop(self) -> None:
        throttle = Throttle()
        while True:
            await self._changed.wait()
            world = self.world
            if world.schedulable_generation == self._decided_generation:
                gather = throttle.status_seconds(self._clock.monotonic())
                # not wait_for: before Python 3.12 it loses a cancellation that comes with the event
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(gather):
                        await self._urgent.wait()
            await self._gather(throttle)
            self._changed.clear()
            self._urgent.clear()
            started = self._clock.monotonic()
            status_only = world.schedulable_generation == self._decided_generation
            placed = await self._run_once()
            throttle.ran(started, self._clock.monotonic(), status_only=status_only, placed=placed)

    async def _gather(self, throttle: Throttle) -> None:
        """Wait for further changes that arrive together with the one that requested a cycle."""
        busy = throttle.busy_seconds(self._clock.monotonic())
        if self._options.rest is not None:
            await self._options.rest()
        elif busy:
            await self._clock.sleep(busy)
        else:
            for _ in range(_TICKS):
                await self._clock.sleep(0)

    async def _run_once(self) -> int:
        """Decide one cycle and carry out its plan; skip it if nothing has changed since the last one.

        Returns:
            How many pods it placed.
        """
        world = self.world
        if world.version == self._decided_version and not self.config.time_based:
            return 0
        started = self._clock.monotonic()
        now = self._clock.now()
        status_only = world.schedulable_generation == self._decided_generation
        self._decided_generation = world.schedulable_generation
        self._cycles += 1
        waits = self._may_wait()
        if waits:
            world.waiting_changes = []
            self._reports.pause()
        try:
            plan = await suspendable(lambda: self._decide(now)) if waits else self._decide(now)
            self._decided_version = world.version
            self._act(plan, started, now)
        finally:
            world.close()
            if waits:
                self._reports.resume()
        if self._shadow is not None and not status_only:
            self._shadow.decided(plan, now)
        return len(plan.binds)

    def _may_wait(self) -> bool:
        """Whether cycles run in a thread so that they may wait for HTTP extenders; never in virtual time."""
        return EXTENDER in self._plugin_names() and not isinstance(self._clock, VirtualClock)

    def _decide(self, now: float) -> Plan:
        return run_cycle(
            self.world,
            self.config,
            now=now,
            rng=self._random,
            uid=f"session-{self._cycles}",
            placer=self._placer,
            observe=self._measures.took,
        )

    def _act(self, plan: Plan, started: float, now: float) -> None:
        """Pass a plan that was decided at ``now`` to the binder, the reports, the metrics and the journal."""
        world = self.world
        world.journal.cycle(now, plan)
        if world.flow_wanted:
            self._flow_wanted.set()
        self._measures.cycle(plan, world, self._clock.monotonic() - started)
        self._series.cycle(plan)
        self._kept.take(plan)
        for failure in plan.failures:
            self._on_failure(failure)
        if plan.binds:
            self._measures.decided(plan.binds, now)
            self._binder.bind(plan.binds, plan.choices)
        for task in plan.admitted.values():
            self._binder.admit(task)
        self.eviction_records.look(world.tasks, now)
        if plan.evictions:
            self.eviction_records.note(plan.evictions, world.nodes.names, now)
            self._binder.evict(plan.evictions)
        if plan.again_seconds:
            self._binder.decide_again(plan.again_seconds)
        self._reports.take(plan)

    async def _tick(self) -> None:
        """Check the configuration file for changes, and wake time-based plugins, once per period."""
        if not self._source.may_change and not self.config.time_based:
            return  # no tick can find anything, and ticks would dominate the simulation of a week
        while True:
            await self._clock.sleep(self._options.period_seconds)
            config = await self._off_loop(self._source.reread)
            self.world.when_closed(functools.partial(self._on_tick, config))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Run work that reads a disk in a thread; in virtual time run it here, to keep the order deterministic."""
        return work() if isinstance(self._clock, VirtualClock) else await asyncio.to_thread(work)

    def _on_tick(self, config: Config | InvalidInput | None) -> None:
        if isinstance(config, InvalidInput):
            _log.error("configuration not taken, the one in force stays: %s", config)
            self._report("BadConfiguration", f"not taken, the one in force stays: {config}")
        elif config is not None:
            self._reconfigure(config)
        waits = self.world.with_pending or self.world.waiting_for_queue
        if self.config.time_based and (waits or "shuffle" in self.config.actions):
            self.world.schedulable_generation += 1
            self.wake()

    def _reconfigure(self, config: Config) -> None:
        """Use another configuration from the next cycle on."""
        self._source.config = config
        self.reconfigured.set()
        self.world.journal.configure(config.text, config.base)
        self.world.gangs_are_whole = GANG in self._plugin_names()
        self._placer = self._new_placer()
        self.world.schedulable_generation += 1
        self.world.version += 1
        if self._feed.attach(self._informers, self._watched_for()):
            self._informers.start()
        _log.info("configuration reloaded: file=%s", self._source.path)
        self.wake()

    def _new_placer(self) -> Placer:
        self._placer_seed = self._random.getrandbits(16)
        return Placer(self.world.nodes, seed=self._placer_seed)

    def _plugin_names(self) -> frozenset[str]:
        """Return the names of the configured plugins, and of the core's features that watch kinds of their own."""
        names = {option.name for tier in self.config.tiers for option in tier}
        if self.world.shards.on:
            names.add(kinds.SHARDING)
        if "preempt" in self.config.actions and not self.world.solo.isdisjoint(self.world.names):
            names.add(kinds.PREEMPTION)
        return frozenset(names)

    # -- beside it -----------------------------------------------------------------------------------------------------

    def _new_shadow(self, registry: Registry) -> Shadow | None:
        options = self._options.shadow
        if options is None:
            return None
        decisions = Decisions(self._is_idle, lambda: self._kept.jobs, lambda: self._placer_seed, self._watch_for_shadow)
        return Shadow(options, self._options.full_name, self.world, decisions, self._cluster, self._clock, registry)

    def _is_idle(self) -> bool:
        """Whether no cycle is due or under way and the binder has nothing to write."""
        world = self.world
        decided = world.schedulable_generation == self._decided_generation
        return decided and world.waiting_changes is None and self._binder.is_idle

    def _watched_for(self) -> frozenset[str]:
        """Return the names of the plugins whose kinds are watched, those of the shadow policy included."""
        return self._plugin_names() | (self._shadow.plugin_names if self._shadow is not None else frozenset())

    def _watch_for_shadow(self) -> None:
        if self._feed.attach(self._informers, self._watched_for()):
            self._informers.start()

    def _runs_flow(self) -> bool:
        return "flow" in self.config.actions or (self._shadow is not None and self._shadow.runs_flow)

    # -- around it -----------------------------------------------------------------------------------------------------

    def _on_usage(self, found: Callable[[], None]) -> None:
        """Take measured node usage into the world; request a cycle if any task is pending."""
        self.world.when_closed(lambda: self._take_usage(found))

    def _take_usage(self, found: Callable[[], None]) -> None:
        found()
        self.world.journal.measure(self.world.usages)
        self.world.version += 1
        if self.world.with_pending:
            self.world.schedulable_generation += 1
        self.wake()

    def _on_bound(self, task: Task) -> None:
        self._series.bound(task, self._clock.now())
        node = self.world.nodes.names[task.row] if task.row >= 0 else ""
        self.eviction_records.started(task.key, self._clock.now(), node)

    def _holds_its_place(self, entry: EvictionRecord) -> bool:
        victim = self.world.tasks.get(entry.victim)
        return victim is not None and victim.uid == entry.uid and victim.row >= 0

    def _on_eviction_refused(self, eviction: Eviction) -> None:
        self.eviction_records.refused(eviction.task.key, eviction.task.uid, self._clock.now())

    def _on_staged(self, task: Task, stage: str, seconds: float) -> None:
        self._measures.staged(task, stage, seconds, self._clock.now())

    def _on_refused(self, view: Object, why: str) -> None:
        self._recorder.event(view, WARNING, "FailedScheduling", f"cannot be read: {why}")

    def _on_failure(self, failure: Failure) -> None:
        """Report and count that a plugin was left out of a cycle."""
        self._measures.failed(failure)
        text = f"plugin {failure.plugin} failed in {failure.point} and is left out of this cycle: {failure.error}"
        self._report("PluginFailed", text)

    def _report(self, reason: str, text: str) -> None:
        """Record an event about the scheduler itself; it regards the default queue, which every scheduler has."""
        queue = self.world.queues.get(self._options.default_queue)
        if queue is not None and queue.view is not None:
            self._recorder.event(queue.view, WARNING, reason, text)
