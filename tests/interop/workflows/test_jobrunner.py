"""Jobs of engines on a server in memory, in virtual time; and from threads, in real time."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from strato.admission import Chain, ChainOptions
from strato.api.volcano.batch import Job
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.interop.workflows.jobrunner import JobRunner, run_job
from strato.interop.workflows.taskjob import AttemptOutcome, JobSettings, TaskRequest, task_job
from strato.server.embedded import in_memory_server
from tests.controllers.world import World, play

ENABLED = ("job-controller", "queue-controller", "pg-controller", "gc-controller")


def body(unique: str = "1", **annotations: str) -> dict[str, Any]:
    request = TaskRequest(
        engine="miniwdl", run_id="t", unique=unique, image="img", command=("true",), working_dir="/w", cpu=1
    )
    made = task_job(request, JobSettings())
    made["spec"]["tasks"][0]["template"]["metadata"]["annotations"] |= annotations
    return made


def test_a_job_ends_with_its_containers_exit_code() -> None:
    async def scenario(world: World) -> None:
        done = body(**{"test/seconds": "5", "test/exit": "3"})
        assert await run_job(world.cluster, world.clock, done, print) == AttemptOutcome(exit_code=3)

    play(scenario, enabled=ENABLED)


def test_a_job_that_somebody_deletes_was_interrupted() -> None:
    async def scenario(world: World) -> None:
        running = asyncio.ensure_future(run_job(world.cluster, world.clock, body(), print))
        await world.until_phase("miniwdl-t-1", "Running")
        await world.cluster.delete(Job, "miniwdl-t-1", "default")
        assert (await running) == AttemptOutcome(exit_code=None, message="job miniwdl-t-1 was deleted")

    play(scenario, enabled=ENABLED)


def test_a_runner_serves_threads() -> None:
    """The cluster is one that nobody reconciles: what is asked here is only that calls reach it and come back."""
    admin = User("admin", ("system:masters",))
    runner = JobRunner(
        lambda: LocalCluster(in_memory_server(SystemClock(), Random(1), chain=Chain(ChainOptions())), admin)
    )
    assert runner.largest_node() == (0, 0)
    runner.delete("none", "default")
    runner.close()
