"""The files of one container's control group: what it has used, and the quota that it is held to."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from strato import kernelstats
from strato.agent.sampling.layouts import Group
from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """What has been counted of a group's CPU since it was made."""

    used_seconds: float
    periods: int = 0
    throttled: int = 0
    """Periods in which it was throttled."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What the kernel holds a group to."""

    milli: int | None
    """Millicores; None: no quota."""
    period_microseconds: int = CFS_PERIOD_MICROSECONDS
    burst_microseconds: int = 0


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a group holds now, and how much it waits."""

    memory_bytes: int = 0
    """Its working set."""
    cpu_pressure: float = 0.0
    """Fraction of the last 10 s in which something of it waited; 0 in version 1, which does not count it."""
    memory_pressure: float = 0.0
    disk_bytes: int = 0
    """Read and written since it was made; 0 in version 1."""


def read_cpu(group: Group) -> CpuCounters:
    """Return a group's counters.

    Raises:
        OSError, ValueError: They cannot be read: the group has gone.
    """
    stat = kernelstats.read_pairs(os.path.join(group.cpu, "cpu.stat"))
    if group.is_unified:
        used = stat["usage_usec"] / 1e6 if "usage_usec" in stat else 0.0
    else:
        used = int(kernelstats.read_text(os.path.join(group.accounting, "cpuacct.usage"))) / 1e9
    return CpuCounters(used, stat.get("nr_periods", 0), stat.get("nr_throttled", 0))


def read_quota(group: Group) -> Quota:
    """Return a group's quota.

    Raises:
        OSError, ValueError: It cannot be read, or the group has no CPU controller.
    """
    if group.is_unified:
        quota, _, period = kernelstats.read_text(os.path.join(group.cpu, "cpu.max")).strip().partition(" ")
    else:
        quota = kernelstats.read_text(os.path.join(group.cpu, "cpu.cfs_quota_us")).strip()
        period = kernelstats.read_text(os.path.join(group.cpu, "cpu.cfs_period_us"))
    burst = 0
    with contextlib.suppress(OSError, ValueError):  # kernels before 5.14 have none
        burst = int(kernelstats.read_text(_burst_file(group)))
    length = int(period or CFS_PERIOD_MICROSECONDS)
    if length <= 0:
        raise ValueError(f"a period of {length} µs")
    return Quota(None if quota in ("max", "-1") else round(int(quota) * 1000 / length), length, burst)


def write_quota(group: Group, milli: int | None) -> Quota:
    """Set a group's quota and return what the kernel says it is now; its period is kept.

    What the group may save up is lowered first where it would be more than the quota, which the kernel refuses.

    Raises:
        OSError, ValueError: The kernel refuses, or the group has gone.
    """
    before = read_quota(group)
    period = before.period_microseconds
    quota = -1 if milli is None else max(LEAST_QUOTA_MICROSECONDS, milli * period // 1000)
    if 0 <= quota < before.burst_microseconds:
        _write(_burst_file(group), str(quota))
    if group.is_unified:
        _write(os.path.join(group.cpu, "cpu.max"), f"{'max' if quota < 0 else quota} {period}")
    else:
        _write(os.path.join(group.cpu, "cpu.cfs_quota_us"), str(quota))
    return read_quota(group)


def read_holdings(group: Group) -> Holdings:
    """Return what a group holds; what the kernel does not count is 0."""
    memory, disk = 0, 0
    pressures = [0.0, 0.0]
    with contextlib.suppress(OSError, ValueError):
        memory = kernelstats.working_set(group.memory, unified=group.is_unified) if group.memory else 0
    if group.is_unified:
        for number, name in enumerate(("cpu.pressure", "memory.pressure")):
            with contextlib.suppress(OSError, ValueError):
                pressures[number] = kernelstats.pressure(kernelstats.read_text(os.path.join(group.cpu, name)))
        with contextlib.suppress(OSError, ValueError):
            parts = kernelstats.read_text(os.path.join(group.cpu, "io.stat")).split()
            disk = sum(int(part[7:]) for part in parts if part.startswith(("rbytes=", "wbytes=")))
    return Holdings(memory, pressures[0], pressures[1], disk)


def _burst_file(group: Group) -> str:
    return os.path.join(group.cpu, "cpu.max.burst" if group.is_unified else "cpu.cfs_burst_us")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
