"""The resource scores that placements go by: those of this session, whatever there were in the one before."""

from __future__ import annotations

import random

from strato.scheduler.config import default_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import MOST, ResourceTerm
from strato.scheduler.model.resources import CPU
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds


class Packs(Plugin):
    """Prefers full nodes, from its second session on."""

    name = "packs"

    def open(self, ssn: CycleContext) -> None:
        if ssn.now < 2:
            raise RuntimeError("too early")

    def resource_terms(self) -> tuple[ResourceTerm, ...]:
        return (ResourceTerm(MOST, 1.0, ((CPU, 1.0),)),)


def test_a_plugin_that_failed_in_one_cycle_scores_in_the_next() -> None:
    option = PluginOption(Packs.name, Packs, None, default_config().tiers[0][0].toggles)
    config = Config(actions=("allocate",), tiers=((option,),))
    world = worlds.world(worlds.queue(), worlds.node("n0"), worlds.node("n1"))
    worlds.feed(world, worlds.pod("old", cpu="2", phase="Running", nodeName="n0"))
    placer, where = Placer(world.nodes), []
    for now in (1, 2):
        worlds.feed(world, worlds.group(f"g{now}", 1), worlds.pod(f"p{now}", f"g{now}"))
        plan = run_cycle(world, config, now=now, rng=random.Random(0), uid=f"c{now}", placer=placer)
        where.append((len(plan.failures), worlds.binds(plan)[f"ns/p{now}"]))
    assert where == [(1, "n1"), (0, "n0")], "without scores, the search among equal nodes begins at n1"
