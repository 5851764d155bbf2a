"""Queues that go: those whose jobs are still there are kept for them, without what was said of them."""

from __future__ import annotations

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
