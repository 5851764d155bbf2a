"""Runs the engine on changed copies of a state, any number of times, without changing the state itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strato.api.meta import Object
from strato.scheduler.cache.world import World
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.run import Decoded, build, settle
from strato.scheduler.dryrun.states import START
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import BOUND, RUNNING
from strato.scheduler.placement.placer import Placer

Edit = Callable[[Object], Object]
"""Returns an object as it would be after a change; the same object if the change does not concern it."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of some cycles on a copy.

    Attributes:
        world: The world after the last cycle.
        plans: The plan of each cycle.
    """

    world: World
    plans: Sequence[Plan]

    def placed(self, key: str) -> int:
        """Return how many pods of a job run or are bound."""
        job = self.world.jobs.get(key)
        return job.counts[RUNNING] + job.counts[BOUND] if job is not None else 0

    @property
    def evictions(self) -> int:
        """How many pods were evicted."""
        return sum(len(plan.evictions) for plan in self.plans)


@dataclass(frozen=True, slots=True)
class Copy:
    """A state with the configuration to decide by; immutable.

    Attributes:
        objects: The state.
        config: The configuration.
        seed: Seed of the random generator.
        now: Seconds since the epoch at the first cycle.
    """

    objects: Sequence[Decoded]
    config: Config
    seed: int = 0
    now: float = START

    def with_edits(self, edits: Sequence[Edit], more: Sequence[Decoded] = ()) -> Copy:
        """Return a copy with edits and further objects."""
        objects = list(self.objects)
        for edit in edits:
            objects = [one._replace(view=edit(one.view)) for one in objects]
        return replace(self, objects=[*objects, *more])

    def run(self, cycles: int) -> TrialOutcome:
        """Run cycles; between two, bound pods run and evicted ones are gone."""
        world = build(self.objects)
        rng, placer = random.Random(self.seed), Placer(world.nodes, self.seed)
        plans = []
        for number in range(cycles):
            now = self.now + number
            plans.append(run_cycle(world, self.config, now=now, rng=rng, uid=f"trial-{number + 1}", placer=placer))
            if number + 1 < cycles or plans[-1].binds:
                settle(plans[-1], world)
        return TrialOutcome(world, plans)
