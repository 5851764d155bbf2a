"""CPUs of a node by NUMA node, socket and core, and which of them a container would get (spec volcano-plugins 19)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from strato.api.core import Container
from strato.api.quantity import milli
from strato.api.volcano.nodeinfo import CPUInfo, Numatopology

BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
POLICIES: Final = (BEST_EFFORT, RESTRICTED, SINGLE)

Cpus = frozenset[int]

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def read_cpus(text: str) -> Cpus:
    """Read a list such as ``0-3,8``; what cannot be read is left out."""
    found: set[int] = set()
    for part in text.split(","):
        ends = _RANGE.fullmatch(part.strip())
        if ends is not None:
            first, last = ends.groups()
            found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """A node's CPUs.

    Attributes:
        cpus: Location of each CPU.
        free: CPUs that containers may be given.
        cpu_policy, topology_policy: Policies of the kubelet.
    """

    cpus: Mapping[int, CPUInfo]
    free: Cpus
    cpu_policy: str
    topology_policy: str

    def numa_nodes(self, cpus: Iterable[int]) -> dict[int, int]:
        """Return how many of some CPUs are on each NUMA node."""
        counts: dict[int, int] = {}
        for cpu in cpus:
            numa = self.cpus[cpu].numa
            counts[numa] = counts.get(numa, 0) + 1
        return counts


def layout_of(view: Numatopology) -> CpuLayout:
    """Return the CPUs of a Numatopology; reserved CPUs are not free."""
    spec = view.spec
    cpus = {int(number): info for number, info in spec.cpu_detail.items() if number.isdecimal()}
    reported = spec.numa_resources.get("cpu")
    reserved = -(-milli(spec.res_reserved.get("cpu", 0)) // 1000)
    allocatable = read_cpus(reported.allocatable) if reported is not None else frozenset()
    kept = take(cpus, frozenset(cpus), reserved) or frozenset()
    return CpuLayout(
        cpus,
        (allocatable & cpus.keys()) - kept,
        spec.policies.get("CPUManagerPolicy", ""),
        spec.policies.get("TopologyManagerPolicy", ""),
    )


def take(cpus: Mapping[int, CPUInfo], free: Cpus, count: int) -> Cpus | None:
    """Return ``count`` free CPUs: whole sockets first, then cores, then single ones; None when there are fewer."""
    if count > len(free):
        return None
    taken: list[int] = []
    left = set(free)
    for whole in (
        _groups(cpus, free, lambda info: (info.socket,)),
        _groups(cpus, free, lambda info: (info.socket, info.core)),
    ):
        for members in whole:
            if len(members) <= count - len(taken) and left.issuperset(members):
                taken += members
                left -= set(members)
    taken += sorted(left, key=lambda cpu: (cpus[cpu].socket, cpus[cpu].core, cpu))[: count - len(taken)]
    return frozenset(taken)


def _groups(cpus: Mapping[int, CPUInfo], free: Cpus, key: Callable[[CPUInfo], tuple[int, ...]]) -> list[list[int]]:
    """Return the groups of CPUs by ``key`` that are free as a whole, in order."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu, info in sorted(cpus.items()):
        groups.setdefault(key(info), []).append(cpu)
    return [members for _, members in sorted(groups.items()) if free.issuperset(members)]


def best_mask(layout: CpuLayout, free: Cpus, count: int) -> tuple[tuple[int, ...], bool]:
    """Return the NUMA nodes to prefer for ``count`` CPUs, and whether no smaller set has that many, free or not."""
    have, whole = layout.numa_nodes(free), layout.numa_nodes(layout.cpus)
    nodes = sorted(whole)
    smallest = 0
    for size in range(1, len(nodes) + 1):
        masks = list(combinations(nodes, size))
        if not smallest and any(sum(whole[n] for n in mask) >= count for mask in masks):
            smallest = size
        for mask in masks:
            if sum(have.get(n, 0) for n in mask) >= count:
                return mask, size == smallest
    return tuple(nodes), False


def whole_cpus(container: Container) -> int:
    """Return the number of exclusive CPUs of a container of a Guaranteed pod: its cpu request if whole, else 0."""
    amounts = container.resources
    request = milli(amounts.requests.get("cpu", amounts.limits.get("cpu", 0)))
    return request // 1000 if request % 1000 == 0 else 0


def assign(layout: CpuLayout, free: Cpus, containers: Sequence[Container], policy: str) -> tuple[Cpus, str]:
    """Give the containers of a pod their CPUs.

    Returns:
        All of them, and the name of the first container that the policy does not admit (empty when all are).
    """
    given: set[int] = set()
    for container in containers:
        count = whole_cpus(container)
        if not count:
            continue
        left = free - given
        mask, preferred = best_mask(layout, left, count)
        if (policy in (RESTRICTED, SINGLE) and not preferred) or (policy == SINGLE and len(mask) != 1):
            return frozenset(), container.name
        near = frozenset(cpu for cpu in left if layout.cpus[cpu].numa in mask)
        first = take(layout.cpus, near, min(count, len(near))) or frozenset()
        rest = take(layout.cpus, left - first, count - len(first))
        if rest is not None:
            given |= first | rest
    return frozenset(given), ""
