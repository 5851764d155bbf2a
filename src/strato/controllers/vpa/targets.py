"""Which pods an autoscaler is about: those that its target manages, itself or through what it makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from strato.api.autoscaling import ScaleTarget
from strato.api.core import Pod
from strato.api.meta import Key, OwnerReference

_MADE_BY: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are managed by what they make."""
_SCHEDULED: Final = re.compile(r"-\d+$")

OwnerOf = Callable[[Key], OwnerReference | None]
"""Returns what manages a ReplicaSet."""


def pods_of(target: ScaleTarget, namespace: str, pods: Iterable[Pod], owner_of: OwnerOf) -> list[Pod]:
    """Return the pods of a target that have not ended."""
    return [
        pod
        for pod in pods
        if pod.metadata.namespace == namespace
        and pod.status.phase not in ("Succeeded", "Failed")
        and _is_of(target, pod, owner_of)
    ]


def _is_of(target: ScaleTarget, pod: Pod, owner_of: OwnerOf) -> bool:
    owner = pod.metadata.controller
    if owner is None:
        return False
    made = _MADE_BY.get(target.kind)
    if made is None:
        return _names(target, owner)
    if owner.kind != made:
        return False
    if made == "Job":
        return _SCHEDULED.sub("", owner.name) == target.name and owner.name != target.name
    manager = owner_of(Key(pod.metadata.namespace, owner.name))
    return manager is not None and _names(target, manager)


def _names(target: ScaleTarget, owner: OwnerReference) -> bool:
    group = target.api_version.rpartition("/")[0]
    same = not target.api_version or owner.api_version.rpartition("/")[0] == group
    return same and owner.kind == target.kind and owner.name == target.name
