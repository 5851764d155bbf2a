"""`CostModel`: base of cost models, which price the arcs of the network in bulk.

Each method gets many tasks, jobs, classes or machines at once and returns arrays. An arc's target is a
number: 0 and up is a machine's index in the `FlowWorld`, below 0 an equivalence class (`FlowWorld.class_target`).
Costs are integers; cheaper is better; the price of waiting must not fall while a task waits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.stats import Statistics
from strato.mincost.world import FlowWorld, Machine, Task


class Arcs(NamedTuple):
    """Arcs of a batch: `row` is the position of the arc's tail in the batch passed to the method."""

    row: Int64s
    target: Int64s
    cost: Int64s
    capacity: Int64s


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings that models share.

    Attributes:
        max_arc_cost: Upper bound of random prices.
        preference_arcs: Preference arcs per task (Trivial, Random).
        class_preference_arcs: Preference arcs per class (Whare-Map, Random).
        levels: Price levels per machine (Net).
    """

    max_arc_cost: int = 100_000_000
    preference_arcs: int = 1
    class_preference_arcs: int = 2
    levels: int = 10


def no_arcs() -> Arcs:
    """Return an empty set of arcs."""
    return arcs([], [], [], [])


def arcs(
    row: Sequence[int] | Int64s,
    target: Sequence[int] | Int64s,
    cost: Sequence[int] | Int64s | int,
    capacity: Sequence[int] | Int64s | int = 1,
) -> Arcs:
    """Build arcs; a single number stands for all."""
    rows = np.asarray(row, np.int64)
    return Arcs(
        rows,
        np.asarray(target, np.int64),
        np.broadcast_to(np.asarray(cost, np.int64), rows.shape),
        np.broadcast_to(np.asarray(capacity, np.int64), rows.shape),
    )


def join(parts: Sequence[Arcs]) -> Arcs:
    """Put sets of arcs of one batch together."""
    if not parts:
        return no_arcs()
    return Arcs(*(np.concatenate([part[i] for part in parts]) for i in range(4)))


def repeat(rows: Sequence[tuple[Sequence[int], Sequence[int]]], kind: Sequence[int]) -> Arcs:
    """Build the arcs of tasks of few kinds: targets and prices of each kind, and the kind of each task."""
    lengths = np.array([len(targets) for targets, _ in rows], np.int64)
    target, cost = (np.array([n for row in rows for n in row[side]], np.int64) for side in (0, 1))
    kinds = np.asarray(kind, np.int64)
    row = np.repeat(np.arange(len(kinds)), lengths[kinds])
    begins = np.cumsum(lengths[kinds]) - lengths[kinds]
    slot = np.arange(len(row)) - begins[row] + (np.cumsum(lengths) - lengths)[kinds[row]]
    return arcs(row, target[slot], cost[slot])


class CostModel:
    """Base of all models; the defaults are what the shipped models share (all prices 0, no arcs)."""

    name: ClassVar[str] = ""
    number: ClassVar[int] = -1
    """Firmament's number of the model; −1: none."""

    def __init__(self, world: FlowWorld, rng: random.Random, settings: ModelSettings | None = None) -> None:
        self.world = world
        self.rng = rng
        self.settings = settings or ModelSettings()
        self.statistics = Statistics()
        """Measurements; filled by the graph manager and the service."""

    # Life cycle: called after the world changed.

    def add_task(self, task: Task) -> None:
        """A task was submitted."""

    def remove_task(self, task: Task) -> None:
        """A task is gone."""

    def add_machine(self, index: int, machine: Machine) -> None:
        """A machine was added."""

    def remove_machine(self, index: int, machine: Machine) -> None:
        """A machine is gone."""

    # Prices of tasks.

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Price of waiting."""
        return np.zeros(len(tasks), np.int64)

    def continuation(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Price of leaving running tasks where they are."""
        return np.zeros(len(tasks), np.int64)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Price of evicting running tasks; by default that of waiting."""
        return self.task_to_unscheduled(tasks, now)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """Arcs to classes and preference arcs to machines."""
        return no_arcs()

    # Prices of the rest.

    def unscheduled_to_sink(self, jobs: Sequence[str]) -> Int64s:
        """Extra price of each waiting task of a job."""
        return np.zeros(len(jobs), np.int64)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """Arcs out of classes (given as targets); `demand` bounds the units that can enter each."""
        return no_arcs()

    def machine_to_sink(self, indices: Sequence[int]) -> Arcs:
        """Arcs of machines to the sink (targets are ignored): levels of PUs with different prices."""
        machines = [self.world.machines[i] for i in indices]
        room = [self.world.capacity_of(m) if m is not None else 0 for m in machines]
        return arcs(range(len(indices)), [0] * len(indices), 0, room)

    # Helpers.

    def to_all_machines(self, row: int, cost: int = 0) -> Arcs:
        """Arcs of one class to every machine with room."""
        room = [(i, self.world.capacity_of(m)) for i, m in self.world.present()]
        free = [(i, slots) for i, slots in room if slots > 0]
        return arcs([row] * len(free), [i for i, _ in free], cost, [slots for _, slots in free])


CLUSTER = "CLUSTER_AGG"
"""Key of the cluster aggregator."""


def waited_tenths(tasks: Sequence[Task], now: float) -> Int64s:
    """Waiting time in tenths of a second."""
    return np.array([int(task.waiting_seconds(now) * 10) for task in tasks], np.int64)
