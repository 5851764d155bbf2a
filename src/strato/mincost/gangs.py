"""Gangs in a flow: which placements to undo because their job stays below its minimum.

A flow cannot express "all or none". A round therefore solves the network, holds back the gang that is furthest below
its minimum, and solves again from the last solution, until every placed gang is whole.
"""

from __future__ import annotations

from collections import Counter

from strato.mincost.world import FlowWorld


def short_of_minimum(world: FlowWorld, targets: dict[int, str]) -> set[int]:
    """Return the new placements of the gang that is furthest below its minimum; none when all are whole.

    Among gangs equally short the one of lowest priority goes first.
    """
    placed: Counter[str] = Counter()
    members: dict[str, list[int]] = {}
    minimum: dict[str, tuple[int, int]] = {}
    for task_id in targets:
        task = world.tasks[task_id]
        if task.gang_minimum > 0:
            placed[task.job] += 1
            members.setdefault(task.job, []).append(task_id)
            minimum[task.job] = (task.gang_minimum, task.priority)
    if not minimum:
        return set()
    if not world.preemption:  # placed tasks are not in the network, but count towards the minimum
        for task in world.tasks.values():
            if task.machine is not None and task.job in minimum and task.id not in targets:
                placed[task.job] += 1
    short = [(least - placed[job], -priority, job) for job, (least, priority) in minimum.items() if placed[job] < least]
    return set(members[max(short)[2]]) if short else set()
