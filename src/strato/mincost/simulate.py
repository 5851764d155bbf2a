"""Replay of traces: machines and tasks come and go at recorded times, the engine places them.

Trace format, as in the Google cluster trace (CSV, microseconds): ``machine_events``: time, machine, event
(0 add, 1 remove), platform, CPU, memory. ``task_events``: time, missing, job, index, machine, event (0 submit), user,
class, priority, CPU, memory, …; runtimes: job, index, runtime in microseconds. Events that fall into a
round take effect when it ends; the first round counts as instantaneous.

Everything random (which events are kept, where input lies) is a function of the trace's own numbers.
"""

from __future__ import annotations

import contextlib
import csv
import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from strato.errors import InvalidInput, Problem
from strato.mincost.graph import DeltaType, FlowScheduler
from strato.mincost.world import Machine, Task, Vector

MICROSECONDS = 1_000_000
UNITS = 1_000_000
"""The trace's ratios of the largest machine become integers by this factor."""
ADD, REMOVE, SUBMIT = 0, 1, 0
GB = 1 << 30
_MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True, order=True)
class TraceEvent:
    """An event of a trace; ordered by time, then by position in the trace."""

    seconds: float
    order: int
    kind: str = field(compare=False)
    machine: Machine | None = field(default=None, compare=False)
    task: Task | None = field(default=None, compare=False)
    runtime_seconds: float = field(default=0.0, compare=False)
    name: str = field(default="", compare=False)


@dataclass(slots=True)
class Measures:
    """Measurements of a replay."""

    rounds: int = 0
    placed: int = 0
    migrated: int = 0
    preempted: int = 0
    completed: int = 0
    solver_seconds: list[float] = field(default_factory=list)
    placement_seconds: list[float] = field(default_factory=list)
    """Per placement: from submission (or eviction) to the end of the deciding round."""
    response_seconds: list[float] = field(default_factory=list)
    """Per completed task: from submission to its end."""
    input_bytes: int = 0
    """Input read by the tasks that were placed or moved."""
    remote_bytes: int = 0
    """Part of it that was not on the machine."""
    far_bytes: int = 0
    """Part of it that was not in the machine's rack either."""

    def report(self) -> dict[str, float]:
        """Summarise: counts and percentiles."""
        found: dict[str, float] = {
            "rounds": self.rounds,
            "placed": self.placed,
            "migrated": self.migrated,
            "preempted": self.preempted,
            "completed": self.completed,
        }
        if self.input_bytes:
            found["input_gb"] = round(self.input_bytes / GB, 1)
            found["transferred_gb"] = round(self.remote_bytes / GB, 1)
            found["across_racks_gb"] = round(self.far_bytes / GB, 1)
        for name, values in (
            ("round", self.solver_seconds),
            ("placement", self.placement_seconds),
            ("response", self.response_seconds),
        ):
            ranked = sorted(values)
            for percent in (50, 90, 99) if ranked else ():
                found[f"{name}_p{percent}_seconds"] = ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]
        return found

    def read_input(self, task: Task, machine: str, flow: FlowScheduler) -> None:
        """Count the input that a task has to fetch when it starts on a machine."""
        world = flow.world
        rack = world.machine(machine).rack
        for size, holders in task.inputs:
            self.input_bytes += size
            if machine in holders:
                continue
            self.remote_bytes += size
            if not any(world.machine(h).rack == rack for h in holders if h in world.machine_index):
                self.far_bytes += size


def read_trace(folder: Path, *, slots: int = 12, speed_up: float = 1.0, fraction: float = 1.0) -> list[TraceEvent]:
    """Read a trace folder (``machine_events.csv``, ``task_events.csv``, ``task_runtimes.csv``).

    Args:
        folder: Where the files are.
        slots: Tasks a machine can run.
        speed_up: What all times are divided by.
        fraction: Share of the machines and jobs that is kept, chosen by hash.

    Raises:
        InvalidInput: A file is missing or lines are unreadable: the first ten, each with its place.
    """
    problems: list[Problem] = []
    runtimes: dict[tuple[str, str], float] = {}
    for where, row in _rows(folder / "task_runtimes.csv", 3, problems):
        with _reading(where, problems):
            runtimes[row[0], row[1]] = int(row[2]) / MICROSECONDS / speed_up
    events: list[TraceEvent] = []
    for where, row in _rows(folder / "machine_events.csv", 6, problems):
        if _kept(row[1], fraction):
            with _reading(where, problems):
                kind = "machine" if int(row[2]) == ADD else "lost" if int(row[2]) == REMOVE else ""
                room = Vector(cpu=_units(row[4]), ram=_units(row[5]))
                machine = Machine(row[1], slots=slots, capacity=room, kind=row[3])
                seconds = _seconds(row[0], speed_up)
                if kind:
                    events.append(TraceEvent(seconds, len(events), kind, machine, name=row[1]))
    number = 0
    for where, row in _rows(folder / "task_events.csv", 11, problems):
        runtime = runtimes.get((row[2], row[3]))
        if runtime is None or not _kept(row[2], fraction):
            continue
        with _reading(where, problems):
            if int(row[5]) == SUBMIT:
                number += 1
                request = Vector(cpu=_units(row[9]), ram=_units(row[10]))
                task = Task(number, row[2], binary=row[2], request=request, priority=int(row[8] or 0))
                seconds = _seconds(row[0], speed_up)
                events.append(TraceEvent(seconds, len(events), "task", task=task, runtime_seconds=runtime))
    if problems:
        raise InvalidInput(str(folder), problems[:_MOST_PROBLEMS])
    return sorted(events)


def replay(flow: FlowScheduler, events: Iterable[TraceEvent], measure: Callable[[], float]) -> Measures:
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
            _apply_event(flow, heapq.heappop(queue), now, runtimes, found)
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
            found.read_input(flow.world.tasks[delta.task], delta.machine, flow)
            left = max(0.0, runtimes[delta.task] - flow.world.tasks[delta.task].ran)
            order += 1
            heapq.heappush(
                queue, TraceEvent(now + left, order, "end", task=flow.world.tasks[delta.task], name=delta.machine)
            )
    return found


def _apply_event(
    flow: FlowScheduler, event: TraceEvent, now: float, runtimes: dict[int, float], found: Measures
) -> None:
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
        # Ignore an end that was scheduled for an earlier run or machine of the task.
        if task is not None and task.machine == event.name and task.run_seconds(now) + 1e-6 >= runtimes[task.id]:
            flow.complete(task.id, now)
            found.completed += 1
            found.response_seconds.append(now - task.submitted)


@contextlib.contextmanager
def _reading(where: str, problems: list[Problem]) -> Iterator[None]:
    """Turn errors of reading a line's numbers into a problem with its place."""
    try:
        yield
    except (ValueError, OverflowError) as err:
        problems.append(Problem(where, str(err)))


def _rows(path: Path, columns: int, problems: list[Problem]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a file with their places; unreadable ones become problems."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as lines:
            for number, row in enumerate(csv.reader(lines), 1):
                where = f"{path.name}: line {number}"
                if len(problems) >= _MOST_PROBLEMS:
                    return
                if len(row) < columns:
                    problems.append(Problem(where, f"{len(row)} columns where {columns} belong"))
                else:
                    yield where, row
    except OSError as err:
        problems.append(Problem(path.name, f"cannot be read: {err.strerror}"))
    except csv.Error as err:
        problems.append(Problem(path.name, f"is no CSV: {err}"))


def _seconds(text: str, speed_up: float) -> float:
    return int(text) / MICROSECONDS / speed_up


def _kept(name: str, fraction: float) -> bool:
    return fraction >= 1.0 or zlib.crc32(name.encode()) < fraction * (1 << 32)


def _units(text: str) -> int:
    units = float(text or 0) * UNITS
    if not 0 <= units < 1 << 53:
        raise ValueError(f"{text!r} is no share of a machine")
    return int(units)
