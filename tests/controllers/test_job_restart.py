"""A controller killed after any of its writes is followed by one that ends in the same state, with no pod too often."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import ConfigMap, Pod
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.clock import VirtualClock, run_virtual
from strato.controllers import DEFAULT
from strato.controllers.job.requests import Target
from strato.controllers.job.restartintent import RestartIntent, unfinished
from strato.controllers.job.terms import RESTARTING
from tests.controllers.world import DyingCluster, World, born_without_status, task, vcjob

SCENARIOS: dict[str, dict[str, Any]] = {
    "asks for nothing but pods": vcjob("j", task(seconds=3)),
    "completes": vcjob("j", task(seconds=3), plugins={"svc": [], "env": []}),
    "restarts once and fails": vcjob(
        "j",
        task(seconds=3, code=1, replicas=1),
        policies=[{"event": "PodFailed", "action": "RestartJob"}],
        maxRetry=2,
    ),
    "completes when one task does": vcjob(
        "j",
        task("master", 1, seconds=3, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
        task("worker", 2),
        plugins={"svc": []},
    ),
    "restarts one partition": vcjob(
        "j",
        task(replicas=2, seconds=3, partitionPolicy={"totalPartitions": 2, "partitionSize": 1}, code=1),
        policies=[{"event": "PodFailed", "action": "RestartPartition"}],
        maxRetry=2,
    ),
    "restarts a task": vcjob(
        "j",
        task("w", 2, seconds=3, code=1, policies=[{"event": "PodFailed", "action": "RestartTask"}]),
        task("idle", 1),
        maxRetry=2,
    ),
    "restarts a pod": vcjob(
        "j",
        task("w", 1, seconds=3, code=1, policies=[{"event": "PodFailed", "action": "RestartPod"}]),
        task("idle", 1),
        maxRetry=2,
    ),
    "makes a claim": vcjob(
        "j",
        task(seconds=3),
        volumes=[
            {
                "mountPath": "/data",
                "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    ),
}


def live(body: dict[str, Any], writes: int | None) -> tuple[Any, Counter[str], bool]:
    """Return the end of a job's life, how often each pod was made, and whether the first controller died on the way."""
    clock = VirtualClock()

    async def main() -> tuple[Any, Counter[str], bool]:
        world = World(clock, enabled=DEFAULT)
        dying = DyingCluster(world, writes) if writes is not None else None
        await world.start(dying)
        beginning = (await world.cluster.list(Pod, "default")).resource_version
        await world.cluster.create(catalog.VCJOB, body, "default")
        died = False
        if dying is not None:
            try:
                await asyncio.wait_for(dying.dead.wait(), 60)
                died = True
            except TimeoutError:
                pass
            await clock.sleep(Random(writes).choice([0.0, 1.0, 10.0]))
            await world.stop_controllers()
            await world.start_controllers()
        await world.until_phase("j", "Completed", "Failed", "Terminated")
        await world.settle(30)
        job = await world.job("j")
        pods = await world.pods()
        end = (
            job.status.state.phase,
            job.status.retry_count,
            dict(job.status.controlled_resources).keys() - {k for k in job.status.controlled_resources if "pvc" in k},
            {name: pod.status.phase for name, pod in pods.items()},
            [g.metadata.name for g in (await world.cluster.list(PodGroup, "default")).items],
            [m.metadata.name for m in (await world.cluster.list(ConfigMap, "default")).items],
            len((await world.cluster.list(catalog.PERSISTENTVOLUMECLAIM, "default")).items),
        )
        made = await creations(world, beginning)
        await world.stop()
        return end, made, died

    return run_virtual(clock, main())


async def creations(world: World, since: str) -> Counter[str]:
    """Return how often a pod of each name was made."""
    made: dict[str, set[str]] = {}
    async for batch in world.cluster.watch(Pod, "default", resource_version=since, timeout_seconds=1):
        for event in batch:
            metadata = event.object.metadata
            if metadata.name:
                made.setdefault(metadata.name, set()).add(metadata.uid)
    return Counter({name: len(uids) for name, uids in made.items()})


def test_a_restart_after_any_write_changes_nothing_where_jobs_are_born_without_a_status() -> None:
    with born_without_status():
        test_a_restart_after_any_write_changes_nothing("completes")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_restart_after_any_write_changes_nothing(name: str) -> None:
    body = SCENARIOS[name]
    want, needed, _ = live(body, None)
    died, writes = True, 0
    while died:
        writes += 1
        end, made, died = live(body, writes)
        assert end == want, f"killed after write {writes}"
        # fewer are possible: a job may be over before a pod that was late has been made
        assert made <= needed, f"killed after write {writes}: a pod was made once too often"
    assert writes > 5


INTENT = '{"retry":2,"action":"RestartTask","target":{"task":"w"}}'


@pytest.mark.parametrize(
    ("text", "phase", "retries", "is_unfinished"),
    [
        pytest.param(INTENT, "", 1, True, id="of a job without a phase"),
        pytest.param(INTENT, "Pending", 1, True, id="of a job that waits"),
        pytest.param(INTENT, "Running", 1, True, id="of a job that runs"),
        pytest.param(INTENT, "Restarting", 1, False, id="the phase says so already"),
        pytest.param(INTENT, "Aborted", 1, False, id="the job was aborted instead"),
        pytest.param(INTENT, "Running", 2, False, id="it was counted"),
        pytest.param(INTENT, "Running", 0, False, id="of a retry that is not next"),
        pytest.param("soon", "Running", 1, False, id="a text of somebody else"),
        pytest.param(None, "Running", 1, False, id="none"),
    ],
)
def test_a_restart_that_was_begun_is_finished_unless_the_job_has_gone_on(
    text: str | None, phase: str, retries: int, is_unfinished: bool
) -> None:
    annotations = {} if text is None else {RESTARTING: text}
    status = {"state": {"phase": phase}, "retryCount": retries}
    job = msgspec.convert({"metadata": {"name": "j", "annotations": annotations}, "status": status}, Job)
    want = RestartIntent(2, "RestartTask", Target("w"))
    assert unfinished(job) == (want if is_unfinished else None)
