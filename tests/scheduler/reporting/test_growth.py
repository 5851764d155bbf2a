"""When a gang whose pods come one by one counts as stalled, and who is told what meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strato.scheduler.reporting.growth import GrowthTracker
from tests.scheduler import worlds

NEVER = float("-inf")


@pytest.mark.parametrize(
    ("steps", "settled"),
    [
        ([(0.0, "a", 1)], 2.0),
        ([(0.0, "a", 1), (0.3, "a", 1), (0.6, "a", 1)], 2.6),
        ([(0.0, "a", 1), (2.0, "a", 0), (3.0, "a", 1)], 9.0),
        ([(0.0, "a", 1), (20.0, "a", 1)], 50.0),
        ([(0.0, "a", 1), (0.5, "a", 0)], 2.0),
        ([(0.0, "a", 1), (0.8, "b", 1)], 2.8),
        ([(float(at), "b" if at else "a", 1) for at in range(32)], 30.0),
        ([(0.0, "a", 4)], NEVER),
        ([(0.0, "a", 2), (0.1, "a", 2)], NEVER),
    ],
    ids=[
        "two seconds after its first pod",
        "two seconds after its newest pod",
        "twice as long as its pods took before",
        "half a minute after its newest pod, however slowly they come",
        "a look that finds no new pod puts nothing off",
        "not while another gang's pods come: it may have to wait for its turn",
        "half a minute after its newest pod, however many gangs come",
        "at once when it came whole",
        "at once when it is whole",
    ],
)
def test_gang_has_stalled(steps: Sequence[tuple[float, str, int]], settled: float) -> None:
    world = worlds.world(worlds.queue(), worlds.group("a", 4), worlds.group("b", 99))
    growth = GrowthTracker()
    made = 0
    for at, name, count in steps:
        for _ in range(count):
            made += 1
            worlds.feed(world, worlds.pod(f"p{made}", name))
        growth.look(world.jobs[f"ns/{name}"], at)
    assert growth.stalled_at(world.jobs["ns/a"]) == pytest.approx(settled)


def test_gang_made_anew_under_its_name_begins_anew() -> None:
    world = worlds.world(worlds.queue(), worlds.group("a", 3), worlds.pod("p", "a"))
    growth = GrowthTracker()
    growth.look(world.jobs["ns/a"], 0.0)
    world.jobs["ns/a"].uid = "another"
    growth.look(world.jobs["ns/a"], 5.0)
    assert growth.stalled_at(world.jobs["ns/a"]) == 7.0


@pytest.mark.parametrize(
    ("whole", "there", "opens"),
    [(True, 1, False), (True, 2, True), (True, 3, True), (False, 1, True)],
    ids=[
        "a pod that leaves its gang incomplete opens nothing",
        "the pod that completes a gang does",
        "so does one more",
        "without the plugin gang every pod does",
    ],
)
def test_pods_of_incomplete_gangs_open_nothing(whole: bool, there: int, opens: bool) -> None:
    world = worlds.world(worlds.queue(), worlds.group("a", 3))
    world.gangs_are_whole = whole
    worlds.feed(world, *(worlds.pod(f"p{n}", "a") for n in range(there)))
    openings, version = world.schedulable_generation, world.version
    worlds.feed(world, worlds.pod("next", "a"))
    assert (world.schedulable_generation > openings) == opens
    assert world.version > version


def test_pod_without_a_group_and_pod_that_holds_a_place_open() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("a", 3))
    world.gangs_are_whole = True
    for pod in (
        worlds.pod("alone", scheduler="default-scheduler"),
        worlds.pod("placed", "a", nodeName="n", phase="Running"),
    ):
        before = world.schedulable_generation
        worlds.feed(world, pod)
        assert world.schedulable_generation > before
