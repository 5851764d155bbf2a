"""Run scheduling cycles on a scene and return the decisions, for tests of plugins.

from strato.testing import cluster, decide

made = decide(cluster().nodes(2, cpu="4").pod("p", cpu="1"), plugins=[MyPlugin])
assert made.binds == {"default/p": "node-1"}
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.scheduler.config import parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.run import load, settle
from strato.scheduler.dryrun.states import START
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import TOGGLES, Plugin
from strato.scheduler.model.plan import Failure, Plan
from strato.scheduler.placement.placer import Placer

Json = Mapping[str, Any]

PLAIN = "actions: 'enqueue, allocate, backfill'\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
"""Default configuration for tests of plugins: gangs and node filters, no scores."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of the cycles.

    Attributes:
        binds: Node by pod (``namespace/name``), over all cycles.
        evicted: Pods that were evicted, in order.
        reasons: Message for each pod that waits after the last cycle.
        failures: Errors of plugins.
    """

    binds: Mapping[str, str] = field(default_factory=dict)
    evicted: Sequence[str] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[Failure] = ()


def decide(
    scene: Iterable[Json],
    *,
    plugins: Sequence[type[Plugin]] = (),
    config: str = PLAIN,
    arguments: Mapping[str, Any] | None = None,
    cycles: int = 1,
    seed: int = 0,
    now: float = START,
) -> Decisions:
    """Run cycles on a scene and return the decisions, which are not applied to any cluster.

    Args:
        scene: Manifests, such as those of `strato.testing.cluster`.
        plugins: Classes of plugins, added as a tier before the configuration's first one.
        config: The configuration file's text.
        arguments: Decoded arguments of ``plugins``: an instance of ``args_type`` by the plugin's name.
        cycles: Number of cycles; bound pods run from the next one on.
        seed: Seed of random choices.
        now: Seconds since the epoch at the first cycle; a second passes between two.

    Raises:
        InvalidInput: The scene or the configuration is invalid.
    """
    rules = _with(parse_config(config), plugins, arguments or {})
    world = load([(f"object {number}", dict(obj)) for number, obj in enumerate(scene, 1)])
    rng, placer = random.Random(seed), Placer(world.nodes, seed)
    plans: list[Plan] = []
    for number in range(cycles):
        plans.append(run_cycle(world, rules, now=now + number, rng=rng, uid=f"cycle-{number + 1}", placer=placer))
        settle(plans[-1], world)
    return Decisions(
        {bind.task.key: bind.node for plan in plans for bind in plan.binds},
        [eviction.task.key for plan in plans for eviction in plan.evictions],
        {verdict.task.key: verdict.message for verdict in plans[-1].pods} if plans else {},
        [failure for plan in plans for failure in plan.failures],
    )


def _with(config: Config, plugins: Sequence[type[Plugin]], arguments: Mapping[str, Any]) -> Config:
    def args_of(plugin: type[Plugin]) -> Any:
        if plugin.name in arguments:
            return arguments[plugin.name]
        return plugin.args_type() if plugin.args_type is not None else None

    tier = tuple(PluginOption(plugin.name, plugin, args_of(plugin), TOGGLES) for plugin in plugins)
    return Config(config.actions, (tier, *config.tiers) if tier else config.tiers, config.action_args, config.metrics)
