"""`PodEvictor`: carries out one eviction: patches the victim's conditions, deletes it, and determines the outcome.

Meanwhile the victim counts as Releasing (`strato.scheduler.cache.evictions`) until the API confirms or refuses the
eviction. A lost answer is neither: the request is repeated, which is harmless, because it names the victim by uid.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Cluster, PatchType
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.client.retry import delay_seconds, is_server_error
from strato.clock import Clock, format_time
from strato.errors import ApiError, Conflict, NotFound
from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Eviction
from strato.scheduler.model.tasks import ALLOCATED_SET, COMPLETED_SET
from strato.scheduler.reporting.pods import PodReports

_log = logging.getLogger(__name__)

_LONGEST_WAIT_SECONDS = 10.0
_CONFLICTS = 5
"""How many conflicts on a pod that still runs are retried before one counts as a refusal."""
_TIMEOUT = 408

Refused = Callable[[Eviction], None]


class _Tried(NamedTuple):
    times: int
    pod: Pod
    """The pod before the first attempt."""


class PodEvictor:
    """Evicts pods, one call per attempt.

    Args:
        refused: Called with an eviction that was refused or is no longer needed.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        pods: PodReports,
        refused: Refused | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._pods = pods
        self._refused = refused
        self._tried: dict[str, _Tried] = {}
        """By uid of the victim, evictions whose outcome is unknown."""

    async def evict(self, eviction: Eviction) -> float | None:
        """Try an eviction once; an attempt that is cancelled counts too.

        Returns:
            Seconds after which to try again; None when the outcome is known.
        """
        task, world = eviction.task, self._world
        if not world.evictions.awaits(task.key, task.uid):
            self._tried.pop(task.uid, None)
            return None  # the pod is gone, has ended, or another client has deleted it
        tried = self._tried.get(task.uid)
        if tried is None:
            if is_needless(self._world, eviction):
                self._give_back(eviction)
                return None
            self._pods.eviction_begins(task)
            self._recorder.event(task.pod, WARNING, "Evict", _message(eviction))
            tried = self._tried[task.uid] = _Tried(0, task.pod)
        try:
            await self._patch(eviction, _conditions(eviction, format_time(self._clock.now())))
            await self._cluster.delete(catalog.POD, task.name, task.namespace, uid=task.uid)
        except NotFound:
            error = None  # the watch will deliver the deletion
        except ApiError as problem:
            if await self._may_pass(eviction, problem, tried.times):
                self._tried[task.uid] = _Tried(tried.times + 1, tried.pod)
                return delay_seconds(problem, tried.times + 1, longest=_LONGEST_WAIT_SECONDS)
            error = problem
        else:
            error = None
            if task.job is not None and task.job.group is not None:
                self._recorder.event(task.job.group, NORMAL, "Evict", eviction.reason)
        self._tried.pop(task.uid, None)
        if error is not None:
            await self._on_refusal(eviction, error, tried.pod)
        return None

    async def _may_pass(self, eviction: Eviction, error: ApiError, attempts: int) -> bool:
        """Whether the outcome is unknown after an error, so that a retry may succeed."""
        if is_server_error(error) or error.code == _TIMEOUT:
            return True
        if not isinstance(error, Conflict):
            return False
        task = eviction.task
        try:
            fresh = await self._cluster.get(Pod, task.name, task.namespace)
        except NotFound:
            return True  # the next attempt finds that the watch has delivered the deletion
        except ApiError:
            return True
        gone = fresh.metadata.uid != task.uid or fresh.metadata.deletion_timestamp is not None
        return gone or attempts < _CONFLICTS

    async def _on_refusal(self, eviction: Eviction, error: ApiError, before: Pod) -> None:
        """Restore the world's task and the pod's conditions as they were ``before``, and record an event."""
        task = eviction.task
        _log.warning("eviction refused: pod=%s: %s", task.key, error)
        self._give_back(eviction)
        self._recorder.event(before, WARNING, "EvictFailed", f"Pod stays, because it could not be evicted: {error}")
        now = format_time(self._clock.now())
        conditions: list[dict[str, Any]] = [
            {"type": "DisruptionTarget", "status": "False", "reason": "EvictFailed", "lastTransitionTime": now}
        ]
        ready = before.status.condition("Ready")
        if ready is None:
            conditions.append({"$patch": "delete", "type": "Ready"})
        else:
            content = {"status": ready.status, "reason": ready.reason or None, "message": ready.message or None}
            conditions.append({"type": "Ready", "lastTransitionTime": now} | content)
        self._pods.eviction_refused(task, conditions)

    def _give_back(self, eviction: Eviction) -> None:
        def give_back() -> None:
            now = self._clock.now()
            self._world.journal.refuse_eviction(eviction.task.key, eviction.task.uid, now)
            self._world.refuse_eviction(eviction.task.key, eviction.task.uid, now)
            if self._refused is not None:
                self._refused(eviction)

        self._world.when_closed(give_back)

    async def _patch(self, eviction: Eviction, conditions: list[dict[str, Any]]) -> None:
        task = eviction.task
        await self._cluster.patch(
            Pod,
            task.name,
            task.namespace,
            {"metadata": {"uid": task.uid}, "status": {"conditions": conditions}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )


def is_needless(world: World, eviction: Eviction) -> bool:
    """Whether the beneficiary of an eviction is gone, has ended, or has got a place meanwhile."""
    if not eviction.beneficiary:
        return False
    task = world.tasks.get(eviction.beneficiary)
    return task is None or task.status in ALLOCATED_SET or task.status in COMPLETED_SET


def _message(eviction: Eviction) -> str:
    text = f"Pod is evicted, because of {eviction.reason}"
    return text + (f"; a place for its successor is kept on {eviction.moves_to}" if eviction.moves_to else "")


def _conditions(eviction: Eviction, now: str) -> list[dict[str, Any]]:
    scheduler = eviction.task.pod.spec.scheduler_name
    disruption = f"{scheduler}: preempting to accommodate a higher priority pod"
    if eviction.moves_to:
        disruption = f"{scheduler}: making room; {eviction.moves_to} has a place for its successor"
    return [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Evict",
            "message": _message(eviction),
            "lastTransitionTime": now,
        },
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": disruption,
            "lastTransitionTime": now,
        },
    ]
