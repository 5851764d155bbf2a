"""What ended, suspended or restarts a job stands in its status, for as long as it stays so."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from tests.controllers.world import World, play, task, vcjob

FAILED = {"event": "PodFailed"}
CASES: list[Any] = [
    pytest.param(
        {**FAILED, "action": "AbortJob"},
        "Aborted",
        ("PodFailed", "policy PodFailed → AbortJob: pod j-w-0 failed with exit code 5"),
        id="a policy suspends it",
    ),
    pytest.param(
        {**FAILED, "action": "TerminateJob"},
        "Terminated",
        ("PodFailed", "policy PodFailed → TerminateJob: pod j-w-0 failed with exit code 5"),
        id="a policy terminates it",
    ),
    pytest.param(
        {**FAILED, "action": "CompleteJob", "timeout": "10s"},
        "Completed",
        ("PodFailed", "policy PodFailed → CompleteJob: pod j-w-0 failed with exit code 5"),
        id="a policy that waits",
    ),
    pytest.param(
        {**FAILED, "action": "RestartJob"},
        "Failed",
        ("PodFailed", "policy PodFailed → RestartJob: pod j-w-0 failed with exit code 5"),
        id="no tries are left",
    ),
]


@pytest.mark.parametrize(("policy", "phase", "told"), CASES)
def test_a_policy_that_acts_is_named_with_what_it_answered(
    policy: dict[str, str], phase: str, told: tuple[str, str]
) -> None:
    async def scenario(world: World) -> None:
        tasks = [task("w", 1, seconds=3, code=5), task("other", 1, seconds=500)]
        await world.cluster.create(catalog.VCJOB, vcjob("j", *tasks, policies=[policy], maxRetry=2), "default")
        state = (await world.until_phase("j", phase, seconds=300)).status.state
        assert (state.reason, state.message) == told

    play(scenario)


def test_a_command_is_named_and_its_job_resumed_is_as_before() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task("w", 1)), "default")
        job = await world.until_phase("j", "Running")
        await world.command("AbortJob", job)
        state = (await world.until_phase("j", "Aborted")).status.state
        assert (state.reason, state.message) == ("CommandIssued", "command AbortJob")
        await world.command("ResumeJob", job)
        state = (await world.until_phase("j", "Running")).status.state
        assert (state.reason, state.message) == ("", "")

    play(scenario)


def test_a_deleted_pod_is_named_to_who_asks_why_its_job_ended() -> None:
    async def scenario(world: World) -> None:
        policy = {"event": "PodEvicted", "action": "TerminateJob"}
        await world.cluster.create(catalog.VCJOB, vcjob("j", task("w", 2), policies=[policy]), "default")
        await world.until_phase("j", "Running")
        await world.cluster.delete(Pod, "j-w-1", "default")
        state = (await world.until_phase("j", "Terminated")).status.state
        message = "policy PodEvicted → TerminateJob: pod j-w-1 was evicted or deleted"
        assert (state.reason, state.message) == ("PodEvicted", message)

    play(scenario)
