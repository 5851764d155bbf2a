"""Koordinator's CPU suppression by sets of CPUs: best-effort pods get whole cores, spread over the NUMA nodes.

Source: koordinator ``a7a1b76``, koordlet's ``cpusuppress``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

_LEAST_CPUS = 2
_GROWTH = 0.10
"""Largest growth of the set in one step, as a fraction of the node's CPUs."""

_LAST_CPU = 65_535
"""Largest CPU number that is accepted, beyond those of any kernel."""


class Processor(NamedTuple):
    """A logical CPU with its core and NUMA node."""

    cpu: int
    core: int
    socket: int
    numa_node: int


def parse_cpus(text: str) -> list[int]:
    """Parse the kernel's list format (``0-3,7``).

    Raises:
        ValueError: The text has another format.
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if int(last or first) > _LAST_CPU:
            raise ValueError(f"{part[:40]!r} is no range of CPUs")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def format_cpus(cpus: Iterable[int]) -> str:
    """Write the kernel's list format."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def choose_cpus(count: int, processors: Sequence[Processor]) -> list[int]:
    """Return ``count`` CPUs in the order of choice; an empty list if there are not enough.

    Pairs of one core come first, from one NUMA node after the other, then single CPUs in the same order.
    """
    if len(processors) < count or not processors:
        return []
    by_node: dict[tuple[int, int], list[Processor]] = {}
    for one in sorted(processors, key=lambda p: (p.core, p.cpu)):
        by_node.setdefault((one.socket, one.numa_node), []).append(one)
    nodes = sorted(by_node.values(), key=lambda node: (-len(node), node[0].cpu))
    chosen: list[int] = []
    turn = idle = 0
    while count - len(chosen) > 1 and idle < len(nodes):
        pair = _first_pair(nodes[turn % len(nodes)])
        idle = 0 if pair else idle + 1
        turn += 1
        for one in pair:
            nodes[(turn - 1) % len(nodes)].remove(one)
            chosen.append(one.cpu)
    while len(chosen) < count:
        node = nodes[turn % len(nodes)]
        turn += 1
        if node:
            chosen.append(node.pop(0).cpu)
    return chosen


def _first_pair(node: Sequence[Processor]) -> Sequence[Processor]:
    """Return the first two free CPUs of one core; empty if no core has two."""
    for first, second in pairwise(node):
        if first.core == second.core:
            return first, second
    return ()


def next_cpus(
    budget_milli: int,
    processors: Sequence[Processor],
    current: Collection[int],
    *,
    shared_exclusive: Collection[int] = (),
    unusable: Collection[int] = (),
) -> list[int] | None:
    """Return the set of CPUs of best-effort pods; None leaves the current one.

    Args:
        budget_milli: Millicores that they may use.
        processors: All CPUs of the node.
        current: Their present set, which grows by at most a tenth of the node's CPUs.
        shared_exclusive: CPUs of pods that share theirs with best-effort ones (LSR); they contribute in proportion.
        unusable: CPUs of exclusive pods (LSE), reserved ones, and the system's own.
    """
    usable = [one for one in processors if one.cpu not in unusable]
    bound = [one for one in usable if one.cpu in shared_exclusive]
    free = [one for one in usable if one.cpu not in shared_exclusive]
    if not usable:
        return None
    growth = math.ceil(len(processors) * _GROWTH)
    count = min(max(_LEAST_CPUS, math.ceil(budget_milli / 1000)), len(current) + growth)
    of_bound = count * len(bound) // len(usable)
    chosen = choose_cpus(of_bound, bound) + choose_cpus(count - of_bound, free)
    return sorted(chosen) or None
