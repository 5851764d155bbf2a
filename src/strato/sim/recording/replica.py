"""`WorldReplica`: a scheduler's World that goes through the recorded changes, on which cycles are decided again.

For each entry it makes the call on the World that the recorder recorded. A cycle is run as the scheduler ran it. If it
decides differently from the recording, its decisions are rolled back and the recorded ones applied, so that the next
cycle finds the World that the scheduler had.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Final

from strato.scheduler.cache import kinds
from strato.scheduler.cache.ingest import status_of
from strato.scheduler.cache.replies import KnownReplies, Question, Reply
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.usage import NodeUsage
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import BINDING, COMPLETED_SET, PENDING, RELEASING
from strato.scheduler.placement.placer import Placer
from strato.scheduler.plugins.gang import GANG
from strato.sim.recording import entries as e
from strato.sim.recording.state import known_kind, view_of

UNREADABLE: Final = (ValueError, ArithmeticError, RecursionError)
"""Errors that taking an object may raise. The replica leaves such an object out, as the scheduler did."""


class WorldReplica:
    """A replica of a recorded World, as the module says.

    Args:
        began: The entry with which the recording began.
        config: Configuration in place of the recorded ones; None takes the recorded ones.

    Attributes:
        world: The World after the last entry.
        replies: The recorded replies to questions of the next cycle; a replay asks no service.
        cycles: Number of the last cycle decided.
    """

    def __init__(self, began: e.Began, config: Config | None = None) -> None:
        self._given = config
        self._rng = random.Random(0)
        if began.rng:
            self._rng.setstate(began.rng)
        self.config = config if config is not None else config_of(began.config, began.base)
        world = self.world = World(began.names, began.default_queue)
        world.flow_loaded = began.flow_loaded
        world.shards = Shards(world.nodes, began.shard_mode, began.shard_name, began.agent_shard)
        world.gangs_are_whole = self._is_gang()
        world.replies = self.replies = KnownReplies()
        self._placer = self._new_placer()
        self._phases: dict[str, str] = {}
        self._snapshot: e.SnapshotBegan | None = None
        self.cycles = 0

    def apply(self, entry: e.AnyEntry) -> None:
        """Make the call on the World that an entry records. Cycles are not for this method but for `decide`.

        Raises:
            BadLog: The entry has an unknown kind or an object that cannot be decoded.
        """
        world = self.world
        match entry:
            case e.Took() | e.SnapshotPart():
                self._take(entry)
            case e.Dropped():
                known_kind(entry.kind).drop(world, entry.namespace, entry.name)
            case e.Unbound():
                if (task := world.tasks.get(entry.key)) is not None:
                    world.move(task, PENDING)
                    world.schedulable_generation += 1
            case e.Held():
                if (task := world.tasks.get(entry.key)) is not None and task.status == PENDING:
                    world.hold(task)
            case e.Released():
                if (task := world.held.get(entry.key)) is not None:
                    world.release(task)
            case e.EvictionRefused():
                world.refuse_eviction(entry.key, entry.uid, entry.at)
            case e.Reopened() | e.Repaired():
                world.version += 1
                world.schedulable_generation += 1
            case e.FlowLoaded():
                world.flow_loaded = True
            case e.Measured():
                world.usages.interval_seconds = entry.interval_seconds
                world.usages.take({name: NodeUsage(*usage) for name, usage in entry.nodes.items()})
                world.version += 1
            case e.Replied():
                self.replies.add(Question(entry.where, entry.digest), Reply(entry.text, entry.problem, entry.seconds))
            case e.Configured():
                self._configure(entry.text, entry.base)
            case e.SnapshotBegan():
                self._snapshot = entry
                self._configure(entry.config, entry.base)
            case e.SnapshotEnded():
                self._restore()
            case _:
                pass

    def _take(self, entry: e.Took | e.SnapshotPart) -> None:
        known = known_kind(entry.kind)
        view = view_of(entry)
        with contextlib.suppress(*UNREADABLE):
            known.take(self.world, view)
        if known is _GROUP:
            key = f"{view.metadata.namespace}/{view.metadata.name}"
            job = self.world.jobs.get(key)
            if job is not None:
                self._phases[key] = job.phase

    def _restore(self) -> None:
        """Apply a snapshot's binds and evictions in progress and its held pods, once its objects are in the World."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        for key, node in snapshot.binding:
            self._bind(key, node)
        for key, uid, beneficiary in snapshot.leaving:
            task = self.world.tasks.get(key)
            if task is not None and task.uid == uid:
                self._evict(task, beneficiary)
        for key in snapshot.held:
            if (task := self.world.tasks.get(key)) is not None and task.status == PENDING:
                self.world.hold(task)
        self.cycles = snapshot.cycle

    def decide(self, cycle: e.Cycle) -> Plan:
        """Run a cycle at the instant of a recorded one; the World then has the decisions of the returned plan."""
        self.cycles = cycle.number
        plan = run_cycle(
            self.world,
            self.config,
            now=cycle.at,
            rng=self._rng,
            uid=f"session-{cycle.number}",
            placer=self._placer,
        )
        self.replies.forget()
        return plan

    def is_same_otherwise(self, cycle: e.Cycle, plan: Plan) -> bool:
        """Whether a plan also changes the phases of the same pod groups as a recorded cycle."""
        phases = [(status.job.key, status.phase) for status in plan.groups]
        return sorted(phases) == sorted(cycle.phases)

    def keep(self, plan: Plan) -> None:
        """Keep the decisions of a plan, which are those of the recorded cycle."""
        for status in plan.groups:
            self._phases[status.job.key] = status.job.phase
        self.world.close()

    def follow(self, cycle: e.Cycle, plan: Plan) -> None:
        """Roll the decisions of a plan back and apply those of the recorded cycle."""
        world = self.world
        for bind in plan.binds:
            if bind.task.status == BINDING:
                world.move(bind.task, PENDING)
        for eviction in plan.evictions:
            world.evictions.end(eviction.task.key)
            if eviction.task.status == RELEASING:
                world.move(eviction.task, status_of(eviction.task.pod), eviction.task.row)
        for status in plan.groups:
            world.set_phase(status.job, self._phases.get(status.job.key, ""))
        for key, node in cycle.binds:
            self._bind(key, node)
        for one in cycle.evictions:
            if (task := world.tasks.get(one.pod)) is not None:
                self._evict(task, one.beneficiary)
        for key, phase in cycle.phases:
            if (job := world.jobs.get(key)) is not None:
                world.set_phase(job, phase)
                self._phases[key] = phase
        world.schedulable_generation += 1
        world.close()

    def _bind(self, key: str, node: str) -> None:
        task, row = self.world.tasks.get(key), self.world.nodes.row_of.get(node)
        if task is not None and row is not None and task.status == PENDING:
            self.world.move(task, BINDING, row)

    def _evict(self, task: Task, beneficiary: str) -> None:
        if task.row >= 0 and task.status != RELEASING and task.status not in COMPLETED_SET:
            self.world.move(task, RELEASING, task.row)
            self.world.begin_eviction(task, beneficiary)

    def _configure(self, text: str, base: str) -> None:
        if self._given is None:
            self.config = config_of(text, base)
        self.world.gangs_are_whole = self._is_gang()
        self._placer = self._new_placer()
        self.world.schedulable_generation += 1
        self.world.version += 1

    def _is_gang(self) -> bool:
        return any(option.name == GANG for tier in self.config.tiers for option in tier)

    def _new_placer(self) -> Placer:
        return Placer(self.world.nodes, seed=self._rng.getrandbits(16))


_GROUP = kinds.find("scheduling.volcano.sh/v1beta1", "PodGroup")


def config_of(text: str, base: str) -> Config:
    """Return a recorded configuration.

    Raises:
        InvalidInput: It cannot be read on this machine, for example because a plugin is missing.
    """
    return parse_config(text, "the recorded configuration", Path(base)) if text else default_config()
