"""What one session decides on a small world: the rules of the specification as rows of a table."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any, NamedTuple

from strato.scheduler.cache.shards import SOFT, Shards
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.cycle import decide
from strato.scheduler.model.tasks import STATUS_NAMES
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds
from tests.scheduler.worlds import group, pod

NOW = 1_700_000_000.0
"""2023-11-14T22:13:20Z."""

Json = dict[str, Any]
Tier = list[str | Json]


class Decision(NamedTuple):
    """What a session decided, by names without their namespace."""

    binds: dict[str, str]
    evicted: list[str]
    pipelined: dict[str, str]
    phases: dict[str, str]


def decided(
    actions: str, tiers: list[Tier], *objects: Json, ours: Collection[str] | None = None, **arguments: Json
) -> Decision:
    """Run one session.

    Args:
        actions: As in the configuration.
        tiers: Plugins, by name or with what the configuration says of them.
        objects: The cluster.
        ours: The nodes of the own shard, which is preferred; None without shards.
        arguments: Those of actions, by name.
    """
    document: Json = {
        "actions": actions,
        "tiers": [{"plugins": [{"name": p} if isinstance(p, str) else p for p in tier]} for tier in tiers],
    }
    if arguments:
        document["configurations"] = [{"name": name, "arguments": given} for name, given in arguments.items()]
    world = World()
    if ours is not None:
        world.shards = Shards(world.nodes, SOFT, "ours")
        world.shards.use(ours)
    worlds.feed(world, *objects)
    rng, placer = random.Random(0), Placer(world.nodes)
    ssn = decide(world, config_from(document, "a row"), now=NOW, rng=rng, uid="test", placer=placer)
    assert ssn.plan.failures == []
    promised = [task for task in world.tasks.values() if STATUS_NAMES[task.status] == "Pipelined"]
    return Decision(
        {bind.task.name: bind.node for bind in ssn.plan.binds},
        sorted(eviction.task.name for eviction in ssn.plan.evictions),
        {task.name: world.nodes.names[task.row] for task in promised},
        {job.name: job.phase for job in world.jobs.values()},
    )


def running(name: str, group: str, node: str = "n1", **more: Any) -> Json:
    """Return a pod that runs."""
    return pod(name, group, phase="Running", nodeName=node, **more)


def many(count: int, name: str, group: str, **more: Any) -> list[Json]:
    """Return pods that run on n1, or wait when ``waiting``."""
    made = pod if more.pop("waiting", False) else running
    return [made(f"{name}{i}", group, **more) for i in range(1, count + 1)]


def priority(name: str, value: int) -> Json:
    """Return a PriorityClass."""
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}


NOTHING: Json = {"cpu": "", "memory": ""}
"""What a best-effort pod requests."""
HIGH, MIDDLE, LOW = priority("high", 100), priority("middle", 50), priority("low", 1)


def low(minimum: int, **spec: Any) -> Json:
    """Return an unimportant group that runs."""
    return group("l", minimum, phase="Running", **{"priorityClassName": "low"} | spec)


def high(minimum: int, **spec: Any) -> Json:
    """Return an important group that waits."""
    return group("h", minimum, priorityClassName="high", **spec)
