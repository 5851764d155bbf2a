"""A continuous self-audit: compares the world with the API, a page at a time.

Every period the audit lists one page of pods and compares each with its task. A difference may be a change that the
informer has yet to deliver, so it is only a suspicion: one period later the audit reads that pod again by itself, and
if it still differs, repairs the world, counts the repair and records an event. It also recomputes the sums of some
nodes, some jobs and one queue from their tasks; a difference there is certainly wrong, as both sides are in memory.
Pages bound the cost of a period, except for one large job or queue, whose sum is over all of its tasks or jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Object
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.clock import Clock
from strato.errors import ApiError, Gone, NotFound
from strato.metrics import Registry
from strato.scheduler.cache.ingest import status_of
from strato.scheduler.cache.world import World
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED, BINDING, COMPLETED_SET, PIPELINED

_log = logging.getLogger(__name__)

AUDIT_SECONDS = 30.0
"""Default period where a scheduler serves a cluster; simulations have no audit."""
PAGE = 200
"""Pods read per period."""
_SUMS = 200
"""Nodes, and jobs, whose sums are recomputed per period; fewer jobs if they have more than `_TASKS` tasks together."""
_TASKS = 2_000
_SUSPECTS = 50
"""Suspicions verified per period."""

UNKNOWN_POD = "unknown pod"
GONE_POD = "pod that is gone"
WRONG_PLACE = "pod in the wrong place"
WRONG_NODE = "node with wrong sums"
WRONG_JOB = "job with wrong sums"
WRONG_QUEUE = "queue with wrong sums"
WRONG_DEVICES = "claims with wrong devices"


class Audit:
    """Compares the world with the API and repairs it.

    Args:
        period_seconds: Time between two comparisons.
        owns: Whether this replica owns a pod, where several active schedulers divide them (`Replicas.owns`).
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        registry: Registry,
        wake: Callable[[], None],
        period_seconds: float,
        owns: Callable[[Pod], bool] = lambda _: True,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._wake = wake
        self._period = period_seconds
        self._owns = owns
        self._looked = registry.counter("strato_cache_audited", "Objects the self-audit compared", ("kind",))
        self._repaired = registry.counter("strato_cache_repairs", "Differences the self-audit repaired", ("kind",))
        self._token = ""
        self._believed: set[str] = set()
        self._row = 0
        self._jobs: list[str] = []
        self._queues: list[str] = []
        self._suspects: dict[str, str] = {}

    async def run(self) -> None:
        """Compare periodically until cancelled."""
        while True:
            await self._clock.sleep(self._period)
            try:
                await self.look()
            except ApiError as error:
                _log.info("the self-audit could not read: %s", error)

    async def look(self) -> None:
        """Verify old suspicions, then compare the next page of pods and the next sums."""
        suspects, self._suspects = self._suspects, {}
        for number, (key, kind) in enumerate(suspects.items()):
            if number < _SUSPECTS:
                await self._verify(key, kind)
            else:
                self._suspects[key] = kind
        await self._read_page()
        self._world.when_closed(self._check_sums)

    # -- pods ----------------------------------------------------------------------------------------------------------

    async def _read_page(self) -> None:
        if not self._token:
            self._believed = set(self._world.tasks)
        try:
            page = await self._cluster.list(Pod, limit=PAGE, continue_token=self._token)
        except Gone:
            self._token = ""  # the pass took so long that the server's list token has expired
            return
        self._looked.labels("pod").inc(len(page.items))
        for pod in page.items:
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._believed.discard(key)
            kind = self._difference(key, pod)
            if kind:
                self._suspects[key] = kind
        self._token = page.continue_token
        if not self._token:
            for key in self._believed:
                if key in self._world.tasks:
                    self._suspects.setdefault(key, GONE_POD)

    def _difference(self, key: str, pod: Pod | None) -> str:
        """Return how the world differs from the API's pod (None: there is none); empty if it does not."""
        task = self._world.tasks.get(key)
        if pod is None:
            return GONE_POD if task is not None else ""
        if task is None:
            known = pod.spec.node_name or self._world.is_ours(pod)
            return UNKNOWN_POD if known and not pod.is_finished and self._owns(pod) else ""
        if task.uid != pod.metadata.uid:
            return UNKNOWN_POD
        if task.status in (ALLOCATED, PIPELINED, BINDING) and not pod.spec.node_name:
            return ""  # the binder is writing this bind
        node = self._world.nodes.names[task.row] if task.row >= 0 else ""
        true = "" if status_of(pod) in COMPLETED_SET else pod.spec.node_name
        return WRONG_PLACE if node != true else ""

    async def _verify(self, key: str, kind: str) -> None:
        """Read one suspected pod again and repair its task if it still differs."""
        namespace, _, name = key.partition("/")
        try:
            pod: Pod | None = await self._cluster.get(Pod, name, namespace)
        except NotFound:
            pod = None
        self._world.when_closed(lambda: self._repair(key, kind, pod))

    def _repair(self, key: str, kind: str, pod: Pod | None) -> None:
        now = self._difference(key, pod)
        if not now:
            return
        task = self._world.tasks.get(key)
        subject = pod if pod is not None else task.pod if task is not None else None
        journal = self._world.journal
        journal.drop(catalog.POD, *key.split("/", 1))
        self._world.remove_pod(key)
        if pod is not None:
            journal.take(catalog.POD, pod)
            self._world.set_pod(pod)
        self._report(now, f"{now}: {key}; the scheduler's view was repaired (first seen as {kind})", subject)

    def _report(self, kind: str, text: str, regarding: Object | None) -> None:
        _log.error("self-audit: %s", text)
        self._repaired.labels(kind).inc()
        if regarding is not None:
            self._recorder.event(regarding, WARNING, "CacheRepaired", text)
        self._world.schedulable_generation += 1
        self._wake()

    # -- sums ----------------------------------------------------------------------------------------------------------

    def _check_sums(self) -> None:
        """Recompute the sums of some nodes, some jobs and one queue."""
        self._check_nodes()
        self._check_jobs()
        self._queues = self._queues or [*self._world.queues]
        self._check_queue(self._world.queues.get(self._queues.pop()) if self._queues else None)
        if self._world.devices.repair():
            self._mend(WRONG_DEVICES, "counted anew", None)

    def _check_nodes(self) -> None:
        nodes = self._world.nodes
        if self._row >= nodes.size:
            self._row = 0
        last = min(self._row + _SUMS, nodes.size)
        for row in range(self._row, last):
            if nodes.present[row] and nodes.repair(row):
                nodes.touch(row)
                self._mend(WRONG_NODE, nodes.names[row], nodes.facts[row])
        if nodes.repair_leaving():
            self._mend(WRONG_NODE, "the number of leaving pods", None)
        self._looked.labels("node").inc(last - self._row)
        self._row = last

    def _check_jobs(self) -> None:
        world, tasks = self._world, 0
        self._jobs = self._jobs or [*world.jobs]
        page = [world.jobs[key] for key in self._jobs[-_SUMS:] if key in world.jobs]
        del self._jobs[-_SUMS:]
        for at, job in enumerate(page):
            self._looked.labels("job").inc()
            if world.repair_job(job):
                self._mend(WRONG_JOB, job.key, job.group)
                self._check_queue(job.queue)
            tasks += len(job.tasks)
            if tasks >= _TASKS:
                self._jobs += [job.key for job in page[at + 1 :]]
                break

    def _check_queue(self, queue: Queue | None) -> None:
        if queue is None:
            return
        self._looked.labels("queue").inc()
        if self._world.repair_queue(queue):
            self._mend(WRONG_QUEUE, queue.name, queue.view)

    def _mend(self, kind: str, name: str, regarding: Object | None) -> None:
        """Report sums that were wrong and have been recomputed."""
        self._world.version += 1
        self._world.journal.repair()
        self._report(kind, f"{kind}: {name}; they were computed anew", regarding)
