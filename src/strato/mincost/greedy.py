"""Baselines for replays: schedulers that place one task at a time, without regard to the others."""

from __future__ import annotations

import random

from strato.mincost.graph import Delta, DeltaType, FlowScheduler, RoundDecision
from strato.mincost.models.void import Void
from strato.mincost.solver import Kernel, Solution, SolveStatus
from strato.mincost.world import FlowWorld


class Greedy(FlowScheduler):
    """Puts each waiting task, oldest first, on an idle slot: a random one, or the emptiest machine's.

    Args:
        world: Tasks and machines, empty at first.
        rng: Chooses among machines.
        spread: Take the machine with the fewest tasks instead of a random one with room.
    """

    def __init__(self, world: FlowWorld, rng: random.Random, *, spread: bool = False) -> None:
        super().__init__(world, Void(world, rng))
        self._rng, self._spread = rng, spread

    def round(self, now: float, *, apply: bool = True) -> RoundDecision:
        """Place what fits, one task after the other."""
        machines = [m for _, m in self.world.present()]
        waiting = [t for t in self.world.tasks.values() if t.machine is None]
        free = {m.id: m.free for m in machines if m.free}
        deltas = []
        for task in waiting:
            if not free:
                break
            if self._spread:
                most = max(free.values())
                name = self._rng.choice([m for m, room in free.items() if room == most])
            else:
                name = self._rng.choice(list(free))
            free[name] -= 1
            if not free[name]:
                del free[name]
            deltas.append(Delta(DeltaType.PLACE, task.id, name))
        if apply:
            self.apply(deltas, now)
        placed = {d.task for d in deltas}
        left = tuple(t.id for t in waiting if t.id not in placed)
        return RoundDecision(tuple(deltas), left, Solution(SolveStatus.OPTIMAL, 0, Kernel.PATHS), 0)
