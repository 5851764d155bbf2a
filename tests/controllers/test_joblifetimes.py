"""Jobs are ended when their lifetime is over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog, joblifetimes
from strato.api.core import Event, Pod
from strato.api.joblifetimes import DEFAULT, MAXIMUM, NEVER, REQUESTED
from strato.api.volcano.batch import Job
from strato.testing import manifests
from tests.controllers.world import World, play, task, vcjob

ENABLED = ("job-controller", "queue-controller", "lifetime-controller")


async def queue(world: World, name: str, parent: str = "", **annotations: int) -> None:
    made: dict[str, Any] = dict(manifests.queue(name, parent=parent))
    made["metadata"]["annotations"] = {key: str(value) for key, value in annotations.items()}
    await world.cluster.create(catalog.QUEUE, made)
    await world.cluster.patch(catalog.QUEUE, name, "", {"status": {"state": "Open"}}, subresource="status")


async def submit(world: World, name: str, where: str, requested: str = "") -> None:
    made = vcjob(name, task(replicas=1), queue=where)
    if requested:
        made["metadata"]["annotations"] = {REQUESTED: requested}
    await world.cluster.create(catalog.VCJOB, made, "default")


async def phases(world: World) -> dict[str, str]:
    return {job.metadata.name: job.status.state.phase for job in (await world.cluster.list(Job, "default")).items}


def test_a_job_ends_when_its_queue_says_so_and_says_why() -> None:
    async def scenario(world: World) -> None:
        await queue(world, "q", **{MAXIMUM: 60})
        await submit(world, "j", "q")
        await world.settle(59)
        assert await phases(world) == {"j": "Running"}
        await world.settle(10)
        job = await world.cluster.get(Job, "j", "default")
        assert job.status.state.phase == "Terminated"
        assert "its lifetime of 60 s is over" in job.status.state.message
        assert (await world.cluster.list(Pod, "default")).items == []
        events = [one for one in (await world.cluster.list(Event, "default")).items if one.reason == "LifetimeExceeded"]
        assert [one.message for one in events] == [
            "its lifetime of 60 s, counted from its submission, is over; it is ended"
        ]

    play(scenario, enabled=ENABLED)


def test_queues_above_count_and_what_a_job_asks_for() -> None:
    async def scenario(world: World) -> None:
        await queue(world, "up", **{MAXIMUM: 100, DEFAULT: 50})
        await queue(world, "q", "up")
        await queue(world, "free", "up", **{MAXIMUM: -1, DEFAULT: 0})
        for name, where, requested in (
            ("usual", "q", ""), ("short", "q", "20"), ("long", "q", "5000"), ("free", "free", ""),
            ("own", "default", "30"),
        ):  # fmt: skip
            await submit(world, name, where, requested)
        ends = {}
        for at in range(0, 140, 10):
            for name, phase in (await phases(world)).items():
                if phase == "Terminated":
                    ends.setdefault(name, at)
            await world.settle(10)
        assert ends == {"usual": 60, "short": 30, "own": 40, "long": 110}

    play(scenario, enabled=ENABLED)


def test_a_limit_that_comes_later_counts_for_jobs_that_run() -> None:
    async def scenario(world: World) -> None:
        await queue(world, "q")
        await submit(world, "j", "q")
        await world.settle(100)
        patch = {"metadata": {"annotations": {MAXIMUM: "90"}}}
        await world.cluster.patch(catalog.QUEUE, "q", "", patch)
        await world.settle(10)
        assert await phases(world) == {"j": "Terminated"}

    play(scenario, enabled=ENABLED)


def test_a_restart_of_the_controllers_begins_no_lifetime_again() -> None:
    async def scenario(world: World) -> None:
        await queue(world, "q", **{MAXIMUM: 60})
        await submit(world, "j", "q")
        await world.settle(40)
        await world.stop_controllers()
        await world.start_controllers()
        await world.settle(25)
        assert await phases(world) == {"j": "Terminated"}

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60), (" 60 ", 60), ("0", NEVER), ("-5", NEVER), ("", None), ("1h", None), ("9" * 40, None), ("٣", None)],
)
def test_annotations_are_whole_numbers(text: str, seconds: int | None) -> None:
    assert joblifetimes.parse(text) == seconds


@given(st.integers(-2, 50), st.integers(-2, 50), st.integers(-2, 50))
def test_nobody_lives_longer_than_the_maximum(requested: int, default: int, maximum: int) -> None:
    seconds = joblifetimes.resolved(requested, default, maximum)
    assert seconds == NEVER or seconds > 0
    if maximum > 0:
        assert 0 < seconds <= maximum
    if requested > 0 and (maximum <= 0 or requested <= maximum):
        assert seconds == requested
