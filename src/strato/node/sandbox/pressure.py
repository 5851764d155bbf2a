"""Pressure conditions: whether the machine runs short of memory, disk or processes, and which new pods it refuses then.

Source: Kubernetes' eviction manager: conditions, their transition period, and the admission of pods.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.api.core import Pod
from strato.api.pods import qos_class
from strato.node.predicates import PodRejection
from strato.node.sandbox.storage import CRITICAL_PRIORITY, PodsFileSystem, disk_of

MEMORY, DISK, PIDS = "MemoryPressure", "DiskPressure", "PIDPressure"
TRANSITION_SECONDS = 300.0
"""How long a condition stays True after it was last observed, so that it does not oscillate with each eviction."""
LOW_MEMORY_BYTES = 100 << 20
LOW_PIDS_RATIO = 0.05
"""Share of the processes and threads that the kernel allows; below it there is pressure. A kubelet has no default."""
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"


@dataclass(frozen=True, slots=True)
class Signals:
    """The free resources of the machine."""

    disk: PodsFileSystem
    memory_bytes: int
    """Available memory by the kernel's estimate, which includes memory that caches can give up."""
    pids: int
    """Processes and threads that can still be started."""
    most_pids: int


def measure_machine(directory: str, proc: str = "/proc") -> Signals:
    """Measure the machine, and the disk on which a directory lies.

    Raises:
        OSError: The kernel's files cannot be read.
    """
    most = min(int(_read(f"{proc}/sys/kernel/{name}")) for name in ("pid_max", "threads-max"))
    running = int(_read(f"{proc}/loadavg").split()[3].partition("/")[2])
    kibibytes = next(line.split()[1] for line in _read(f"{proc}/meminfo").splitlines() if line.startswith("MemAvail"))
    return Signals(disk_of(directory), int(kibibytes) << 10, most - running, most)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def pressures(signals: Signals) -> frozenset[str]:
    """Return the conditions of a node that hold at this moment."""
    found = {
        MEMORY: signals.memory_bytes < LOW_MEMORY_BYTES,
        DISK: signals.disk.is_low or signals.disk.is_short_of_inodes,
        PIDS: signals.pids < signals.most_pids * LOW_PIDS_RATIO,
    }
    return frozenset(kind for kind, holds in found.items() if holds)


class PressureConditions:
    """Conditions that become True at once, and False only when they were not observed for `TRANSITION_SECONDS`."""

    def __init__(self, transition_seconds: float = TRANSITION_SECONDS) -> None:
        self._transition_seconds = transition_seconds
        self._seen: dict[str, float] = {}

    def observe(self, found: frozenset[str], now: float) -> frozenset[str]:
        """Return the conditions to report, given those found at the monotonic instant ``now``."""
        self._seen.update(dict.fromkeys(found, now))
        return frozenset(k for k, at in self._seen.items() if k in found or now - at < self._transition_seconds)


def rejection(pod: Pod, conditions: frozenset[str]) -> PodRejection | None:
    """Return why a node with these conditions refuses a new pod, None when the pod may start."""
    if not conditions or (pod.spec.priority or 0) >= CRITICAL_PRIORITY:
        return None
    if conditions == {MEMORY} and (qos_class(pod.spec) != "BestEffort" or _bears_memory_pressure(pod)):
        return None
    return PodRejection("Evicted", f"The node had condition: [{' '.join(sorted(conditions))}]. ")


def _bears_memory_pressure(pod: Pod) -> bool:
    return any(
        toleration.key in ("", _MEMORY_TAINT)
        and toleration.effect in ("", "NoSchedule")
        and (toleration.operator == "Exists" or (bool(toleration.key) and not toleration.value))
        for toleration in pod.spec.tolerations
    )
