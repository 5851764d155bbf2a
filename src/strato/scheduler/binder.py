"""The one place where decisions become writes: binds, evictions, statuses; bounded, retried, told in events.

A fixed pool of workers takes binds first, then the rest. A bind that fails for good is forgotten: after a back-off that
doubles per pod the task is pending again. Nothing here decides where a pod runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Binding, Cluster, PatchType
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.clock import Clock, format_time
from strato.errors import ApiError, NotFound, StratoError, TooManyRequests, Unavailable
from strato.scheduler.cache.ingest import QUEUE_GATE
from strato.scheduler.cache.tasks import BINDING, PENDING, RELEASING, RUNNING, Task
from strato.scheduler.cache.world import World
from strato.scheduler.claims.claimbinder import ClaimBinder
from strato.scheduler.plan import Bind, Eviction

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
_FIRST_BACKOFF_SECONDS = 0.005
_LONGEST_BACKOFF_SECONDS = 1000.0

Job = Callable[[], Awaitable[None]]


class Binder:
    """Applies plans.

    Args:
        cluster: Where to write.
        clock: Dates conditions and waits between attempts.
        world: Told when a bind or an eviction did not come about.
        recorder: Receives the events users see.
        wake: Called when something has to be decided again.
        bound: Called for every pod that was bound; for metrics.
        staged: Called with how many seconds a stage (``PreBind``, ``Bind``) of a pod took; for metrics.
        workers: How many requests are under way at once; a busy API server gives to each client by what it asks.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        wake: Callable[[], None],
        *,
        bound: Callable[[Task], None] | None = None,
        staged: Callable[[Task, str, float], None] | None = None,
        workers: int = 64,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._wake = wake
        self._bound = bound
        self._staged = staged
        self._workers = workers
        self._binds: deque[Bind] = deque()
        self._writes: deque[Job] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._failures: dict[str, int] = {}
        self._choices: dict[str, object] = {}
        self._busy = 0
        self._admitting: dict[str, str] = {}
        self._claims = ClaimBinder(cluster, clock, world)
        self._group: asyncio.TaskGroup | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting or under way."""
        return not (self._binds or self._writes or self._busy)

    def bind(self, binds: list[Bind], choices: Mapping[str, object] | None = None) -> None:
        """Put pods on nodes, in order; `choices` says by pod key why, for the event."""
        self._binds.extend(binds)
        if choices:
            self._choices.update(choices)
        self._wake_workers(-(-len(binds) // self._cluster.at_once))

    def evict(self, evictions: list[Eviction]) -> None:
        """Remove pods."""
        for eviction in evictions:
            self.write(lambda eviction=eviction: self._evict(eviction))  # type: ignore[misc] # default binds the loop variable

    def write(self, job: Job) -> None:
        """Do some other write when a worker is free; it must handle its own `ApiError`s worth handling."""
        self._writes.append(job)
        self._wake_workers(1)

    def _wake_workers(self, count: int) -> None:
        while count > 0 and self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for number in range(self._workers):
                group.create_task(self._work(), name=f"binder {number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._binds and not self._writes:
                waiting: asyncio.Future[None] = loop.create_future()
                self._idle.append(waiting)
                await waiting
                continue
            self._busy += 1
            try:
                if self._binds:
                    binds = self._next_binds()
                    if len(binds) == 1:
                        await self._bind(binds[0])
                    elif binds:
                        await self._bind_all(binds)
                else:
                    await self._write(self._writes.popleft())
            finally:
                self._busy -= 1

    async def _write(self, job: Job) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                return await job()
            except (Unavailable, TooManyRequests) as error:
                await self._clock.sleep(error.retry_after_seconds or 0.1 * 2**attempt)
            except ApiError as error:
                _log.debug("status not written: %s", error)
                return None
        return None

    # -- binds ---------------------------------------------------------------------------------------------------------

    def _aside(self, work: Coroutine[Any, Any, None], bind: Bind) -> None:
        """Go on with a bind beside the workers, who are few: volumes may take minutes, and so may attempts."""

        async def counted() -> None:
            try:
                await work
            finally:
                self._busy -= 1

        assert self._group is not None
        self._busy += 1
        self._group.create_task(counted(), name=f"binder {bind.task.key}")

    async def _bind_with_claims(self, bind: Bind) -> None:
        """Get a pod's claims ready and bind it then."""
        given = bind.task.reservation
        if given is None or not given.stands:
            return
        began = self._clock.monotonic()
        try:
            await self._claims.prepare(bind.task, given, bind.node)
        except StratoError as error:
            await self._failed(bind, error, f"execute preBind for pod {bind.task.key} failed: {error}")
        else:
            if self._staged is not None:
                self._staged(bind.task, "PreBind", self._clock.monotonic() - began)
            await self._bind(bind)
        if not given.stands:
            await self._claims.undo(bind.task, given)

    def _next_binds(self) -> list[Bind]:
        """Take the next binds that can be sent; those whose pods have claims go aside."""
        binds: list[Bind] = []
        while self._binds and len(binds) < self._cluster.at_once:
            bind = self._binds.popleft()
            if bind.task.reservation is not None:
                self._aside(self._bind_with_claims(bind), bind)
            else:
                binds.append(bind)
        return binds

    async def _bind_all(self, binds: Sequence[Bind]) -> None:
        """Bind pods with one call; what did not come about at once is tried again one by one."""
        began = self._clock.monotonic()
        answers = await self._cluster.bind_all([_binding(bind) for bind in binds])
        for bind, error in zip(binds, answers, strict=True):
            if error is None:
                self._done(bind, began)
            else:
                self._aside(self._bind(bind, error), bind)

    async def _bind(self, bind: Bind, error: ApiError | None = None) -> None:
        """Bind a pod; ``error`` is what came of a first attempt."""
        began = self._clock.monotonic()
        for attempt in range(_ATTEMPTS):
            if attempt or error is None:
                (error,) = await self._cluster.bind_all([_binding(bind)])
            if error is None:
                return self._done(bind, began)
            if attempt == _ATTEMPTS - 1 or not isinstance(error, Unavailable | TooManyRequests):
                return await self._failed(bind, error)
            await self._clock.sleep(error.retry_after_seconds or 0.05 * 2**attempt)
        return None

    def _done(self, bind: Bind, began: float) -> None:
        task = bind.task
        if self._failures:
            self._failures.pop(task.key, None)
        text = f"Successfully assigned {task.key} to {bind.node}"
        if self._choices and (why := self._choices.pop(task.key, None)) is not None:
            text += f" ({why})"
        if self._staged is not None:
            self._staged(task, "Bind", self._clock.monotonic() - began)
        self._recorder.event(task.pod, NORMAL, "Scheduled", text)
        if self._bound is not None:
            self._bound(task)

    async def _failed(self, bind: Bind, error: StratoError, message: str = "") -> None:
        """Tell the pod, wait, read it anew, and let it be decided again."""
        task = bind.task
        self._choices.pop(task.key, None)
        if self._world.tasks.get(task.key) is not task:
            return
        _log.info("bind failed: pod=%s node=%s: %s", task.key, bind.node, error)
        if not isinstance(error, NotFound):
            text = message or f"failed to bind to node {bind.node}: {error}"
            await self._write(lambda: self.pod_condition(task, "SchedulerError", text))
        failures = self._failures.get(task.key, 0)
        self._failures[task.key] = failures + 1
        await self._clock.sleep(min(_FIRST_BACKOFF_SECONDS * 2**failures, _LONGEST_BACKOFF_SECONDS))
        await self._resync(task)

    async def _resync(self, task: Task) -> None:
        try:
            fresh: Pod | None = await self._cluster.get(Pod, task.name, task.namespace)
        except NotFound:
            fresh = None
        except ApiError:
            fresh = task.pod
        if self._world.tasks.get(task.key) is not task:
            return
        if task.status == BINDING:
            self._world.move(task, PENDING)
        if fresh is None:
            self._failures.pop(task.key, None)
            self._world.remove_pod(task.key)
        else:
            self._world.set_pod(fresh)
        self._world.openings += 1
        self._wake()

    # -- evictions -----------------------------------------------------------------------------------------------------

    async def _evict(self, eviction: Eviction) -> None:
        task = eviction.task
        message = f"Pod is evicted, because of {eviction.reason}"
        self._recorder.event(task.pod, WARNING, "Evict", message)
        now = format_time(self._clock.now())
        disruption = f"{task.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod"
        if eviction.moves_to:
            message += f"; a place for its successor is kept on {eviction.moves_to}"
            disruption = (
                f"{task.pod.spec.scheduler_name}: making room; {eviction.moves_to} has a place for its successor"
            )
        conditions = [
            {"type": "Ready", "status": "False", "reason": "Evict", "message": message, "lastTransitionTime": now},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": disruption,
                "lastTransitionTime": now,
            },
        ]
        try:
            await self._patch_pod(task, {"conditions": conditions})
            await self._cluster.delete(catalog.POD, task.name, task.namespace, uid=task.uid)
        except NotFound:
            return
        except ApiError as error:
            _log.warning("eviction failed: pod=%s: %s", task.key, error)
            if self._world.tasks.get(task.key) is task and task.status == RELEASING:
                self._world.move(task, RUNNING, task.row)
            await self._resync(task)
            return
        if task.job is not None and task.job.group is not None:
            self._recorder.event(task.job.group, NORMAL, "Evict", eviction.reason)

    # -- gates ---------------------------------------------------------------------------------------------------------

    def admit(self, task: Task) -> None:
        """Take the queue-admission gate of a pod away, once; again when that failed and the pod is admitted anew."""
        if self._admitting.get(task.key) != task.uid:
            self._admitting[task.key] = task.uid
            self.write(lambda: self._admit(task))

    async def _admit(self, task: Task) -> None:
        spec = {"schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}]}
        try:
            await self._cluster.patch(
                Pod,
                task.name,
                task.namespace,
                {"metadata": {"uid": task.uid}, "spec": spec},
                patch_type=PatchType.STRATEGIC,
            )
        finally:
            self._admitting.pop(task.key, None)

    # -- pod status ----------------------------------------------------------------------------------------------------

    async def pod_condition(self, task: Task, reason: str, message: str, nominated: str = "") -> None:
        """Write PodScheduled=False with reason and message, and the nominated node when given."""
        now = format_time(self._clock.now())
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        await self._patch_pod(task, status)

    async def _patch_pod(self, task: Task, status: dict[str, Any]) -> None:
        await self._cluster.patch(
            Pod,
            task.name,
            task.namespace,
            {"metadata": {"uid": task.uid}, "status": status},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )


def _binding(bind: Bind) -> Binding:
    task = bind.task
    return Binding(task.namespace, task.name, bind.node, task.uid, task.bind_annotations())
