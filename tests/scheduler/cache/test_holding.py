"""Pending pods that are left out of decisions for a while: one that cannot be bound now is in nobody's way."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.cache.repair import repair_job
from strato.scheduler.cache.world import World
from tests.scheduler import worlds


def two_pods(**of_first: Any) -> World:
    pods = worlds.pod("a", "g", **of_first), worlds.pod("b", "g")
    return worlds.world(worlds.queue(), worlds.node("n"), worlds.group("g", 0), *pods)


def test_a_pod_that_is_held_has_no_place_until_it_is_released() -> None:
    world = two_pods()
    task, job = world.tasks["ns/a"], world.jobs["ns/g"]
    for hold, gated in ((world.hold, 1), (world.release, 0)):
        before = world.version
        hold(task)
        assert world.version > before
        assert job.key in world.changed
        hold(task)  # says nothing new
        assert (task.gated, job.gated) == (bool(gated), gated)
        assert not repair_job(job)
        plan = worlds.cycle(world)
        assert plan.admitted == {}
        assert plan.binds
        assert ("ns/a" in worlds.binds(plan)) == (not gated)
    assert world.held == {}


def test_who_may_be_placed_again_is_news_to_jobs_that_wait() -> None:
    world = two_pods()
    world.hold(world.tasks["ns/a"])
    before = world.schedulable_generation
    world.release(world.tasks["ns/a"])
    assert world.schedulable_generation > before


@pytest.mark.parametrize("held", [False, True], ids=["never held", "asked to be held"])
def test_a_pod_with_gates_of_its_own_is_not_let_in_by_a_release(held: bool) -> None:
    world = two_pods(schedulingGates=[{"name": "mine"}])
    task = world.tasks["ns/a"]
    if held:
        world.hold(task)
    world.release(task)
    assert (task.gated, world.jobs["ns/g"].gated) == (True, 1)
    assert set(worlds.binds(worlds.cycle(world))) == {"ns/b"}


def test_a_pod_that_is_gone_is_released_without_a_trace() -> None:
    world = two_pods()
    task, job = world.tasks["ns/a"], world.jobs["ns/g"]
    world.hold(task)
    world.remove_pod("ns/a")
    world.release(task)
    assert (world.held, job.gated) == ({}, 0)
