"""Measure the use of containers on this machine: CPU time of their processes, memory of their groups or processes.

Any process on the machine can measure, because all is read from the kernel and the node's directory. The CPU rate is an
average since the last reading that is at least `_LEAST_SECONDS` old, and at first since the container's start.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from strato import kernelstats
from strato.api.metrics import Used
from strato.clock import Clock
from strato.node.sandbox.paths import NodePaths

_LEAST_SECONDS: Final = 10.0
"""Shortest time between two stored readings; a request before that gets the average since the previous one."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_NANOS: Final = 1_000_000_000
_MACHINE: Final = ""
"""Key of the machine's own readings."""


class _Reading(NamedTuple):
    at: float
    cpu_seconds: float


class _Process(NamedTuple):
    parent: int
    cpu_seconds: float
    memory_bytes: int


class MachineUsage:
    """Measures this machine.

    Args:
        paths: Paths of its pods.
        nodes: Names of the machine's nodes; each is reported with the use of the whole machine.
        clock: The machine's clock.
        proc: Directory of the kernel's files; anything but ``/proc`` is for tests.
    """

    def __init__(self, paths: NodePaths, nodes: Sequence[str], clock: Clock, proc: str = "/proc") -> None:
        self._paths, self._nodes, self._clock, self._proc = paths, nodes, clock, proc
        self._readings: dict[str, tuple[_Reading, _Reading]] = {}
        """The last two readings of each container (and of the machine)."""
        self._rate(_MACHINE, _Reading(clock.now(), self._machine()[0]), _Reading(clock.now(), self._machine()[0]))

    def measure(self) -> Mapping[str, Mapping[str, Used]]:
        """Return the use by uid of the pod and name of the container; under a node's name, ``""`` is the machine."""
        now, processes = self._clock.now(), self._processes()
        children: defaultdict[int, list[int]] = defaultdict(list)
        for pid, process in processes.items():
            children[process.parent].append(pid)
        found: dict[str, dict[str, Used]] = {}
        seen = {_MACHINE}
        for uid in self._paths.uids():
            for directory in self._paths.pod(uid).running_pids():
                name, state = os.path.basename(os.path.dirname(directory)), _state(directory)
                if state is None or state[0] not in processes:
                    continue
                own = [processes[pid] for pid in _below(state[0], children)]
                key = f"{uid}/{name}/{os.path.basename(directory)}"
                seen.add(key)
                cpu = sum(process.cpu_seconds for process in own)
                nanocores, window = self._rate(key, _Reading(now, cpu), _Reading(state[1], 0.0))
                memory = self._group_memory(f"{uid}/{name}")
                memory = sum(process.memory_bytes for process in own) if memory is None else memory
                found.setdefault(uid, {})[name] = Used(nanocores, memory, window)
        cpu, memory = self._machine()
        nanocores, window = self._rate(_MACHINE, _Reading(now, cpu), _Reading(now, cpu))
        found.update((node, {"": Used(nanocores, memory, window)}) for node in self._nodes)
        for key in self._readings.keys() - seen:
            del self._readings[key]
        return found

    def _rate(self, key: str, new: _Reading, first: _Reading) -> tuple[int, float]:
        """Return the average nanocores since the previous reading, and how many seconds ago that was."""
        base, last = self._readings.get(key, (first, first))
        if new.at - last.at >= _LEAST_SECONDS:
            base, last = last, new
        self._readings[key] = (base, last)
        window = max(new.at - base.at, 1e-3)
        return max(0, int((new.cpu_seconds - base.cpu_seconds) / window * _NANOS)), window

    def _processes(self) -> dict[int, _Process]:
        found = {}
        for name in os.listdir(self._proc):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                    found[int(name)] = self._process(name)
        return found

    def _process(self, pid: str) -> _Process:
        with open(f"{self._proc}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # the CPU time of ended children is added to that of the parent which has waited for them
        return _Process(
            int(fields[1]), sum(map(int, fields[11:15])) / kernelstats.TICKS_PER_SECOND, int(fields[21]) * _PAGE_BYTES
        )

    def _machine(self) -> tuple[float, int]:
        """Return the machine's busy CPU seconds, and its memory that is not available."""
        memory = kernelstats.memory(self._proc)
        return kernelstats.busy_seconds(self._proc), memory.total - memory.available

    def _group_memory(self, key: str) -> int | None:
        """Return the working set of a control group; None without control groups."""
        try:
            with open(self._paths.cgroups) as file:
                roots: dict[str, str] = json.load(file)
            unified = "unified" in roots
            group = os.path.join(roots["unified" if unified else "memory"], key)
            return kernelstats.working_set(group, unified=unified)
        except (OSError, ValueError, KeyError):
            return None


def _state(directory: str) -> tuple[int, float] | None:
    """Return the pid of a run's supervisor, and when the run began."""
    try:
        with open(os.path.join(directory, "state.json")) as file:
            state = json.load(file)
        return int(state["pid"]), float(state["startedAt"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _below(pid: int, children: Mapping[int, Iterable[int]]) -> list[int]:
    """Return all descendants of a process."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = list(children.get(waiting.pop(), ()))
        found += below
        waiting += below
    return found
