"""The pods of an autoscaler: those that its target controls, directly or through a workload that it owns."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.autoscaling import ScaleTarget
from strato.api.core import Pod
from strato.api.meta import OwnerReference
from strato.api.recommended import OwnerOf, is_target, managers


class PodsByTarget:
    """The pods that have not ended, by their controlling owner; built once for all autoscalers."""

    def __init__(self, owner_of: OwnerOf) -> None:
        self._owner_of = owner_of
        self._found: dict[tuple[str, str, str], list[tuple[OwnerReference, Pod]]] = {}
        """Namespace, kind and name of an owner → pods, each with its owner reference."""

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods."""
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or pod.is_finished:
                continue
            namespace = pod.metadata.namespace
            for manager in managers(namespace, owner, self._owner_of):
                place = (namespace, manager.kind, manager.name)
                self._found.setdefault(place, []).append((manager, pod))

    def of(self, target: ScaleTarget, namespace: str) -> list[Pod]:
        """Return the pods of a target."""
        found = self._found.get((namespace, target.kind, target.name), ())
        return [pod for manager, pod in found if is_target(target, manager)]
