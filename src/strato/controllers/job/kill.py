"""Which pods a kill deletes. Pure.

Source: volcano-controllers A6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strato.controllers.job.pods import PodState, TaskPods
from strato.controllers.job.requests import Target
from strato.controllers.job.states import Procedure
from strato.controllers.job.terms import JobAction

_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class KillPlan:
    """Pods to mark and delete, and how many pods are terminating already."""

    delete: tuple[PodState, ...]
    terminating: int


def plan_full_kill(pods: Iterable[PodState], procedure: Procedure, *, retry_count: int, max_retry: int) -> KillPlan:
    """Choose the pods of a kill of the whole job.

    The last retry keeps pods that have ended, whatever the action, so that their logs can be read.
    """
    retain = procedure is Procedure.KILL_UNFINISHED or retry_count >= max_retry - 1
    delete, terminating = [], 0
    for pod in pods:
        if pod.terminating:
            terminating += 1
        elif not (retain and pod.phase in _FINISHED):
            delete.append(pod)
    return KillPlan(tuple(delete), terminating)


def plan_target_kill(tasks: Mapping[str, TaskPods], action: str, target: Target) -> KillPlan | None:
    """Choose the pods to kill of one task, pod or partition; None when a partition has no pods, and no kill is done."""
    pods = tasks.get(target.task)
    chosen: list[PodState] = []
    if pods is not None:
        if action == JobAction.RESTART_TASK:
            chosen = list(pods.pods.values())
        elif action == JobAction.RESTART_POD:
            chosen = [pods.pods[target.pod]] if target.pod in pods.pods else []
        elif action == JobAction.RESTART_PARTITION and target.partition:
            chosen = [pod for pod in pods.pods.values() if pod.partition == target.partition]
    if action == JobAction.RESTART_PARTITION and not chosen:
        return None
    live = tuple(pod for pod in chosen if not pod.terminating)
    return KillPlan(live, len(chosen) - len(live))
