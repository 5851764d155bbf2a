"""Queues: their state (open, closing, closed), which depends on commands, their PodGroups and their parents.

`next_state` is the table of states; the controller reads caches and writes ``status.state``.

Source: volcano-controllers Part D.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from strato.api.meta import Key
from strato.api.volcano.bus import Command
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.informer import Change
from strato.client.retry import is_server_error
from strato.client.workqueue import WorkQueue, run_workers
from strato.controllers.commands import Commands
from strato.controllers.context import ControllerContext
from strato.errors import StratoError
from strato.metrics import Sample

ROOT: Final = "root"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
API_VERSION: Final = "scheduling.volcano.sh/v1beta1"

OPEN, CLOSED, CLOSING, UNKNOWN = "Open", "Closed", "Closing", "Unknown"
SYNC_QUEUE, OPEN_QUEUE, CLOSE_QUEUE = "SyncQueue", "OpenQueue", "CloseQueue"

PENDING: Final = "Pending"
_GROUP_PHASES = (PENDING, "Inqueue", "Running", "Unknown", "Completed")


class QueueError(StratoError):
    """A queue cannot be brought to the state that an action asks for."""


def next_state(state: str, action: str, groups: int) -> str:
    """Return the state that follows an action, given how many PodGroups use the queue.

    Raises:
        QueueError: The state is unknown.
    """
    drained = CLOSED if groups == 0 else CLOSING
    if state not in ("", OPEN, CLOSED, CLOSING, UNKNOWN):
        raise QueueError(f"queue state {state!r} is unknown; it is one of Open, Closed, Closing, Unknown")
    if action == OPEN_QUEUE:
        return OPEN
    if action == CLOSE_QUEUE:
        return CLOSED if state == CLOSED else drained
    if state == CLOSING:
        return drained
    return state or OPEN


class QueueController:
    """See the module."""

    name: ClassVar[str] = "queue-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._cluster = context.cluster
        self._recorder = context.recorder
        self._max_requeue = context.settings.max_requeue
        self._work: WorkQueue[str] = WorkQueue(context.clock)
        self._actions: defaultdict[str, deque[str]] = defaultdict(deque)
        self._failures: defaultdict[str, int] = defaultdict(int)
        self._groups: dict[str, dict[str, int]] = {}
        self._queues = context.informers.informer(Queue)
        self._queues.add_index("parent", lambda queue: (queue.spec.parent,))
        context.metrics.collect_gauges(self._samples)
        self._queues.add_handler(self._on_queue)
        context.informers.informer(PodGroup).add_batch_handler(self._on_groups)
        self._commands = Commands(context, API_VERSION, "Queue", self._ordered)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._work, self._reconcile, 2, name=self.name))
            group.create_task(self._commands.run(workers=1, name=f"{self.name} commands"))

    # Events

    def _ask(self, queue: str, action: str) -> None:
        actions = self._actions[queue]
        if not actions or actions[-1] != action:
            actions.append(action)
        self._work.add(queue)

    def _on_queue(self, change: Change[Queue]) -> None:
        name, old, new = change.key.name, change.old, change.new
        if new is None:
            self._groups.pop(name, None)
            self._actions.pop(name, None)
        elif (
            old is None
            or old.spec.parent != new.spec.parent
            or (old.status.state != CLOSING and new.status.state == CLOSING)  # closed at once if it has no groups
        ):
            self._ask(name, SYNC_QUEUE)

    def _on_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Count the groups of each queue by phase; sync the queues whose state may depend on the number."""
        touched: dict[str, None] = {}
        for old, new in changes:
            if old is not None:
                if (
                    new is not None
                    and old.status.phase == new.status.phase
                    and (old.spec is new.spec or old.spec.queue == new.spec.queue)
                ):
                    continue
                self._count(old, -1, touched)
            if new is not None:
                self._count(new, 1, touched)
        for name in touched:
            if not self._is_unaffected(name):
                self._ask(name, SYNC_QUEUE)

    def _count(self, group: PodGroup, number: int, touched: dict[str, None]) -> None:
        queue, phase = group.spec.queue, group.status.phase or PENDING
        phases = self._groups.get(queue)
        if phases is None:
            phases = self._groups[queue] = dict.fromkeys(_GROUP_PHASES, 0)
        phases[phase] = phases.get(phase, 0) + number
        touched[queue] = None

    def _is_unaffected(self, name: str) -> bool:
        """Return whether the number of groups cannot change a queue's state: the queue is open, and so is its parent.

        Thousands of groups may be created and deleted in a second, and very few of them change their queue's state.
        """
        queue = self._queues.get(("", name))
        if queue is None or queue.status.state != OPEN or self._actions.get(name):
            return False
        if name == ROOT:
            return True
        parent = self._queues.get(("", queue.spec.parent)) if queue.spec.parent else None
        return parent is not None and parent.status.state not in (CLOSED, CLOSING)

    def _samples(self) -> Iterable[Sample]:
        for queue in self._queues.list():
            name = queue.metadata.name
            phases = self._groups.get(name, {})
            for phase in _GROUP_PHASES:
                metric = f"volcano_queue_pod_group_{phase.lower()}_count"
                yield Sample(metric, {"queue_name": name}, phases.get(phase, 0))

    def _ordered(self, command: Command) -> None:
        assert command.target is not None
        self._ask(command.target.name, command.action)

    # Work

    async def _reconcile(self, name: str) -> float | None:
        actions = self._actions.get(name)
        while actions:
            action = actions[0]
            queue = self._queues.get(Key("", name))
            if queue is None:
                actions.clear()
                return None
            try:
                await self._act(queue, action)
            except StratoError as error:
                if is_server_error(error):
                    raise  # retried without limit, so that an outage of the API server does not drop an action
                self._failures[name] += 1
                if 0 <= self._max_requeue < self._failures[name]:
                    self._recorder.event(queue, "Warning", action, f"{action} of queue {name} failed: {error}")
                    self._failures.pop(name)
                    actions.popleft()
                    continue
                raise
            self._failures.pop(name, None)
            if actions:
                actions.popleft()
        return None

    async def _act(self, queue: Queue, action: str) -> None:
        state = queue.status.state
        next_state(state, action, 0)  # raises QueueError for an unknown state
        # the state of an open queue was written, but the annotation was not removed
        unfinished = queue.metadata.annotation(CLOSED_BY_PARENT) == "true"
        if action == OPEN_QUEUE and (state not in ("", OPEN) or unfinished):
            await self._open(queue)
        elif action == CLOSE_QUEUE and state not in (CLOSED, CLOSING):
            await self._close(queue)
        else:
            await self._sync(queue)

    def group_count(self, name: str) -> int:
        """Return how many PodGroups use a queue."""
        return sum(self._groups.get(name, {}).values())

    async def _sync(self, queue: Queue) -> None:
        name = queue.metadata.name
        if not queue.spec.parent and name != ROOT:
            queue = await self._cluster.patch(Queue, name, "", {"spec": {"parent": ROOT}})
        await self._set_state(queue, next_state(queue.status.state, SYNC_QUEUE, self.group_count(name)))
        if name != ROOT:
            await self._follow_parent(queue)

    async def _follow_parent(self, queue: Queue) -> None:
        name = queue.metadata.name
        parent = self._queues.get(Key("", queue.spec.parent or ROOT))
        if parent is None:
            raise QueueError(f"parent queue {queue.spec.parent!r} of queue {name} is not found")
        down = parent.status.state in (CLOSED, CLOSING)
        if down and queue.status.state not in (CLOSED, CLOSING):
            await self._annotate(name, closed_by_parent=True)
            self._ask(name, CLOSE_QUEUE)
        elif (
            parent.status.state == OPEN
            and queue.status.state in (CLOSED, CLOSING)
            and queue.metadata.annotation(CLOSED_BY_PARENT) == "true"
        ):
            self._ask(name, OPEN_QUEUE)

    async def _open(self, queue: Queue) -> None:
        name = queue.metadata.name
        parent = queue.spec.parent
        if parent and parent != ROOT:
            above = self._queues.get(Key("", parent))
            if above is not None and above.status.state in (CLOSED, CLOSING):
                raise QueueError(f"parent queue {parent} of queue {name} is {above.status.state}; open it first")
        for child in self._queues.index("parent", name):
            if child.metadata.annotation(CLOSED_BY_PARENT) == "true":
                self._ask(child.metadata.name, OPEN_QUEUE)
        try:
            await self._set_state(queue, OPEN)
        except StratoError as error:
            self._recorder.event(queue, "Warning", OPEN_QUEUE, f"Open queue failed for {error}")
            raise
        if queue.metadata.annotation(CLOSED_BY_PARENT) != "false":
            await self._annotate(name, closed_by_parent=False)

    async def _close(self, queue: Queue) -> None:
        name = queue.metadata.name
        if name == ROOT:
            return
        for child in self._queues.index("parent", name):
            if child.status.state not in (CLOSED, CLOSING):
                await self._annotate(child.metadata.name, closed_by_parent=True)
                self._ask(child.metadata.name, CLOSE_QUEUE)
        try:
            await self._set_state(queue, next_state(queue.status.state, CLOSE_QUEUE, self.group_count(name)))
        except StratoError as error:
            self._recorder.event(queue, "Warning", CLOSE_QUEUE, f"Close queue failed for {error}")
            raise
        self._recorder.event(queue, "Normal", CLOSE_QUEUE, "Close queue succeed")

    async def _set_state(self, queue: Queue, state: str) -> None:
        if queue.status.state != state:
            body: dict[str, Any] = {"status": {"state": state}}
            await self._cluster.patch(Queue, queue.metadata.name, "", body, subresource="status")

    async def _annotate(self, name: str, *, closed_by_parent: bool) -> None:
        value = "true" if closed_by_parent else "false"
        await self._cluster.patch(Queue, name, "", {"metadata": {"annotations": {CLOSED_BY_PARENT: value}}})
