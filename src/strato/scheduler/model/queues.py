"""Queues, with the sums over their jobs."""

from __future__ import annotations

from strato.api.volcano.scheduling import Queue as QueueView
from strato.scheduler.model.resources import Dimensions


class Queue:
    """A queue and the sums over its jobs.

    Attributes:
        name: Its name.
        view: The Queue object; None while it is unknown (jobs of an unknown queue are not scheduled).
        jobs: Keys of the jobs that name it, with a PodGroup (or solo).
        used, pending_request, inqueue, elastic: Sums over its jobs; the last two are current after `World.settle`.
        capability, deserved, guarantee: ``column -> amount`` as declared.
    """

    __slots__ = (
        "capability",
        "deserved",
        "elastic",
        "guarantee",
        "inqueue",
        "jobs",
        "name",
        "pending_request",
        "used",
        "view",
    )

    def __init__(self, name: str, dims: Dimensions) -> None:
        self.name = name
        self.view: QueueView | None = None
        self.jobs: dict[str, None] = {}
        self.used = dims.zeros()
        self.pending_request = dims.zeros()
        self.inqueue = dims.zeros()
        self.elastic = dims.zeros()
        self.capability: dict[int, int] = {}
        self.deserved: dict[int, int] = {}
        self.guarantee: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Queue({self.name}, {len(self.jobs)} jobs)"

    @property
    def weight(self) -> int:
        """Share weight."""
        return self.view.spec.weight if self.view is not None else 1

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self.view.spec.priority if self.view is not None else 0

    @property
    def parent(self) -> str:
        """Parent queue's name, empty when not given."""
        return self.view.spec.parent if self.view is not None else ""

    @property
    def is_open(self) -> bool:
        """Whether it takes new jobs; a queue whose state no controller has set yet does."""
        return self.view is not None and self.view.status.state in ("", "Open")

    @property
    def state(self) -> str:
        """State as written in its status."""
        return self.view.status.state if self.view is not None else ""

    @property
    def reclaimable(self) -> bool:
        """Whether what it borrowed may be reclaimed; not from an unknown queue."""
        return self.view is not None and self.view.spec.reclaimable is not False

    @property
    def created(self) -> str:
        """Creation time, RFC 3339."""
        return (self.view.metadata.creation_timestamp or "") if self.view is not None else ""

    @property
    def uid(self) -> str:
        """Identity."""
        return self.view.metadata.uid if self.view is not None else ""
