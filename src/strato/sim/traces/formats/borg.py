"""`Tasks` and `Machines`: make jobs and nodes from the events of Google's traces; both of their formats use them.

A task is submitted, runs, and ends or is evicted, perhaps several times; its run time is the sum of all its runs. Tasks
of a job with equal requests that were first submitted in the same second become one job of equal pods, which start one
by one as they fit. All pods of a job run equally long, so each gets the mean run time of its tasks, which keeps the
load of the trace. Sizes of tasks and machines are shares of the largest machine, which is not published; 64 CPUs and
256 GiB are assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from strato.node.shapes import NodeShape
from strato.sim.traces.cells import MOST_REPLICAS, cores, memory, requests_of
from strato.sim.traces.reading import Reading
from strato.sim.workloads.jobs import TraceJob

LARGEST_CPUS: Final = 64.0
LARGEST_MEMORY_BYTES: Final = float(256 << 30)
STILL_RAN: Final = "ran before the trace began, or not to an end"
_MICRO: Final = 1e-6


class TaskEvent(Enum):
    """The kinds of events of a task."""

    SUBMIT = "submit"
    START = "start"
    END = "end"
    OTHER = "other"


@dataclass(slots=True)
class _Life:
    submit: float
    cpu: float
    memory: float
    priority: int
    user: str
    since: float = -1.0
    """When its present run began; negative if it does not run."""
    ran: float = 0.0
    begun: float = -1.0


@dataclass(slots=True)
class Tasks:
    """The submission, runs and requests of each task, from events in the order of time."""

    _lives: dict[tuple[str, str], _Life] = field(default_factory=dict)
    _other: int = 0

    def note(
        self,
        key: tuple[str, str],
        event: TaskEvent,
        microseconds: float,
        size: tuple[float, float],
        about: tuple[int, str],
    ) -> None:
        """Take an event.

        Args:
            key: Job and number of the task.
            event: Kind of the event.
            microseconds: Time of the event; 0 is before the trace began.
            size: Requested CPUs and memory as shares of the largest machine; 0 if the event has none.
            about: Priority and user.
        """
        at = microseconds * _MICRO
        life = self._lives.get(key)
        if life is None:
            if event is TaskEvent.END:
                self._other += 1
                return
            life = self._lives[key] = _Life(at, *size, *about)
        life.cpu, life.memory = size[0] or life.cpu, size[1] or life.memory
        if event is TaskEvent.START and life.since < 0:
            life.since = at
            life.begun = at if life.begun < 0 else life.begun
        elif event is TaskEvent.END and life.since >= 0:
            life.ran += at - life.since
            life.since = -1.0

    def add_to(self, reading: Reading, after: Mapping[str, Sequence[str]] | None = None) -> None:
        """Add the jobs to a reading.

        Args:
            reading: The reading.
            after: Job of the trace → the jobs that must end before it starts.
        """
        groups: dict[tuple[str, int, float, float, int], list[_Life]] = {}
        for (job, _), life in self._lives.items():
            if life.ran <= 0:
                self._other += 1
                continue
            key = (job, int(life.submit), life.cpu, life.memory, life.priority)
            groups.setdefault(key, []).append(life)
        if self._other:
            reading.odd.skip(STILL_RAN, self._other)
        names: dict[str, list[str]] = {}
        for job, *_ in groups:
            names.setdefault(job, []).append(reading.names.new(job))
        unused = {job: iter(some) for job, some in names.items()}
        for (job, *_), lives in groups.items():
            waits = [name for before in (after or {}).get(job, ()) if before != job for name in names.get(before, ())]
            reading.add(_job(next(unused[job]), lives, tuple(dict.fromkeys(waits)), reading))


def _job(name: str, lives: Sequence[_Life], after: tuple[str, ...], reading: Reading) -> TraceJob:
    first = lives[0]
    replicas = min(len(lives), MOST_REPLICAS)
    return TraceJob(
        name=name,
        submit_seconds=min(life.submit for life in lives),
        run_seconds=sum(life.ran for life in lives) / len(lives),
        replicas=replicas,
        min_replicas=1 if replicas > 1 else None,
        requests=requests_of(
            cpu=cores(first.cpu * LARGEST_CPUS), memory=memory(round(first.memory * LARGEST_MEMORY_BYTES))
        ),
        priority=first.priority,
        queue=reading.queue("", user=first.user),
        user=first.user,
        after=after,
        waited_seconds=max(0.0, min(life.begun for life in lives) - first.submit),
    )


@dataclass(slots=True)
class Machines:
    """The machines that were there when the trace began, from their events; all machines if none was."""

    _at: dict[str, tuple[float, float, float, str]] = field(default_factory=dict)

    def note(self, name: str, microseconds: float, cpu: float, mem: float, platform: str) -> None:
        """Take an event of a machine with its sizes, as shares of the largest; the first event with sizes counts."""
        if cpu > 0 and mem > 0:
            self._at.setdefault(name, (microseconds, cpu, mem, platform))

    def add_to(self, reading: Reading) -> None:
        """Add the machines to a reading, equal ones as one shape."""
        some = [entry for entry in self._at.values() if entry[0] == 0] or list(self._at.values())
        counts: dict[tuple[float, float], int] = {}
        for _, cpu, mem, _ in some:
            counts[cpu, mem] = counts.get((cpu, mem), 0) + 1
        for (cpu, mem), count in counts.items():
            cpus, size = cores(cpu * LARGEST_CPUS), memory(round(mem * LARGEST_MEMORY_BYTES))
            reading.add_nodes(NodeShape(count, {"cpu": cpus, "memory": size, "pods": "1000"}))
