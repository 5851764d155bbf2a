"""Sample the host and its containers; missing or implausible measurements are left out, never estimated."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from strato import kernelstats
from strato.agent.sampling.groupfiles import CpuCounters, Holdings, Quota, read_cpu, read_holdings, read_quota
from strato.agent.sampling.layouts import ControlGroup
from strato.agent.sampling.rings import Ring

_LONGEST_GAP = 3
"""Longest gap between two samples, in intervals; a mean over a longer one does not describe the present."""
_SHORTEST_GAP_SECONDS = 3.0
"""Shorter gaps are always accepted: on an overloaded host the agent itself waits for a CPU, and must still act."""
_BITS_PER_BYTE = 8
_MEGA = 1_000_000


@dataclass(slots=True)
class ContainerSamples:
    """Samples of one container."""

    group: ControlGroup
    cpu: Ring = field(default_factory=Ring)
    """CPU use in cores."""
    throttled_ratio: float = 0.0
    """Fraction of throttled periods in the last interval."""
    quota: Quota = field(default_factory=lambda: Quota(None))
    holdings: Holdings = field(default_factory=Holdings)
    counters: tuple[float, CpuCounters] | None = None


@dataclass(slots=True)
class HostSamples:
    """Samples of the host; all rings hold fractions."""

    cpu: Ring = field(default_factory=Ring)
    memory: Ring = field(default_factory=Ring)
    receive: Ring = field(default_factory=Ring)
    send: Ring = field(default_factory=Ring)
    busy: tuple[float, float] | None = None
    carried: dict[str, tuple[float, kernelstats.Traffic]] = field(default_factory=dict)


class Sampler:
    """Reads the kernel's files whenever it is called.

    Args:
        cpus: Logical CPUs of the host.
        interval_seconds: How often it is called.
        proc: Mount point of procfs.
        sys: Mount point of sysfs.
    """

    def __init__(self, cpus: float, interval_seconds: float, proc: str = "/proc", sys: str = "/sys") -> None:
        self.cpus = cpus
        self.interval_seconds = interval_seconds
        self.proc, self._sys = proc, sys
        self.host = HostSamples()
        self.containers: dict[str, ContainerSamples] = {}
        self._last_at: float | None = None
        self.has_gap = True
        """Whether the last interval was too long for a decision; true before the second sample."""

    def sample(self, at: float, groups: Mapping[str, ControlGroup]) -> None:
        """Read the counters that are sampled every second.

        Args:
            at: Monotonic seconds.
            groups: Groups of all running containers, by key; samples of others are dropped.
        """
        longest = max(_LONGEST_GAP * self.interval_seconds, _SHORTEST_GAP_SECONDS)
        self.has_gap = self._last_at is None or at - self._last_at > longest
        self._last_at = at
        with contextlib.suppress(OSError, ValueError, KeyError):
            busy = kernelstats.busy_seconds(self.proc)
            if self.host.busy is not None and 0 < at - self.host.busy[0] <= longest:
                used = (busy - self.host.busy[1]) / (at - self.host.busy[0]) / self.cpus
                if used >= 0:
                    self.host.cpu.add(at, min(1.0, used))
            self.host.busy = (at, busy)
        for key in self.containers.keys() - groups.keys():
            del self.containers[key]
        for key, group in groups.items():
            known = self.containers.get(key)
            if known is None or known.group != group:
                known = self.containers[key] = ContainerSamples(group)
            self._sample_container(known, at, longest)

    def _sample_container(self, known: ContainerSamples, at: float, longest: float) -> None:
        try:
            now = read_cpu(known.group)
        except (OSError, ValueError):  # the container has ended, or has not started
            known.counters = None
            return
        if known.counters is not None and 0 < at - known.counters[0] <= longest:
            before = known.counters[1]
            used = (now.used_seconds - before.used_seconds) / (at - known.counters[0])
            periods = now.periods - before.periods
            if used >= 0 and periods >= 0:  # decreased counters mean that the container restarted in the same group
                known.cpu.add(at, used)
                known.throttled_ratio = max(0, now.throttled - before.throttled) / periods if periods else 0.0
        known.counters = (at, now)

    def sample_slowly(self, at: float) -> None:
        """Read what is only needed once per round: quotas, memory, pressure and network traffic."""
        for known in self.containers.values():
            with contextlib.suppress(OSError, ValueError):
                known.quota = read_quota(known.group)
            known.holdings = read_holdings(known.group)
        with contextlib.suppress(OSError, ValueError, KeyError):
            memory = kernelstats.memory(self.proc)
            self.host.memory.add(at, 1 - memory.available / memory.total)
        with contextlib.suppress(OSError, ValueError, IndexError):
            self._sample_network(at)

    def _sample_network(self, at: float) -> None:
        receive, send = 0.0, 0.0
        for name, now in kernelstats.traffic(self.proc).items():
            speed = self._link_bytes_per_second(name)
            before = self.host.carried.get(name)
            if speed and before is not None and at > before[0]:
                seconds = at - before[0]
                receive = max(receive, (now.received - before[1].received) / seconds / speed)
                send = max(send, (now.sent - before[1].sent) / seconds / speed)
            if speed:
                self.host.carried[name] = (at, now)
        self.host.receive.add(at, receive)
        self.host.send.add(at, send)

    def _link_bytes_per_second(self, name: str) -> float:
        """Return the speed of a physical link; 0 for virtual ones, or if the driver does not report it."""
        with contextlib.suppress(OSError, ValueError):
            return max(0, kernelstats.read_number(f"{self._sys}/class/net/{name}/speed")) * _MEGA / _BITS_PER_BYTE
        return 0.0
