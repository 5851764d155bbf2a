"""`NodeTable`: nodes as rows of int64 columns, with a journal of the rows that changed.

Whoever caches results per task class over all nodes also keeps the journal position they are current with; an update
then only looks at the rows written since (`NodeTable.written`). Cost follows touched rows, not nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.api.core import Node
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ABSENT, NODE_MOVES, UNCHARGED, NodeCharge
from strato.scheduler.model.resources import PODS, Dimensions, Vector, fit_width
from strato.scheduler.model.tasks import TaskClass

Rows = npt.NDArray[np.int64]
"""Row numbers."""
Mask = npt.NDArray[np.bool_]

JOURNAL_SIZE = 1 << 16
"""Entries the journal keeps; a reader that is further behind has to look at every row."""
NEVER = -JOURNAL_SIZE
"""Position of a reader that has not read the journal yet."""


class Columns(NamedTuple):
    """The arrays of a `NodeTable` that the kernels take, under the same names."""

    allocatable: Vector
    idle: Vector
    releasing: Vector
    pipelined: Vector
    requested: Vector
    scored: Vector
    pods: Vector
    journal: npt.NDArray[np.int32]
    cursor: Vector


class NodeTable:
    """All nodes, one row each. A row number stays a node's for its life and may then be used again.

    Attributes:
        dims: The resources, one column each.
        names: Per row, the node's name.
        row_of: By node name, its row.
        object_clock: Grows when a node object changes in something that filters read.
        journal: int32, the rows that were written last, in order.
        cursor: int64[1], how many entries the journal has had.
        allocatable, idle, releasing, pipelined: int64[rows, width]. ``idle`` = allocatable minus what pods hold, and
            may be negative; ``idle + releasing - pipelined`` is what will be free (spec scheduler-core 6).
        requested: int64[rows, width], requests of the pods that scoring counts on the node: all but the leaving ones.
        scored: int64[rows, 2], the same for cpu and memory with Kubernetes' defaults for empty requests.
        pods: int64[rows], number of those pods.
        present: bool[rows], the node object is known.
        tasks: Per row, the tasks on it by key.
        facts: Per row, the node object (None when unknown).
        tainted: bool[rows], the node is cordoned or has taints.
        images: By image name, the rows that have it and its size in bytes.
        leaving: Number of leaving tasks on known nodes.
        rebuilds: How often `rebuild` ran.
        changed_at: int64[rows], value of ``object_clock`` at the last change of the node object that filters read.
    """

    def __init__(self, dims: Dimensions, rows: int = 64) -> None:
        self.dims = dims
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.facts: list[Node | None] = []
        self.tasks: list[dict[str, Task]] = []
        self.object_clock = 0
        self.leaving = 0
        self.rebuilds = 0
        self.images: dict[str, dict[int, int]] = {}
        self._free: list[int] = []
        self._later: list[tuple[int, TaskClass, NodeCharge]] | None = None
        self.journal = np.zeros(JOURNAL_SIZE, np.int32)
        self.cursor = np.zeros(1, np.int64)
        self._total: Vector | None = None
        self._allocate(rows, dims.width)

    def _allocate(self, rows: int, width: int) -> None:
        self.allocatable: Vector = np.zeros((rows, width), np.int64)
        self.idle: Vector = np.zeros((rows, width), np.int64)
        self.releasing: Vector = np.zeros((rows, width), np.int64)
        self.pipelined: Vector = np.zeros((rows, width), np.int64)
        self.requested: Vector = np.zeros((rows, width), np.int64)
        self.scored: Vector = np.zeros((rows, 2), np.int64)
        self.pods: Vector = np.zeros(rows, np.int64)
        self.present: Mask = np.zeros(rows, np.bool_)
        self.changed_at: Vector = np.zeros(rows, np.int64)
        self.tainted: Mask = np.zeros(rows, np.bool_)

    @property
    def size(self) -> int:
        """Rows in use or used before; every array is at least this long."""
        return len(self.names)

    @property
    def capacity(self) -> int:
        """Rows the arrays hold."""
        return len(self.present)

    @property
    def columns(self) -> Columns:
        """What the kernels that place tasks read and charge."""
        return Columns(
            self.allocatable,
            self.idle,
            self.releasing,
            self.pipelined,
            self.requested,
            self.scored,
            self.pods,
            self.journal,
            self.cursor,
        )

    def column(self, name: str) -> int:
        """Return the column of a resource."""
        return self.dims.column(name)

    @property
    def total(self) -> Vector:
        """Σ allocatable of all nodes; not to be written into."""
        if self._total is None:
            self._total = self.allocatable[: self.size].sum(axis=0)
            self._total.flags.writeable = False
        return self._total

    @property
    def future_idle(self) -> Vector:
        """What will be idle once leaving pods are gone and pipelined ones placed: int64[rows, width]."""
        return self.idle + self.releasing - self.pipelined

    def row(self, name: str) -> int:
        """Return the row of a node; a new name gets a row without a node object."""
        row = self.row_of.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            if row >= self.capacity:
                self._grow_rows()
            self.names.append(name)
            self.facts.append(None)
            self.tasks.append({})
        self.row_of[name] = row
        return row

    def _grow_rows(self) -> None:
        old = self.capacity
        columns = ("allocatable", "idle", "releasing", "pipelined", "requested", "scored", "pods", "present")
        for name in (*columns, "changed_at", "tainted"):
            array = getattr(self, name)
            grown = np.zeros((old * 2, *array.shape[1:]), array.dtype)
            grown[:old] = array
            setattr(self, name, grown)

    def grow_width(self) -> None:
        """Lengthen every row after dimensions were added."""
        width, self._total = self.dims.width, None
        for name in ("allocatable", "idle", "releasing", "pipelined", "requested"):
            setattr(self, name, np.ascontiguousarray(fit_width(getattr(self, name), width)))

    def set_node(self, node: Node, allocatable: Mapping[int, int]) -> int:
        """Take a node object: add the node, or update it (its vectors are recomputed from its tasks)."""
        row = self.row(node.metadata.name)
        vector = self.dims.vector(allocatable)
        if self.allocatable.shape[1] < self.dims.width:
            self.grow_width()
        known = bool(self.present[row])
        if not known or (self.allocatable[row] != vector).any():
            self.present[row] = True
            self._take_allocatable(row, vector)
        old = self.facts[row]
        self.facts[row] = node
        self.tainted[row] = node.spec.unschedulable or bool(node.spec.taints)
        if (old.status.images if old is not None else ()) != node.status.images:
            self._index_images(row, old, node)
        if old is None or not known or filters_differ(old, node):
            self.object_clock += 1
            self.changed_at[row] = self.object_clock
        return row

    def mark_changed(self, names: Iterable[str]) -> None:
        """Have filters and static scores judge nodes again although their objects are unchanged."""
        rows = [self.row_of[name] for name in names if name in self.row_of]
        if rows:
            self.object_clock += 1
            self.changed_at[rows] = self.object_clock

    def remove_node(self, name: str) -> None:
        """Forget a node object; its row is reused once no task is on it."""
        row = self.row_of.get(name)
        if row is None:
            return
        self.present[row] = False
        self._index_images(row, self.facts[row], None)
        self.facts[row] = None
        self._take_allocatable(row, self.dims.zeros())
        self.object_clock += 1
        self.changed_at[row] = self.object_clock
        if not self.tasks[row]:
            self._release_row(row)

    def _take_allocatable(self, row: int, vector: Vector) -> None:
        self.allocatable[row], self._total = vector, None
        self.leaving -= int(self.releasing[row, PODS])
        self.repair(row)
        self.leaving += int(self.releasing[row, PODS])
        self.touch(row)

    def _index_images(self, row: int, old: Node | None, new: Node | None) -> None:
        for image in old.status.images if old is not None else ():
            for name in image.names:
                rows = self.images.get(name)
                if rows is not None:
                    rows.pop(row, None)
                    if not rows:
                        del self.images[name]
        for image in new.status.images if new is not None else ():
            for name in image.names:
                self.images.setdefault(name, {})[row] = image.size_bytes

    def _release_row(self, row: int) -> None:
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._free.append(row)

    def repair(self, row: int) -> bool:
        """Recompute a row's sums from its tasks; return whether any was wrong."""
        arrays = (self.idle, self.releasing, self.pipelined, self.requested, self.scored, self.pods)
        before = [array[row].copy() for array in arrays]
        for array in arrays:
            array[row] = 0
        self.idle[row] = self.allocatable[row]
        for task in self.tasks[row].values() if self.present[row] else ():
            self._add(row, task.cls, NODE_MOVES[ABSENT][task.status])
        return any((old != array[row]).any() for old, array in zip(before, arrays, strict=True))

    def repair_leaving(self) -> bool:
        """Recount the leaving tasks from the rows; return whether their number was wrong."""
        before, self.leaving = self.leaving, int(self.releasing[: self.size, PODS].sum())
        return before != self.leaving

    def rebuild(self) -> None:
        """Recompute every column from the tasks, after an exception may have interrupted a change."""
        self.rebuilds += 1
        for row in range(self.size):
            self.tasks[row] = {key: task for key, task in self.tasks[row].items() if task.row == row}
            self.repair(row)
            self.touch(row)
        self.repair_leaving()

    def touch(self, row: int) -> None:
        """Note that a row's columns changed."""
        position = int(self.cursor[0])
        self.journal[position % JOURNAL_SIZE] = row
        self.cursor[0] = position + 1

    def charge(self, row: int, cls: TaskClass, by: NodeCharge) -> None:
        """Charge a row for one task."""
        self._add(row, cls, by)
        self.leaving += by.releasing
        self.touch(row)

    def _add(self, row: int, cls: TaskClass, by: NodeCharge) -> None:
        request = cls.request
        for array, amount, factor in (
            (self.idle, request, by.idle),
            (self.releasing, request, by.releasing),
            (self.pipelined, request, by.pipelined),
            (self.requested, request, by.requested),
            (self.scored, cls.scored_request, by.requested),
        ):
            if factor:
                line = array[row]  # a view, so that adding in place needs no second look-up
                if factor > 0:
                    line += amount
                else:
                    line -= amount
        self.pods[row] += by.requested

    def take(self, row: int, task: Task, by: NodeCharge) -> None:
        """Charge a row for a task and put it among the row's tasks, before the statement sets its status.

        Filters that look at pods then count it for the next task.
        """
        self.charge(row, task.cls, by)
        self.tasks[row][task.key] = task

    def charge_all(self, rows: Sequence[int], cls: TaskClass, by: NodeCharge) -> None:
        """Charge known rows for equal tasks, one for each entry."""
        at: Rows = np.array(rows, np.int64)
        self._charge_all(at[self.present[at]], cls.request, cls.scored_request, by)

    def _charge_all(self, rows: Rows, requests: Vector, scored: Vector, by: NodeCharge) -> None:
        """Charge rows, which may recur, for one task each; ``requests`` is one row for all tasks or one for each."""
        for array, factor in zip((self.idle, self.releasing, self.pipelined, self.requested), by, strict=True):
            if factor:
                np.add.at(array, rows, requests if factor > 0 else -requests)
        if by.requested:
            np.add.at(self.scored, rows, scored if by.requested > 0 else -scored)
            np.add.at(self.pods, rows, by.requested)
        self.leaving += by.releasing * len(rows)
        for row in np.unique(rows).tolist():
            self.touch(row)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Charge rows for the tasks that are moved in the context at once at its end, for a third of the cost.

        The columns must not be read before that.
        """
        self._later = []
        try:
            yield
        finally:
            later, self._later = self._later, None
            for by in dict.fromkeys(by for _, _, by in later):
                some = [(row, cls) for row, cls, charge in later if charge == by]
                requests, scored = [cls.request for _, cls in some], [cls.scored_request for _, cls in some]
                self._charge_all(np.array([row for row, _ in some]), np.array(requests), np.array(scored), by)

    def restate(self, row: int, task: Task, old: int, status: int) -> None:
        """Change the status by which a row is charged for a task; `ABSENT` as old or new status adds or removes it."""
        by = NODE_MOVES[old][status]
        if by is UNCHARGED.node:
            return
        here = self.tasks[row]
        if status != ABSENT:
            here[task.key] = task  # keeps its position in the dict, so that an undone move keeps the order of victims
        elif here.pop(task.key, None) is None:
            return
        if not self.present[row]:
            if not here:
                self._release_row(row)
        elif self._later is not None:
            self._later.append((row, task.cls, by))
        else:
            self.charge(row, task.cls, by)

    def future_idle_of(self, rows: int | npt.NDArray[np.int64]) -> Vector:
        """Return `future_idle` of one row as int64[width], or of an array of rows as int64[rows, width]."""
        amounts: Vector = self.idle[rows] + self.releasing[rows] - self.pipelined[rows]
        return amounts

    def free(self, row: int) -> list[int]:
        """Return `future_idle_of` one row as Python integers."""
        amounts: list[int] = self.future_idle_of(row).tolist()
        return amounts

    def written(self, since: int) -> Collection[int] | None:
        """Return the rows written since a journal position; None when the journal does not reach back that far.

        It never reaches back to `NEVER`.
        """
        now = int(self.cursor[0])
        if now - since >= JOURNAL_SIZE:
            return None
        first, end = since % JOURNAL_SIZE, now % JOURNAL_SIZE
        if first <= end:
            return set(self.journal[first:end].tolist())
        return {*self.journal[first:].tolist(), *self.journal[:end].tolist()}

    def pods_limit(self) -> npt.NDArray[np.int64]:
        """Return how many pods each row may hold."""
        return self.allocatable[: self.size, PODS]


def filters_differ(old: Node, new: Node) -> bool:
    """Whether two versions of a node differ in anything that filters or static scores read."""
    if old.spec is not new.spec and old.spec != new.spec:
        return True
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        return True
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        return True
    return old.status.images != new.status.images or old.status.allocatable != new.status.allocatable
