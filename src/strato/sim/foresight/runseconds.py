"""`RunSeconds`: functions that return the run time of a pod, known from its annotations or expected from others."""

from __future__ import annotations

from collections.abc import Callable

from strato.node.hollow.runplan import certain_seconds
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task

RunSeconds = Callable[[World, Task], float | None]
"""Returns how long a pod runs from its start, None if that is not known."""


def known_seconds(task: Task) -> float | None:
    """Return the run time in a pod's annotations, as pods of hollow nodes have it; None if there is none."""
    return certain_seconds(task.pod.metadata.annotations)


def expected_seconds(default: float | None = None) -> RunSeconds:
    """Return a `RunSeconds` that takes a pod's annotations, else the scheduler's estimate, else a default.

    The estimate (`World.runtimes`) comes from the pod's deadline and from ended pods of the same kind.
    """

    def seconds(world: World, task: Task) -> float | None:
        known = known_seconds(task)
        if known is None:
            known = world.runtimes.expected_seconds(task)
        return known if known is not None else default

    return seconds
