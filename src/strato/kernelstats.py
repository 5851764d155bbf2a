"""Read the kernel's counters of the machine and of control groups, version 1 and 2: one reader for each file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Final, NamedTuple

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
CFS_PERIOD_MICROSECONDS: Final = 100_000
"""The kernel's default period of CPU quotas."""
LEAST_QUOTA_MICROSECONDS: Final = 1_000
"""The smallest quota that the kernel accepts."""


class Memory(NamedTuple):
    """The machine's memory, in bytes."""

    total: int
    available: int


class Traffic(NamedTuple):
    """The received and sent bytes of a network interface."""

    received: int
    sent: int


def cpu_shares(millicores: int) -> int:
    """Return version 1's relative weight of a CPU request (1024 per core, at least 2)."""
    return max(2, millicores * 1024 // 1000)


def cpu_weight(millicores: int) -> int:
    """Return version 2's relative weight in [1, 10000] of a CPU request: 100, the kernel's default, for one core.

    Source: opencontainers/cgroups 0.0.6, the conversion of shares that Kubernetes 1.36 and runc 1.3.2 have.
    """
    shares = cpu_shares(millicores)
    if not 2 < shares < 262144:
        return 1 if shares <= 2 else 10000
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def read_text(path: str) -> str:
    """Return a small file's content.

    Raises:
        OSError: It cannot be read: its control group is gone, or the kernel does not have the file.
    """
    with open(path, "rb", buffering=0) as file:
        return file.readall().decode("utf-8", "replace")


def number_of(text: str) -> int:
    """Return a number that the kernel has written.

    Raises:
        ValueError: It is none, or has more than 64 bits.
    """
    number = int(text)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"{text[:40]!r} has more than 64 bits")
    return number


def read_number(path: str) -> int:
    """Return the number that a file consists of.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds no number, or one of more than 64 bits.
    """
    return number_of(read_text(path))


def read_pairs(path: str) -> dict[str, int]:
    """Read a file of lines ``name number``.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file has another format.
    """
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: number_of(pair[1]) for pair in pairs if len(pair) == 2}


def busy_seconds(proc: str = "/proc") -> float:
    """Return the CPU seconds of the machine that were neither idle nor waiting for disks.

    Raises:
        OSError, ValueError: They cannot be read.
    """
    with open(f"{proc}/stat", "rb") as file:
        times = [number_of(text) for text in file.readline().decode().split()[1:9]]
    if len(times) < 5:
        raise ValueError(f"{proc}/stat has no times of the machine")
    return (sum(times) - times[3] - times[4]) / TICKS_PER_SECOND


def memory(proc: str = "/proc") -> Memory:
    """Return the machine's memory.

    Raises:
        OSError, ValueError, KeyError: It cannot be read.
    """
    lines = (line.split() for line in read_text(f"{proc}/meminfo").splitlines())
    found = {parts[0]: number_of(parts[1]) << 10 for parts in lines if len(parts) > 1}
    return Memory(found["MemTotal:"], found["MemAvailable:"])


def traffic(proc: str = "/proc") -> dict[str, Traffic]:
    """Return the traffic of each interface of the machine.

    It reads the network of the machine's first process where it may: the reader's own network is a pod's when this
    process runs in a container.

    Raises:
        OSError, ValueError: It cannot be read.
    """
    found = {}
    try:
        table = read_text(f"{proc}/1/net/dev")
    except OSError:
        table = read_text(f"{proc}/net/dev")
    for line in table.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        if len(fields) < 9:
            raise ValueError(f"{proc}: {line[:80]!r} is no line of an interface")
        found[name.strip()] = Traffic(number_of(fields[0]), number_of(fields[8]))
    return found


def working_set(group: str, *, unified: bool) -> int:
    """Return the bytes that a control group holds, without what the kernel can drop at once.

    Args:
        group: Directory of the control group, for version 1 in the memory hierarchy.
        unified: Whether it is a control group of version 2.

    Raises:
        OSError, ValueError: It cannot be read.
    """
    current, idle = ("memory.current", "inactive_file") if unified else ("memory.usage_in_bytes", "total_inactive_file")
    used = read_number(os.path.join(group, current))
    return max(0, used - read_pairs(os.path.join(group, "memory.stat")).get(idle, 0))


def pressure(text: str) -> float:
    """Return from the text of a pressure file in which fraction of the last 10 s some task waited.

    Raises:
        ValueError: The text has another format.
    """
    values = _settings(text.partition("\n")[0])
    return float(values["avg10"]) / 100 if "avg10" in values else 0.0


def _settings(line: str) -> Mapping[str, str]:
    return dict(part.split("=", 1) for part in line.split() if "=" in part)
