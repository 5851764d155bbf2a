"""Job arrays: indexes in the pods' environment, and a limit that holds across restarts of the controllers."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job, JobSpec, TaskSpec
from strato.controllers.job.plugins.array import ArrayPlugin
from strato.controllers.job.plugins.base import PluginRefusal
from strato.errors import BadRequest
from tests.controllers.world import World, play, task, vcjob


def array(replicas: int, *arguments: str, seconds: int = 5, size: int = 1, **more: Any) -> dict[str, Any]:
    work = task(replicas=replicas, seconds=seconds, **more)
    if size > 1:
        work["partitionPolicy"] = {
            "totalPartitions": replicas // size,
            "partitionSize": size,
            "minPartitions": 1,
        }
    else:
        work["minAvailable"] = 1
    return vcjob("j", work, minAvailable=size, minSuccess=replicas, plugins={"array": list(arguments)})


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


async def most_active(world: World, *, size: int = 1) -> int:
    """Wait for the job's end; return how many elements were active at once at most."""
    most = 0

    async def ended() -> bool:
        nonlocal most
        pods = await world.pods()
        live = [p for p in pods.values() if p.status.phase not in ("Succeeded", "Failed")]
        most = max(most, len({int(p.metadata.name.rpartition("-")[2]) // size for p in live}))
        return (await world.job("j")).status.state.phase in ("Completed", "Failed")

    await world.until(ended)
    return most


def test_no_more_elements_than_the_limit_are_active_and_all_run() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, array(20, "--indexes=0-38:2", "--limit=5"), "default")
        assert await most_active(world) == 5
        job = await world.job("j")
        assert (job.status.state.phase, job.status.succeeded) == ("Completed", 20)
        pods = (await world.cluster.list(catalog.POD, "default")).items
        found = sorted(int(variables(pod)["SLURM_ARRAY_TASK_ID"]) for pod in pods)
        assert found == list(range(0, 39, 2))
        one = next(pod for pod in pods if pod["metadata"]["name"] == "j-w-3")
        assert variables(one) == {
            "STRATO_ARRAY_INDEX": "6",
            "SLURM_ARRAY_JOB_ID": "j",
            "SLURM_ARRAY_TASK_ID": "6",
            "SLURM_ARRAY_TASK_COUNT": "20",
            "SLURM_ARRAY_TASK_MIN": "0",
            "SLURM_ARRAY_TASK_MAX": "38",
            "SLURM_ARRAY_TASK_STEP": "2",
            "SLURM_NODEID": "0",
            "SLURM_PROCID": "0",
        }
        assert one["metadata"]["labels"]["strato.dev/array-index"] == "6"

    play(scenario)


def test_the_limit_counts_whole_gangs() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, array(12, "--indexes=1-4", "--limit=2", size=3), "default")
        assert await most_active(world, size=3) == 2
        assert (await world.job("j")).status.succeeded == 12
        pods = (await world.cluster.list(catalog.POD, "default")).items
        found = {pod["metadata"]["name"]: variables(pod)["SLURM_ARRAY_TASK_ID"] for pod in pods}
        nodes = {pod["metadata"]["name"]: variables(pod)["SLURM_NODEID"] for pod in pods}
        assert [nodes[f"j-w-{n}"] for n in range(12)] == [str(n % 3) for n in range(12)]
        assert [found[f"j-w-{n}"] for n in range(12)] == [str(1 + n // 3) for n in range(12)]

    play(scenario)


def test_the_limit_holds_when_the_controllers_start_again() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, array(8, "--indexes=0-7", "--limit=3", seconds=20), "default")
        await world.settle(10)
        await world.stop_controllers()
        await world.clock.sleep(30)
        assert len(await world.pods()) == 3
        await world.start_controllers()
        assert await most_active(world) <= 3
        assert (await world.job("j")).status.succeeded == 8

    play(scenario)


def test_an_array_has_nothing_to_clean_up() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, array(2, "--indexes=0-1"), "default")
        job = await world.until_phase("j", "Running")
        assert dict(job.status.controlled_resources) == {}

    play(scenario)


def test_an_element_that_fails_stops_no_other_and_the_array_has_failed() -> None:
    async def scenario(world: World) -> None:
        body = array(3, "--indexes=0-2", "--limit=1", code=4)
        await world.cluster.create(catalog.VCJOB, body, "default")
        assert await most_active(world) == 1
        job = await world.job("j")
        assert (job.status.state.phase, job.status.failed) == ("Failed", 3)

    play(scenario)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--indexes=9-1",), "the first index is above the last", id="a range that ends before it begins"),
        pytest.param(("--index=1-9",), "flag provided but not defined: -index", id="no flag"),
        pytest.param(("--indexes=0-4",), "5 elements, too few for the 6 pods of task w", id="too few"),
    ],
)
def test_arguments_that_fit_no_job_are_refused(arguments: tuple[str, ...], message: str) -> None:
    job = Job(spec=JobSpec(tasks=(TaskSpec(name="w", replicas=6),)))
    pod = {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "c"}]}}
    with pytest.raises(PluginRefusal, match=message):
        ArrayPlugin(arguments).on_pod_create(job, job.spec.tasks[0], "j-w-5", 5, pod)


def test_admission_refuses_an_array_without_indexes() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(BadRequest, match="job plugin array: --indexes: 'all' is no index"):
            await world.cluster.create(catalog.VCJOB, array(3, "--indexes=all"), "default")
        assert not (await world.cluster.list(Pod, "default")).items

    play(scenario)
