"""CPU and memory used by pods, from the counters of their common control group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from strato import kernelstats
from strato.agent.sampling.groupfiles import read_cpu
from strato.agent.sampling.layouts import ControlGroup

_LEGACY: Final = ("total_cache", "total_rss", "total_swap")
_UNIFIED: Final = ("anon", "file", "sock")
_KERNEL: Final = ("slab", "pagetables", "kernel_stack", "percpu", "vmalloc")
"""Parts of the counter ``kernel``, which kernels before 5.18 lack."""


@dataclass(slots=True)
class CpuUse:
    """Mean CPU use of a group between two measurements."""

    last: tuple[float, float] | None = None
    """Instant in monotonic seconds, and CPU seconds used up to it."""

    def milli(self, group: ControlGroup | None, at: float) -> float | None:
        """Measure a group; return the mean millicores since the last measurement, None if unknown."""
        if group is None:
            self.last = None
            return None
        try:
            used = read_cpu(group).used_seconds
        except (OSError, ValueError):
            self.last = None
            return None
        before, self.last = self.last, (at, used)
        if before is None or at <= before[0] or used < before[1]:
            return None
        return (used - before[1]) * 1000 / (at - before[0])


def memory_bytes(group: ControlGroup | None) -> int | None:
    """Return the bytes of memory that a group holds, without double counting; None if unknown."""
    if group is None or not group.memory:
        return None
    try:
        stat = kernelstats.read_pairs(os.path.join(group.memory, "memory.stat"))
    except (OSError, ValueError):
        return None
    if not group.is_unified:
        return sum(stat.get(name, 0) for name in _LEGACY)
    kernel = stat["kernel"] if "kernel" in stat else sum(stat.get(name, 0) for name in _KERNEL)
    return kernel + sum(stat.get(name, 0) for name in _UNIFIED)
