"""Jobs that wait for other jobs: the annotation ``strato.dev/after``."""

from __future__ import annotations

import pytest

from strato.admission import ChainOptions
from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import PatchType
from tests.controllers.world import World, play, task, vcjob


async def create(world: World, name: str, after: str = "", **work: int) -> Job:
    body = vcjob(name, task(replicas=1, **work))
    if after:
        body["metadata"]["annotations"] = {"strato.dev/after": after}
    made = await world.cluster.create(catalog.VCJOB, body, "default")
    return await world.job(made["metadata"]["name"])


async def first(world: World, **work: int) -> str:
    """Create the job that the others wait for; return its uid."""
    return (await create(world, "first", **work)).metadata.uid


ENDS = [
    pytest.param("ok", 0, "Completed", id="ok after a job that completes"),
    pytest.param("ok", 3, "never", id="ok after a job that fails"),
    pytest.param("not-ok", 3, "Completed", id="not-ok after a job that fails"),
    pytest.param("not-ok", 0, "never", id="not-ok after a job that completes"),
    pytest.param("any", 0, "Completed", id="any after a job that completes"),
    pytest.param("any", 3, "Completed", id="any after a job that fails"),
]


@pytest.mark.parametrize(("condition", "code", "end"), ENDS)
def test_a_job_starts_when_another_has_ended_so(condition: str, code: int, end: str) -> None:
    async def scenario(world: World) -> None:
        uid = await first(world, seconds=20, code=code)
        await create(world, "second", f"{condition}:first/{uid}", seconds=1)
        await world.settle()
        waiting = await world.job("second")
        assert (waiting.status.state.phase, waiting.status.state.reason) == ("Pending", "Dependency")
        assert waiting.status.state.message.startswith("waits until job first has ")
        groups = (await world.cluster.list(PodGroup, "default")).items
        assert [group.metadata.name for group in groups] == [f"first-{uid}"]
        job = await world.until_phase("second", "Completed", "Terminated")
        if end == "never":
            assert (job.status.state.phase, job.status.state.reason) == ("Terminated", "DependencyNeverSatisfied")
            assert "but it is " in job.status.state.message
            assert {pod.metadata.name for pod in (await world.cluster.list(Pod, "default")).items} == {"first-w-0"}
        else:
            assert job.status.state.phase == end
            assert (job.status.state.reason, job.status.state.message) == ("", "")
            assert job.metadata.annotation("strato.dev/after-released")

    play(scenario)


def test_start_waits_for_the_first_pods_only() -> None:
    async def scenario(world: World) -> None:
        uid = await first(world, seconds=500)
        await create(world, "second", f"start:first/{uid}", seconds=1)
        await world.until_phase("second", "Completed", seconds=60)
        assert (await world.job("first")).status.state.phase == "Running"

    play(scenario)


def test_a_chain_ends_when_its_first_job_fails() -> None:
    async def scenario(world: World) -> None:
        await create(world, "a", seconds=5, code=1)
        await create(world, "b", "a", seconds=1)
        await create(world, "c", "ok:b", seconds=1)
        await create(world, "d", "any:c", seconds=1)
        await world.until_phase("d", "Completed")
        for name in ("b", "c"):
            assert (await world.job(name)).status.state.reason == "DependencyNeverSatisfied"

    play(scenario)


def test_all_of_several_are_waited_for() -> None:
    async def scenario(world: World) -> None:
        await create(world, "a", seconds=5)
        await create(world, "b", seconds=20)
        await create(world, "c", "ok:a,ok:b", seconds=1)
        await world.until_phase("a", "Completed")
        await world.settle()
        assert (await world.job("c")).status.state.message == "waits until job b has completed"
        await world.until_phase("c", "Completed")

    play(scenario)


@pytest.mark.parametrize(("condition", "phase"), [("any", "Completed"), ("not-ok", "Completed"), ("ok", "Terminated")])
def test_a_job_that_was_deleted_has_not_completed(condition: str, phase: str) -> None:
    """As scancel ends a job; which job was meant is known by its uid, whatever has its name by then."""

    async def scenario(world: World) -> None:
        uid = await first(world)
        await create(world, "second", f"{condition}:first/{uid}", seconds=1)
        await world.settle()
        await world.cluster.delete(catalog.VCJOB, "first", "default", propagation="Background")
        await world.until_phase("second", phase)

    play(scenario)


def test_a_job_that_is_not_there_yet_is_waited_for() -> None:
    """Of one file the order is nobody's business."""

    async def scenario(world: World) -> None:
        await create(world, "second", "ok:first", seconds=1)
        await world.settle()
        assert (await world.job("second")).status.state.message == "waits until there is a job first"
        await first(world, seconds=1)
        await world.until_phase("second", "Completed")

    play(scenario)


def test_what_has_waited_does_not_wait_again() -> None:
    """The first job is gone and the controllers are new, and the second begins again after a fault."""

    async def scenario(world: World) -> None:
        uid = await first(world, seconds=1)
        await create(world, "second", f"ok:first/{uid}", seconds=30)
        await world.until_phase("second", "Running")
        await world.cluster.delete(catalog.VCJOB, "first", "default", propagation="Background")
        await world.settle()
        await world.stop_controllers()
        await world.start_controllers()
        await world.command("RestartJob", await world.job("second"))
        await world.settle()
        job = await world.until_phase("second", "Running", seconds=60)
        assert job.status.retry_count == 1
        await world.until_phase("second", "Completed")

    play(scenario)


def test_it_is_noticed_by_new_controllers_what_happened_without_them() -> None:
    async def scenario(world: World) -> None:
        uid = await first(world, seconds=5)
        await create(world, "second", f"ok:first/{uid}", seconds=1)
        await world.settle(2)
        await world.stop_controllers()
        await world.cluster.delete(catalog.VCJOB, "first", "default", propagation="Background")
        await world.clock.sleep(20)
        await world.start_controllers()
        await world.until_phase("second", "Terminated")

    play(scenario)


def test_an_annotation_that_says_nothing_and_passed_no_admission_holds_the_job_and_is_said() -> None:
    async def scenario(world: World) -> None:
        await create(world, "second", "if:first")
        await world.settle()
        state = (await world.job("second")).status.state
        assert (state.phase, state.message) == (
            "Pending",
            "annotation strato.dev/after: 'if:first' is not start|any|ok|not-ok:JOB",
        )

    play(scenario, admission=ChainOptions(enabled=frozenset(("/jobs/mutate",))))


def test_a_job_whose_pods_ran_too_long_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(replicas=2)), "default")
        await world.until_phase("j", "Running")
        for name in await world.pods():
            status = {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": []}
            await world.cluster.patch(
                catalog.POD, name, "default", {"status": status}, patch_type=PatchType.MERGE, subresource="status"
            )
        state = (await world.until_phase("j", "Failed")).status.state
        assert state.reason == "DeadlineExceeded"
        assert state.message == "2 pods ran longer than the time limit (activeDeadlineSeconds)"

    play(scenario)
