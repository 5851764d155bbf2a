"""`SandboxNode`: registers this machine as a node, renews its Lease, and runs a worker for every pod bound to it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from strato.api.core import Node, Pod, Service
from strato.api.discovery import EndpointSlice
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.client.informer import Change, Informer, Informers
from strato.clock import Clock
from strato.errors import ApiError, Forbidden, NotFound
from strato.node.heartbeats import Heartbeats
from strato.node.images.store import ImageStore
from strato.node.nodesync import NodeSync
from strato.node.records import record_of
from strato.node.registration import NodeFacts, first_published, pressure_reason, published_of, register_node
from strato.node.removal import TreeRemover
from strato.node.sandbox.allocation import AllocationManager
from strato.node.sandbox.clusterservices import NodeServiceAccess
from strato.node.sandbox.containerworker import KILL_TIMEOUT_SECONDS, NodeServices
from strato.node.sandbox.evictionmanager import EvictionManager
from strato.node.sandbox.gpus import LABELS, RESOURCES
from strato.node.sandbox.hostsfiles import HostsFiles
from strato.node.sandbox.imagegc import ImageCollector
from strato.node.sandbox.imagemanager import ImageManager
from strato.node.sandbox.logs import DiskLogs
from strato.node.sandbox.machine import Machine, cpu_info, system_info
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.podworker import PodWorker
from strato.node.sandbox.runtime import Runtime
from strato.node.sandbox.sandbox import PodSandbox
from strato.node.sandbox.settings import NodeOffer, NodePeriods, PodIsolation
from strato.node.sandbox.setup import MachineSetup
from strato.node.sandbox.sharedhost import SharedHost
from strato.node.sandbox.staticpods import StaticPods
from strato.node.sandbox.summary import NodeSummary
from strato.node.statuswriter import StatusWriter
from strato.node.timers import Timers

_RETRY_SECONDS = 1.0
_WRITE_SECONDS = 5.0
"""Longest time for writing the statuses of pods that end with the node."""

_log = logging.getLogger(__name__)


class SandboxNode:
    """This machine as a node of the cluster.

    Args:
        clock: The machine's clock; processes do not run in virtual time.
        informers: Shared informers; None makes one for this node's pods only.
        data_dir: The node's directory: pods, logs, images. Only one node may run per directory.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        rng: random.Random,
        informers: Informers | None = None,
        *,
        data_dir: str | os.PathLike[str],
        offer: NodeOffer,
        isolation: PodIsolation | None = None,
        periods: NodePeriods | None = None,
    ) -> None:
        self.name = name = offer.name
        self._offer = offer
        self._isolation = isolation = isolation or PodIsolation()
        self._periods = periods = periods or NodePeriods()
        self._cluster = cluster
        self._clock = clock
        self._rng, self._informers = rng, informers
        directory = os.path.abspath(data_dir)
        self._runtime = Runtime(directory, isolation.level)
        self._own_informer = informers is None
        self._informer: Informer[Pod] = (
            Informer(cluster, Pod, clock, rng, field_selector=f"spec.nodeName={name}")
            if informers is None
            else informers.informer(Pod)
        )
        self._node_informer: Informer[Node] = (
            Informer(cluster, Node, clock, rng, field_selector=f"metadata.name={name}")
            if informers is None
            else informers.informer(Node)
        )
        self._recorder = EventRecorder(cluster, clock, "kubelet")
        self._service_informer: Informer[Service] = (
            Informer(cluster, Service, clock, rng) if informers is None else informers.informer(Service)
        )
        self._remover = TreeRemover()
        self._machine = Machine(cluster, self._runtime, NodePaths(directory, self._remover.remove), offer, isolation)
        self._image_manager = ImageManager(self._machine, clock)
        self._setup = MachineSetup(self._machine, self._runtime, offer, isolation)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers = Timers(clock)
        self._writer: StatusWriter[PodWorker] = StatusWriter(
            cluster, clock, on_written=self._on_written, concurrency=16
        )
        self._hosts = HostsFiles(
            self._workers, self._timers, lambda: () if self._own_informer else self._informer.list()
        )
        self._allocations = AllocationManager(
            self._machine, self._workers, self._informer.get, lambda: self._node_informer.get(("", name))
        )
        self._evictions = EvictionManager(self._machine, clock, periods, self._workers)
        self._service_access = NodeServiceAccess(
            self._machine,
            self._service_informer,
            informers.informer(EndpointSlice) if informers is not None else None,
            self._informer,
            clock,
            isolation.services,
            self._recorder.event,
        )
        self._host = SharedHost(self._runtime, self._machine, self._setup, self._image_manager, self._service_access)
        self._static_pods = StaticPods(self._machine, clock, self._node_informer, self._informer, self._recorder)
        self._is_first = True
        """Whether this node prepares the machine; further nodes of the machine do not."""
        self._is_shutting_down = False
        self.registered = asyncio.Event()
        """Set when the node is in the API."""
        self.logs = DiskLogs(self._machine.node_paths, clock)
        """The logs of the pods on this node."""

    @property
    def images(self) -> ImageStore:
        """The node's image store."""
        return self._machine.images

    def pod(self, key: tuple[str, str]) -> Pod | None:
        """Return a pod of this node by namespace and name, None if the node does not have it."""
        return self._informer.get(key)

    def summary(self) -> NodeSummary:
        """Return the properties of the node for ``strato status``."""
        return NodeSummary(
            name=self.name,
            pods=self._host.pods,
            isolation=self._runtime.isolation,
            pod_network=str(self._machine.addresses.network),
            limits=self._machine.cgroups.enabled,
            egress=self._machine.has_egress or not self._machine.bridge,
            own_users=self._machine.own_users,
            gpus=tuple(gpu.model or gpu.device for gpu in self._machine.gpus.gpus),
            substituted_containers=self._machine.substituted,
            warnings=tuple(self._setup.warnings),
        )

    def neighbour(self, cluster: Cluster, offer: NodeOffer) -> SandboxNode:
        """Return a further node of this machine; it must run beside this one and end before it.

        This node must have informers of all pods, because it removes what belongs to no pod of either node.
        """
        assert self._informers is not None, "pods of the other node would be taken for orphans"
        other = SandboxNode(
            cluster,
            self._clock,
            self._rng,
            self._informers,
            data_dir=self._machine.node_paths.data_dir,
            offer=offer,
            isolation=replace(self._isolation, services=None),
            periods=self._periods,
        )
        other.share(self._host)
        return other

    def share(self, host: SharedHost) -> None:
        """Make this a further node of the machine instead of its first one; call it before `run`."""
        self._is_first, self._host = False, host
        self._runtime, self._image_manager = host.runtime, host.images
        host.add(self._machine)

    async def run(self) -> None:
        """Run the node until cancelled. Containers keep running; the next `run` on the same directory adopts them.

        Raises:
            RuntimeProblem: The sandbox helper does not start.
        """
        try:
            await self._prepare()
            self._evictions.update_conditions()
            facts = self._facts()
            uids = {self.name: await self._register(facts)}
            self._machine.allocatable = first_published(facts).allocatable
            self._node_informer.add_handler(partial(self._on_node, facts))
            heartbeats = Heartbeats(self._cluster, self._clock, uids)
            sync = NodeSync(
                self._cluster,
                self._node_informer,
                self._clock,
                reported := {self.name: facts},
                uids,
                restored=lambda _name: self._report_pods(),
            )
            self.registered.set()
            keep_services = await (self._host.serve() if self._is_first else self._service_access.start())
            self._informer.add_handler(self._on_change)
            self._informer.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._timers.run())
                group.create_task(self._writer.run())
                group.create_task(heartbeats.run())
                group.create_task(sync.run())
                group.create_task(self._evictions.run(partial(self._report_pressures, reported, sync)))
                group.create_task(self._remover.run(self._clock))
                if keep_services is not None:
                    group.create_task(keep_services())
                if self._is_first:
                    group.create_task(self._remove_orphans())
                    group.create_task(self._static_pods.run())
                    group.create_task(ImageCollector(self._machine.images, self._clock).run())
        finally:
            await self._close()

    async def _prepare(self) -> None:
        self._host.count(self._workers)
        if not self._is_first:
            await self._host.is_ready.wait()
            return
        await self._host.open()
        for reason, warning in self._setup.events:
            self._recorder.event(self._reference(), "Warning", reason, warning)

    async def shut_down(self, grace_seconds: float) -> int:
        """End the pods as a kubelet does when its machine is shut down; call it before `run` is cancelled.

        The pods become Failed, with reason Terminated. Pods whose containers have not begun are left unchanged.

        Args:
            grace_seconds: Longest time of a container between SIGTERM and SIGKILL.

        Returns:
            How many pods have ended.
        """
        self._is_shutting_down = True
        workers = {uid: worker for uid, worker in self._workers.items() if worker.shut_down(grace_seconds)}
        for uid in self._tasks.keys() - workers.keys():
            self._tasks[uid].cancel()
        if not workers:
            return 0
        ends = [asyncio.create_task(worker.ended.wait()) for worker in workers.values()]
        await asyncio.wait(ends, timeout=grace_seconds + KILL_TIMEOUT_SECONDS)
        for end in ends:
            end.cancel()
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            _log.warning("not every status of a pod was written in time: node=%s", self.name)
        ended = sum(worker.ended.is_set() for worker in workers.values())
        _log.info("pods ended because the node shuts down: count=%d of=%d", ended, len(workers))
        return ended

    async def _close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._own_informer:
            await self._informer.stop()
            await self._node_informer.stop()
            await self._service_informer.stop()
        if self._is_first:
            self._runtime.close()

    # The Node object

    def _facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.name,
            address=self._machine.host_ip,
            capacity=self._machine.capacity,
            cpu_overcommit_factor=self._offer.cpu_overcommit_factor,
            annotations={**cpu_info(), **self._offer.annotations},
            labels={"node.kubernetes.io/instance-type": "sandbox", **self._setup.gpu_labels, **self._offer.labels},
            info=system_info(),
            runtime=f"strato://{self._runtime.isolation}",
            kubelet_port=self._offer.kubelet_port,
            outdated=(*RESOURCES, *LABELS),
            message="sandbox node is posting ready status",
            pressures=self._machine.pressures,
        )

    async def _register(self, facts: NodeFacts) -> str:
        while True:
            try:
                return await register_node(self._cluster, facts, self._clock.now())
            except ApiError as err:
                _log.warning("registering the node failed and is tried again: node=%s error=%s", self.name, err)
                await self._clock.sleep(_RETRY_SECONDS)

    def _on_node(self, facts: NodeFacts, change: Change[Node]) -> None:
        """Take the ratio by which the node's cpu is amplified from its object; pods are admitted by the result."""
        if change.new is not None and change.key.name == self.name:
            offered = published_of(facts, change.new).allocatable
            if offered != self._machine.allocatable:
                self._machine.allocatable = offered
                self._allocations.retry()

    def _report_pods(self) -> None:
        for worker in self._workers.values():
            self._writer.submit(worker)

    def _report_pressures(self, facts: dict[str, NodeFacts], sync: NodeSync, changed: Sequence[str]) -> None:
        machine = self._machine
        facts[self.name] = replace(facts[self.name], pressures=machine.pressures)
        sync.resume(self.name)
        for kind in changed:
            reason = pressure_reason(kind, holds=kind in machine.pressures)
            _log.warning("the node's condition has changed: node=%s condition=%s", self.name, reason)
            self._recorder.event(self._reference(), "Normal", reason, f"Node {self.name} status is now: {reason}")

    def _reference(self) -> dict[str, Any]:
        """Return the reference to the node in events."""
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "uid": self.name}}

    # Workers of pods

    def _on_change(self, change: Change[Pod]) -> None:
        pod = change.object
        self._hosts.mark(pod)
        if pod.spec.node_name != self.name:
            return
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is None and self._is_shutting_down:
            return
        if change.new is None:
            if worker is not None:
                worker.terminate(0.0)
            else:
                self._machine.forget(uid)
        elif pod.metadata.deletion_timestamp is not None:
            grace = pod.metadata.deletion_grace_period_seconds
            worker = worker or self._start_worker(pod)
            worker.terminate(float(grace if grace is not None else pod.spec.termination_grace_period_seconds))
        elif worker is None and not pod.is_finished:
            self._start_worker(pod)
        elif worker is None:  # the pod has ended, but the node was restarted before it cleaned up
            self._machine.gpus.release(uid)
        else:
            worker.update(pod)

    def _start_worker(self, pod: Pod) -> PodWorker:
        uid = pod.metadata.uid
        ip = self._machine.host_ip if pod.spec.host_network else self._machine.addresses.give(uid)
        record = record_of(pod, host_ip=self._machine.host_ip, now=self._clock.now())
        worker = PodWorker(
            pod,
            record,
            PodSandbox(self._machine, pod, ip),
            self._runtime,
            self._clock,
            NodeServices(
                hosts=lambda: self._hosts.content(pod, ip),
                submit=lambda: self._writer.submit(worker),
                confirm=lambda: self._confirm(pod),
                event=lambda kind, reason, message: self._recorder.event(pod, kind, reason, message),
                images=self._image_manager,
                admit=self._allocations.admit,
                admit_resize=self._allocations.admit_resize,
            ),
            self._periods,
        )
        self._workers[uid] = worker
        self._tasks[uid] = asyncio.create_task(self._run_worker(worker), name=f"pod {worker.namespace}/{worker.name}")
        self._hosts.mark(pod)
        return worker

    async def _run_worker(self, worker: PodWorker) -> None:
        try:
            await worker.run()
            self._allocations.retry()
            if not worker.is_stopped:
                await worker.wait_deleted()
        except asyncio.CancelledError:
            raise
        except Exception:  # a failure of one pod must not stop the node
            _log.exception("a pod worker failed: pod=%s/%s", worker.namespace, worker.name)

    async def _confirm(self, pod: Pod) -> None:
        """Wait until the state of a pod that the watch has shown is committed, by reading the pod.

        The embedded server shows its own components uncommitted writes (read-uncommitted). If the server crashes, these
        are rolled back, but what a started process has done is not. A real API server shows committed writes only.
        """
        while not self._cluster.remote:
            try:
                await self._cluster.get(Pod, pod.metadata.name, pod.metadata.namespace)
            except (NotFound, Forbidden):  # a node may read its own pods only, and a deleted pod is nobody's
                return
            except ApiError as err:
                _log.debug("a pod waits until it is committed: pod=%s error=%s", pod.key, err)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                return

    def _on_written(self, worker: PodWorker, exists: bool) -> None:
        if worker.is_stopped:
            self._remove_worker(worker.uid)
        elif not exists:
            worker.terminate(0.0)

    def _remove_worker(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if worker is not None:
            self._hosts.mark(worker.pod)
        self._machine.forget(uid)

    async def _remove_orphans(self) -> None:
        """End pods from before a restart that do not exist in the API any more."""
        await self._informer.wait_synced()
        known = {pod.metadata.uid for pod in self._informer.list()}
        for uid in self._machine.node_paths.uids():
            if uid in known or uid in self._workers:
                continue
            for directory in self._machine.node_paths.pod(uid).running_pids():
                run = self._runtime.adopt(directory)
                if run is not None and not run.ended.done():
                    self._runtime.signal(run, kill=True)
                    await asyncio.wait({run.ended}, timeout=5.0)
            if self._runtime.isolation == "root":
                await self._runtime.call(
                    "removeNamespaces", directory=self._machine.node_paths.pod(uid).namespaces, veth=""
                )
            self._machine.cgroups.remove(uid)
            if uid not in self._workers:
                self._machine.forget(uid)
