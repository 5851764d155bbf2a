"""Queues and groups that come and go: what is known of them, and what they have claimed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds


@pytest.mark.parametrize("has_jobs", [False, True], ids=["empty", "with jobs"])
def test_a_queue_that_is_deleted_is_forgotten_unless_jobs_name_it(has_jobs: bool) -> None:
    jobs = [worlds.group("g", 1, queue="q"), worlds.pod("p", "g")] if has_jobs else []
    world = worlds.world(worlds.node("n"), worlds.queue(), worlds.queue("q", weight=3), *jobs)
    world.remove_queue("q")
    assert ("q" in world.queues) is has_jobs
    assert worlds.binds(worlds.cycle(world)) == {}
    worlds.feed(world, worlds.queue("q"))
    assert worlds.binds(worlds.cycle(world)) == ({"ns/p": "n"} if has_jobs else {})


def test_a_queue_that_nobody_knows_is_forgotten_for_nothing() -> None:
    world = worlds.world(worlds.queue())
    world.remove_queue("q")
    assert list(world.queues) == ["default"]


def test_a_group_that_goes_has_a_cycle_decide() -> None:
    """What it asked for or held is free for others."""
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("g", 1), worlds.pod("p", "g"))
    before = world.schedulable_generation
    world.remove_group("ns/g")
    assert world.schedulable_generation > before


def test_what_a_group_has_claimed_of_its_queue_is_free_once_it_runs_on_less_than_its_minimum() -> None:
    """One of two pods has ended. That the group runs is decided after the first cycle has let groups in."""
    first = worlds.group("first", 2, minResources={"cpu": "2"})
    ended = worlds.pod("ended", "first", nodeName="n", phase="Succeeded")
    runs = worlds.pod("runs", "first", nodeName="n", phase="Running")
    late = worlds.group("late", 1, phase="Pending", minResources={"cpu": "1"})
    world = worlds.world(worlds.node("n"), worlds.queue(capability={"cpu": "2"}), first, ended, runs, late)
    assert [[job.key for job in worlds.cycle(world).enqueued] for _ in range(2)] == [[], ["ns/late"]]


def test_groups_that_ask_for_the_same_do_so_whatever_resources_became_known_in_between() -> None:
    made = [(worlds.group(g, 1, minResources={"cpu": "1"}), worlds.pod(f"{g}-0", g)) for g in ("a", "b")]
    world = worlds.world(worlds.queue(), worlds.node("n"), *made[0])
    width = world.dims.width
    more: dict[str, Any] = {f"example.com/r{i}": 1 for i in range(width)}
    worlds.feed(world, worlds.node("m", **more), *made[1])
    assert world.dims.width > width
    assert worlds.binds(worlds.cycle(world)).keys() == {"ns/a-0", "ns/b-0"}
