"""Delay scheduling: a pod waits a while for nodes that it prefers before it takes others (spec yarn A7, B9).

A pod's preferred node affinity stands for the nodes that a YARN request would name; nodes with the same value of a
label form a rack. YARN counts a scheduling opportunity at each heartbeat of a node: here all nodes count once per
heartbeat interval that has passed, by the clock of the cycle. A pod waits from the cycle that first saw it; in the
first cycle after a restart of the scheduler, from its creation, so that pods do not wait a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

import numpy as np

from strato.api.core import NodeSelector
from strato.clock import parse_time
from strato.scheduler.cache.world import World
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Mask, Rows
from strato.scheduler.model.reasons import Reason

HEARTBEAT_MS: Final = 1000
"""Default interval of a node's heartbeats."""
RACK_LABEL: Final = "topology.kubernetes.io/zone"
"""Label of nodes whose value stands for YARN's rack, unless an argument names another."""


class Waited(NamedTuple):
    """How long a request has waited for its nodes."""

    seconds: float
    nodes: int
    """Number of nodes in the cluster."""
    named: int
    """Number of nodes and racks that the request names."""
    containers: int
    """Number of containers that it asks for."""


class Allowed(NamedTuple):
    """Where a request may be placed by now, besides the nodes that it names."""

    rack: bool
    """Whether on other nodes of their racks."""
    anywhere: bool


LocalityDelay = Callable[[Waited], Allowed]
"""Returns where a request may be placed after its wait."""

NO_WAIT: Final = Allowed(rack=True, anywhere=True)


class Locality:
    """Delay scheduling of one cycle.

    Args:
        plugin: Name of the plugin, for reasons.
        world: The scheduler's state.
        now: Seconds since the epoch.
        first_seen: When each pod was first seen, by UID; updated.
        is_restarted: Whether this is the first cycle, whose pods may have waited before the scheduler started.
        rack_label: Label of nodes that names their rack.
        delay: The rule on how long requests wait.
    """

    def __init__(
        self,
        plugin: str,
        world: World,
        now: float,
        first_seen: dict[str, float],
        rack_label: str,
        delay: LocalityDelay,
        *,
        is_restarted: bool,
    ) -> None:
        self._reason = Reason(plugin, "node(s) are not those that the pod prefers and still waits for", curable=False)
        self._world = world
        self._now = now
        self._first_seen = first_seen
        self._rack_label = rack_label
        self._locality_delay = delay
        self._is_restarted = is_restarted
        self._equal_pods: dict[tuple[str, int], int] = {}
        self._count = int(world.nodes.present[: world.nodes.size].sum())
        self._near: dict[int, tuple[Mask, Mask]] = {}

    def allowed(self, task: Task) -> Allowed:
        """Return where a task may be placed by now."""
        selector = _preferred(task)
        if selector is None:
            return NO_WAIT
        nodes, _ = self._nodes_near(task, selector)
        if not nodes.any():
            return NO_WAIT  # none of the preferred nodes exists
        named = int(nodes.sum()) + len({self._rack_of(row) for row in np.nonzero(nodes)[0].tolist()} - {""})
        return self._locality_delay(Waited(self._seconds(task), self._count, named, self._count_equal(task)))

    def facet(self, task: Task) -> Hashable:
        """Return the key by which `verdicts` are cached beside the task's class; None once it takes any node."""
        allowed = self.allowed(task)
        return None if allowed == NO_WAIT else (allowed, self._world.nodes.object_clock)

    def verdicts(self, task: Task, rows: Rows) -> Verdicts | None:
        """Reject the rows that a task does not take yet."""
        selector, allowed = _preferred(task), self.allowed(task)
        if selector is None or allowed == NO_WAIT:
            return None
        nodes, racks = self._nodes_near(task, selector)
        good = nodes | (racks if allowed.rack else False)
        if allowed.anywhere:
            good = good | ~racks
        return Verdicts.reject_where(~good[rows], self._reason)

    def _seconds(self, task: Task) -> float:
        """Return a pod's wait, since it was first seen or, in the first cycle, since its creation."""
        since = self._first_seen.get(task.uid)
        if since is None:
            created = task.pod.metadata.creation_timestamp
            since = parse_time(created) if created and self._is_restarted else self._now
            self._first_seen[task.uid] = since
        return max(0.0, self._now - since)

    def _count_equal(self, task: Task) -> int:
        """Return how many pods of the task's job and class were pending at the first call in this cycle."""
        job, number = task.job, task.cls.number
        if job is None:
            return 1
        if (job.key, number) not in self._equal_pods:
            self._equal_pods[job.key, number] = sum(one.cls.number == number for one in job.pending.values())
        return self._equal_pods[job.key, number]

    def _nodes_near(self, task: Task, selector: NodeSelector) -> tuple[Mask, Mask]:
        """Return the rows that a class prefers, and those of their racks."""
        found = self._near.get(task.cls.number)
        if found is None:
            nodes = self._world.labels.selected(selector)
            racks = nodes.copy()
            for rows in self._world.labels.rows_with(self._rack_label).values():
                if nodes[rows].any():
                    racks[rows] = True
            found = self._near[task.cls.number] = nodes, racks
        return found

    def _rack_of(self, row: int) -> str:
        node = self._world.nodes.facts[row]
        return node.metadata.label(self._rack_label) if node is not None else ""


def _preferred(task: Task) -> NodeSelector | None:
    """Return the nodes that a pod prefers; None when it prefers none."""
    affinity = task.cls.spec.affinity
    terms = affinity.node_affinity.preferred if affinity is not None and affinity.node_affinity is not None else ()
    wanted = tuple(term.preference for term in terms if term.weight > 0)
    return NodeSelector(node_selector_terms=wanted) if wanted else None
