"""The knowledge base: bounded samples per machine, task and task class, and what is derived from them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

QUEUE_BYTES = 100 * 1024
"""Size of each queue; the oldest sample goes first."""


@dataclass(frozen=True, slots=True)
class FinalReport:
    """What a finished task reports of itself."""

    runtime_seconds: float
    instructions: int = 0
    cycles: int = 0
    llc_references: int = 0


@dataclass(frozen=True, slots=True)
class LoadSample:
    """A measurement of a machine or a task; a ratio of capacity per dimension."""

    timestamp: float
    cpu_utilisation: float = 0.0
    mem_utilisation: float = 0.0
    net_rx: int = 0
    net_tx: int = 0
    disk_bw: int = 0


_SAMPLE_BYTES = 48
_MOST = QUEUE_BYTES // _SAMPLE_BYTES


@dataclass(slots=True)
class Statistics:
    """Queues of samples; averages are over what a queue still holds."""

    machines: dict[str, deque[LoadSample]] = field(default_factory=dict)
    tasks: dict[int, deque[LoadSample]] = field(default_factory=dict)
    reports: dict[str, deque[FinalReport]] = field(default_factory=dict)

    def add_machine_sample(self, machine: str, sample: LoadSample) -> None:
        """Keep a machine's measurement."""
        self.machines.setdefault(machine, deque(maxlen=_MOST)).append(sample)

    def add_task_sample(self, task: int, sample: LoadSample) -> None:
        """Keep a task's measurement."""
        self.tasks.setdefault(task, deque(maxlen=_MOST)).append(sample)

    def add_report(self, task_class: str, report: FinalReport) -> None:
        """Keep a finished task's report under its class."""
        self.reports.setdefault(task_class, deque(maxlen=_MOST)).append(report)

    def latest(self, machine: str) -> LoadSample | None:
        """Return a machine's newest measurement."""
        queue = self.machines.get(machine)
        return queue[-1] if queue else None

    def average_runtime_ms(self, task_class: str) -> int:
        """Average runtime of a class in ms, 0 when unknown."""
        reports = self.reports.get(task_class)
        return int(sum(r.runtime_seconds for r in reports) * 1000 / len(reports)) if reports else 0
