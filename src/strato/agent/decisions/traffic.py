"""Choose the share of its normal traffic that a load balancer should send to each pod of a hot host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

FULL_PERCENT = 100
_MOST_CUT_PERCENT = 30
"""Largest cut of a pod's weight in one call."""
_FLOOR_PERCENT = 10
_REGAIN_PERCENT = 20
_ENOUGH_CORES = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPod:
    """A pod that serves traffic."""

    uid: str
    priority: int = 0
    used_cores: float = 0.0
    weight_percent: int = FULL_PERCENT
    """Weight last requested of the load balancer."""


def choose_weights(cut_cores: float, pods: Iterable[ServingPod]) -> Mapping[str, int]:
    """Return the new weights by uid, in percent of the normal traffic.

    Args:
        cut_cores: Cores that the host is to use less. A pod's use is assumed to be proportional to its traffic.
        pods: Pods that serve traffic.

    Pods of the lowest priority are cut first; those of the next one only once all lower ones are at the floor.
    """
    weights: dict[str, int] = {}
    for group in _by_priority(pods):
        for pod in sorted(group, key=lambda one: (-one.used_cores, one.uid)):
            room = min(_MOST_CUT_PERCENT, pod.weight_percent - _FLOOR_PERCENT)
            if cut_cores <= _ENOUGH_CORES or room <= 0 or pod.used_cores <= 0:
                continue
            cores_per_percent = pod.used_cores / pod.weight_percent
            points = min(room, math.ceil(cut_cores / cores_per_percent - 1e-9))
            weights[pod.uid] = pod.weight_percent - points
            cut_cores -= points * cores_per_percent
        if any(weights.get(pod.uid, pod.weight_percent) > _FLOOR_PERCENT for pod in group):
            break
    return weights


def regain(weights: Mapping[str, int]) -> dict[str, int]:
    """Return the weights of the next step towards full traffic."""
    return {uid: min(FULL_PERCENT, weight + _REGAIN_PERCENT) for uid, weight in weights.items()}


def _by_priority(pods: Iterable[ServingPod]) -> Sequence[list[ServingPod]]:
    groups: dict[int, list[ServingPod]] = {}
    for pod in pods:
        groups.setdefault(pod.priority, []).append(pod)
    return [groups[priority] for priority in sorted(groups)]
