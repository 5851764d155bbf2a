"""`Engine`: advances virtual time from event to event and runs the scheduler's cycles.

Decisions take no time, as in the fidelity with every object (`strato.sim.rest`): a cycle runs after all events of an
instant have been applied, and further cycles run at that instant until none is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Protocol

from strato.scheduler.cache.world import World
from strato.scheduler.cycle import has_nothing_pending, run_cycle, settle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement.placer import Placer
from strato.scheduler.throttle import Throttle
from strato.sim.decisions.timeline import Timeline
from strato.sim.rest import STALL_SECONDS, CycleLimit, instant


class PendingArrivals(Protocol):
    """The jobs that are still to be submitted."""

    @property
    def next_at(self) -> float | None:
        """When the next job is submitted; None when none is left."""


class Jobs(Protocol):
    """The jobs that the engine runs, which change between cycles: those of a trace, or of a snapshot of a cluster.

    Attributes:
        submitted_at: When the latest job was submitted.
    """

    submitted_at: float

    @property
    def arrivals(self) -> PendingArrivals:
        """The jobs that are still to be submitted."""

    @property
    def are_over(self) -> bool:
        """Whether the run ends, because no job is waited for any more."""

    def submit_due(self) -> None:
        """Submit the jobs whose time has come."""

    def carry_out(self, plan: Plan) -> None:
        """Apply a cycle's plan to pods, pod groups and the world, as binder, evictor and nodes would."""


class Record(Protocol):
    """Counts of pods that have begun and ended, by which the engine knows that nothing moves any more."""

    @property
    def running_pods(self) -> int:
        """Number of running pods that will end."""

    @property
    def last_change_at(self) -> float:
        """When a pod began or ended last."""


class Engine:
    """Runs cycles in virtual time, as the module says.

    Args:
        world: The scheduler's World.
        config: The policy.
        jobs: The jobs that are scheduled.
        recorder: Counts beginnings and ends of pods.
        timeline: Virtual time, and the events to come.
        rng: The scheduler's random numbers.
        tick_seconds: With time-based plugins and while jobs wait, a cycle runs at least this often.
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
        """Run until ``jobs`` are over, no event is left, or a time is reached.

        Args:
            progress: Called after each instant that had an event.
            until: The last instant to run, seconds after the beginning.
        """
        while not self._jobs.are_over:
            at = self.next_at
            if at is None or at > until:
                return
            self._timeline.now = at
            version = self._world.version
            self._apply_due()
            if self._world.version != version:
                self._is_woken = True
            self._decide()
            if progress is not None:
                progress()

    def begin(self) -> None:
        """Run the first cycles on a world that has jobs already."""
        self._is_woken = True
        self._decide()

    def _decide(self) -> None:
        """Run the cycles that are due at this instant."""
        if self._is_time_based:
            self._tick()
        while self._is_cycle_due():
            self._cycle()

    def _apply_due(self) -> None:
        """Apply the events of this instant, then submit the jobs that are due."""
        self._timeline.fire()
        self._jobs.submit_due()

    @property
    def next_at(self) -> float | None:
        """The instant of the next event, submission or cycle; None when there is none."""
        sources = (
            self._timeline.next_at,
            self._jobs.arrivals.next_at,
            self._status_due,
            self._paused_until,
            self._tick_at,
        )
        return min((at for at in sources if at is not None), default=None)

    def _tick(self) -> None:
        """Make a cycle due every ``tick_seconds`` while jobs wait: time-based plugins may decide otherwise by then."""
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
        """Whether no pod runs, no job is left to submit, and nothing has changed for `STALL_SECONDS`."""
        if self._recorder.running_pods or self._jobs.arrivals.next_at is not None:
            return False
        last = max(self._recorder.last_change_at, self._jobs.submitted_at)
        return self._timeline.now - last >= STALL_SECONDS

    def _is_cycle_due(self) -> bool:
        """Whether a cycle runs at this instant, by the rules of `strato.scheduler.service`."""
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
        if self._serves_waiting and has_nothing_pending(world):
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
        self._apply_due()  # so that pods with a run time of 0 have ended before the next cycle
        self._is_woken = world.version != self._decided_version
        self._throttle.ran(now, now, status_only=status_only, placed=len(plan.binds))
