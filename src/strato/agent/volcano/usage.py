"""What pods use of their node, from the counters of their common control group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from strato import kernelstats
from strato.agent.sampling.groupfiles import read_cpu
from strato.agent.sampling.layouts import Group

_LEGACY: Final = ("total_cache", "total_rss", "total_swap")
_UNIFIED: Final = ("anon", "file", "sock")
_KERNEL: Final = ("slab", "pagetables", "kernel_stack", "percpu", "vmalloc")
"""Parts of ``kernel``, which kernels before 5.18 do not count as one."""


@dataclass(slots=True)
class CpuUse:
    """Mean use of a group between two looks."""

    last: tuple[float, float] | None = None
    """Instant in monotonic seconds, and CPU seconds used up to it."""

    def milli(self, group: Group | None, at: float) -> float | None:
        """Look at a group; return the millicores used since the last look, None where that cannot be said."""
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


def memory_bytes(group: Group | None) -> int | None:
    """Return the bytes that a group holds, each counted once; None where that cannot be said."""
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
