"""One evaluation of a shadow policy: decides by another configuration what a plan decided, and compares the two."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from strato.scheduler.cache.world import World
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.placement.placer import Placer
from strato.scheduler.plugins.gang import GANG
from strato.scheduler.shadow.difference import Difference, differences, held_by, lots_of, reasons_of
from strato.scheduler.shadow.rewind import rewind

MOST_DIFFERENCES = 1000
"""Most differences that are reported one by one; the rest is counted."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation.

    Attributes:
        binds: How many pods the shadow places.
        first_binds: How many the policy in force placed.
        evictions: How many pods the shadow evicts.
        differences: The first `MOST_DIFFERENCES` of them.
        pods: By change, how many pods (jobs where a change has none) differ in all.
        failures: Plugins and actions of the shadow policy that raised and were left out.
    """

    binds: int
    first_binds: int
    evictions: int
    differences: list[Difference]
    pods: dict[str, int]
    failures: list[str] = []


def decides(plan: Plan) -> bool:
    """Whether a plan has any binds, evictions or other decisions to carry out."""
    return bool(plan.binds or plan.evictions or plan.enqueued or plan.admitted)


def evaluate(
    world: World,
    plan: Plan,
    config: Config,
    *,
    now: float,
    seed: int,
    verdicts: Mapping[str, Sequence[Verdict]],
) -> Evaluation:
    """Decide by another configuration what a plan decided.

    Args:
        world: The world after the plan; it is changed, so pass a copy.
        plan: The last plan decided on it, or the last that had any decisions.
        config: The shadow's configuration.
        now: Seconds since the epoch when the plan was decided.
        seed: Seed of the random generator and of the choice among equal nodes, as in the policy in force.
        verdicts: By job key, why jobs wait under the policy in force.
    """
    first = lots_of(plan)
    rewind(world, plan, now)
    world.gangs_are_whole = any(option.name == GANG for tier in config.tiers for option in tier)
    placer = Placer(world.nodes, seed)
    shadow = run_cycle(world, config, now=now, rng=random.Random(seed), uid=f"shadow of {plan.session}", placer=placer)
    waits = reasons_of(verdicts) | held_by(plan)
    found = differences(world, first, lots_of(shadow), waits, held_by(shadow))
    listed = list(islice(found, MOST_DIFFERENCES))
    pods: Counter[str] = Counter()
    for difference in (*listed, *found):
        pods[difference.change] += max(difference.pods, 1)
    return Evaluation(
        binds=len(shadow.binds),
        first_binds=len(plan.binds),
        evictions=len(shadow.evictions),
        differences=listed,
        pods=dict(pods),
        failures=[f"{failure.plugin} in {failure.point}: {failure.error}" for failure in shadow.failures],
    )
