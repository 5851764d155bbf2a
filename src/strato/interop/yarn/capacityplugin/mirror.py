"""YARN's tree of queues and applications, built from the world: a job is an application that uses what its pods do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from strato.interop.yarn.capacity import capacities
from strato.interop.yarn.capacity.arithmetic import Arithmetic
from strato.interop.yarn.capacity.capacities import QueueCapacity
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.order import ApplicationStanding, QueueStanding, application_key, queue_key
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION
from strato.interop.yarn.capacity.userlimits import UserLimitInputs, limit_of_user, user_limit
from strato.interop.yarn.objects import path_of
from strato.interop.yarn.resources import Amounts, add, is_zero, subtract
from strato.interop.yarn.units import Units
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PHASE_COMPLETED, Job, Task
from strato.scheduler.model.ledger import HOLDS_RESOURCES
from strato.scheduler.model.queues import Queue

NO_PARTITION = ""


@dataclass(slots=True)
class QueueUse:
    """A queue of the tree, with the usage of its applications."""

    configuration: QueueConfiguration
    capacity: Mapping[str, QueueCapacity]
    parent: QueueUse | None
    used: dict[str, Amounts]
    children: list[QueueUse] = field(default_factory=list)
    applications: list[ApplicationUse] = field(default_factory=list)
    used_by: dict[tuple[str, str], Amounts] = field(default_factory=dict)
    """Usage of a leaf by user and partition."""
    active_users: Counter[str] = field(default_factory=Counter)
    """For a leaf, the number of admitted applications with pending pods, by user."""

    @property
    def path(self) -> str:
        """The queue's path."""
        return self.configuration.path

    def lineage(self) -> Iterator[QueueUse]:
        """Yield the queue and its ancestors, up to the root."""
        here: QueueUse | None = self
        while here is not None:
            yield here
            here = here.parent


@dataclass(slots=True)
class ApplicationUse:
    """A job as a YARN application."""

    job: Job
    leaf: QueueUse
    user: str
    used: dict[str, Amounts] = field(default_factory=dict)
    is_wanting: bool = False
    """Whether the job is admitted and has pending pods, as of the last count."""
    was_let_in: bool = False
    """Whether this cycle has admitted the job."""

    @property
    def is_active(self) -> bool:
        """Whether the job is admitted."""
        return self.was_let_in or not self.job.is_waiting_for_queue or bool(self.job.used.any())


class _ReservedRoom(NamedTuple):
    """The amount by which a reservation counts against a queue's limits."""

    application: ApplicationUse
    task: Task
    partition: str
    size: Amounts


class Mirror:
    """The tree of one cycle.

    Args:
        world: The scheduler's state.
        units: Converts between the world's columns and YARN's types.
        configuration: The queues, with amounts in these units.
        label_key: Key of the node label that names partitions; empty when there are none.
        user_of: Returns a job's user.
    """

    def __init__(
        self,
        world: World,
        units: Units,
        configuration: CapacityConfiguration,
        label_key: str,
        user_of: Callable[[Job], str],
    ) -> None:
        self.world = world
        self.units = units
        self.configuration = configuration
        self.arithmetic: Arithmetic = configuration.arithmetic
        self.zero: Amounts = (0,) * len(units.types)
        self._label_key = label_key
        self._user_of = user_of
        self.partitions = self._count_partitions()
        numbers = capacities.compute(configuration, self.partitions)
        self.queues: dict[str, QueueUse] = {}
        self._add_queues(configuration.root, None, numbers)
        self.applications: dict[str, ApplicationUse] = {}
        """Applications by the job's key."""
        self._leaves: dict[str, QueueUse | None] = {}
        self._limits: dict[tuple[str, str], Amounts] = {}
        self._sizes: dict[int, Amounts] = {}
        self._reserved: list[_ReservedRoom] = []
        self._add_applications()

    # -- building ------------------------------------------------------------------------------------------------------

    def partition_of(self, row: int) -> str:
        """Return the partition of a node."""
        if not self._label_key or row < 0:
            return NO_PARTITION
        node = self.world.nodes.facts[row]
        return node.metadata.label(self._label_key) if node is not None else NO_PARTITION

    def size_of(self, task: Task) -> Amounts:
        """Return the amount that a pod requests."""
        size = self._sizes.get(task.cls.number)
        if size is None:
            size = self._sizes[task.cls.number] = self.units.asked(task.cls.amounts)
        return size

    def partition_for(self, task: Task, leaf: QueueUse) -> str:
        """Return the partition that a pod requests: by its node selector, or its queue's default."""
        if not self._label_key:
            return NO_PARTITION
        selector = task.pod.spec.node_selector or {}
        return selector.get(self._label_key, leaf.configuration.default_label)

    def _count_partitions(self) -> dict[str, Amounts]:
        if not self._label_key:
            return {NO_PARTITION: self.units.held(self.world.totals.total.tolist())}
        nodes = self.world.nodes
        found: dict[str, Amounts] = {NO_PARTITION: self.zero}
        for row in range(len(nodes.names)):
            if nodes.present[row]:
                partition = self.partition_of(row)
                amounts = self.units.held(nodes.allocatable[row].tolist())
                found[partition] = add(found.get(partition, self.zero), amounts)
        return found

    def _add_queues(
        self, configuration: QueueConfiguration, parent: QueueUse | None, numbers: capacities.Capacities
    ) -> None:
        queue = QueueUse(configuration, numbers[configuration.path], parent, dict.fromkeys(self.partitions, self.zero))
        self.queues[queue.path] = queue
        if parent is not None:
            parent.children.append(queue)
        for child in configuration.children:
            self._add_queues(child, queue, numbers)

    def leaf(self, queue: Queue) -> QueueUse | None:
        """Return the leaf of a Queue object; None if the file has it as a parent or not at all."""
        if queue.name not in self._leaves:
            found = self.queues.get(path_of(queue)) or self._named(queue.name)
            self._leaves[queue.name] = found if found is not None and not found.configuration.is_parent else None
        return self._leaves[queue.name]

    def _named(self, name: str) -> QueueUse | None:
        named = [queue for queue in self.queues.values() if queue.configuration.name == name]
        leaves = [queue for queue in named if not queue.configuration.is_parent]
        return leaves[0] if len(leaves) == 1 else None

    def _add_applications(self) -> None:
        for queue in self.world.queues.values():
            leaf = self.leaf(queue) if queue.view is not None and queue.jobs else None
            for key in queue.jobs if leaf is not None else ():
                job = self.world.jobs.get(key)
                if leaf is not None and job is not None and job.phase != PHASE_COMPLETED:
                    application = ApplicationUse(job, leaf, self._user_of(job))
                    self.applications[key] = application
                    leaf.applications.append(application)
                    self._count(application)
        for found in self.queues.values():
            found.applications.sort(key=lambda one: (one.job.created, one.job.key))

    def let_in(self, job: Job) -> None:
        """Count a job as admitted."""
        application = self.applications.get(job.key)
        if application is not None:
            application.was_let_in = True
            self.refresh(job)

    def refresh(self, job: Job | None) -> None:
        """Recompute the usage and requests of a job."""
        application = self.applications.get(job.key) if job is not None else None
        if application is not None:
            self._count(application)
            self._limits.clear()

    def _count(self, application: ApplicationUse) -> None:
        leaf, now = application.leaf, self._held_by(application.job)
        for partition in {*now, *application.used}:
            before, after = application.used.get(partition, self.zero), now.get(partition, self.zero)
            if before != after:
                change = subtract(after, before)
                for queue in leaf.lineage():
                    queue.used[partition] = add(queue.used.get(partition, self.zero), change)
                key = application.user, partition
                leaf.used_by[key] = add(leaf.used_by.get(key, self.zero), change)
        application.used = now
        is_wanting = application.is_active and bool(application.job.pending)
        leaf.active_users[application.user] += is_wanting - application.is_wanting
        application.is_wanting = is_wanting

    def _held_by(self, job: Job) -> dict[str, Amounts]:
        if not self._label_key:
            return {NO_PARTITION: self.units.asked(job.used.tolist())}
        found: dict[str, Amounts] = {}
        for task in job.tasks.values():
            if HOLDS_RESOURCES[task.status]:
                partition = self.partition_of(task.row)
                found[partition] = add(found.get(partition, self.zero), self.size_of(task))
        return found

    def pending_of(self, application: ApplicationUse) -> dict[str, Amounts]:
        """Return an application's pending requests, by partition."""
        if not self._label_key:
            return {NO_PARTITION: self.units.asked(application.job.pending_request.tolist())}
        found: dict[str, Amounts] = {}
        for task in application.job.pending.values():
            partition = self.partition_for(task, application.leaf)
            found[partition] = add(found.get(partition, self.zero), self.size_of(task))
        return found

    # -- reservations --------------------------------------------------------------------------------------------------

    def reserve(self, task: Task, row: int) -> None:
        """Count a node's reservation as usage, as YARN does."""
        application = self.applications.get(task.job.key) if task.job is not None else None
        if application is not None:
            room = _ReservedRoom(application, task, self.partition_of(row), self.size_of(task))
            self._reserved.append(room)

    def reserved(self, queue: QueueUse, partition: str, *, user: str | None = None, but: Task | None = None) -> Amounts:
        """Return the amount reserved for a queue and the queues below it.

        Args:
            queue: The queue.
            partition: The partition.
            user: Only those of this user.
            but: A task to be placed. Reservations for tasks of its class and job do not count, since the task may use
                one of them; if tasks may start elsewhere despite a reservation, none of its job's count, since they can
                be dropped.
        """
        found, looks_on = self.zero, self.configuration.looks_on_with_reservation
        for one in self._reserved:
            if one.partition != partition or (user is not None and one.application.user != user):
                continue
            if but is not None and one.task.job is but.job and (looks_on or one.task.cls is but.cls):
                continue
            if any(above is queue for above in one.application.leaf.lineage()):
                found = add(found, one.size)
        return found

    # -- users ---------------------------------------------------------------------------------------------------------

    def used_by(self, leaf: QueueUse, user: str, partition: str) -> Amounts:
        """Return a user's usage in a leaf."""
        return leaf.used_by.get((user, partition), self.zero)

    @staticmethod
    def users(leaf: QueueUse) -> set[str]:
        """Return the users of a leaf."""
        return {application.user for application in leaf.applications}

    @staticmethod
    def active_users(leaf: QueueUse) -> set[str]:
        """Return the users of a leaf that have admitted applications with pending pods."""
        return {user for user, count in leaf.active_users.items() if count > 0}

    def limit(self, leaf: QueueUse, user: str, partition: str) -> Amounts:
        """Return a user's limit in a leaf that preemption applies, computed over all users."""
        key = leaf.path, partition
        limit = self._limits.get(key)
        if limit is None:
            users = self.users(leaf)
            limit = self._limits[key] = self._limit(leaf, partition, users, self.zero, used=None)
        return self._of_user(limit, leaf, user)

    def active_limit(
        self, leaf: QueueUse, user: str, partition: str, *, more: Amounts, ignores: bool = False
    ) -> Amounts:
        """Return a user's limit in a leaf that allocation applies, computed over the active users.

        Args:
            leaf: The leaf.
            user: The user.
            partition: The partition.
            more: Amount to add to the usage, with which the limit grows.
            ignores: Whether idle resources of a shared partition are being allocated.
        """
        users = self.active_users(leaf) | {user}
        used = more
        for one in users:
            used = add(used, self.used_by(leaf, one, partition))
        limit = self._limit(leaf, partition, users, more, used=used, ignores=ignores)
        return self._of_user(limit, leaf, user)

    def _of_user(self, limit: Amounts, leaf: QueueUse, user: str) -> Amounts:
        weight = leaf.configuration.user_weights.get(user, 1.0)
        return limit_of_user(limit, weight, self.configuration.minimum_allocation, self.arithmetic)

    def _limit(
        self,
        leaf: QueueUse,
        partition: str,
        users: set[str],
        more: Amounts,
        *,
        used: Amounts | None,
        ignores: bool = False,
    ) -> Amounts:
        whole = self.partitions.get(partition, self.zero)
        in_use = add(leaf.used.get(partition, self.zero), more)
        numbers = UserLimitInputs(
            partition=whole,
            minimum_allocation=self.configuration.minimum_allocation,
            queue_capacity=leaf.capacity[partition].effective_minimum,
            queue_maximum=leaf.capacity[partition].effective_maximum,
            usage_ratio=self.arithmetic.ratio(in_use, whole) if self.arithmetic.has_positive(whole) else 0.0,
            minimum_user_limit_percent=leaf.configuration.user_limit_percent,
            user_limit_factor=leaf.configuration.user_limit_factor,
            ignores_exclusivity=ignores,
        )
        weights = leaf.configuration.user_weights
        total = sum(weights.get(user, 1.0) for user in users) or 1.0
        return user_limit(numbers, self.arithmetic, used=used, weights=total)

    # -- order ---------------------------------------------------------------------------------------------------------

    def used_capacity(self, queue: QueueUse, partition: str = DEFAULT_PARTITION) -> float:
        """Return the used share of a queue's guarantee."""
        whole = self.partitions.get(partition, self.zero)
        used = queue.used.get(partition, self.zero)
        if is_zero(used) or not self.arithmetic.has_positive(whole):
            return 0.0
        guaranteed = queue.capacity[partition].effective_minimum
        least = self.arithmetic.larger(whole, guaranteed, self.configuration.minimum_allocation)
        return self.arithmetic.divide(whole, used, least)

    def position_of(self, leaf: QueueUse) -> tuple[tuple[object, ...], ...]:
        """Return a leaf's sort key: level by level from the root."""
        lineage = [*leaf.lineage()][::-1]
        below = itertools.pairwise(lineage)
        return tuple(queue_key(above.configuration.ordering_policy, self._standing(queue)) for above, queue in below)

    def _standing(self, queue: QueueUse) -> QueueStanding:
        numbers = queue.capacity[DEFAULT_PARTITION]
        whole = self.partitions[DEFAULT_PARTITION]
        used = queue.used.get(DEFAULT_PARTITION, self.zero)
        is_there = self.arithmetic.has_positive(whole)
        return QueueStanding(
            name=queue.path,
            priority=queue.configuration.priority,
            capacity=max(numbers.capacity, numbers.normalised_weight),
            absolute_capacity=numbers.absolute,
            used_capacity=self.used_capacity(queue),
            absolute_used=self.arithmetic.ratio(used, whole) if is_there else 0.0,
        )

    def position_of_job(self, job: Job) -> tuple[object, ...] | None:
        """Return a job's sort key, admitted jobs first; None for a job whose queue is no leaf."""
        application = self.applications.get(job.key)
        if application is None:
            return None
        return int(not application.is_active), self.position_in_leaf(application)

    def position_in_leaf(self, application: ApplicationUse) -> tuple[object, ...]:
        """Return an application's sort key among those of its leaf."""
        job, configuration = application.job, application.leaf.configuration
        used = sum(amounts[0] for amounts in application.used.values())
        demand = used + self.units.asked(job.pending_request.tolist())[0]
        standing = ApplicationStanding(
            name=job.key,
            priority=job.priority or configuration.default_application_priority,
            submitted=job.created,
            used_memory_mb=used,
            demand_memory_mb=demand,
        )
        return application_key(
            configuration.ordering_policy,
            standing,
            size_based=configuration.size_based_weight,
            is_pending=not application.is_active,
        )
