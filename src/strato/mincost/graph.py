"""The graph manager: turns events into network edits, and solved flows into decisions.

Events (tasks and machines that arrive, leave or fail) change the `FlowWorld` and mark tasks and machines dirty. A round
updates the rows of the dirty ones to the arcs that the cost model returns now (equal arcs keep their flow), solves from
the last solution, and reads the decisions off the flow.

Preemption off: a placed task leaves the network and its machine's arc to the sink loses a slot; this is
the pinned arc with lower bound 1 of the original with the constant taken out. Preemption on: it stays, with
a RUNNING arc to its machine and the price of eviction on its waiting arc.

Equal tasks are one node (`groups`). PUs of a machine are one node, too; a machine's arcs to the sink carry the PUs'
slots, level by level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from random import Random

import numpy as np

from strato.errors import Problem
from strato.mincost import gangs, rules
from strato.mincost.decide import assign
from strato.mincost.models.base import CostModel
from strato.mincost.models.trivial import Trivial
from strato.mincost.network import NetworkError
from strato.mincost.placementgraph import PlacementGraph
from strato.mincost.solver import Kernel, Solution, Solver, SolveStatus
from strato.mincost.stats import FinalReport
from strato.mincost.world import FlowWorld, Machine, Task, Vector

PURGE_ROUNDS = 10
"""Number of rounds after which classes that no task has arcs to are dropped."""


class DeltaType(IntEnum):
    """Kind of a decision on a task (numbers of the wire protocol)."""

    NOOP = 0
    PLACE = 1
    PREEMPT = 2
    MIGRATE = 3


@dataclass(frozen=True, slots=True)
class Delta:
    """One decision. `machine` is where the task goes; for PREEMPT, where it leaves."""

    type: DeltaType
    task: int
    machine: str


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """What a round decided.

    Attributes:
        deltas: Decisions, evictions first.
        unscheduled: Tasks that still wait.
        solution: The solver's answer (of the last re-solve).
        changed_arcs: Arcs the reconcile added, removed or re-priced.
    """

    deltas: tuple[Delta, ...]
    unscheduled: tuple[int, ...]
    solution: Solution
    changed_arcs: int


class FlowScheduler(PlacementGraph):
    """Schedules tasks on machines by minimum-cost flow.

    Args:
        world: Tasks and machines (empty at first; change it through this object only).
        model: The policy.
        solver: Solves each round.
        refresh_seconds: How often all tasks are re-priced for the time that passed.
        check_vectors: Defer placements whose requests exceed the machine in any dimension.
    """

    def __init__(
        self,
        world: FlowWorld,
        model: CostModel,
        solver: Solver | None = None,
        *,
        refresh_seconds: float = 10.0,
        check_vectors: bool = False,
    ) -> None:
        super().__init__(world, model)
        self._solver = solver or Solver()
        self._refresh_seconds, self._check_vectors = refresh_seconds, check_vectors
        self._refreshed = float("-inf")
        self._rounds = 0
        self._dirty: dict[int, None] = {}
        """Tasks to price again, in order of arrival."""

    # -- events ------------------------------------------------------------------------------------

    def add_machine(self, machine: Machine) -> None:
        """Add an empty machine.

        Raises:
            NetworkError: It is there already.
        """
        index = self.world.add_machine(machine)
        self._machine_node[index] = int(self.network.add_nodes(1)[0])
        self.model.add_machine(index, self._at(index))
        self._dirty.update(dict.fromkeys(self._tasks))

    def update_machine(self, name: str) -> None:
        """Note that a machine's labels, rack, taints or size were changed in the `FlowWorld`.

        The model is notified as if the machine had left and joined, for models that keep data by labels or rack.

        Raises:
            NetworkError: It is unknown.
        """
        machine, index = self.world.machine(name), self.world.machine_index[name]
        self.model.remove_machine(index, machine)
        self.model.add_machine(index, machine)
        self._dirty.update(dict.fromkeys(self._tasks))

    def remove_machine(self, name: str, *, fail_tasks: bool = False) -> tuple[int, ...]:
        """Remove a machine; its tasks wait again, or are removed with `fail_tasks`. Return them.

        Raises:
            NetworkError: It is unknown.
        """
        machine = self.world.machine(name)
        index = self.world.machine_index[name]
        tasks = tuple(machine.tasks)
        for task in tasks:
            self.evict(task, self._refreshed if self._refreshed > 0 else 0.0)
        self.network.remove_nodes([self._machine_node.pop(index)])
        self.world.machines[index] = None
        del self.world.machine_index[name]
        self.model.remove_machine(index, machine)
        if fail_tasks:
            for task in tasks:
                self.remove(task)
        self._dirty.update(dict.fromkeys(self._tasks))
        return tasks

    def submit(self, task: Task, now: float) -> None:
        """Add a task, which waits.

        Raises:
            NetworkError: Its number is in use.
        """
        if task.id in self.world.tasks:
            raise NetworkError([Problem(f"task {task.id}", "was submitted already")])
        task.machine, task.submitted, task.waiting_since = None, now, now
        self.world.tasks[task.id] = task
        self.model.add_task(task)
        self._enter(task)

    def complete(self, task_id: int, now: float) -> Task:
        """Remove a task that has ended, successfully or not, and free its slot. Return it.

        Raises:
            NetworkError: It is unknown.
        """
        task = self._task(task_id)
        if task.machine is not None:
            task.ran = task.run_seconds(now)
            self.model.statistics.add_report(task.binary, FinalReport(task.ran))
        return self.remove(task_id)

    def remove(self, task_id: int) -> Task:
        """Forget a task in whatever state it is.

        Raises:
            NetworkError: It is unknown.
        """
        task = self._task(task_id)
        self._leave_machine(task)
        self._leave(task)
        del self.world.tasks[task_id]
        self.model.remove_task(task)
        return task

    def place(self, task_id: int, machine: str, now: float) -> None:
        """Record that a task runs on a machine (a decision carried out, or found at start).

        Raises:
            NetworkError: The task or the machine is unknown.
        """
        task, host = self._task(task_id), self.world.machine(machine)
        task.waited = task.waiting_seconds(now)
        self._leave_machine(task)
        task.machine, task.started = machine, now
        host.tasks[task_id] = task
        host.used = host.used + task.request
        if self.world.preemption:
            self._dirty[task_id] = None
        else:
            self._leave(task)

    def evict(self, task_id: int, now: float) -> None:
        """Record that a running task waits again.

        Raises:
            NetworkError: It is unknown.
        """
        task = self._task(task_id)
        if task.machine is None:
            return
        task.ran = task.run_seconds(now)
        self._leave_machine(task)
        task.waiting_since = now
        self._enter(task)

    def change_request(self, task_id: int, request: Vector) -> None:
        """Replace a task's request; a running task's machine is charged the difference.

        Raises:
            NetworkError: It is unknown.
        """
        task = self._task(task_id)
        if task.machine is not None:
            host = self.world.machine(task.machine)
            host.used = host.used - task.request + request
        task.request = request
        self.reprice([task_id])

    def reprice(self, task_ids: Iterable[int]) -> None:
        """Have the model price these tasks again in the next round."""
        self._dirty.update((task, None) for task in task_ids if task in self._tasks)

    # -- a round -----------------------------------------------------------------------------------

    def round(self, now: float, *, apply: bool = True) -> RoundDecision:
        """Find the best placement for the current tasks and machines.

        Args:
            now: Seconds; waiting and running times are counted up to it.
            apply: Carry the decisions out in the `FlowWorld`; False leaves that to `place` and `evict`.
        """
        if now - self._refreshed >= self._refresh_seconds:
            self._dirty.update(dict.fromkeys(self._tasks))
            self._refreshed = now
        self._rounds += 1
        changed = self.refresh(now)
        if self._rounds % PURGE_ROUNDS == 0:
            self.purge_classes()
        solution, targets = self._solve_and_read()
        dropped: set[int] = set()
        while True:
            late = self._overflow(targets)
            late |= gangs.short_of_minimum(self.world, targets)
            late -= dropped
            if not late:
                break
            dropped |= late
            self._hold_back(late, now)
            solution, targets = self._solve_and_read()
        self._dirty.update(dict.fromkeys(sorted(dropped)))
        found = self._deltas(targets)
        unscheduled = tuple(t for t in self._tasks if t not in targets)
        if apply:
            self.apply(found, now)
        return RoundDecision(found, unscheduled, solution, changed)

    def apply(self, deltas: Sequence[Delta], now: float) -> tuple[Delta, ...]:
        """Apply decisions, except those that events have made void; return the applied ones."""
        done = []
        for delta in deltas:
            if delta.task not in self.world.tasks or delta.machine not in self.world.machine_index:
                continue
            if delta.type is DeltaType.PREEMPT:
                self.evict(delta.task, now)
            elif delta.type is not DeltaType.NOOP:
                self.place(delta.task, delta.machine, now)
            done.append(delta)
        return tuple(done)

    def refresh(self, now: float) -> int:
        """Update the network to the arcs that the model returns now; return the number of arcs changed."""
        dirty = list(self._dirty)
        changed = self._refresh_tasks([self.world.tasks[task] for task in dirty if task in self._tasks], now)
        changed += self._refresh_classes()
        changed += self._refresh_machines()
        changed += self._refresh_jobs()
        self.network.set_supply([self._sink], -len(self._tasks))
        self._dirty.clear()  # only now, so that after an invalid price all are priced again
        return changed

    # -- parts -------------------------------------------------------------------------------------

    def _solve_and_read(self) -> tuple[Solution, dict[int, str]]:
        solution = self._solver.solve(self.network)
        if solution.outcome is not SolveStatus.OPTIMAL:
            raise NetworkError([Problem("round", f"is {solution.outcome.value}; no decision was made")])
        hosts = self._machine_node
        tasks, nodes, homes = self._tasks.units()
        index_at = np.full(self.network.node_count, -1, np.int64)
        index_at[np.fromiter(hosts.values(), np.int64, len(hosts))] = np.fromiter(hosts, np.int64, len(hosts))
        ends = assign(self.network, nodes, homes, index_at >= 0)
        placed = np.flatnonzero(ends >= 0)
        indices = index_at[ends[placed]].tolist()
        return solution, {tasks[i]: self._at(at).id for i, at in zip(placed.tolist(), indices, strict=True)}

    def _deltas(self, targets: dict[int, str]) -> tuple[Delta, ...]:
        evictions, moves, places = [], [], []
        for task_id in self._tasks if self.world.preemption else targets:
            old, new = self.world.tasks[task_id].machine, targets.get(task_id)
            if old is not None and new is None:
                evictions.append(Delta(DeltaType.PREEMPT, task_id, old))
            elif new is not None and old is None:
                places.append(Delta(DeltaType.PLACE, task_id, new))
            elif new is not None and old != new:
                moves.append(Delta(DeltaType.MIGRATE, task_id, new))
        return (*evictions, *moves, *places)

    def _overflow(self, targets: dict[int, str]) -> set[int]:
        """Find new placements that break a rule about neighbours, or exceed a machine by the real requests."""
        room: dict[str, Vector] = {}
        late = set()
        fresh = [self.world.tasks[t] for t, name in targets.items() if self.world.tasks[t].machine != name]
        if self._check_vectors and self.world.preemption:
            for task in map(self.world.tasks.__getitem__, self._tasks):
                if task.machine is not None and targets.get(task.id) != task.machine:  # it leaves, which frees its room
                    left = room.get(task.machine)
                    room[task.machine] = (
                        self.world.machine(task.machine).available if left is None else left
                    ) + task.request
        arrivals = rules.RoundPlacements(self.world, fresh)
        for task in sorted(fresh, key=lambda task: -task.priority):
            name = targets[task.id]
            machine = self.world.machine(name)
            if not arrivals.admit(task, machine):
                late.add(task.id)
            elif self._check_vectors:
                left = room.get(name)
                left = machine.available if left is None else left
                if task.request.fits(left):
                    room[name] = left - task.request
                else:
                    late.add(task.id)
        return late

    def _hold_back(self, tasks: set[int], now: float) -> None:
        """Leave tasks only the arcs to wait and, if running, to stay, so that the next solve places others instead."""
        held = [self.world.tasks[t] for t in sorted(tasks)]
        none = np.zeros(0, np.int64)
        self._settle(held, self._homes_of(held), (none, none, none), np.zeros(len(held), np.int64), now)

    def _enter(self, task: Task) -> None:
        if task.id not in self._tasks:
            self._tasks.enter(task.id)
            if task.job not in self._job_node:
                self._job_node[task.job] = int(self.network.add_nodes(1)[0])
            self._job_size[task.job] = self._job_size.get(task.job, 0) + 1
        self._dirty[task.id] = None

    def _leave(self, task: Task) -> None:
        if self._tasks.leave(task.id):
            self._job_size[task.job] -= 1

    def _leave_machine(self, task: Task) -> None:
        if task.machine is not None:
            host = self.world.machine(task.machine)
            host.tasks.pop(task.id, None)
            host.used = host.used - task.request
            task.machine = None

    def _task(self, task_id: int) -> Task:
        task = self.world.tasks.get(task_id)
        if task is None:
            raise NetworkError([Problem(f"task {task_id}", "is unknown; it was never submitted or is gone")])
        return task


def warm_up() -> None:
    """Compile or load the kernels before the first request: on a new machine that takes most of a minute."""
    for solver in (Solver(), *(Solver((kernel,)) for kernel in Kernel)):
        world = FlowWorld()
        engine = FlowScheduler(world, Trivial(world, Random(0)), solver)
        for name in ("a", "b"):
            engine.add_machine(Machine(name, slots=2))
        for now in range(3):
            for number in range(3):
                engine.submit(Task(3 * now + number, "warm-up"), float(now))
            engine.round(float(now))
