"""How long pods run that say so themselves, and how long they are expected to."""

from __future__ import annotations

from collections.abc import Callable

from strato.node.hollow.runplan import certain_seconds
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task

RunSeconds = Callable[[World, Task], float | None]
"""Returns how long a pod runs from its start, None when nobody knows."""


def known_seconds(task: Task) -> float | None:
    """Return how long a pod runs that says so itself, as pods of hollow nodes do."""
    return certain_seconds(task.pod.metadata.annotations)


def expected_seconds(default: float | None = None) -> RunSeconds:
    """Return what knows run times: annotations and deadlines of pods, what their like took, else a default."""

    def seconds(world: World, task: Task) -> float | None:
        known = known_seconds(task)
        if known is None:
            known = world.runtimes.expected_seconds(task)
        return known if known is not None else default

    return seconds
