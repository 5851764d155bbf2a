"""Limits on an application: whether its queue admits it, and how many of its pods fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from strato.interop.yarn.capacity.limits import ApplicationLimits, am_limit, application_limits, user_am_limit
from strato.interop.yarn.capacityplugin.mirror import ApplicationUse, Mirror, QueueUse
from strato.interop.yarn.resources import MOST_INT, Amounts, add, smallest, subtract
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.tasks import ALLOCATED_SET

STOPPED = "QueueStopped"
TOO_MANY = "MaximumApplications"
PARALLEL = "MaxParallelApps"
AM_LIMIT = "AMLimit"
NO_ACCESS = "NoLabelAccess"
MAXIMUM = "MaximumCapacity"
USER_LIMIT = "UserLimit"
"""Codes of verdicts."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why an application or a pod has to wait."""

    code: str
    text: str


class Limits:
    """The limits of one cycle.

    Args:
        mirror: The tree.
        is_master: Returns whether a pod is an application master.
        shared: Partitions whose idle nodes others may use.
    """

    def __init__(self, mirror: Mirror, is_master: Callable[[Task], bool], shared: frozenset[str]) -> None:
        self._mirror = mirror
        self._is_master = is_master
        self.shared = shared

    # -- whether an application is admitted
    # ------------------------------------------------------------------------------

    def refusal(self, application: ApplicationUse) -> WaitReason | None:
        """Return why an application may not be admitted; None if it may."""
        if application.is_active:
            return None
        for check in (self._state, self._access, self._count, self._parallel, self._masters):
            found = check(application)
            if found is not None:
                return found
        return None

    def _state(self, application: ApplicationUse) -> WaitReason | None:
        for queue in application.leaf.lineage():
            if not queue.configuration.is_running:
                return WaitReason(STOPPED, f"queue {queue.path} is stopped and takes no applications")
        return None

    def _access(self, application: ApplicationUse) -> WaitReason | None:
        leaf = application.leaf
        for partition in self._mirror.pending_of(application):
            if not leaf.configuration.accesses(partition):
                labels = ", ".join(sorted(leaf.configuration.labels)) or "none"
                text = f"queue {leaf.path} has no access to nodes labelled {partition!r}; it has: {labels}"
                return WaitReason(NO_ACCESS, text)
        return None

    def numbers(self, leaf: QueueUse) -> ApplicationLimits:
        """Return the limits on the number of a leaf's applications."""
        largest = max(numbers.absolute for numbers in leaf.capacity.values())
        return application_limits(self._mirror.configuration, leaf.configuration, largest)

    def _count(self, application: ApplicationUse) -> WaitReason | None:
        """Refuse an application if those that run or wait before it already reach a limit on applications."""
        leaf, user = application.leaf, application.user
        limits = self.numbers(leaf)
        if len(leaf.applications) <= min(limits.maximum_applications, limits.maximum_applications_per_user):
            return None
        running = [one for one in leaf.applications if one.is_active]
        before = running + [one for one in self._before(application) if not one.is_active]
        if len(before) >= limits.maximum_applications:
            return WaitReason(
                TOO_MANY,
                f"queue {leaf.path} takes {limits.maximum_applications} applications and has as many, waiting and "
                "running; YARN would reject this one, here it waits",
            )
        mine = sum(1 for one in before if one.user == user)
        if mine >= limits.maximum_applications_per_user:
            return WaitReason(
                TOO_MANY,
                f"queue {leaf.path} takes {limits.maximum_applications_per_user} applications of a user, and {user} "
                "has as many; YARN would reject this one, here it waits",
            )
        return None

    @staticmethod
    def _before(application: ApplicationUse) -> Iterator[ApplicationUse]:
        for one in application.leaf.applications:
            if one is application:
                return
            yield one

    def _parallel(self, application: ApplicationUse) -> WaitReason | None:
        user = application.user
        for queue in application.leaf.lineage():
            most = queue.configuration.max_parallel_apps
            own = queue.configuration.max_parallel_apps_of.get(user, queue.configuration.max_parallel_apps_per_user)
            if min(most, own) == MOST_INT:
                continue
            running = [one for one in self._below(queue) if one.is_active]
            if len(running) >= most:
                return WaitReason(PARALLEL, f"queue {queue.path} runs {len(running)} applications of {most} at a time")
            mine = sum(1 for one in running if one.user == user)
            if mine >= own:
                return WaitReason(
                    PARALLEL, f"user {user} runs {mine} applications of {own} at a time in queue {queue.path}"
                )
        return None

    def _below(self, queue: QueueUse) -> Iterator[ApplicationUse]:
        yield from queue.applications
        for child in queue.children:
            yield from self._below(child)

    # -- application masters -------------------------------------------------------------------------------------------

    def _masters(self, application: ApplicationUse) -> WaitReason | None:
        masters = [task for task in application.job.tasks.values() if self._is_master(task)]
        return self.master_refusal(application, masters[0]) if masters else None

    def master_refusal(self, application: ApplicationUse, master: Task) -> WaitReason | None:
        """Return why an application master may not start; None when it may."""
        mirror, leaf = self._mirror, application.leaf
        partition = mirror.partition_for(master, leaf)
        if partition not in leaf.capacity:
            return None
        size = mirror.units.asked(master.cls.amounts)
        used, of_user = mirror.zero, mirror.zero
        for one in leaf.applications:
            held = self._masters_of(one.job, partition)
            used = add(used, held)
            if one.user == application.user:
                of_user = add(of_user, held)
        if used == mirror.zero:
            return None  # as in YARN, the first AM may start whatever its size
        capacity = leaf.capacity[partition]
        handed_down = self.handed_down(leaf, partition)
        queue_limit = am_limit(
            leaf.configuration, capacity, mirror.configuration, partition=partition, handed_down=handed_down
        )
        fits = mirror.arithmetic.fits
        percent = leaf.configuration.am_percents.get(partition, 0.1)
        if not fits(add(used, size), queue_limit):
            text = (
                f"application masters of queue {leaf.path} hold {self._text(used)} of the {self._text(queue_limit)} "
                f"that maximum-am-resource-percent of {percent:g} allows; it waits until one ends"
            )
            return WaitReason(AM_LIMIT, text)
        user_limit = user_am_limit(
            leaf.configuration,
            capacity,
            mirror.configuration,
            queue_limit,
            partition=partition,
            active_users=len(mirror.active_users(leaf)),
            user_weight=leaf.configuration.user_weights.get(application.user, 1.0),
        )
        if not fits(add(of_user, size), user_limit):
            text = (
                f"application masters of user {application.user} hold {self._text(of_user)} of the "
                f"{self._text(user_limit)} that queue {leaf.path} allows a user; it waits until one ends"
            )
            return WaitReason(AM_LIMIT, text)
        return None

    def _masters_of(self, job: Job, partition: str) -> Amounts:
        mirror, used = self._mirror, self._mirror.zero
        for task in job.tasks.values():
            if task.status in ALLOCATED_SET and self._is_master(task) and mirror.partition_of(task.row) == partition:
                used = add(used, mirror.size_of(task))
        return used

    # -- how much fits -------------------------------------------------------------------------------------------------

    def handed_down(self, leaf: QueueUse, partition: str) -> Amounts:
        """Return the most that a leaf may use at present: its ancestors' maxima less their other queues' usage."""
        limit = self._mirror.partitions.get(partition, self._mirror.zero)
        lineage = [*leaf.lineage()][::-1]
        for above, queue in itertools.pairwise(lineage):
            others = subtract(
                above.used.get(partition, self._mirror.zero), queue.used.get(partition, self._mirror.zero)
            )
            limit = smallest(subtract(limit, others), queue.capacity[partition].effective_maximum)
        return limit

    def may_reserve(self, application: ApplicationUse, task: Task) -> bool:
        """Return whether a node may be reserved for a pod: with usage and reservations it must be within all limits."""
        mirror, leaf = self._mirror, application.leaf
        partition, need = mirror.partition_for(task, leaf), mirror.size_of(task)
        for queue in leaf.lineage() if partition in leaf.capacity else ():
            used = add(queue.used.get(partition, mirror.zero), mirror.reserved(queue, partition))
            if self.fitting(subtract(queue.capacity[partition].effective_maximum, used), need, 1) < 1:
                return False
        if self._is_master(task) and self.master_refusal(application, task) is not None:
            return False
        reserved = mirror.reserved(leaf, partition, user=application.user)
        held = add(mirror.used_by(leaf, application.user, partition), reserved)
        whole = mirror.partitions.get(partition, mirror.zero)
        limit = mirror.active_limit(leaf, application.user, partition, more=mirror.zero)
        return partition in leaf.capacity and mirror.arithmetic.less_or_equal(whole, held, limit)

    def how_many(self, application: ApplicationUse, task: Task, count: int) -> tuple[int, WaitReason | None]:
        """Return how many of ``count`` equal pods fit, and why not more."""
        mirror, leaf = self._mirror, application.leaf
        partition = mirror.partition_for(task, leaf)
        if not leaf.configuration.accesses(partition) or partition not in leaf.capacity:
            return 0, self._access(application) or WaitReason(NO_ACCESS, f"there are no nodes labelled {partition!r}")
        need = mirror.size_of(task)
        if self._is_master(task):
            refusal = self.master_refusal(application, task)
            if refusal is not None:
                return 0, refusal
            count = min(count, 1)
        spills = partition == "" and bool(self.shared)
        if not spills:
            for queue in leaf.lineage():
                most = queue.capacity[partition].effective_maximum
                reserved = mirror.reserved(queue, partition, but=task)
                used = add(queue.used.get(partition, mirror.zero), reserved)
                count = min(count, self.fitting(subtract(most, used), need, count))
                if count <= 0:
                    of_it = f", {self._text(reserved)} of it reserved," if reserved != mirror.zero else ""
                    text = (
                        f"queue {queue.path} holds {self._text(used)}{of_it} of its maximum of {self._text(most)}"
                        f"{self._labelled(partition)}; {task.key} asks for {self._text(need)}"
                    )
                    return 0, WaitReason(MAXIMUM, text)
        return self._within_user_limit(application, task, partition, count, ignores=spills)

    def fitting(self, free: Amounts, need: Amounts, count: int) -> int:
        """Return how many equal requests fit into a free amount, in the types that the calculator considers."""
        types = len(need) if self._mirror.configuration.is_dominant else 1
        for room, one in zip(free[:types], need[:types], strict=True):
            if one > 0:
                count = min(count, max(0, room) // one)
        return count

    def _within_user_limit(
        self, application: ApplicationUse, task: Task, partition: str, count: int, *, ignores: bool
    ) -> tuple[int, WaitReason | None]:
        """Return how many pods may start until the user exceeds the limit; as in YARN, the last one may exceed it."""
        mirror, leaf, user = self._mirror, application.leaf, application.user
        used = add(mirror.used_by(leaf, user, partition), mirror.reserved(leaf, partition, user=user, but=task))
        need = mirror.size_of(task)
        whole = mirror.partitions[partition]

        def limit_with(started: int) -> tuple[Amounts, Amounts]:
            more = tuple(started * one for one in need)
            return add(used, more), mirror.active_limit(leaf, user, partition, more=more, ignores=ignores)

        held, limit = limit_with(0)
        if not mirror.arithmetic.less_or_equal(whole, held, limit):
            text = (
                f"user {user} uses {self._text(used)} of queue {leaf.path}, above the user limit of "
                f"{self._text(limit)}{self._labelled(partition)}"
            )
            return 0, WaitReason(USER_LIMIT, text)
        # The limit grows with usage, but slower than usage, so that usage reaches it.
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            allowed = mirror.arithmetic.less_or_equal(whole, *limit_with(middle - 1))
            low, high = (middle, high) if allowed else (low, middle - 1)
        return min(low, count), None

    def _text(self, amounts: Amounts) -> str:
        text = self._mirror.units.text(amounts)
        return text if self._mirror.configuration.is_dominant else text.partition(",")[0]

    @staticmethod
    def _labelled(partition: str) -> str:
        return f" on nodes labelled {partition!r}" if partition else ""
