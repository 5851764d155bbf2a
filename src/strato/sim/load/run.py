"""`LoadRun`: submits a plan to any Kubernetes API, open loop, watches its pods, and always cleans up at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.errors import ApiError, NotFound
from strato.sim.load.latencies import ENDED, RUNNING, LatencyTracker
from strato.sim.load.plan import LABEL, PODS, LoadOptions, PlannedCreate, planned
from strato.sim.load.result import LoadResult, result_of
from strato.sim.submission import priority_classes, queue_manifests
from strato.sim.workloads.jobs import TraceJob

MOST_UNANSWERED: Final = 20_000
"""Most creations without an answer. Further submissions are dropped and counted: else a server that does not answer
would fill this process's memory."""
_SHORTEST_SLEEP: Final = 0.0005
_LOOK_SECONDS: Final = 0.25
_CLEAN_SECONDS: Final = 120.0
_JOB_LABEL: Final = "volcano.sh/job-name"


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load has come."""

    seconds: float
    due_pods: int
    running_or_ended: int
    ended: int


@dataclass(slots=True)
class LoadRun:
    """One load against a cluster.

    Attributes:
        namespace: The name of the namespace that the load creates, and deletes at its end.
        latencies: The stages that its pods have reached.
    """

    cluster: Cluster
    clock: Clock
    random: Random
    options: LoadOptions
    namespace: str
    progress: Callable[[LoadProgress], None] | None = None
    latencies: LatencyTracker = field(default_factory=LatencyTracker)
    _began: float | None = None
    """Monotonic time of the beginning; None before the first submission."""
    _not_sent: int = 0
    _sent: int = 0
    _unanswered: set[asyncio.Task[None]] = field(default_factory=set)
    _made: list[tuple[str, str]] = field(default_factory=list)
    """Kind and name of the queues and priority classes that this load has created, so must remove."""

    async def run(self, jobs: Sequence[TraceJob], during: Sequence[asyncio.Task[None]] = ()) -> LoadResult:
        """Submit jobs, wait until their pods have ended or ``drain_seconds`` are over, then remove all objects.

        Args:
            jobs: The jobs, ordered by submission.
            during: Tasks of the caller, such as faults, that are cancelled at the end of the load.

        Raises:
            ApiError: The cluster refused the namespace, a queue or a priority class.
        """
        interrupted = False
        informers = Informers(self.cluster, self.clock, self.random)
        try:
            await self._prepare(jobs)
            pods = informers.informer(Pod, namespace=self.namespace)
            pods.add_batch_handler(self._on_pods)
            informers.start()
            await informers.wait_synced()
            self._began = self.clock.monotonic()
            await self._submit(jobs)
            await self._drain()
        except asyncio.CancelledError:
            interrupted = True
        finally:
            seconds = self._now()
            for task in (*during, *self._unanswered):
                task.cancel()
            await informers.stop()
            left = await self._clean()
        return result_of(self.latencies, self._sent, seconds, self._not_sent, interrupted=interrupted, left=left)

    def _now(self) -> float:
        return 0.0 if self._began is None else self.clock.monotonic() - self._began

    async def _prepare(self, jobs: Sequence[TraceJob]) -> None:
        labels = {LABEL: self.namespace}
        await self.cluster.create(catalog.NAMESPACE, {"metadata": {"name": self.namespace, "labels": labels}})
        if self.options.kind == PODS:
            return
        for kind, bodies in (
            (catalog.QUEUE, queue_manifests(jobs, ())),
            (catalog.PRIORITYCLASS, priority_classes(jobs)),
        ):
            for body in bodies:
                name = body["metadata"]["name"]
                try:
                    await self.cluster.get(kind, name)
                except NotFound:
                    await self.cluster.create(kind, {**body, "metadata": {"name": name, "labels": labels}})
                    self._made.append((kind.name, name))

    async def _submit(self, jobs: Sequence[TraceJob]) -> None:
        """Send each submission when it is due, without waiting for answers to earlier ones."""
        for submission in planned(jobs, self.options, self.namespace):
            wait = submission.at_seconds - self._now()
            if wait > _SHORTEST_SLEEP:
                await self.clock.sleep(wait)
            elif self._sent % 64 == 0:
                await asyncio.sleep(0)  # when sending is behind, the tasks that read answers and watches need turns too
            self._sent += 1
            if len(self._unanswered) >= MOST_UNANSWERED:
                self._not_sent += 1
                continue
            self.latencies.begin(submission.name, submission.pods, submission.at_seconds, self._now())
            task = asyncio.create_task(self._create(submission))
            self._unanswered.add(task)
            task.add_done_callback(self._unanswered.discard)
            self._report()

    async def _create(self, submission: PlannedCreate) -> None:
        kind = catalog.POD if self.options.kind == PODS else catalog.VCJOB
        try:
            await self.cluster.create(kind, submission.body, self.namespace)
        except ApiError as error:
            self.latencies.fail(submission.name, error.reason or type(error).__name__)
        else:
            self.latencies.acknowledge(submission.name, self._now())

    def _on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        now = self._now()
        for change in changes:
            pod = change.new
            if pod is None:
                continue
            name = pod.metadata.name
            owner = name if self.options.kind == PODS else pod.metadata.label(_JOB_LABEL)
            self.latencies.see(owner, name, pod.spec.node_name, pod.status.phase, now)

    async def _drain(self) -> None:
        """Wait until all pods have ended, at most ``drain_seconds``."""
        until = self._now() + self.options.drain_seconds
        while self._now() < until and (self._unanswered or self.latencies.outstanding > 0):
            await self.clock.sleep(_LOOK_SECONDS)
            self._report()

    def _report(self) -> None:
        if self.progress is not None:
            latencies = self.latencies
            self.progress(
                LoadProgress(self._now(), latencies.due_pods, latencies.reached(RUNNING), latencies.reached(ENDED))
            )

    async def _clean(self) -> str:
        """Remove the namespace with its objects, then own queues and priority classes; return what is left, as text.

        The removal goes on when the load is cancelled.
        """
        return await asyncio.shield(asyncio.ensure_future(self._remove_all()))

    async def _remove_all(self) -> str:
        left = []
        try:
            await self.cluster.delete(catalog.NAMESPACE, self.namespace)
            async with asyncio.timeout(_CLEAN_SECONDS):
                while True:
                    await self.cluster.get(catalog.NAMESPACE, self.namespace)
                    await self.clock.sleep(_LOOK_SECONDS)
        except NotFound:
            pass
        except (ApiError, TimeoutError) as error:
            left.append(f"namespace {self.namespace} ({str(error) or 'still there'})")
        kinds = {kind.name: kind for kind in (catalog.QUEUE, catalog.PRIORITYCLASS)}
        for kind, name in self._made:
            try:
                await self.cluster.delete(kinds[kind], name)
            except NotFound:
                pass
            except ApiError as error:
                left.append(f"{kind} {name} ({error})")
        return ", ".join(left)
