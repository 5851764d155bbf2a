"""Rounds of evictions: who gets nothing from them evicts ever more rarely, who gains by them is never held up."""

from __future__ import annotations

import pytest

from strato.scheduler.cache.evictionrounds import EvictionRounds
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.tasks import FAILED, RUNNING, SUCCEEDED
from tests.scheduler import worlds

NOW = 1_700_000_000.0


def job_of(world: World) -> Job:
    return world.jobs["ns/j"]


def a_job(running: int = 0) -> Job:
    pods = [worlds.pod(f"j-{n}", "j", phase="Running", nodeName="n") for n in range(running)]
    return job_of(worlds.world(worlds.queue(), worlds.node("n", cpu="16"), worlds.group("j", 1), *pods))


def rounds_of(job: Job, *rounds: tuple[float, int]) -> list[float]:
    """Have a job evict after so many seconds, with so many pods that run; return how long it had to wait each time."""
    found, waits = EvictionRounds(), []
    for after, running in rounds:
        found.open()
        job.counts[RUNNING] = running
        waits.append(round(found.wait_seconds(job, NOW + after), 3))
        found.note([job], NOW + after)
    return waits


CASES = [
    pytest.param([(0, 0)], [0], id="the first round is free"),
    pytest.param([(0, 0), (5, 0)], [0, 0], id="so is the second, whatever the first brought"),
    pytest.param([(0, 0), (0, 0), (0, 0), (0.4, 0)], [0, 0, 1, 3.6], id="in vain at one instant"),
    pytest.param([(0, 0), (0, 0), (1, 0), (5, 0), (21, 0)], [0, 0, 0, 0, 0], id="each after its wait"),
    pytest.param([(0, 0), (0, 0), (1, 0), (4, 0)], [0, 0, 0, 1], id="four times as long after each"),
    pytest.param([(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)], [0] * 5, id="each brought a place"),
    pytest.param([(0, 0), (0, 0), (0, 1), (0, 2)], [0, 0, 0, 0], id="a place ends the waits"),
    pytest.param([(0, 0), (0, 1), (0, 0), (0, 1), (0, 0)], [0, 0, 0, 1, 4], id="what is lost again is no gain"),
    pytest.param([(0, 3), (0, 1), (400, 1), (400, 1)], [0, 0, 0, 0], id="long ago is forgotten"),
]


@pytest.mark.parametrize(("rounds", "waits"), CASES)
def test_how_long_a_job_waits(rounds: list[tuple[float, int]], waits: list[float]) -> None:
    assert rounds_of(a_job(), *rounds) == waits


def test_waits_grow_to_five_minutes() -> None:
    job, found, now = a_job(), EvictionRounds(), NOW
    waits = []
    for _ in range(8):
        found.open()
        found.note([job], now)
        found.open()
        waits.append(found.wait_seconds(job, now))
        now += waits[-1]
    assert waits == pytest.approx([0, 1, 4, 16, 64, 256, 300, 300])


def test_several_evictions_of_one_cycle_are_one_round() -> None:
    job, found = a_job(), EvictionRounds()
    found.open()
    for _ in range(5):
        assert found.wait_seconds(job, NOW) == 0
        found.note([job], NOW)
    found.open()
    assert found.wait_seconds(job, NOW) == 0


def test_pods_that_have_ended_were_gains_too() -> None:
    job, found = a_job(), EvictionRounds()
    for status in (SUCCEEDED, FAILED, SUCCEEDED):
        found.open()
        found.note([job], NOW)
        job.counts[status] += 1
        found.open()
        assert found.wait_seconds(job, NOW) == 0


def test_a_clock_that_was_set_back_holds_nobody_up() -> None:
    job, found = a_job(), EvictionRounds()
    for _ in range(3):
        found.open()
        found.note([job], NOW)
    found.open()
    assert found.wait_seconds(job, NOW) > 0
    assert found.wait_seconds(job, NOW - 3600) == 0


def test_a_job_that_is_gone_is_forgotten() -> None:
    world = worlds.world(worlds.queue(), worlds.group("j", 1))
    job = job_of(world)
    for _ in range(3):
        world.eviction_rounds.open()
        world.eviction_rounds.note([job], NOW)
    world.eviction_rounds.open()
    assert world.eviction_rounds.wait_seconds(job, NOW) > 0
    world.remove_group("ns/j")
    assert world.eviction_rounds.wait_seconds(job, NOW) == 0
