"""Preemption of the plugin: run the policy's rounds, mark pods, and offer them as victims after the wait.

A round is computed at most once per monitoring interval. Pods that it chooses are marked; they are evicted after the
wait if they are still chosen and a job whose queue or application is below its ideal assignment preempts. State across
cycles is in `Remembered`, which the world keeps and Queue annotations persist (`strato.interop.yarn.remembering`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from strato.interop.yarn.capacity.arithmetic import less_down_to_none
from strato.interop.yarn.capacity.preemption import Marks, PreemptionRound, advance, decide
from strato.interop.yarn.capacity.preemptionmodel import (
    Application,
    ClusterState,
    Container,
    LeafNumbers,
    NodeNumbers,
    PreemptionQueue,
    QueueNumbers,
)
from strato.interop.yarn.capacityplugin.mirror import ApplicationUse, Mirror, QueueUse
from strato.interop.yarn.remembering import Kept, QueueMemory
from strato.interop.yarn.reservations import Held, Reservations
from strato.interop.yarn.resources import Amounts, add, smallest, sub0, subtract
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import BOUND, RUNNING

_STAYS = (BOUND, RUNNING)


@dataclass(slots=True)
class Remembered(Kept):
    """State of preemption across cycles."""

    marks: Marks = field(default_factory=Marks)
    due: dict[str, str] = field(default_factory=dict)
    """Queue path of each pod whose wait is over, by the pod's UID."""
    queues: dict[str, str] = field(default_factory=dict)
    """Queue path of each marked pod, by the pod's UID."""
    last_round_ms: float = float("-inf")
    found: PreemptionRound | None = None
    """Result of the last round."""

    def recall(self, queue: str, found: QueueMemory) -> None:
        """Restore state from a queue's annotation."""
        Kept.recall(self, queue, found)
        self.marks = Marks({**self.marks.since_ms, **found.marked_since_ms})
        self.due.update(found.due)
        self.queues.update(dict.fromkeys(found.marked_since_ms, ""))


class CapacityPreemption:
    """One cycle's preemption.

    Args:
        mirror: The cycle's tree.
        memory: State of earlier cycles.
        now: Seconds since the epoch.
        is_master: Returns whether a pod is an application master.
        shared: Partitions whose idle nodes others may use.
        reservations: The reserved nodes, of which a round may drop or move some.
    """

    def __init__(
        self,
        mirror: Mirror,
        memory: Remembered,
        now: float,
        is_master: Callable[[Task], bool],
        shared: frozenset[str],
        reservations: Reservations,
    ) -> None:
        self._reservations = reservations
        self._mirror = mirror
        self._memory = memory
        self._now_ms = int(now * 1000)
        self._is_master = is_master
        self._shared = shared
        self._settings = mirror.configuration.preemption
        if memory.found is None or self._now_ms - memory.last_round_ms >= self._settings.monitoring_interval_ms:
            memory.last_round_ms = self._now_ms
            memory.found = decide(self._state(), self._settings, mirror.arithmetic)
            step = advance(memory.marks, memory.found, self._settings, self._now_ms)
            memory.marks = step.marks
            chosen = {choice.container.key: choice.container.queue for choice in memory.found.choices}
            memory.queues = {**memory.queues, **chosen}
            memory.queues = {uid: queue for uid, queue in memory.queues.items() if uid in step.marks.since_ms}
            still = {uid: chosen[uid] for uid in memory.due if uid in chosen}
            memory.due = {**still, **{container.key: container.queue for container in step.killed}}
            self._change_reservations(memory.found)
        self.found: PreemptionRound = memory.found

    # -- answers for the plugin
    # -------------------------------------------------------------------------------------------------------

    def starves(self, job: Job) -> bool:
        """Return whether a round has chosen containers, and the job's queue or application is entitled to more."""
        application = self._mirror.applications.get(job.key)
        if application is None or not job.pending or not self.found.choices:
            return False
        path = application.leaf.path
        return self._is_owed(path) or self._within(application)

    def _change_reservations(self, found: PreemptionRound) -> None:
        nodes = {_key_of(one): one.node for one in self._reservations}
        if self._settings.observe_only:
            return
        for container in found.dropped_reservations:
            self._reservations.drop(nodes.get(container.key, ""))
        for key, node in found.moved.items():
            self._reservations.move(nodes.get(key, ""), node)

    def victims(self, beneficiary: Job, candidates: Sequence[Task], *, within: bool) -> Sequence[Task]:
        """Return the candidates whose wait is over, of the job's own queue (``within``) or of other queues."""
        application = self._mirror.applications.get(beneficiary.key)
        if application is None:
            return []
        path = application.leaf.path
        allowed = self._within(application) if within else self._is_owed(path)
        if not allowed:
            return []
        due = self._memory.due
        return [
            task
            for task in candidates
            if task.uid in due and task.job is not beneficiary and (due[task.uid] == path) == within
        ]

    def announced(self, job: Job) -> Sequence[str]:
        """Return texts on the marked pods and when they go; they make room for every job entitled to more."""
        names = {task.uid: task.key for task in self._mirror.world.tasks.values()}
        found = []
        for choice in self.found.choices:
            since = self._memory.marks.since_ms.get(choice.container.key, self._now_ms)
            seconds = 0 if choice.container.key in self._memory.due else since + choice.wait_ms - self._now_ms
            if choice.container.key in names:
                name = names[choice.container.key]
                found.append(f"pod {name} is to make room and may go in {max(0, seconds) / 1000:.0f} s")
        return found

    def write(self, queue: Queue, found: QueueMemory) -> None:
        """Add a queue's marked pods to the state to be persisted."""
        leaf = self._mirror.leaf(queue) if queue.view is not None and queue.jobs else None
        if leaf is not None:
            memory = self._memory
            since = memory.marks.since_ms
            found.marked_since_ms = {uid: since[uid] for uid, path in memory.queues.items() if path == leaf.path}
            found.due = {uid: path for uid, path in memory.due.items() if path == leaf.path}

    def _is_owed(self, path: str) -> bool:
        """Return whether a queue's ideal assignment exceeds its usage, on any partition."""
        mirror = self._mirror
        for partition, whole in mirror.partitions.items():
            assignment = self.found.assignments.by_key.get((path, partition))
            if assignment is not None and mirror.arithmetic.less(whole, assignment.numbers.used, assignment.ideal):
                return True
        return False

    def _within(self, application: ApplicationUse) -> bool:
        """Return whether intra-queue preemption assigns an application more than it uses."""
        for (path, _), reassigned in self.found.reassigned.items():
            if path == application.leaf.path:
                for one in reassigned.applications:
                    if one.application.key == application.job.key:
                        total = self.found.assignments.state.total
                        return self._mirror.arithmetic.less(total, one.without_am, one.ideal)
        return False

    # -- the snapshot --------------------------------------------------------------------------------------------------

    def _state(self) -> ClusterState:
        mirror = self._mirror
        total = mirror.zero
        for amounts in mirror.partitions.values():
            total = add(total, amounts)
        applications: dict[str, tuple[Application, ...]] = {}
        sequence = 0
        for path, queue in mirror.queues.items():
            if queue.configuration.is_parent:
                continue
            active = [one for one in queue.applications if one.is_active]
            ordered = []
            for at, one in enumerate(sorted(active, key=mirror.position_in_leaf)):
                application = self._application(one, at, sequence)
                sequence += len(one.job.tasks) + 1
                ordered.append(application)
            applications[path] = tuple(ordered)
        return ClusterState(
            total=total,
            partitions=mirror.partitions,
            root=self._queue(mirror.queues["root"], by_priority=False),
            applications=applications,
            nodes=tuple(self._nodes()),
            now_ms=self._now_ms,
        )

    def _nodes(self) -> Iterable[NodeNumbers]:
        mirror, nodes = self._mirror, self._mirror.world.nodes
        for row, name in enumerate(nodes.names):
            if nodes.present[row]:
                total = mirror.units.held(nodes.allocatable[row].tolist())
                free = mirror.units.held(nodes.free(row))
                yield NodeNumbers(
                    name=name,
                    partition=mirror.partition_of(row),
                    total=total,
                    used=subtract(total, free),
                    killable=mirror.zero,
                )

    def _application(self, one: ApplicationUse, at: int, sequence: int) -> Application:
        job, mirror = one.job, self._mirror
        containers: list[Container] = []
        am_used: dict[str, Amounts] = {}
        running = sorted(
            (task for task in job.tasks.values() if task.status in _STAYS),
            key=lambda task: (task.pod.metadata.creation_timestamp or "", task.key),
        )
        # Unlike YARN, which has no gangs, never take pods that a gang needs for its minimum.
        spare = len(running) if job.min_available <= 1 else max(0, job.ready - job.min_available)
        for number, task in enumerate(running):
            partition = mirror.partition_of(task.row)
            size = mirror.size_of(task)
            is_am = self._is_master(task)
            if is_am:
                am_used[partition] = add(am_used.get(partition, mirror.zero), size)
            kept = number < len(running) - spare or not task.preemptable
            if kept or (job.queue is not None and not job.queue.reclaimable):
                continue
            asked = mirror.partition_for(task, one.leaf)
            containers.append(
                Container(
                    key=task.uid,
                    sequence=sequence + number,
                    app=job.key,
                    queue=one.leaf.path,
                    node=mirror.world.nodes.names[task.row],
                    partition=partition,
                    amounts=size,
                    priority=-task.priority,
                    is_am=is_am,
                    ignores_exclusivity=partition in self._shared and asked != partition,
                )
            )
        containers += [
            Container(
                key=_key_of(held),
                sequence=sequence + len(running),
                app=job.key,
                queue=one.leaf.path,
                node=held.node,
                partition=mirror.partition_of(held.row),
                amounts=mirror.size_of(held.task),
                priority=-held.task.priority,
                is_reserved=True,
                created_ms=int(held.since * 1000),
            )
            for held in self._reservations.of(job)
        ]
        return Application(
            key=job.key,
            sequence=at,
            queue=one.leaf.path,
            user=one.user,
            priority=job.priority or one.leaf.configuration.default_application_priority,
            containers=tuple(containers),
            pending=mirror.pending_of(one),
            used=one.used,
            am_used=am_used,
        )

    def _queue(self, queue: QueueUse, *, by_priority: bool) -> PreemptionQueue:
        configuration = queue.configuration
        orders = configuration.ordering_policy == "priority-utilization"
        children = tuple(self._queue(child, by_priority=orders) for child in queue.children)
        numbers = {partition: self._numbers(queue, partition, children) for partition in self._mirror.partitions}
        return PreemptionQueue(
            path=queue.path,
            numbers=numbers,
            children=children,
            leaf=None if children else self._leaf(queue),
            priority=configuration.priority if by_priority else 0,
            disabled=configuration.preemption_disabled,
        )

    def _numbers(self, queue: QueueUse, partition: str, children: tuple[PreemptionQueue, ...]) -> QueueNumbers:
        mirror, capacity = self._mirror, queue.capacity[partition]
        pending = mirror.zero
        for child in children:
            pending = add(pending, child.numbers[partition].pending)
        if not children:
            pending = self._pending(queue, partition)
        reserved = mirror.reserved(queue, partition)
        return QueueNumbers(
            guaranteed=capacity.effective_minimum,
            maximum=mirror.partitions[partition] if partition in self._shared else capacity.effective_maximum,
            used=add(queue.used.get(partition, mirror.zero), reserved),
            pending=pending,
            pending_without_reserved=sub0(pending, reserved),
            reserved=reserved,
            killable=mirror.zero,
        )

    def _pending(self, leaf: QueueUse, partition: str) -> Amounts:
        """Return a leaf's pending requests, those of each user up to the user limit."""
        mirror = self._mirror
        by_user: dict[str, Amounts] = {}
        for one in leaf.applications:
            if one.is_active:
                asked = mirror.pending_of(one).get(partition, mirror.zero)
                by_user[one.user] = add(by_user.get(one.user, mirror.zero), asked)
        pending = mirror.zero
        for user, asked in by_user.items():
            limit = mirror.limit(leaf, user, partition)
            room = less_down_to_none(limit, mirror.used_by(leaf, user, partition))
            if not mirror.configuration.is_dominant:
                room = (room[0], *asked[1:])  # only memory counts
            pending = add(pending, smallest(asked, room))
        return pending

    def _leaf(self, queue: QueueUse) -> LeafNumbers:
        mirror, configuration = self._mirror, queue.configuration
        users = mirror.users(queue)
        return LeafNumbers(
            absolute_capacity=queue.capacity[""].absolute,
            am_percent=configuration.am_percents.get("", 0.1),
            minimum_allocation=mirror.configuration.minimum_allocation,
            used_capacity={partition: mirror.used_capacity(queue, partition) for partition in mirror.partitions},
            orders_fairly=configuration.ordering_policy == "fair",
            intra_queue_disabled=configuration.intra_queue_preemption_disabled,
            user_limits={
                partition: {user: mirror.limit(queue, user, partition) for user in users}
                for partition in mirror.partitions
            },
            user_used={
                partition: {user: mirror.used_by(queue, user, partition) for user in users}
                for partition in mirror.partitions
            },
        )


def _key_of(held: Held) -> str:
    """Return a key for a reservation that differs from containers' keys, which are UIDs."""
    return f"reserved {held.node}"
