"""This machine as a node: register it, keep its Lease, and give every pod bound to it a worker."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import platform
import random
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strato.api.core import Node, Pod
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.client.informer import Change, Informer, Informers
from strato.clock import Clock
from strato.errors import ApiError, NotFound
from strato.node.heartbeats import Heartbeats
from strato.node.images import ImageStore
from strato.node.nodesync import NodeSync
from strato.node.records import record_of
from strato.node.registration import NodeFacts, pressure_reason, register_node
from strato.node.removal import TreeRemover
from strato.node.restarts import Backoff
from strato.node.sandbox import capabilities, linux
from strato.node.sandbox.cgroups import CONTROLLERS, Cgroups
from strato.node.sandbox.gpudriver import driver, look
from strato.node.sandbox.gpupool import GpuPool, Offer
from strato.node.sandbox.gpus import LABELS, MEMORY, RESOURCES, capacity, device_numbers, find, labels
from strato.node.sandbox.hosts import Peer, hosts_file, peer_of
from strato.node.sandbox.logs import DiskLogs
from strato.node.sandbox.network import (
    PodAddresses,
    bridge_name,
    choose_block,
    loopback_block,
    machine_address,
    routes_in_use,
)
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.permissions import plain_warning
from strato.node.sandbox.podusers import ANY_USER, UserBlocks
from strato.node.sandbox.podworker import KILL_TIMEOUT_SECONDS, REFRESH_SECONDS, PodWorker
from strato.node.sandbox.pressure import TRANSITION_SECONDS, PressureConditions, measure_machine, pressures
from strato.node.sandbox.runtime import ProcessRuntime, RuntimeProblem
from strato.node.sandbox.sandbox import Machine, PodSandbox
from strato.node.sandbox.storage import disk_of, evictions, measure_all
from strato.node.statuswriter import StatusWriter
from strato.node.timers import Timers

STORAGE_SECONDS = 10.0
"""How often a kubelet looks at its pods' use of the disk, too."""
HOSTS_DELAY_SECONDS = 0.02
"""How long changes of ``/etc/hosts`` are collected before they are written."""
_RETRY_SECONDS = 1.0
_WRITE_SECONDS = 5.0
"""How long the statuses of pods that ended with the node may take."""
_MAX_PODS = "110"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """What ``strato status`` shows of the node."""

    name: str
    pods: int
    isolation: str
    """``root``, ``user`` or ``plain``."""
    pod_network: str
    limits: bool
    """Whether CPU and memory limits are enforced."""
    egress: bool
    """Whether pods reach what the machine reaches."""
    own_users: bool
    """Whether pods have user namespaces of their own where they can."""
    gpus: tuple[str, ...]
    """Models of the GPUs it offers."""
    substituted_containers: int
    """Containers that ran on the machine's root instead of their image."""
    warnings: tuple[str, ...]
    """What is weaker than it could be, and why."""


class SandboxNode:
    """This machine as a node of the cluster.

    Args:
        clock: The machine's clock; processes do not run in virtual time.
        rng: Jitter of the informer.
        name: The node's name.
        data_dir: Its directory: pods, logs, images. One running node per directory.
        informers: Shared informers; None makes an own one for this node's pods.
        cpus: CPU capacity as a quantity; empty is what the machine has.
        memory: Memory capacity as a quantity; empty is what the machine has.
        resources: Further capacity.
        strict_images: Never run a container on the machine's root in place of its image.
        path: ``PATH`` of containers on the machine's root; None is this process's, this Python's directory first.
        isolation: Force ``root``, ``user`` or ``plain``; empty takes the strongest there is.
        own_network: Give pods network namespaces when privileges allow; they reach one another and this machine.
            False shares the machine's network, with one loopback address per pod.
        egress: Let pods with their own network reach what the machine reaches, by address translation.
        own_users: Give pods user namespaces by default, where the machine and they allow it.
        gpus: How the machine's NVIDIA GPUs are offered.
        gpu_root: Where GPUs are looked for; anything but ``/`` is for tests.
        hidden: Directories of the machine that no container on its root may see, beside ``data_dir``: the cluster's.
        backoff: Waits between restarts of a container.
        refresh_seconds: Between two looks at what the files of ConfigMaps, Secrets and tokens should be.
        storage_seconds: Between two looks at how much of the disk the pods use.
        pressure_seconds: How long the node counts as short of disk, memory or processes after it was last seen so.
        kubelet_port: Where the composition root serves the logs to an API server; 0 is nowhere.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        rng: random.Random,
        *,
        name: str,
        data_dir: str | os.PathLike[str],
        informers: Informers | None = None,
        cpus: str = "",
        memory: str = "",
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        strict_images: bool = False,
        path: str | None = None,
        isolation: str = "",
        own_network: bool = True,
        egress: bool = True,
        own_users: bool = True,
        gpus: Offer = Offer.ALL,
        gpu_root: str = "/",
        hidden: Sequence[str | os.PathLike[str]] = (),
        backoff: Backoff | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
        storage_seconds: float = STORAGE_SECONDS,
        pressure_seconds: float = TRANSITION_SECONDS,
        kubelet_port: int = 0,
    ) -> None:
        self.name = name
        self._kubelet_port = kubelet_port
        self._own_network = own_network
        self._wants_egress = egress
        self._wants_own_users = own_users
        self._gpu_offer, self._gpu_root = gpus, gpu_root
        self._resources = dict(resources or {})
        self._cluster = cluster
        self._clock = clock
        self._backoff = backoff
        self._refresh_seconds = refresh_seconds
        self._storage_seconds = storage_seconds
        self._conditions = PressureConditions(pressure_seconds)
        directory = os.path.abspath(data_dir)
        self._runtime = ProcessRuntime(directory, isolation)
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
        self._remover = TreeRemover()
        self._machine = Machine(
            cluster=cluster,
            runtime=self._runtime,
            node_paths=NodePaths(directory, self._remover.remove),
            images=ImageStore(directory),
            cgroups=Cgroups(bridge_name(directory), note=NodePaths(directory).cgroups),
            node_name=name,
            host_ip=machine_address(),
            path=path if path is not None else default_path(),
            allocatable=_capacity(_existing(directory), cpus, memory, self._resources),
            strict_images=strict_images,
            users=UserBlocks(os.path.join(directory, "pods")),
            held=capabilities.names_of(linux.held_capabilities()),
            profiles=os.path.join(directory, "seccomp"),
            hidden=sorted({os.path.realpath(path) for path in (directory, *hidden)}),
            dev=gpu_root + "dev",
        )
        self._labels = {"node.kubernetes.io/instance-type": "sandbox", **(labels or {})}
        self._addresses = PodAddresses(loopback_block(directory))
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers = Timers(clock)
        self._writer: StatusWriter[PodWorker] = StatusWriter(
            cluster, clock, on_written=self._on_written, concurrency=16
        )
        self._stale_hosts: set[tuple[str, str]] = set()
        self._warnings: list[str] = []
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
        """Return a pod by namespace and name, as far as this node knows it."""
        return self._informer.get(key)

    def summary(self) -> NodeSummary:
        """Return what a person wants to know of the node."""
        return NodeSummary(
            name=self.name,
            pods=len(self._workers),
            isolation=self._runtime.isolation,
            pod_network=str(self._addresses.network),
            limits=self._machine.cgroups.enabled,
            egress=self._machine.has_egress or not self._machine.bridge,
            own_users=self._machine.own_users,
            gpus=tuple(gpu.model or gpu.device for gpu in self._machine.gpus.gpus),
            substituted_containers=self._machine.substituted,
            warnings=tuple(self._warnings),
        )

    async def run(self) -> None:
        """Be a node until cancelled. Containers live on; the next `run` on the same directory takes them over.

        Raises:
            RuntimeProblem: The sandbox helper does not start.
        """
        pods = os.path.join(self._machine.node_paths.data_dir, "pods")
        os.makedirs(pods, exist_ok=True)
        os.chmod(pods, 0o700)  # secrets lie here
        try:
            await self._runtime.open()
            await self._set_up_network()
            await self._find_users()
            await self._find_gpus()
            for warning in self._warnings:
                _log.warning("%s", warning)
            self._restore_allocations()
            self._update_conditions()
            facts = self._facts()
            uids = {self.name: await self._register(facts)}
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
            self._informer.add_handler(self._on_change)
            self._informer.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._timers.run())
                group.create_task(self._writer.run())
                group.create_task(heartbeats.run())
                group.create_task(sync.run())
                group.create_task(self._remove_orphans())
                group.create_task(self._watch_storage(reported, sync))
                group.create_task(self._remover.run(self._clock))
        finally:
            await self._close()

    async def shut_down(self, grace_seconds: float) -> int:
        """End the pods as a kubelet does when its machine is shut down, before `run` is cancelled.

        They end Failed, with reason Terminated. Those whose containers never began stay as they are.

        Args:
            grace_seconds: What a container has at most between SIGTERM and SIGKILL.

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
        self._runtime.close()

    # Being a node

    async def _set_up_network(self) -> None:
        machine, directory = self._machine, self._machine.node_paths.data_dir
        if self._runtime.isolation == "plain":
            self._warnings.append(plain_warning())
        limits = _unenforced(machine.cgroups)
        self._warnings += limits
        for warning in limits:
            self._recorder.event(self._reference(), "Warning", "LimitsNotEnforced", warning)
        if self._runtime.shows_machines_program and self._runtime.isolation != "plain":
            self._warnings.append(
                f"containers can get at {sys.executable} by /proc/self/exe: this machine runs no programs in memory "
                "(vm.memfd_noexec); make that file, and the directories above it, read-only or another user's"
            )
        if self._runtime.isolation != "root" or not self._own_network:
            return
        name = bridge_name(directory)
        note = os.path.join(directory, "network")
        noted = _read(note)
        block = ipaddress.IPv4Network(noted) if noted else choose_block(directory, routes_in_use())
        addresses = PodAddresses(block)
        with open(note, "w") as file:
            file.write(str(block))
        try:
            await self._runtime.call("bridge", name=name, address=addresses.gateway, prefix=block.prefixlen)
        except RuntimeProblem as err:
            self._warnings.append(f"pods share the machine's network: {err}")
            return
        self._addresses = addresses
        machine.bridge, machine.gateway, machine.prefix_length = name, addresses.gateway, block.prefixlen
        await self._set_up_egress(str(block))

    async def _set_up_egress(self, network: str) -> None:
        machine, wanted = self._machine, self._wants_egress
        try:
            answer = await self._runtime.call("egress", bridge=machine.bridge, network=network, wanted=wanted)
        except RuntimeProblem as err:
            answer = {"problem": str(err)}
        machine.has_egress = wanted and not answer["problem"]
        if answer["problem"]:
            self._warnings.append(
                f"pods reach one another and this machine, but nothing beyond it: {answer['problem']}"
            )

    async def _find_users(self) -> None:
        """Find out whether pods can have user namespaces of their own by default, and say so."""
        machine = self._machine
        if not (self._wants_own_users and self._runtime.isolation == "root" and machine.bridge):
            return
        with tempfile.TemporaryDirectory(prefix="users-", dir=machine.node_paths.data_dir) as trial:
            answer = await self._runtime.call("mapUsers", userBase=ANY_USER, paths=[], image=trial)
        machine.own_users = not answer["problem"]
        if machine.own_users:
            _log.info("pods have user namespaces of their own, but for those that ask for something of the machine's")
        else:
            self._warnings.append(f"root in a pod is root of this machine: {answer['problem']}")

    async def _find_gpus(self) -> None:
        machine, offer = self._machine, self._gpu_offer
        where = driver(self._gpu_root)
        seen = await look(where.smi, self._gpu_root)
        machine.has_gpus = bool(device_numbers(seen.devices))
        if offer is Offer.NONE or not (machine.has_gpus or seen.driver):
            return
        found = find(seen)
        self._warnings += found.warnings
        if "nvidia-uvm" not in seen.devices and found.gpus:
            self._warnings.append("CUDA will not start in pods: /dev/nvidia-uvm is not there; sudo nvidia-modprobe -u")
        offered = capacity(found.gpus, shared=offer is Offer.SHARED)
        if offered.get(MEMORY) == "0":
            self._warnings.append("GPUs are not shared: nobody says how much memory they have")
            return
        machine.gpus, machine.driver = GpuPool(found.gpus, offer), where
        machine.allocatable = {**machine.allocatable, **offered, **self._resources}
        self._labels = {**labels(found.gpus), **self._labels}

    def _restore_allocations(self) -> None:
        self._machine.users.keep(self._machine.node_paths.uids())
        for uid in self._machine.node_paths.uids():
            place = self._machine.node_paths.pod(uid)
            identity = place.identity()
            if identity.get("ip"):
                self._addresses.keep(uid, identity["ip"])
            self._machine.gpus.keep(uid, place.gpus())

    def _facts(self) -> NodeFacts:
        return NodeFacts(
            name=self.name,
            address=self._machine.host_ip,
            capacity=self._machine.allocatable,
            labels=self._labels,
            info={
                "bootID": linux.boot_id(),
                "osImage": _os_name(),
                "kernelVersion": platform.release(),
                "machineID": _read("/etc/machine-id"),
            },
            runtime=f"strato://{self._runtime.isolation}",
            kubelet_port=self._kubelet_port,
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

    def _report_pods(self) -> None:
        for worker in self._workers.values():
            self._writer.submit(worker)

    def _update_conditions(self) -> list[str]:
        """Bring the conditions of the machine up to date; return which have changed."""
        machine, before = self._machine, self._machine.pressures
        try:
            found = pressures(measure_machine(machine.node_paths.data_dir))
        except OSError as err:
            _log.warning("free resources of the machine cannot be measured: %s", err)
            return []
        machine.pressures = self._conditions.observe(found, self._clock.monotonic())
        return sorted(machine.pressures ^ before)

    def _report_pressures(self, changed: Sequence[str], facts: dict[str, NodeFacts], sync: NodeSync) -> None:
        machine = self._machine
        facts[self.name] = replace(facts[self.name], pressures=machine.pressures)
        sync.resume(self.name)
        for kind in changed:
            reason = pressure_reason(kind, holds=kind in machine.pressures)
            _log.warning("the node's condition has changed: node=%s condition=%s", self.name, reason)
            self._recorder.event(self._reference(), "Normal", reason, f"Node {self.name} status is now: {reason}")

    def _reference(self) -> dict[str, Any]:
        """Return the node as events name it."""
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "uid": self.name}}

    async def _watch_storage(self, facts: dict[str, NodeFacts], sync: NodeSync) -> None:
        """Evict pods that use more of the disk than they may, or most of one that is nearly full."""
        node_paths = self._machine.node_paths
        while True:
            await self._clock.sleep(self._storage_seconds)
            changed = self._update_conditions()
            if changed:
                self._report_pressures(changed, facts, sync)
            workers = {uid: worker for uid, worker in self._workers.items() if not worker.record.reason}
            places = [(worker.pod, node_paths.pod(uid), node_paths.memory_dir(uid)) for uid, worker in workers.items()]
            try:
                # in a thread: a pod decides how many files there are to look at
                usages = await asyncio.to_thread(measure_all, places)
                disk = disk_of(node_paths.data_dir)
            except OSError as err:
                _log.warning("the pods' use of the disk cannot be measured: %s", err)
                continue
            is_freeing = any(worker.is_terminating for worker in self._workers.values())
            for eviction in evictions(usages, disk, is_freeing=is_freeing):
                if eviction.uid in self._workers:
                    self._workers[eviction.uid].evict(eviction.message)

    # Workers of pods

    def _on_change(self, change: Change[Pod]) -> None:
        pod = change.object
        if pod.spec.subdomain:
            self._mark_hosts(pod)
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
                self._forget(uid)
        elif pod.metadata.deletion_timestamp is not None:
            grace = pod.metadata.deletion_grace_period_seconds
            worker = worker or self._start_worker(pod)
            worker.terminate(float(grace if grace is not None else pod.spec.termination_grace_period_seconds))
        elif worker is None and not pod.is_finished:
            self._start_worker(pod)
        elif worker is None:  # it ended before a restart that came before its clean-up
            self._machine.gpus.release(uid)

    def _start_worker(self, pod: Pod) -> PodWorker:
        uid = pod.metadata.uid
        ip = self._machine.host_ip if pod.spec.host_network else self._addresses.give(uid)
        record = record_of(pod, host_ip=self._machine.host_ip, now=self._clock.now())
        worker = PodWorker(
            pod,
            record,
            PodSandbox(self._machine, pod, ip),
            self._runtime,
            self._clock,
            hosts=lambda: self._hosts_of(pod, ip),
            submit=self._writer.submit,
            confirm=lambda: self._confirm(pod),
            event=lambda kind, reason, message: self._recorder.event(pod, kind, reason, message),
            backoff=self._backoff,
            refresh_seconds=self._refresh_seconds,
        )
        self._workers[uid] = worker
        self._tasks[uid] = asyncio.create_task(self._run_worker(worker), name=f"pod {worker.namespace}/{worker.name}")
        if pod.spec.subdomain:
            self._mark_hosts(pod)
        return worker

    async def _run_worker(self, worker: PodWorker) -> None:
        try:
            await worker.run()
            if not worker.stopped:
                await worker.wait_deleted()
        except asyncio.CancelledError:
            raise
        except Exception:  # one pod's trouble must not stop the node
            _log.exception("a pod worker failed: pod=%s/%s", worker.namespace, worker.name)

    async def _confirm(self, pod: Pod) -> None:
        """Return when what the watch has shown of a pod is on the server's disk: a read waits for that.

        The embedded server shows its own components writes that are not committed yet (read-uncommitted). A crash of
        the server rolls those back, but not what a started process has done. A real API server shows only what is
        committed.
        """
        while not self._cluster.remote:
            try:
                await self._cluster.get(Pod, pod.metadata.name, pod.metadata.namespace)
            except NotFound:
                return
            except ApiError as err:
                _log.debug("a pod waits until it is committed: pod=%s error=%s", pod.key, err)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                return

    def _on_written(self, worker: PodWorker, exists: bool) -> None:
        if worker.stopped:
            self._remove_worker(worker.uid)
        elif not exists:
            worker.terminate(0.0)

    def _remove_worker(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if worker is not None and worker.pod.spec.subdomain:
            self._mark_hosts(worker.pod)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._addresses.release(uid)
        self._machine.gpus.release(uid)
        self._machine.users.release(uid)
        self._machine.node_paths.remove_pod(uid)

    async def _remove_orphans(self) -> None:
        """End pods from before a restart that the API does not know any more."""
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
                self._forget(uid)

    # Names

    def _mark_hosts(self, pod: Pod) -> None:
        if not self._stale_hosts:
            self._timers.after(HOSTS_DELAY_SECONDS, self._write_hosts)
        self._stale_hosts.add((pod.metadata.namespace, pod.spec.subdomain))

    def _write_hosts(self) -> None:
        groups, self._stale_hosts = self._stale_hosts, set()
        for worker in self._workers.values():
            pod = worker.pod
            if (pod.metadata.namespace, pod.spec.subdomain) in groups and worker.record.pod_ip:
                sandbox = worker.sandbox
                sandbox.write_hosts(self._hosts_of(pod, sandbox.ip))

    def _hosts_of(self, pod: Pod, ip: str) -> str:
        aliases = [(alias.ip, alias.hostnames) for alias in pod.spec.host_aliases]
        return hosts_file(peer_of(pod, ip), self._siblings(pod), aliases)

    def _siblings(self, pod: Pod) -> list[Peer]:
        """All pods of the same headless service that have an address, on whatever node."""
        if not pod.spec.subdomain:
            return []
        group = (pod.metadata.namespace, pod.spec.subdomain)
        found = {
            uid: peer_of(worker.pod, worker.sandbox.ip)
            for uid, worker in self._workers.items()
            if (worker.namespace, worker.pod.spec.subdomain) == group
        }
        if not self._own_informer:
            for other in self._informer.list():
                is_sibling = (other.metadata.namespace, other.spec.subdomain) == group
                if is_sibling and other.status.pod_ip and not other.is_finished:
                    found.setdefault(other.metadata.uid, peer_of(other, other.status.pod_ip))
        return list(found.values())


def default_path() -> str:
    """Return the ``PATH`` of containers on this machine's root: this Python's programs, then this process's PATH."""
    own = os.path.dirname(sys.executable)
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath)])


def _capacity(directory: str, cpus: str, memory: str, resources: Mapping[str, str]) -> dict[str, str]:
    usable = len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpus or str(usable),
        "memory": memory or f"{pages // 1024}Ki",
        "pods": _MAX_PODS,
        "ephemeral-storage": f"{shutil.disk_usage(directory).total // 1024}Ki",
        **resources,
    }


def _existing(directory: str) -> str:
    """Return the nearest directory that is there already: it lies on the same disk."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


_LIMITED = {"cpu": "CPU limits", "memory": "memory limits", "pids": "limits of processes"}


def _unenforced(cgroups: Cgroups) -> list[str]:
    """Return which limits this node cannot enforce, and what to do about it."""
    if not cgroups.enabled:
        return ["CPU and memory limits are not enforced: no control group can be written"]
    if not cgroups.missing:
        return []
    what = " and ".join(_LIMITED[name] for name in cgroups.missing)
    names = " and ".join(cgroups.missing)
    return [
        f"{what} are not enforced: {', '.join(cgroups.directories)} has no controller {names}; with systemd: "
        f"Delegate={' '.join(CONTROLLERS)} for the unit that this runs in"
    ]
