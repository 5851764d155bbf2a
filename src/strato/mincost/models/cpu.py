"""CPU/memory (10): the model of the Kubernetes fork; least requested + balanced + soft rules.

Tasks of equal requests and constraints form a class. A class has one arc per machine and level: level i is
what the (i + 1)-th task of the class would cost there, so prices are convex and a burst spreads. Levels
belong to the class, not to the machine; `FlowScheduler(check_vectors=True)` checks the real request vectors, in case
two classes together exceed a machine.

Not repeated from the original: integer division that made pod affinity 0 or 1000, required
anti-affinity that failed on any pod of the namespace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.mincost import rules
from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs, CostModel, arcs, join
from strato.mincost.world import FlowWorld, Machine, Task

WAITING = 2_560_000
SCALE = 1000
MOST_LEVELS = 50
GOLDEN = 2_654_435_769
"""Spreads where classes begin among equal machines (2³² / golden ratio)."""
ROUNDING = 2
"""A further level may be cheaper by no more than this: prices grow with load but for rounding."""
DEFAULT_TOLERATIONS = 2
"""What Kubernetes adds to every pod."""


class CpuMemory(CostModel):
    """Requests against capacity, machine by machine."""

    name, number = "cpu", 10

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type] # hands the base's arguments through
        self._example: dict[Hashable, Task] = {}

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Waiting costs more than any placement."""
        return np.full(len(tasks), WAITING, np.int64)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs as much as waiting, so that running tasks stay."""
        return np.full(len(tasks), WAITING, np.int64)

    def class_of(self, task: Task) -> tuple[Hashable, ...]:
        """Key of the class: equal keys mean equal arcs."""
        r = task.request
        return (
            "cpu",
            r.cpu,
            r.ram,
            r.ephemeral,
            task.selectors,
            task.preferred,
            task.one_of,
            task.near,
            task.apart,
            task.likes,
            (task.namespace, tuple(sorted(task.labels.items()))) if task.near or task.apart else (),
            task.owner,
            task.tolerations if len(task.tolerations) > DEFAULT_TOLERATIONS else (),
        )

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the task's class."""
        keys = [self.class_of(task) for task in tasks]
        self._example.update(zip(keys, tasks, strict=True))
        return arcs(range(len(tasks)), [self.world.class_target(key) for key in keys], 0)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To the machines and levels each class can come to use, see `cheapest`."""
        hosts = Hosts(self.world)
        offers, wanted = [], []
        for row, target in enumerate(classes):
            task = self._example.get(self.world.class_key(target))
            if task is not None and demand[row] > 0 and len(hosts.index):
                offer = self._priced(task, hosts, int(demand[row]))
                # Each class begins at a different one of equal places; otherwise all would fill the first machines.
                turn = -(target * GOLDEN) % len(hosts.index)
                order = np.argsort((offer.host - turn) % len(hosts.index), kind="stable")
                offers.append((row, Levels(offer.host[order], offer.cost[order])))
                wanted.append(int(demand[row]))
        kept = cheapest([offer for _, offer in offers], wanted, hosts.places)
        parts = [
            arcs(np.full(len(keep), row), hosts.index[offer.host[keep]], offer.cost[keep])
            for (row, offer), keep in zip(offers, kept, strict=True)
        ]
        return join(parts)

    def machine_to_sink(self, indices: Sequence[int]) -> Arcs:
        """With preemption, a machine has places for its running tasks and for as many as fit besides; more evict one.

        The waiting request that fits most often decides how many fit. A larger one that gets such a place fails the
        check of the real vectors and waits for the next round.
        """
        if not self.world.preemption:
            return super().machine_to_sink(indices)
        hosts = Hosts(self.world)
        room = np.zeros(len(self.world.machines), np.int64)
        room[hosts.index] = hosts.places + [len(m.tasks) for m in hosts.machines]
        return arcs(range(len(indices)), [0] * len(indices), 0, room[np.asarray(indices, np.int64)])

    def _priced(self, task: Task, hosts: Hosts, demand: int) -> Levels:
        """Price the levels of every machine that fits, as many levels as the demand can need."""
        allowed = np.flatnonzero(hosts.allow(task))
        extra = self.extra_cost(task, hosts)[allowed]
        most = 1 if task.apart and any(beside.matches(task) for beside in task.apart) else min(MOST_LEVELS, demand)
        levels = min(most, 2 + 4 * demand // max(1, len(allowed)))
        while True:
            level = np.arange(levels)[:, None]
            fits = level < hosts.free[allowed]
            used = []
            for dimension, request in enumerate((task.request.cpu, task.request.ram, task.request.ephemeral)):
                room, capacity = hosts.available[dimension, allowed], hosts.capacity[dimension, allowed]
                if request:
                    fits &= (level + 1) * request < hosts.within_reach[dimension, allowed]
                if dimension < 2:
                    used.append((capacity - room + level * request) / np.maximum(capacity, 1))
            cost = price(used[0], used[1]) + extra
            if levels == most or not fits[-1].any():
                break
            # Further levels cost at least as much as the last; with enough cheaper places they are never used.
            if int((fits & (cost < cost[-1][fits[-1]].min() - ROUNDING)).sum()) > demand:
                break
            levels = min(most, levels * 2)
        which, host = np.nonzero(fits)
        return Levels(allowed[host], cost[which, host])

    def extra_cost(self, task: Task, hosts: Hosts) -> Int64s:
        """Node and pod affinity, untolerated soft taints and avoidance: 0 … 1000 each, 0 is best."""
        machines = hosts.machines
        total = np.zeros(len(machines), np.int64)
        if task.preferred:
            weights = np.array(
                [
                    sum(p.weight for p in task.preferred if all(s.matches(m.labels) for s in p.selectors))
                    for m in machines
                ],
                np.int64,
            )
            total += SCALE - SCALE * weights // max(1, int(weights.max(initial=0)))
        else:
            total += SCALE
        if hosts.soft:
            marks = np.zeros(len(machines), np.int64)
            for i in hosts.soft:
                taints = [t for t in machines[i].taints if t.effect == "PreferNoSchedule"]
                marks[i] = sum(not any(x.tolerates(t) for x in task.tolerations) for t in taints)
            total += SCALE * marks // max(1, int(marks.max(initial=0)))
        if task.likes:
            total += likings(task, hosts.machines)
        if task.owner:
            for i in hosts.avoiding:
                if task.owner in machines[i].avoids:
                    total[i] += SCALE
        return total


class Levels(NamedTuple):
    """Places of a class: position of the machine among the hosts and cost, one entry per machine and level."""

    host: Int64s
    cost: Int64s


class Hosts:
    """The machines with room as columns, read once for all classes.

    Attributes:
        index: Indices in the `FlowWorld`.
        machines: The machines.
        free: Slots a class may use: those without a task; with preemption all that are not others'.
        available, capacity: int64[3, hosts]: cpu, memory, ephemeral storage.
        within_reach: What is available, and with preemption also what running tasks hold.
        places: How many tasks can be added without evicting one.
        soft, avoiding: Positions of machines with soft taints, and of those that tasks of some owners should avoid.
    """

    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        found = [(i, m) for i, m in world.present() if world.capacity_of(m) > 0]
        self.machines = [m for _, m in found]
        self.index = np.array([i for i, _ in found], np.int64)
        self.free = np.array([world.capacity_of(m) for m in self.machines], np.int64)
        capacity = [(m.capacity.cpu, m.capacity.ram, m.capacity.ephemeral) for m in self.machines]
        used = [(m.used.cpu, m.used.ram, m.used.ephemeral) for m in self.machines]
        self.capacity = np.array(capacity, np.int64).reshape(-1, 3).T.copy()
        self.available = self.capacity - np.array(used, np.int64).reshape(-1, 3).T
        self.within_reach, self.places = self.available, self.free
        if world.preemption:
            held = [_held(m) for m in self.machines]
            self.within_reach = self.available + np.array(held, np.int64).reshape(-1, 3).T
            self.places = self._without_eviction()
        tainted = [i for i, m in enumerate(self.machines) if m.taints]
        self.soft = [i for i in tainted if any(t.effect == "PreferNoSchedule" for t in self.machines[i].taints)]
        self.avoiding = [i for i, m in enumerate(self.machines) if m.avoids]
        repelling = [i for i, m in enumerate(self.machines) if any(r.apart for r in m.tasks.values())]
        self._particular = sorted({*tainted, *repelling})

    def _without_eviction(self) -> Int64s:
        """Return how many more tasks fit beside those that run, of the waiting request that fits most often."""
        waiting = {
            (t.request.cpu, t.request.ram, t.request.ephemeral) for t in self._world.tasks.values() if not t.machine
        }
        slots = np.array([m.free for m in self.machines], np.int64)
        most = np.zeros(len(self.machines), np.int64)
        for request in waiting:
            fits = slots.copy()
            for dimension, need in enumerate(request):
                if need:
                    fits = np.minimum(fits, np.maximum(0, self.available[dimension] - 1) // need)
            most = np.maximum(most, fits)
        return most

    def allow(self, task: Task) -> npt.NDArray[np.bool_]:
        """Tell which machines meet the task's hard rules; checks them one by one only if it has any."""
        allowed = np.ones(len(self.machines), np.bool_)
        everywhere = bool(task.selectors or task.one_of or task.near or task.apart)
        near = rules.binding(task, self._world) if task.near else ()
        for i in range(len(self.machines)) if everywhere else self._particular:
            allowed[i] = rules.is_allowed(task, self.machines[i], near)
        return allowed


def _held(machine: Machine) -> tuple[int, int, int]:
    """Return the sum of the requests of the tasks that run on a machine."""
    held = [task.request for task in machine.tasks.values()]
    return sum(r.cpu for r in held), sum(r.ram for r in held), sum(r.ephemeral for r in held)


def cheapest(offers: Sequence[Levels], wanted: Sequence[int], free: Int64s) -> list[Int64s]:
    """Choose the places of each class that an optimum can need.

    A class of k tasks needs its k cheapest places on machines that cannot run out of slots, and every cheaper one on
    machines that can: a task at a more expensive place could move to one of these. Which machines can run out depends
    on the choice, so it is repeated until it no longer changes.

    Args:
        offers: Places by class.
        wanted: Tasks by class.
        free: Slots by machine.
    """
    full = np.zeros(len(free), np.bool_)
    ranked: list[Int64s] = []
    for offer, count in zip(offers, wanted, strict=True):
        some = min(len(offer.cost), 4 * count + 64)
        key = offer.cost * len(offer.cost) + np.arange(len(offer.cost))  # the first of equal ones
        near = np.argpartition(key, some - 1)[:some] if some < len(key) else np.arange(some)
        ranked.append(near[np.argsort(key[near])])
    while True:
        kept, load = [], np.zeros(len(free), np.int64)
        for c, (offer, count) in enumerate(zip(offers, wanted, strict=True)):
            safe = np.cumsum(~full[offer.host[ranked[c]]])
            if (not len(safe) or safe[-1] < count) and len(ranked[c]) < len(offer.cost):
                ranked[c] = np.argsort(offer.cost, kind="stable")
                safe = np.cumsum(~full[offer.host[ranked[c]]])
            keep = ranked[c][: int(np.searchsorted(safe, count)) + 1]
            kept.append(keep)
            np.add.at(load, offer.host[keep], 1)
        now = load > free
        if (now <= full).all():
            return kept
        full |= now


def price(
    cpu_ratio: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    memory_ratio: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Least requested plus balance: 0 on an empty machine, 1000 on a full and balanced one."""
    used = (np.floor(SCALE * cpu_ratio) + np.floor(SCALE * memory_ratio)) // 2
    mean = (cpu_ratio + memory_ratio) / 2
    balance = np.floor(SCALE * ((cpu_ratio - mean) ** 2 + (memory_ratio - mean) ** 2) / 2)
    return (used + balance).astype(np.int64)


def likings(task: Task, machines: Sequence[Machine]) -> Int64s:
    """Preferred neighbours: 0 on the machine with most of these (and fewest to avoid), 1000 on the worst."""
    score = np.array(
        [
            sum(like.weight for like in task.likes if any(like.beside.matches(r) for r in machine.tasks.values()))
            for machine in machines
        ],
        np.int64,
    )
    spread = int(score.max(initial=0)) - int(score.min(initial=0)) if len(score) else 0
    if not spread:
        return np.zeros(len(machines), np.int64)
    found: Int64s = SCALE - SCALE * (score - score.min()) // (score.max() - score.min())
    return found
