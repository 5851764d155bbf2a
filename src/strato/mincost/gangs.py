"""Gangs in a flow: which placements to take back because their job falls short of its minimum.

Flow cannot say "all or none". A round is therefore solved, the gang that is furthest below its minimum is
held back, and the rest re-optimised warm, until every placed gang is whole.
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
    if not world.preemption:  # placed tasks are out of the network, but count
        for task in world.tasks.values():
            if task.machine is not None and task.job in minimum and task.id not in targets:
                placed[task.job] += 1
    short = [(least - placed[job], -priority, job) for job, (least, priority) in minimum.items() if placed[job] < least]
    return set(members[max(short)[2]]) if short else set()
