"""`Engine`: passes virtual time from event to event and lets the scheduler decide.

Decisions take no time, as in the fidelity with every object (`strato.sim.rest`): all that happens at one instant is
settled before a cycle runs, and cycles follow each other at that instant until none is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Protocol

from strato.scheduler.cache.world import World
from strato.scheduler.cycle import nobody_waits, run_cycle, settle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement.placer import Placer
from strato.scheduler.throttle import Throttle
from strato.sim.decisions.timeline import Timeline
from strato.sim.rest import STALL_SECONDS, CycleLimit, instant


class Arrivals(Protocol):
    """What is still to be submitted."""

    @property
    def next_at(self) -> float | None:
        """When that is next; None when nothing is left."""


class Jobs(Protocol):
    """What happens between cycles: the jobs of a trace, or those of a living cluster's state.

    Attributes:
        submitted_at: When a job was submitted last.
    """

    submitted_at: float

    @property
    def arrivals(self) -> Arrivals:
        """What is still to be submitted."""

    @property
    def are_over(self) -> bool:
        """Whether nothing is waited for any more."""

    def submit_due(self) -> None:
        """Submit the jobs whose time has come."""

    def carry_out(self, plan: Plan) -> None:
        """Let a plan come about."""


class Record(Protocol):
    """What has happened to the jobs."""

    @property
    def running_pods(self) -> int:
        """How many pods run that will end."""

    @property
    def last_change_at(self) -> float:
        """When one began or ended last."""


class Engine:
    """See the module.

    Args:
        world: What the scheduler knows.
        config: The policy.
        jobs: What happens between cycles.
        recorder: What has happened to it.
        timeline: Virtual time.
        rng: Of the scheduler.
        tick_seconds: Time between two looks at the clock by plugins that are time-based, while somebody waits.
    """

    def __init__(
        self,
        world: World,
        config: Config,
        jobs: Jobs,
        recorder: Record,
        timeline: Timeline,
        rng: Random,
        *,
        tick_seconds: float = 1.0,
    ) -> None:
        self._world = world
        self._config = config
        self._serves_waiting = config.serves_waiting
        self._is_time_based = config.time_based
        self._jobs = jobs
        self._recorder = recorder
        self._timeline = timeline
        self._rng = rng
        self._tick_seconds = tick_seconds
        self._placer = Placer(world.nodes, seed=rng.getrandbits(16))
        self._throttle = Throttle()
        self._limit = CycleLimit()
        self._is_woken = False
        self._decided_generation = -1
        self._decided_version = -1
        self._status_due: float | None = None
        self._paused_until: float | None = None
        self._tick_at: float | None = None
        self.cycles = 0

    def run(self, progress: Callable[[], None] | None = None, *, until: float = math.inf) -> None:
        """Run until all jobs have ended, or none can start any more.

        Args:
            progress: Called after each instant at which something happened.
            until: The last instant, in seconds after the beginning.
        """
        while not self._jobs.are_over:
            at = self.next_at
            if at is None or at > until:
                return
            self._timeline.now = at
            version = self._world.version
            self._happen()
            if self._world.version != version:
                self._is_woken = True
            self._decide()
            if progress is not None:
                progress()

    def begin(self) -> None:
        """Decide on a world in which there are jobs already."""
        self._is_woken = True
        self._decide()

    def _decide(self) -> None:
        """Run the cycles that are due at this instant."""
        if self._is_time_based:
            self._tick()
        while self._is_cycle_due():
            self._cycle()

    def _happen(self) -> None:
        """Let everything happen that does at this instant."""
        self._timeline.fire()
        self._jobs.submit_due()

    @property
    def next_at(self) -> float | None:
        """When something happens next; None when nothing will."""
        sources = (
            self._timeline.next_at,
            self._jobs.arrivals.next_at,
            self._status_due,
            self._paused_until,
            self._tick_at,
        )
        return min((at for at in sources if at is not None), default=None)

    def _tick(self) -> None:
        """Let time-based plugins look at the clock now and then while somebody waits."""
        now, world = self._timeline.now, self._world
        waits = world.with_pending or world.waiting_for_queue or "shuffle" in self._config.actions
        if self._tick_at is not None and self._tick_at <= now:
            self._tick_at = None
            if waits:
                world.schedulable_generation += 1
                self._is_woken = True
        if self._tick_at is None and not self._is_stalled():
            self._tick_at = instant((now // self._tick_seconds + 1.0) * self._tick_seconds)

    def _is_stalled(self) -> bool:
        """Whether only time passes, and has for so long that nothing will come of it."""
        if self._recorder.running_pods or self._jobs.arrivals.next_at is not None:
            return False
        last = max(self._recorder.last_change_at, self._jobs.submitted_at)
        return self._timeline.now - last >= STALL_SECONDS

    def _is_cycle_due(self) -> bool:
        """Whether a cycle runs at this instant; decided as in `strato.scheduler.service`."""
        world, now = self._world, self._timeline.now
        if not self._is_woken:
            return False
        if self._paused_until is not None:
            if self._paused_until > now:
                return False
            self._paused_until = None
            return True
        if world.schedulable_generation == self._decided_generation:
            if world.version == self._decided_version:
                self._is_woken, self._status_due = False, None
                return False
            if self._status_due is None:
                self._status_due = instant(now + self._throttle.status_seconds(now))
            if self._status_due > now:
                return False
        wait = self._limit.wait_seconds(now)
        if wait:
            self._paused_until = instant(now + wait)
        return not wait

    def _cycle(self) -> None:
        world, now = self._world, self._timeline.now
        status_only = world.schedulable_generation == self._decided_generation
        self._decided_generation = world.schedulable_generation
        self._status_due = None
        self.cycles += 1
        if self._serves_waiting and nobody_waits(world):
            plan = settle(world, self._placer)
        else:
            plan = run_cycle(
                world,
                self._config,
                now=self._timeline.epoch,
                rng=self._rng,
                uid=f"session-{self.cycles}",
                placer=self._placer,
                of_queues=False,
            )
        self._decided_version = world.version
        self._jobs.carry_out(plan)
        self._happen()  # pods that run for no time have ended before the next cycle
        self._is_woken = world.version != self._decided_version
        self._throttle.ran(now, now, status_only=status_only, placed=len(plan.binds))
