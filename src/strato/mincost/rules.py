"""Hard rules about machines and neighbours, and the check that a round's own placements keep them.

A round's network only has the tasks that ran when it began. Whether its placements break rules about one another (two
tasks that must be apart, the first of a group that must be together) is checked afterwards: `RoundPlacements` admits
them one by one, and a task that breaks a rule waits for the next round.
"""

from __future__ import annotations

from strato.mincost.world import Beside, FlowWorld, Machine, Task


def is_allowed(task: Task, machine: Machine, near: tuple[Beside, ...]) -> bool:
    """Tell whether a machine meets the hard rules: selectors, affinity (`near` of it), anti-affinity, taints."""
    if not all(s.matches(machine.labels) for s in task.selectors):
        return False
    if task.one_of and not any(all(s.matches(machine.labels) for s in term) for term in task.one_of):
        return False
    residents = machine.tasks.values()
    if not all(any(beside.matches(r) for r in residents) for beside in near):
        return False
    if any(are_apart(task, resident) for resident in residents):
        return False
    hard = [t for t in machine.taints if t.effect in {"NoSchedule", "NoExecute"}]
    return all(any(x.tolerates(t) for x in task.tolerations) for t in hard)


def are_apart(one: Task, other: Task) -> bool:
    """Tell whether either of two tasks repels the other."""
    return any(beside.matches(other) for beside in one.apart) or any(beside.matches(one) for beside in other.apart)


def binding(task: Task, world: FlowWorld) -> tuple[Beside, ...]:
    """Return the conditions on neighbours that apply; for the first of a group, not those it meets itself."""
    return tuple(
        beside
        for beside in task.near
        if not beside.matches(task)
        or any(beside.matches(t) for t in world.tasks.values() if t.machine is not None and t.id != task.id)
    )


class RoundPlacements:
    """Placements of one round, checked against one another."""

    def __init__(self, world: FlowWorld, placed: list[Task]) -> None:
        self._world = world
        self._matter = any(task.near or task.apart for task in placed)
        self._at: dict[str, list[Task]] = {}

    def admit(self, task: Task, machine: Machine) -> bool:
        """Admit a placement; return False if an earlier one excludes it."""
        if not self._matter:
            return True
        here = self._at.setdefault(machine.id, [])
        if any(are_apart(task, other) for other in here):
            return False
        for beside in task.near:
            if any(beside.matches(t) for t in (*machine.tasks.values(), *here)):
                continue
            if any(beside.matches(t) for others in self._at.values() for t in others):
                return False
        here.append(task)
        return True
