"""The containers that run on the node and their control groups, worked out anew only when a pod has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from strato.agent.containers import ContainerFacts, facts_of
from strato.agent.sampling.layouts import Group, Layout
from strato.api.core import Pod


class RunningContainers:
    """See the module.

    Args:
        layout: Knows the control groups.
        static_cpus: Whether the kubelet gives whole CPUs to some.
    """

    def __init__(self, layout: Layout, *, static_cpus: bool) -> None:
        self._layout = layout
        self._static_cpus = static_cpus
        self._facts: dict[str, tuple[str, list[ContainerFacts]]] = {}
        """By the pod's uid: its resource version and its containers."""
        self.containers: Mapping[str, ContainerFacts] = {}
        """By key."""
        self.groups: Mapping[str, Group] = {}
        """By key; containers of which no group is known are left out."""
        self._is_complete = True
        """Whether every group was there; one that was not may be found elsewhere the next time."""

    def update(self, pods: Iterable[Pod]) -> None:
        """Take the pods of the node as they are now."""
        kept: dict[str, tuple[str, list[ContainerFacts]]] = {}
        has_changed = False
        for pod in pods:
            uid, version = pod.metadata.uid, pod.metadata.resource_version
            known = self._facts.get(uid)
            if known is None or known[0] != version:
                known = (version, facts_of(pod, static_cpus=self._static_cpus))
                has_changed = True
            kept[uid] = known
        has_changed = has_changed or len(kept) != len(self._facts)
        self._facts = kept
        if has_changed:
            self.containers = {one.key: one for _, found in kept.values() for one in found}
        if has_changed or not self._is_complete:
            self._find_groups()

    def _find_groups(self) -> None:
        groups = {}
        for key, one in self.containers.items():
            group = self._layout.container(one.pod.metadata.uid, one.qos, one.name, one.id)
            if group is not None:
                groups[key] = group
        self.groups = groups
        self._is_complete = len(groups) == len(self.containers) and all(
            os.path.isdir(group.cpu) for group in groups.values()
        )
