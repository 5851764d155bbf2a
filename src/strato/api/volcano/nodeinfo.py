"""Views of nodeinfo.volcano.sh/v1alpha1 (spec volcano-api 9)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import EMPTY


class NumaResource(View, frozen=True, kw_only=True):
    """One resource's NUMA view; ``allocatable`` is text like a cpuset."""

    allocatable: str = ""
    capacity: int = 0


class CPUInfo(View, frozen=True, kw_only=True):
    """Core, socket and NUMA node of a logical CPU."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(View, frozen=True, kw_only=True):
    """What a container holds: cpu as a cpuset, others as quantities."""

    name: str = ""
    allocations: Mapping[str, str] = EMPTY


class PodAllocation(View, frozen=True, kw_only=True):
    """What a pod holds."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


class NumatopologySpec(View, frozen=True, kw_only=True):
    """``spec``."""

    policies: Mapping[str, str] = EMPTY
    res_reserved: Mapping[str, str | int | float] = EMPTY
    numa_resources: Mapping[str, NumaResource] = msgspec.field(default=EMPTY, name="numares")
    cpu_detail: Mapping[str, CPUInfo] = EMPTY
    pod_allocations: tuple[PodAllocation, ...] = ()


class Numatopology(Object, frozen=True, kw_only=True):
    """The NUMA layout of the node of the same name."""

    spec: NumatopologySpec = NumatopologySpec()
