"""`HistoryRecorder`: watches jobs, pods and nodes of a cluster and appends rows about them to the store.

Informer handlers only keep which objects changed, so that they are cheap even if thousands of pods change in a second;
the changes are processed once a second, in slices. The usage of pods and nodes is read from metrics.k8s.io once a
minute; that of nodes is written as means of five minutes. On a cluster without that API no usage is recorded; this is
logged once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from strato.api.core import Node, Pod
from strato.api.meta import Key
from strato.api.metrics import NodeMetrics, PodMetrics, amounts
from strato.api.volcano.scheduling import GROUP_NOT_ADMITTED, PodGroup
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informer, Informers
from strato.clock import Clock
from strato.errors import ApiError
from strato.history.jobs import KINDS, facts_of
from strato.history.predictionannotations import prediction_of
from strato.history.rows import COMPLETED, Host, JobRun, PodContainer
from strato.history.statistics import GRID_SECONDS, is_ended
from strato.history.store import HistoryError, HistoryStore
from strato.history.tracker import Tracker
from strato.metrics import Registry, Sample

SAMPLE_SECONDS: Final = 60.0
KEPT_SECONDS: Final = 90 * 86_400.0
_TICK_SECONDS: Final = 1.0
_SLICE: Final = 200
"""Pods that are processed, in about 4 ms, before other tasks of the event loop get a turn."""
_BUCKETS: Final = (1, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400)

_log = logging.getLogger(__name__)


class HistoryRecorder:
    """Records the history of a cluster, as the module says.

    Args:
        cluster: The cluster whose metrics.k8s.io is read.
        informers: Give the informers of jobs, pods, pod groups and nodes.
        clock: Gives the instants of changes whose object has no time.
        store: Takes the rows; the caller closes it.
        metrics: Registry for histograms of waits and run times by queue, and for the utilisation of nodes.
        selects: Returns whether a node counts in statistics.
        sample_seconds: Time between two reads of the usage.
        offload: Runs a call of the store and awaits it; by default in a thread, as disks are slow.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        store: HistoryStore,
        *,
        metrics: Registry | None = None,
        selects: Callable[[Node], bool] = lambda _: True,
        sample_seconds: float = SAMPLE_SECONDS,
        offload: Callable[..., Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        self._cluster, self._clock, self._store = cluster, clock, store
        self._selects, self._sample_seconds, self._offload = selects, sample_seconds, offload
        self._tracker = Tracker()
        self._jobs: dict[str, Change[Any]] = {}
        self._changed_pods: dict[str, Change[Pod]] = {}
        self._admitted: dict[str, float] = {}
        self._predicted: dict[str, tuple[float, float, float]] = {}
        self._hosts: dict[str, list[tuple[float, float]]] = {}
        self._busy: dict[str, float] = {}
        self._is_unmeasured = False
        self._pods = informers.informer(Pod)
        self._nodes = informers.informer(Node)
        self._start = informers.start
        groups = informers.informer(PodGroup)
        jobs: list[Informer[Any]] = [informers.informer(view) for view in KINDS]
        self._informers: list[Informer[Any]] = [self._pods, self._nodes, groups, *jobs]
        self._pods.add_batch_handler(self._on_pods)
        groups.add_handler(self._on_group)
        for informer in jobs:
            informer.add_handler(self._on_job)
        registry = metrics if metrics is not None else Registry()
        labels = ("queue",)
        text = "Time between submission of a job and enough of its pods being bound."
        self._waits = registry.histograms("strato_job_wait_seconds", text, labels, _BUCKETS)
        self._lengths = registry.histograms("strato_job_run_seconds", "Time that completed jobs ran.", labels, _BUCKETS)
        registry.collect_gauges(self._gauges)

    def _gauges(self) -> Iterable[Sample]:
        return [Sample("strato_host_cpu_utilisation", {"node": node}, ratio) for node, ratio in self._busy.items()]

    def _on_job(self, change: Change[Any]) -> None:
        self._jobs[change.object.metadata.uid] = change

    def _on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        for change in changes:
            self._changed_pods[change.object.metadata.uid] = change

    def _on_group(self, change: Change[PodGroup]) -> None:
        group = change.new
        if group is not None and group.status.phase not in GROUP_NOT_ADMITTED and (owner := group.metadata.controller):
            self._admitted.setdefault(owner.uid, self._clock.now())
        elif group is not None and (owner := group.metadata.controller):
            predicted = prediction_of(group.metadata.annotations or {})
            if predicted is not None:
                self._predicted.setdefault(owner.uid, predicted)

    async def run(self) -> None:
        """Record until cancelled; then write the rows of live replicas.

        Raises:
            HistoryError: The rows of an earlier process cannot be read.
        """
        self._start()
        for informer in self._informers:
            await informer.wait_synced()
        await self._restore()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._every(_TICK_SECONDS, self._tick))
                group.create_task(self._every(self._sample_seconds, self._sample))
                group.create_task(self._every(GRID_SECONDS, self._write_hosts))
                group.create_task(self._every(KEPT_SECONDS / 90, self._forget))
        finally:
            self._tracker.save_all(self._clock.now())
            self._append(self._tracker.take_rows())

    async def _restore(self) -> None:
        now = self._clock.now()
        runs = await self._offload(self._store.runs)
        kept = [run for run in runs if run.job_uid in self._jobs or not is_ended(run)]
        first = min((run.submitted for run in kept), default=now)
        self._tracker.restore(kept, await self._offload(self._store.replicas, first), now)
        for uid in {run.job_uid for run in kept} - self._jobs.keys():
            self._tracker.forget_job(uid, now)

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await self._clock.sleep(seconds)
            try:
                await work()
            except HistoryError as error:
                _log.warning("history is not recorded: error=%s", error)

    async def _tick(self) -> None:
        now = self._clock.now()
        jobs, self._jobs = self._jobs, {}
        for uid, change in jobs.items():
            self._tracker.see_job(facts_of(change.object), now)
            if change.new is None:
                self._tracker.forget_job(uid, now)
        predicted, self._predicted = self._predicted, {}
        for uid, (start, low, high) in predicted.items():
            self._tracker.see_prediction(uid, start, low, high)
        admitted, self._admitted = self._admitted, {}
        for uid, at in admitted.items():
            self._tracker.see_group(uid, at)
        pods, self._changed_pods = self._changed_pods, {}
        for number, change in enumerate(pods.values()):
            self._tracker.see_pod(change.object, is_gone=change.new is None, now=now)
            if number % _SLICE == _SLICE - 1:
                await self._clock.sleep(0)
        rows = self._tracker.take_rows()
        if rows:
            try:
                await self._offload(self._append, rows)
            except HistoryError:
                self._tracker.put_back(rows)
                raise
            self._observe(rows)

    def _append(self, rows: Sequence[JobRun | PodContainer]) -> None:
        if rows:
            self._store.append(rows)

    def _observe(self, rows: Iterable[JobRun | PodContainer]) -> None:
        for row in rows:
            if not isinstance(row, JobRun) or row.phase != COMPLETED or row.ended is None:
                continue
            if row.ready is not None:
                self._waits.of(row.queue).observe(max(row.ready - row.submitted, 0.0))
            if row.started is not None:
                self._lengths.of(row.queue).observe(max(row.ended - row.started, 0.0))

    async def _sample(self) -> None:
        try:
            pods = (await self._cluster.list(PodMetrics)).items
            nodes = (await self._cluster.list(NodeMetrics)).items
        except ApiError as error:
            if not self._is_unmeasured:
                _log.warning("what pods and nodes use is not recorded: metrics.k8s.io error=%s", error)
            self._is_unmeasured = True
            return
        self._is_unmeasured = False
        now = self._clock.now()
        for start in range(0, len(pods), _SLICE):
            known = [(found, one) for one in pods[start : start + _SLICE] if (found := self._pods.get(one.key))]
            self._tracker.sample(known, self._sample_seconds, now)
            await self._clock.sleep(0)
        for node in nodes:
            used = amounts(node.usage)
            if used is not None:
                self._hosts.setdefault(node.metadata.name, []).append(used)

    async def _write_hosts(self) -> None:
        samples, self._hosts = self._hosts, {}
        start = self._clock.now() // GRID_SECONDS * GRID_SECONDS
        rows = []
        for name, found in samples.items():
            node = self._nodes.get(Key("", name))
            capacity = amounts(node.status.capacity) if node is not None else None
            if node is None or capacity is None:
                continue
            cpu_capacity, memory_capacity = capacity
            offered = amounts(node.status.allocatable)
            cpu, memory = (sum(samples) / len(found) for samples in zip(*found, strict=True))
            self._busy[name] = cpu / cpu_capacity if cpu_capacity else 0.0
            rows.append(
                Host(
                    ts=start,
                    node=name,
                    selected=self._selects(node),
                    cpu_capacity=cpu_capacity,
                    cpu_used=cpu,
                    cpu_allocatable=offered[0] if offered is not None else 0.0,
                    mem_capacity=memory_capacity,
                    mem_used=memory,
                )
            )
        for gone in self._busy.keys() - samples.keys():
            del self._busy[gone]
        if rows:
            await self._offload(self._store.append, rows)

    async def _forget(self) -> None:
        await self._offload(partial(self._store.forget, self._clock.now() - KEPT_SECONDS))
