"""What pods that wait are told, cycle after cycle: the same while nothing changes, and always as if from scratch."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Plan
from tests.scheduler import worlds

BEGINNING = (
    worlds.queue(),
    worlds.node("n1", cpu="4"),
    worlds.group("half", 5),
    *(worlds.pod(f"half-{n}", "half") for n in range(3)),
    worlds.group("wide", 2),
    worlds.pod("wide-0", "wide", cpu="3"),
    worlds.pod("wide-1", "wide", cpu="3"),
    worlds.group("big", 1),
    worlds.pod("big-0", "big", cpu="99"),
)


def again(world: World) -> Plan:
    world.version += 1
    world.schedulable_generation += 1
    return worlds.cycle(world)


def words(plan: Plan) -> dict[str, tuple[str, str]]:
    return {verdict.task.key: (verdict.reason, verdict.message) for verdict in plan.pods}


@pytest.mark.parametrize(
    "news",
    [
        (),
        (worlds.pod("half-3", "half"),),
        (worlds.pod("half-3", "half"), worlds.pod("half-4", "half")),
        (worlds.node("n2", cpu="4"),),
        (worlds.pod("half-0", "half", cpu="2"),),
        (worlds.group("half", 4),),
        (worlds.pod("half-1", "half", leaving=True),),
        (worlds.pod("half-1", "half", nodeName="n1", phase="Running"),),
        (worlds.pod("half-1", "half", schedulingGates=[{"name": "wait"}]),),
    ],
    ids=[
        "nothing",
        "one more pod that leaves the gang incomplete",
        "the pods that complete the gang",
        "a node",
        "a pod made anew with another request",
        "another minimum",
        "a pod that leaves",
        "a pod that runs",
        "a pod that is gated now",
    ],
)
def test_waiting_pods_are_told_what_a_fresh_look_would_tell(news: tuple[dict[str, Any], ...]) -> None:
    world = worlds.world(*BEGINNING)
    again(world)
    again(world)
    worlds.feed(world, *news)
    fresh = worlds.world(*BEGINNING)
    worlds.feed(fresh, *news)
    assert words(again(world)) == words(again(fresh))


def test_verdicts_on_an_unchanged_job_are_the_very_same() -> None:
    world = worlds.world(*BEGINNING)
    first = {v.task.key: v for v in again(world).pods}
    for _ in range(2):
        now = {v.task.key: v for v in again(world).pods}
        assert now.keys() == first.keys()
        assert all(now[f"ns/half-{n}"] is first[f"ns/half-{n}"] for n in range(3))
