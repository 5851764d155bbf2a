"""Limits on the devices that a queue's pods claim (spec volcano-plugins 6.6). For `capacity`.

A queue's ``capability`` may name ``deviceclass/<class>`` (devices) and ``<dimension>.deviceclass/<class>`` (capacity of
them). Only classes named there are limited. A claim that several pods of a queue share counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from strato.api.quantity import value
from strato.scheduler.cache.world import World
from strato.scheduler.claims.devices import Devices, resource_claims_of
from strato.scheduler.claims.holdings import PREFIX, Amounts, amounts_of
from strato.scheduler.model.jobs import PHASE_INQUEUE, Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED_SET


def limits_of(queue: Queue) -> dict[str, int]:
    """Return the limits on devices in a queue's capability."""
    if queue.view is None:
        return {}
    return {key: value(text) for key, text in queue.view.spec.capability.items() if PREFIX in key}


class ClaimQuota:
    """The devices that the queues of a session hold and may hold.

    Args:
        world: The scheduler's view of the cluster.
        lineages: For every queue with jobs, the names of itself and its ancestors.
        consumable: Whether limits on capacity apply too.
    """

    def __init__(self, world: World, lineages: Mapping[str, Iterable[str]], *, consumable: bool) -> None:
        self._devices: Devices = world.devices
        self._consumable = consumable
        self._lineages = {name: tuple(path) for name, path in lineages.items()}
        queues = {name for path in self._lineages.values() for name in path}
        self._limits = {name: limits_of(world.queues[name]) for name in queues if name in world.queues}
        self._users: dict[str, Counter[str]] = {name: Counter() for name in queues}
        self._inqueue: dict[str, Amounts] = {name: Counter() for name in queues}
        self.on = any(self._limits.values())
        if not self.on:
            return
        for name in self._lineages:
            for job in world.jobs_of(world.queues[name]):
                for task in job.tasks.values():
                    if task.cls.uses_claims and task.status in ALLOCATED_SET:
                        self.shift((task,), 1)
                if job.phase == PHASE_INQUEUE and not job.allocated_count:
                    self.enqueued(job)

    def shift(self, tasks: Iterable[Task], by: int) -> None:
        """Count tasks of one queue that got places (``by`` 1) or lost them (-1)."""
        for task in tasks:
            job = task.job
            if job is None or not task.pod.spec.resource_claims:
                continue
            keys = {used.key for used in resource_claims_of(task) if used.key}
            for name in self._lineages.get(job.queue_name, ()):
                for key in keys:
                    self._users[name][key] += by

    def allows(self, queue: Queue, task: Task) -> bool:
        """Whether a queue and its ancestors may hold a task's claims in addition."""
        return self._fits(queue.name, self._of_task(task), {used.key for used in resource_claims_of(task)}, False)

    def admits(self, job: Job) -> str:
        """Return what a job's minimum asks for beyond its queue's limits, empty when it may be enqueued."""
        keys, amounts = self._minimum(job)
        return "" if self._fits(job.queue_name, amounts, keys, True) else ", ".join(sorted(amounts))

    def enqueued(self, job: Job) -> None:
        """Count a job among the admitted."""
        _, amounts = self._minimum(job)
        for name in self._lineages.get(job.queue_name, ()):
            self._inqueue[name] += amounts

    def _fits(self, name: str, wanted: Amounts, keys: set[str], enqueuing: bool) -> bool:
        for level in self._lineages.get(name, ()):
            limits = self._limits.get(level) or {}
            held = self._held(level, keys)
            if enqueuing:
                held += self._inqueue[level]
            for key, amount in wanted.items():
                if not amount or not self._applies(key, limits):
                    continue
                if key not in limits or held[key] + amount > limits[key]:
                    return False
        return True

    def _applies(self, key: str, limits: Mapping[str, int]) -> bool:
        if key.startswith(PREFIX):
            return key in limits
        dimension_of = key[key.index(PREFIX) :]
        named = any(limit == dimension_of or limit.endswith("." + dimension_of) for limit in limits)
        return self._consumable and named

    def _held(self, name: str, without: set[str]) -> Amounts:
        """Return what a queue's placed pods claim, except by the claims ``without``."""
        out: Amounts = Counter()
        for key, users in self._users[name].items():
            claim = self._devices.claims.get(key) if users > 0 and key not in without else None
            if claim is not None:
                out += amounts_of(claim)
        return out

    def _of_task(self, task: Task) -> Amounts:
        out: Amounts = Counter()
        for used in resource_claims_of(task):
            claim = self._devices.claims.get(used.key)
            if claim is not None:
                out += amounts_of(claim)
        return out

    def _minimum(self, job: Job) -> tuple[set[str], Amounts]:
        """Return the claims that the job's minimum of pods uses, and what they ask for."""
        claiming = sorted(
            (task for task in job.tasks.values() if task.pod.spec.resource_claims),
            key=lambda task: (task.namespace, task.name, task.uid),
        )
        if not job.min_task:
            chosen = claiming[: job.min_available]
            keys = {used.key for task in chosen for used in resource_claims_of(task)}
            out: Amounts = Counter()
            for key in keys:
                claim = self._devices.claims.get(key)
                if claim is not None:
                    out += amounts_of(claim)
            return keys, out
        out = Counter()
        keys = set()
        for role, minimum in job.min_task.items():
            first = next((task for task in claiming if task.role == role), None)
            if first is not None:
                keys |= {used.key for used in resource_claims_of(first)}
                for key, amount in self._of_task(first).items():
                    out[key] += amount * minimum
        return keys, out
