"""Replay of traces: machines and tasks come and go at recorded times, the engine places them.

Trace format, as in the Google cluster trace (CSV, microseconds): ``machine_events``: time, machine, event
(0 add, 1 remove), platform, CPU, memory. ``task_events``: time, missing, job, index, machine, event (0 submit), user,
class, priority, CPU, memory, …; runtimes: job, index, runtime in microseconds. Events that fall into a
round take effect when it ends; the first round counts as instantaneous.

Everything random (which events are kept, where input lies) is a function of the trace's own numbers.
"""

from __future__ import annotations

import csv
import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from strato.errors import InvalidInput, Problem
from strato.flow.graph import DeltaType, FlowScheduler
from strato.flow.world import Machine, Task, Vector

MICROSECONDS = 1_000_000
UNITS = 1_000_000
"""The trace's ratios of the largest machine become integers by this factor."""
ADD, REMOVE, SUBMIT = 0, 1, 0


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happens; ordered by time, then by its place in the trace."""

    seconds: float
    order: int
    kind: str = field(compare=False)
    machine: Machine | None = field(default=None, compare=False)
    task: Task | None = field(default=None, compare=False)
    runtime_seconds: float = field(default=0.0, compare=False)
    name: str = field(default="", compare=False)


@dataclass(slots=True)
class Measures:
    """What a replay measured."""

    rounds: int = 0
    placed: int = 0
    migrated: int = 0
    preempted: int = 0
    completed: int = 0
    solver_seconds: list[float] = field(default_factory=list)
    placement_seconds: list[float] = field(default_factory=list)
    """Per placement: from submission (or eviction) to the end of the deciding round."""

    def report(self) -> dict[str, float]:
        """Summarise: counts and percentiles."""
        found: dict[str, float] = {
            "rounds": self.rounds,
            "placed": self.placed,
            "migrated": self.migrated,
            "preempted": self.preempted,
            "completed": self.completed,
        }
        for name, values in (("round", self.solver_seconds), ("placement", self.placement_seconds)):
            ranked = sorted(values)
            for percent in (50, 90, 99) if ranked else ():
                found[f"{name}_p{percent}_seconds"] = ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]
        return found


def read_trace(folder: Path, *, slots: int = 12, speed_up: float = 1.0, fraction: float = 1.0) -> list[Event]:
    """Read a trace folder (``machine_events.csv``, ``task_events.csv``, ``task_runtimes.csv``).

    Args:
        folder: Where the files are.
        slots: Tasks a machine can run.
        speed_up: What all times are divided by.
        fraction: Share of the machines and jobs that is kept, chosen by hash.

    Raises:
        InvalidInput: A file is missing or a line unreadable.
    """
    runtimes = {
        (row[0], row[1]): int(row[2]) / MICROSECONDS / speed_up for row in _rows(folder / "task_runtimes.csv", 3)
    }
    events: list[Event] = []
    for row in _rows(folder / "machine_events.csv", 6):
        if _kept(row[1], fraction):
            kind = "machine" if int(row[2]) == ADD else "lost" if int(row[2]) == REMOVE else ""
            room = Vector(cpu=_units(row[4]), ram=_units(row[5]))
            machine = Machine(row[1], slots=slots, capacity=room, kind=row[3])
            if kind:
                events.append(Event(int(row[0]) / MICROSECONDS / speed_up, len(events), kind, machine, name=row[1]))
    number = 0
    for row in _rows(folder / "task_events.csv", 11):
        runtime = runtimes.get((row[2], row[3]))
        if int(row[5]) == SUBMIT and runtime is not None and _kept(row[2], fraction):
            number += 1
            request = Vector(cpu=_units(row[9]), ram=_units(row[10]))
            task = Task(number, row[2], binary=row[2], request=request, priority=int(row[8] or 0))
            seconds = int(row[0]) / MICROSECONDS / speed_up
            events.append(Event(seconds, len(events), "task", task=task, runtime_seconds=runtime))
    return sorted(events)


def replay(flow: FlowScheduler, events: Iterable[Event], measure: Callable[[], float]) -> Measures:
    """Run events through the engine in virtual time.

    Args:
        flow: An empty scheduler.
        events: What happens, in order of time.
        measure: A clock in seconds that rounds are timed with; a constant one makes replays reproducible.
    """
    queue = list(events)
    heapq.heapify(queue)
    order = len(queue)
    runtimes: dict[int, float] = {}
    found, now = Measures(), 0.0
    while queue:
        now = max(now, queue[0].seconds)
        while queue and queue[0].seconds <= now:
            _happen(flow, heapq.heappop(queue), now, runtimes, found)
        since = {t.id: t.waiting_since for t in flow.world.tasks.values() if t.machine is None}
        if not since:
            continue
        start = measure()
        decided = flow.round(now)
        took = measure() - start if found.rounds else 0.0
        found.rounds += 1
        found.solver_seconds.append(took)
        now += took
        for delta in decided.deltas:
            if delta.type is DeltaType.PREEMPT:
                found.preempted += 1
                continue
            if delta.type is DeltaType.MIGRATE:
                found.migrated += 1
            else:
                found.placed += 1
                found.placement_seconds.append(now - since[delta.task])
            left = max(0.0, runtimes[delta.task] - flow.world.tasks[delta.task].ran)
            order += 1
            heapq.heappush(
                queue, Event(now + left, order, "end", task=flow.world.tasks[delta.task], name=delta.machine)
            )
    return found


def _happen(flow: FlowScheduler, event: Event, now: float, runtimes: dict[int, float], found: Measures) -> None:
    if event.kind == "machine" and event.machine is not None:
        if event.name not in flow.world.machine_index:
            flow.add_machine(event.machine)
    elif event.kind == "lost":
        if event.name in flow.world.machine_index:
            flow.remove_machine(event.name)
    elif event.kind == "task" and event.task is not None:
        runtimes[event.task.id] = event.runtime_seconds
        flow.submit(event.task, now)
    elif event.task is not None:
        task = flow.world.tasks.get(event.task.id)
        # An end that was announced for a place or a run the task has left since is void.
        if task is not None and task.machine == event.name and task.run_seconds(now) + 1e-6 >= runtimes[task.id]:
            flow.complete(task.id, now)
            found.completed += 1


def _rows(path: Path, columns: int) -> Iterator[list[str]]:
    try:
        with path.open(newline="") as lines:
            for number, row in enumerate(csv.reader(lines), 1):
                if len(row) < columns:
                    problem = Problem(f"{path}: line {number}", f"{len(row)} columns where {columns} belong")
                    raise InvalidInput("trace", [problem])
                yield row
    except OSError as err:
        raise InvalidInput("trace", [Problem(str(path), f"cannot be read: {err.strerror}")]) from err


def _kept(name: str, fraction: float) -> bool:
    return fraction >= 1.0 or zlib.crc32(name.encode()) < fraction * (1 << 32)


def _units(text: str) -> int:
    return int(float(text or 0) * UNITS)
