"""`Engine`: passes virtual time from event to event and lets the scheduler decide.

Decisions take no time, as in the fidelity with every object (`strato.sim.rest`): all that happens at one instant is
settled before a cycle runs, and cycles follow each other at that instant until none is due.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from strato.scheduler.cache.world import World
from strato.scheduler.cycle import nobody_waits, run_cycle, settle
from strato.scheduler.framework.options import Config
from strato.scheduler.placement.placer import Placer
from strato.scheduler.throttle import Throttle
from strato.sim.decisions.jobs import Jobs
from strato.sim.decisions.timeline import Timeline
from strato.sim.rest import STALL_SECONDS, CycleLimit, instant
from strato.sim.results.record import RunRecorder


class Engine:
    """See the module.

    Args:
        world: What the scheduler knows.
        config: The policy.
        jobs: What the trace submits.
        recorder: What has happened to it.
        timeline: Virtual time.
        rng: Of the scheduler.
    """

    def __init__(
        self, world: World, config: Config, jobs: Jobs, recorder: RunRecorder, timeline: Timeline, rng: Random
    ) -> None:
        self._world = world
        self._config = config
        self._serves_waiting = config.serves_waiting
        self._is_time_based = config.time_based
        self._jobs = jobs
        self._recorder = recorder
        self._timeline = timeline
        self._rng = rng
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

    def run(self, progress: Callable[[], None] | None = None) -> None:
        """Run until all jobs have ended, or none can start any more.

        Args:
            progress: Called after each instant at which something happened.
        """
        while not self._jobs.are_over:
            at = self._next_at()
            if at is None:
                return
            self._timeline.now = at
            version = self._world.version
            self._happen()
            if self._world.version != version:
                self._is_woken = True
            if self._is_time_based:
                self._tick()
            while self._is_cycle_due():
                self._cycle()
            if progress is not None:
                progress()

    def _happen(self) -> None:
        """Let everything happen that does at this instant."""
        self._timeline.fire()
        self._jobs.submit_due()

    def _next_at(self) -> float | None:
        """Return when something happens next; None when nothing will."""
        sources = (
            self._timeline.next_at,
            self._jobs.arrivals.next_at,
            self._status_due,
            self._paused_until,
            self._tick_at,
        )
        return min((at for at in sources if at is not None), default=None)

    def _tick(self) -> None:
        """Let time-based plugins look at the clock every second while somebody waits."""
        now, world = self._timeline.now, self._world
        waits = world.with_pending or world.waiting_for_queue or "shuffle" in self._config.actions
        if self._tick_at is not None and self._tick_at <= now:
            self._tick_at = None
            if waits:
                world.schedulable_generation += 1
                self._is_woken = True
        if self._tick_at is None and not self._is_stalled():
            self._tick_at = instant(now // 1 + 1.0)

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
