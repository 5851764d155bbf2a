"""The tree of queues with their shares, as one cycle of the engine computes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strato.api.quantity import resource_text
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.plan import QueueStatus
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED_SET

ROOT = "root"


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A queue with its shares and its depth in the tree."""

    name: str
    depth: int
    """Levels below the root; queues of a cluster without hierarchy are on level 1."""
    state: str
    weight: int
    status: QueueStatus
    """What it holds, its descendants' included; what it deserves, where a plugin says so."""
    running: int
    """Jobs with pods on nodes."""
    waiting: int
    """Jobs with pods that wait."""

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "name": self.name,
            "depth": self.depth,
            "state": self.state,
            "weight": self.weight,
            "allocated": dict(self.status.allocated),
            "deserved": dict(self.status.deserved),
            "share": self.status.share if self.status.deserved else None,
            "overused": self.status.overused,
            "runningJobs": self.running,
            "waitingJobs": self.waiting,
        }

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        share = f"{self.status.share:.0%}" if self.status.deserved else "-"
        amounts = (_amounts(self.status.allocated), _amounts(self.status.deserved))
        jobs = (str(self.running), str(self.waiting))
        return ("  " * self.depth + self.name, self.state, str(self.weight), share, *amounts, *jobs)


HEADERS = ("QUEUE", "STATE", "WEIGHT", "SHARE", "ALLOCATED", "DESERVED", "RUNNING", "WAITING")


def queue_tree(copy: Copy) -> list[QueueShare]:
    """Decide one cycle on a copy and return its queues, each after its parent, siblings by name.

    A queue whose parents form a circle, or do not exist, counts as a child of the root.
    """
    outcome = copy.run(1)
    world, plan = outcome.world, outcome.plans[0]
    known = {name: queue for name, queue in world.queues.items() if queue.view is not None}
    statuses = {status.name: status for status in plan.queues}
    children: dict[str, list[str]] = {}
    for name in sorted(known):
        if name != ROOT:
            children.setdefault(_parent(name, known), []).append(name)

    found = []
    ahead = [(ROOT, 0)] if ROOT in known else [(name, 1) for name in reversed(children.get(ROOT, ()))]
    while ahead:
        name, depth = ahead.pop()
        ahead += [(child, depth + 1) for child in reversed(children.get(name, ()))]
        queue, jobs = known[name], world.jobs_of(known[name])
        waiting = sum(bool(job.pending) or job.is_waiting_for_queue for job in jobs)
        running = sum(any(job.counts[status] for status in ALLOCATED_SET) for job in jobs)
        status = statuses.get(name) or QueueStatus(name, {})
        found.append(QueueShare(name, depth, queue.state or "Open", queue.weight, status, running, waiting))
    return found


def _parent(name: str, known: Mapping[str, Queue]) -> str:
    """Return a queue's parent; the root if the chain of parents does not end at the root."""
    passed = {name}
    first = above = known[name].parent or ROOT
    while above != ROOT:
        if above in passed or above not in known:
            return ROOT
        passed.add(above)
        above = known[above].parent or ROOT
    return first


def _amounts(amounts: Mapping[str, str]) -> str:
    shown = {name: amount for name, amount in sorted(amounts.items()) if name != "pods"}
    return ",".join(f"{name}={resource_text(name, amount)}" for name, amount in shown.items()) or "-"
