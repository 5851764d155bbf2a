"""Places kept for the successors of pods that the action `flow` moved.

A pod cannot move in Kubernetes: it is deleted and its owner makes a new one, which a scheduler can tell from other new
pods by its owner only. So a place is kept for a minute on the node where the successor is to run: other pods do not get
the room, and the first new pod of the same owner with the same request is placed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ABSENT, NODE_MOVES, PROMISED
from strato.scheduler.model.tasks import ALLOCATED, PIPELINED, TaskClass
from strato.scheduler.ordering.jobqueue import can_try

if TYPE_CHECKING:
    from strato.scheduler.session import Session

HOLD_SECONDS = 60.0
"""How long a place is kept: controllers replace a deleted pod within seconds, its grace period (30 s) included."""
REPLACING = frozenset(("ReplicaSet", "ReplicationController", "StatefulSet"))
"""Kinds of owners that replace a deleted pod without further consequences; a Job would count a failure."""
_MEMORY = "flow"


class Hold(NamedTuple):
    """Room on a node that is kept for one pod of an owner until a time, across sessions."""

    owner: str
    cls: TaskClass
    node: str
    until: float


class Holds:
    """The kept places in one session; charged to their nodes inside the context."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._kept: list[tuple[Hold, int]] = []

    def __enter__(self) -> Self:
        """Place pods on the places kept for them; charge the nodes for the other places."""
        ssn = self._ssn
        nodes = ssn.world.nodes
        for hold in ssn.world.plugin_state.pop(_MEMORY, ()):
            row = nodes.row_of.get(hold.node, -1)
            if hold.until > ssn.now and row >= 0 and nodes.present[row] and not self._hand_over(hold, row):
                self._keep(hold, row)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the charges and keep the places for the next session."""
        self._free(0)
        if self._kept:
            self._ssn.world.plugin_state[_MEMORY] = [hold for hold, _ in self._kept]

    def keep(self, task: Task, row: int) -> None:
        """Keep a place for the successor of a task."""
        owner = task.pod.metadata.controller
        assert owner is not None
        self._keep(Hold(owner.uid, task.cls, self._ssn.world.nodes.names[row], self._ssn.now + HOLD_SECONDS), row)

    def mark(self) -> int:
        """Return a point for `undo`."""
        return len(self._kept)

    def undo(self, mark: int) -> None:
        """Give up the places kept since a `mark`."""
        self._free(mark)
        del self._kept[mark:]

    def _keep(self, hold: Hold, row: int) -> None:
        nodes = self._ssn.world.nodes
        nodes.charge(row, hold.cls, PROMISED)
        self._kept.append((hold, nodes.rebuilds))

    def _free(self, mark: int) -> None:
        """Release charges, except for those that a rebuild of the columns after an error has removed already."""
        nodes = self._ssn.world.nodes
        for hold, charged in self._kept[mark:]:
            if charged == nodes.rebuilds:
                nodes.charge(nodes.row_of[hold.node], hold.cls, NODE_MOVES[PIPELINED][ABSENT])

    def _hand_over(self, hold: Hold, row: int) -> bool:
        """Place a pending pod of the owner with the same request on the row; return whether that worked."""
        ssn = self._ssn
        for job in list(ssn.world.with_pending.values()):
            queue = job.queue
            if queue is None or queue.view is None or job.is_waiting_for_queue:
                continue
            for task in list(job.pending.values()):
                owner = task.pod.metadata.controller
                if owner is None or owner.uid != hold.owner or task.gated:
                    continue
                if (task.cls.request != hold.cls.request).any() or ssn.pre_filter(task) is not None:
                    continue
                if not can_try(ssn, job) or not ssn.allocatable(queue, task):
                    continue
                stmt = ssn.statement()
                if ssn.placer.try_row(ssn, task, row, future=False):
                    stmt.placed((task,), (row,), ALLOCATED)
                    if ssn.job_ready(job):
                        stmt.commit()
                        return True
                stmt.discard()
        return False


def is_replaced(task: Task) -> bool:
    """Whether a pod's owner replaces it when it is deleted, without further consequences."""
    owner = task.pod.metadata.controller
    return owner is not None and owner.kind in REPLACING
