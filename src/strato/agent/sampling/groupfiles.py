"""Read and write files of a container's control group: CPU counters, quota, memory and pressure."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from strato import kernelstats
from strato.agent.sampling.layouts import ControlGroup
from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """CPU counters of a group since its creation."""

    used_seconds: float
    periods: int = 0
    throttled: int = 0
    """Number of periods in which it was throttled."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The CPU quota of a group."""

    milli: int | None
    """The quota in millicores; None without one."""
    period_microseconds: int = CFS_PERIOD_MICROSECONDS
    burst_microseconds: int = 0


@dataclass(frozen=True, slots=True)
class Holdings:
    """Memory, pressure and disk traffic of a group."""

    memory_bytes: int = 0
    """Working set in bytes."""
    cpu_pressure: float = 0.0
    """Fraction of the last 10 s in which a task of it waited for a CPU; 0 in version 1, which does not measure it."""
    memory_pressure: float = 0.0
    disk_bytes: int = 0
    """Bytes read and written since its creation; 0 in version 1."""


def read_cpu(group: ControlGroup) -> CpuCounters:
    """Return a group's counters.

    Raises:
        OSError, ValueError: They cannot be read, for example because the group is gone.
    """
    stat = kernelstats.read_pairs(os.path.join(group.cpu, "cpu.stat"))
    if group.is_unified:
        used = stat["usage_usec"] / 1e6 if "usage_usec" in stat else 0.0
    else:
        used = kernelstats.read_number(os.path.join(group.accounting, "cpuacct.usage")) / 1e9
    return CpuCounters(used, stat.get("nr_periods", 0), stat.get("nr_throttled", 0))


def read_quota(group: ControlGroup) -> Quota:
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
    with contextlib.suppress(OSError, ValueError):  # kernels before 5.14 have no burst file
        burst = kernelstats.read_number(_burst_file(group))
    length = kernelstats.number_of(period) if period else CFS_PERIOD_MICROSECONDS
    if length <= 0:
        raise ValueError(f"{period[:40]!r} is no period")
    return Quota(None if quota in ("max", "-1") else round(kernelstats.number_of(quota) * 1000 / length), length, burst)


def write_quota(group: ControlGroup, milli: int | None) -> Quota:
    """Set a group's quota, keeping its period; return the quota that the kernel then reports.

    If the group's burst would exceed the quota, which the kernel refuses, the burst is lowered first.

    Raises:
        OSError, ValueError: The kernel refuses, or the group is gone.
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


def read_holdings(group: ControlGroup) -> Holdings:
    """Return a group's memory, pressure and disk traffic; values that the kernel does not measure are 0."""
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
            disk = sum(kernelstats.number_of(part[7:]) for part in parts if part.startswith(("rbytes=", "wbytes=")))
    return Holdings(memory, pressures[0], pressures[1], disk)


def _burst_file(group: ControlGroup) -> str:
    return os.path.join(group.cpu, "cpu.max.burst" if group.is_unified else "cpu.cfs_burst_us")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
