"""The running containers of the node and their control groups, recomputed only when a pod has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from strato.agent.containers import ContainerFacts, facts_of
from strato.agent.sampling.layouts import CgroupLayout, ControlGroup
from strato.api.core import Pod


class RunningContainers:
    """The running containers and their control groups.

    Args:
        layout: Finds control groups.
        static_cpus: Whether the kubelet gives some containers exclusive CPUs.
    """

    def __init__(self, layout: CgroupLayout, *, static_cpus: bool) -> None:
        self._layout = layout
        self._static_cpus = static_cpus
        self._facts: dict[str, tuple[str, list[ContainerFacts]]] = {}
        """Resource version and containers of each pod, by uid."""
        self.containers: Mapping[str, ContainerFacts] = {}
        """Running containers by key."""
        self.groups: Mapping[str, ControlGroup] = {}
        """Control groups by the container's key; containers without a known group are left out."""
        self._is_complete = True
        """Whether every group was found; otherwise the next update searches again."""

    def update(self, pods: Iterable[Pod]) -> None:
        """Update containers and groups from the node's pods."""
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
