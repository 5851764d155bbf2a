"""Which pods an autoscaler is about: those that its target manages, itself or through what it makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from strato.api.autoscaling import ScaleTarget
from strato.api.core import Pod
from strato.api.meta import Key, OwnerReference

_SCHEDULED: Final = re.compile(r"-\d+$")
"""What a CronJob puts behind its name for its Jobs."""

OwnerOf = Callable[[Key], OwnerReference | None]
"""Returns what manages a ReplicaSet."""


class PodsByTarget:
    """The pods that have not ended, by what manages them: looked through once for all autoscalers."""

    def __init__(self, owner_of: OwnerOf) -> None:
        self._owner_of = owner_of
        self._found: dict[tuple[str, str, str], list[tuple[str, Pod]]] = {}
        """By namespace, kind and name of the manager: its API group and the pod."""

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods."""
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or pod.is_finished:
                continue
            namespace = pod.metadata.namespace
            for manager in self._managers(namespace, owner):
                place = (namespace, manager.kind, manager.name)
                self._found.setdefault(place, []).append((_group(manager.api_version), pod))

    def of(self, target: ScaleTarget, namespace: str) -> list[Pod]:
        """Return the pods of a target."""
        found = self._found.get((namespace, target.kind, target.name), ())
        return [pod for group, pod in found if not target.api_version or group == _group(target.api_version)]

    def _managers(self, namespace: str, owner: OwnerReference) -> Iterator[OwnerReference]:
        """Yield what manages a pod, and what made that."""
        yield owner
        if owner.kind == "ReplicaSet":
            manager = self._owner_of(Key(namespace, owner.name))
            if manager is not None:
                yield manager
        elif owner.kind == "Job" and _SCHEDULED.search(owner.name):
            name = _SCHEDULED.sub("", owner.name)
            yield msgspec.structs.replace(owner, kind="CronJob", name=name)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
