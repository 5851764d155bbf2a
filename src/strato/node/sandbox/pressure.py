"""Whether the machine runs short of memory, disk or processes, and which new pods it turns away meanwhile.

Source: Kubernetes' eviction manager: conditions, their transition period, and the admission of pods.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.api.core import Pod
from strato.api.pods import qos_class
from strato.node.predicates import Refusal
from strato.node.sandbox.storage import CRITICAL_PRIORITY, Disk, disk_of

MEMORY, DISK, PIDS = "MemoryPressure", "DiskPressure", "PIDPressure"
TRANSITION_SECONDS = 300.0
"""How long a condition stays after it was last seen, so that pods are not sent back and forth."""
LOW_MEMORY_BYTES = 100 << 20
LOW_PIDS_RATIO = 0.05
"""Of the processes and threads the kernel allows; a kubelet has no threshold unless configured."""
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"


@dataclass(frozen=True, slots=True)
class Signals:
    """What is left of the machine."""

    disk: Disk
    memory_bytes: int
    """Available, as the kernel estimates it: what caches give up counts as free."""
    pids: int
    """Processes and threads that can still be started."""
    most_pids: int


def measure_machine(directory: str, proc: str = "/proc") -> Signals:
    """Look at the machine, and at the disk a directory lies on.

    Raises:
        OSError: The kernel does not say.
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
    """Conditions that come at once and go only when they have not been seen for a while."""

    def __init__(self, transition_seconds: float = TRANSITION_SECONDS) -> None:
        self._transition_seconds = transition_seconds
        self._seen: dict[str, float] = {}

    def observe(self, found: frozenset[str], now: float) -> frozenset[str]:
        """Return the conditions to report, after those that hold now were seen at an instant that never goes back."""
        self._seen.update(dict.fromkeys(found, now))
        return frozenset(k for k, at in self._seen.items() if k in found or now - at < self._transition_seconds)


def rejection(pod: Pod, conditions: frozenset[str]) -> Refusal | None:
    """Return why a new pod is turned away by a node in these conditions, None when it may start."""
    if not conditions or (pod.spec.priority or 0) >= CRITICAL_PRIORITY:
        return None
    if conditions == {MEMORY} and (qos_class(pod.spec) != "BestEffort" or _bears_memory_pressure(pod)):
        return None
    return Refusal("Evicted", f"The node had condition: [{' '.join(sorted(conditions))}]. ")


def _bears_memory_pressure(pod: Pod) -> bool:
    return any(
        toleration.key in ("", _MEMORY_TAINT)
        and toleration.effect in ("", "NoSchedule")
        and (toleration.operator == "Exists" or (bool(toleration.key) and not toleration.value))
        for toleration in pod.spec.tolerations
    )
