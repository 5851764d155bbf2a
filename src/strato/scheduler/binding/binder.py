"""`Binder`: carries out a plan's binds, evictions and gate removals: retries failed writes and records events.

Each kind of write has a queue and workers of its own (`strato.client.writequeue`); retries wait outside the workers.
When a bind fails, the binder first reads the pod, because the API server may have accepted the bind although it
answered with an error or not at all. If a bind has failed for good, the task is Pending again and its node free at
once; the task is held out of decisions for a back-off that doubles with each failure of the pod. The binder never
chooses a node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Binding, Cluster, Patch, PatchType
from strato.client.events import NORMAL, EventRecorder
from strato.client.retry import delay_seconds, in_time, is_outcome_unknown
from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.client.writequeue import WriteQueue
from strato.clock import Clock
from strato.errors import ApiError, NotFound, StratoError, TooManyRequests, Unavailable
from strato.scheduler.binding.claimbinder import ClaimBinder
from strato.scheduler.binding.evictor import PodEvictor
from strato.scheduler.cache.ingest import QUEUE_GATE
from strato.scheduler.cache.world import World
from strato.scheduler.claims.reservations import stands
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Bind, Eviction
from strato.scheduler.model.tasks import BINDING, PENDING
from strato.scheduler.reporting.pods import PodReports

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
"""How often a bind is sent before its task is Pending again and the next cycle decides on it."""
_FIRST_RETRY_SECONDS = 0.05
_FIRST_BACKOFF_SECONDS = 0.005
_LONGEST_BACKOFF_SECONDS = 60.0
_EVICTIONS = 16
_GATES = 8
_LOOKUPS = 8
"""Numbers of workers for evictions, gate removals and reads of pods after failed binds."""


class _Failed(NamedTuple):
    """A bind that failed, or whose outcome is unknown."""

    bind: Bind
    error: StratoError
    message: str
    """For the pod's condition; if empty, the text of the error is used."""
    sent: bool
    """Whether a Binding was sent, which the API server may have accepted."""
    reads: int = 0
    """How many reads of the pod have failed since."""


class BindObserver(NamedTuple):
    """Callbacks for the outcomes of a plan's binds and evictions; for metrics.

    Attributes:
        bound: Called for every pod that was bound.
        staged: Called with the seconds that a stage (``PreBind``, ``Bind``) of a pod took.
        refused: Called with an eviction that was refused or is no longer needed.
    """

    bound: Callable[[Task], None] = lambda _: None
    staged: Callable[[Task, str, float], None] = lambda *_: None
    refused: Callable[[Eviction], None] = lambda _: None


class Binder:
    """Writes binds, evictions and gate removals to the API.

    Args:
        observer: Called with the outcomes.
        workers: How many binds are in flight at a time; a busy API server serves clients in proportion to these.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        pods: PodReports,
        wake: Callable[[], None],
        *,
        observer: BindObserver = BindObserver(),  # noqa: B008 -- immutable
        workers: int = 64,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._pods = pods
        self._wake = wake
        self._observer = observer
        self._binds: WriteQueue[Bind] = WriteQueue(clock, self._bind_all, workers, batch=cluster.at_once, name="binder")
        self._lookups: WriteQueue[_Failed] = WriteQueue(clock, self._look_up, _LOOKUPS, name="binder lookup")
        self._backoffs: WriteQueue[Task] = WriteQueue(clock, self._back_in, 1, name="binder backoff")
        self._evictions: WriteQueue[Eviction] = WriteQueue(clock, self._evict, _EVICTIONS, name="binder eviction")
        self._gates: StatusQueue[str, Task, Patch] = StatusQueue(
            clock,
            Reporter(self._build_gate, partial(cluster.patch_all, catalog.POD, patch_type=PatchType.STRATEGIC)),
            InFlight(_GATES, cluster.at_once),
            name="binder gate",
        )
        self._attempts: dict[str, int] = {}
        """By pod key, how often its current bind was sent without success."""
        self._failures: dict[str, int] = {}
        """By pod key, how many of its binds in a row have failed for good."""
        self._choices: dict[str, object] = {}
        self._claims = ClaimBinder(cluster, clock, world)
        self._evictor = PodEvictor(cluster, clock, world, recorder, pods, self._on_eviction_refused)
        self._group: asyncio.TaskGroup | None = None
        self._again_at: float | None = None

    @property
    def _queues(self) -> tuple[WriteQueue[Any] | StatusQueue[Any, Any, Any], ...]:
        return self._binds, self._lookups, self._backoffs, self._evictions, self._gates

    def bind(self, binds: list[Bind], choices: Mapping[str, object] | None = None) -> None:
        """Queue binds, in order; ``choices`` has by pod key the reason for the node, for the event."""
        if choices:
            self._choices.update(choices)
        with_claims = [bind for bind in binds if bind.task.reservation is not None]
        if with_claims:
            binds = [bind for bind in binds if bind.task.reservation is None]
            for bind in with_claims:
                self._aside(self._bind_with_claims(bind), bind)
        self._binds.extend(binds)

    def evict(self, evictions: list[Eviction]) -> None:
        """Queue evictions."""
        self._evictions.extend(evictions)

    def decide_again(self, seconds: float) -> None:
        """Request a cycle after a time, unless an earlier one is requested already."""
        at = self._clock.monotonic() + seconds
        if self._group is not None and (self._again_at is None or at < self._again_at):
            self._again_at = at
            self._group.create_task(self._reconsider(seconds), name="decide again")

    @property
    def is_idle(self) -> bool:
        """Whether no bind or eviction is queued or in flight; retries that wait do not count."""
        return self._binds.is_idle and self._evictions.is_idle

    async def run(self) -> None:
        """Run the workers until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for queue in self._queues:
                group.create_task(queue.run())

    # -- binds ---------------------------------------------------------------------------------------------------------

    def _aside(self, work: Coroutine[Any, Any, None], bind: Bind) -> None:
        """Continue a bind in a task of its own, because waiting for volumes may take minutes and workers are few."""
        assert self._group is not None
        self._group.create_task(work, name=f"binder {bind.task.key}")

    async def _bind_with_claims(self, bind: Bind) -> None:
        """Prepare a pod's claims, then queue its bind."""
        given = bind.task.reservation
        if given is None or not stands(self._world.tasks.get(bind.task.key), given):
            return
        began = self._clock.monotonic()
        try:
            await self._claims.prepare(bind.task, given, bind.node)
        except StratoError as error:
            message = f"execute preBind for pod {bind.task.key} failed: {error}"
            self._lookups.add(_Failed(bind, error, message, sent=False))
            return
        self._observer.staged(bind.task, "PreBind", self._clock.monotonic() - began)
        self._binds.add(bind)

    async def _bind_all(self, binds: Sequence[Bind]) -> None:
        """Bind pods with one call, and handle the answer for each."""
        began = self._clock.monotonic()
        try:
            answers = await in_time(self._cluster.bind_all([_binding(bind) for bind in binds]))
        except Unavailable as silence:
            answers = [silence] * len(binds)
        if None in answers:
            self._binds.speed_up()
        for bind, error in zip(binds, answers, strict=True):
            if error is None:
                self._done(bind, began)
            elif isinstance(error, TooManyRequests) and self._may_try_again(bind):
                self._binds.slow_down()
                self._try_again(bind, error)
            else:
                self._lookups.add(_Failed(bind, error, "", sent=True))

    def _may_try_again(self, bind: Bind) -> bool:
        return self._attempts.get(bind.task.key, 0) + 1 < _ATTEMPTS

    def _try_again(self, bind: Bind, error: ApiError) -> None:
        attempts = self._attempts[bind.task.key] = self._attempts.get(bind.task.key, 0) + 1
        self._binds.add_after(bind, delay_seconds(error, attempts, first=_FIRST_RETRY_SECONDS))

    def _done(self, bind: Bind, began: float) -> None:
        task = bind.task
        if self._failures:
            self._failures.pop(task.key, None)
        if self._attempts:
            self._attempts.pop(task.key, None)
        text = f"Successfully assigned {task.key} to {bind.node}"
        if self._choices and (why := self._choices.pop(task.key, None)) is not None:
            text += f" ({why})"
        self._observer.staged(task, "Bind", self._clock.monotonic() - began)
        self._recorder.event(task.pod, NORMAL, "Scheduled", text)
        self._observer.bound(task)

    # -- binds that failed ---------------------------------------------------------------------------------------------

    async def _look_up(self, failed: Sequence[_Failed]) -> None:
        for one in failed:
            await self._look_up_one(one)

    async def _look_up_one(self, failed: _Failed) -> None:
        """Read the pod of a failed bind and settle the bind by its state."""
        task = failed.bind.task
        fresh: Pod | None = None
        if self._is_binding(task):
            try:
                fresh = await self._read(task)
            except ApiError as error:
                wait = delay_seconds(error, failed.reads + 1)
                self._lookups.add_after(failed._replace(reads=failed.reads + 1), wait)
                return
        self._world.when_closed(lambda: self._settle(failed, fresh))

    async def _read(self, task: Task) -> Pod | None:
        """Return the pod of a task as the API has it; None when it is gone."""
        try:
            fresh = await in_time(self._cluster.get(Pod, task.name, task.namespace))
        except NotFound:
            return None
        return fresh if fresh.metadata.uid == task.uid else None

    def _is_binding(self, task: Task) -> bool:
        """Whether the world still has this task as Binding, so that the outcome of its bind is unknown."""
        return self._world.tasks.get(task.key) is task and task.status == BINDING

    def _settle(self, failed: _Failed, fresh: Pod | None) -> None:
        """Treat a failed bind as done, retry it or give up, by the pod's state; None: the pod is gone."""
        bind, error = failed.bind, failed.error
        task = bind.task
        if self._is_binding(task) and fresh is not None and fresh.spec.node_name:
            self._take(fresh)
        current = self._world.tasks.get(task.key)
        if failed.sent and current is not None and (current.uid, current.pod.spec.node_name) == (task.uid, bind.node):
            _log.info("bind came about although its answer was lost: pod=%s node=%s", task.key, bind.node)
            self._done(bind, self._clock.monotonic())
            return
        if failed.sent and self._is_binding(task) and fresh is not None and isinstance(error, ApiError):
            passing = is_outcome_unknown(error) or isinstance(error, TooManyRequests)
            if passing and self._may_try_again(bind):
                self._try_again(bind, error)
                return
        self._give_up(failed, fresh)

    def _give_up(self, failed: _Failed, fresh: Pod | None) -> None:
        """Set the task to Pending, write the error to the pod's condition, and hold the task for a back-off."""
        bind, error = failed.bind, failed.error
        task = bind.task
        given = task.reservation
        self._choices.pop(task.key, None)
        self._attempts.pop(task.key, None)
        if self._is_binding(task):
            journal = self._world.journal
            journal.unbind(task.key)
            self._world.move(task, PENDING)
            if fresh is None:
                self._failures.pop(task.key, None)
                journal.drop(catalog.POD, task.namespace, task.name)
                self._world.remove_pod(task.key)
            else:
                self._take(fresh)
                self._back_off(failed)
            self._world.schedulable_generation += 1
            self._wake()
        if given is not None and not stands(self._world.tasks.get(task.key), given):
            self._aside(self._claims.undo(task, given), bind)
        _log.info("bind failed: pod=%s node=%s: %s", task.key, bind.node, error)

    def _take(self, fresh: Pod) -> None:
        self._world.journal.take(catalog.POD, fresh)
        self._world.set_pod(fresh)

    def _back_off(self, failed: _Failed) -> None:
        """Report the error of a pod that is still unbound and hold its task for a back-off."""
        bind, error = failed.bind, failed.error
        task = self._world.tasks.get(bind.task.key)
        if task is None or task.status != PENDING:
            return
        text = failed.message or f"failed to bind to node {bind.node}: {error}"
        self._pods.bind_failed(task, text)
        if len(self._failures) > 2 * len(self._world.tasks) + 1000:
            self._failures = {key: count for key, count in self._failures.items() if key in self._world.tasks}
        failures = self._failures.get(task.key, 0)
        self._failures[task.key] = failures + 1
        self._world.journal.hold(task.key)
        self._world.hold(task)
        backoff = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(failures, 30), _LONGEST_BACKOFF_SECONDS)
        self._backoffs.add_after(task, backoff)

    async def _back_in(self, tasks: Sequence[Task]) -> None:
        def release() -> None:
            for task in tasks:
                if self._world.held.get(task.key) is task:
                    self._world.journal.release(task.key)
                self._world.release(task)
            self._wake()

        self._world.when_closed(release)

    # -- evictions -----------------------------------------------------------------------------------------------------

    async def _evict(self, evictions: Sequence[Eviction]) -> None:
        """Try to evict pods; queue those again whose outcome is unknown."""
        for eviction in evictions:
            try:
                wait = await in_time(self._evictor.evict(eviction))
            except Unavailable:
                wait = _FIRST_RETRY_SECONDS
            if wait is not None:
                self._evictions.add_after(eviction, wait)

    def _on_eviction_refused(self, eviction: Eviction) -> None:
        """Request a cycle now, and another when the victim is no longer spared."""
        assert self._group is not None
        self._observer.refused(eviction)
        self._wake()
        seconds = self._world.evictions.spared_seconds(eviction.task.key, self._clock.now())
        if seconds > 0:
            self._group.create_task(self._reconsider(seconds), name=f"spare {eviction.task.key}")

    async def _reconsider(self, seconds: float) -> None:
        def reopen() -> None:
            self._again_at = None
            self._world.journal.reopen()
            self._world.version += 1
            self._world.schedulable_generation += 1
            self._wake()

        await self._clock.sleep(seconds)
        self._world.when_closed(reopen)

    # -- gates ---------------------------------------------------------------------------------------------------------

    def admit(self, task: Task) -> None:
        """Remove the queue-admission gate of a pod, unless that is written or queued already for this pod."""
        if self._gates.stamp(task.key) != task.uid:
            self._gates.put(task.key, task)

    def _build_gate(self, key: str, task: Task) -> Write[Patch] | None:
        if self._world.tasks.get(key) is not task:
            return None
        spec = {"schedulingGates": [{"$patch": "delete", "name": QUEUE_GATE}]}
        return Write(Patch(task.namespace, task.name, {"metadata": {"uid": task.uid}, "spec": spec}), task.uid)


def _binding(bind: Bind) -> Binding:
    task = bind.task
    return Binding(task.namespace, task.name, bind.node, task.uid, task.bind_annotations())
