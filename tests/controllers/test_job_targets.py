"""Which pods the kill of a task, a pod or a partition takes: the first, the empty, what leaves already."""

from __future__ import annotations

import pytest

from strato.controllers.job.kill import plan_target_kill
from strato.controllers.job.podevents import has_failed
from strato.controllers.job.pods import PodState, TaskPods
from strato.controllers.job.requests import Target
from strato.controllers.job.terms import JobAction


def tasks(*leaving: int, partitions: bool = True) -> dict[str, TaskPods]:
    made = TaskPods("w", 4)
    for index in range(4):
        state = PodState(f"j-w-{index}", "w", index)
        state.uid, state.partition = f"u{index}", str(index // 2) if partitions else ""
        state.terminating = index in leaving
        made.put(state)
    return {"w": made}


KILLS = [
    pytest.param((), JobAction.RESTART_PARTITION, Target("w", "", "0"), [0, 1], 0, id="the first partition"),
    pytest.param((), JobAction.RESTART_PARTITION, Target("w", "", "1"), [2, 3], 0, id="the last partition"),
    pytest.param((3,), JobAction.RESTART_PARTITION, Target("w", "", "1"), [2], 1, id="one of two leaves"),
    pytest.param((2, 3), JobAction.RESTART_PARTITION, Target("w", "", "1"), [], 2, id="both leave"),
    pytest.param((), JobAction.RESTART_PARTITION, Target("w", "", "2"), None, 0, id="a partition of no pods"),
    pytest.param((), JobAction.RESTART_PARTITION, Target("w", "", ""), None, 0, id="no partition"),
    pytest.param((), JobAction.RESTART_PARTITION, Target("x", "", "0"), None, 0, id="a partition of another task"),
    pytest.param((), JobAction.RESTART_POD, Target("w", "j-w-0"), [0], 0, id="the first pod"),
    pytest.param((0,), JobAction.RESTART_POD, Target("w", "j-w-0"), [], 1, id="a pod that leaves"),
    pytest.param((), JobAction.RESTART_POD, Target("w", "j-w-9"), [], 0, id="a pod that is gone"),
    pytest.param((1,), JobAction.RESTART_TASK, Target("w"), [0, 2, 3], 1, id="a task"),
    pytest.param((), JobAction.RESTART_TASK, Target("x"), [], 0, id="a task without pods"),
]


@pytest.mark.parametrize(("leaving", "action", "target", "killed", "terminating"), KILLS)
def test_what_is_killed(
    leaving: tuple[int, ...], action: str, target: Target, killed: list[int] | None, terminating: int
) -> None:
    plan = plan_target_kill(tasks(*leaving), action, target)
    assert (None if plan is None else [pod.index for pod in plan.delete]) == killed
    assert (0 if plan is None else plan.terminating) == terminating


def test_pods_without_a_partition_are_in_none() -> None:
    assert plan_target_kill(tasks(partitions=False), JobAction.RESTART_PARTITION, Target("w", "", "")) is None


@pytest.mark.parametrize(
    ("max_retry", "replicas", "restarts", "failed"),
    [(0, 1, 3, True), (0, 1, 2, False), (5, 1, 5, True), (5, 1, 4, False), (1, 0, 9, False), (-1, 1, 9, False)],
)
def test_containers_that_restart_too_often(max_retry: int, replicas: int, restarts: int, failed: bool) -> None:
    made = TaskPods("w", replicas)
    state = PodState("j-w-0", "w", 0)
    state.uid, state.phase, state.restarts = "u", "Running", restarts
    made.put(state)
    assert made.restarts == restarts
    assert has_failed(made, max_retry) is failed
