"""Run Volcano's agent functions on one node: read the configuration; every 10 s measure, decide and act.

It shares the agent's pods, samples and quota writer, but has a task of its own, so that its API calls delay no
suppression.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strato.agent.containers import ContainerFacts
from strato.agent.events import NO_BEST_EFFORT_GROUP
from strato.agent.sampling.layouts import CgroupLayout
from strato.agent.sampling.sampler import Sampler
from strato.agent.volcano.config import (
    CONFIGMAP,
    DEFAULT_FEATURES,
    KEY,
    ColocationConfig,
    Feature,
    completed,
    default_text,
    read_colocation,
    types_of,
)
from strato.agent.volcano.lending import CPU, MEMORY, RESOURCES, Lending, sample
from strato.agent.volcano.levels import DEFAULT_NAMES, ResourceNames, is_offline, qos_level, uses_lent
from strato.agent.volcano.network import has_own_limits, prepare
from strato.agent.volcano.nodewrites import NodeWriter
from strato.agent.volcano.podgroups import PodGroups
from strato.agent.volcano.podresources import (
    COLOCATION_CONFIG,
    GroupFile,
    burst_files,
    lent_files,
    memory_files,
    memory_ratios,
    wants_burst,
)
from strato.agent.volcano.pressure import Pressure, is_relieved, victims, watermarks
from strato.agent.volcano.throttling import next_available, quota_milli
from strato.agent.volcano.usage import CpuUse, memory_bytes
from strato.api import catalog
from strato.api.amplification import raw_cpu_milli
from strato.api.core import ConfigMap, Node, Pod
from strato.api.core.container import Container
from strato.api.quantity import InvalidQuantity, value
from strato.client.cluster import Cluster
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.client.informer import Informers
from strato.errors import AlreadyExists, ApiError, InvalidInput
from strato.kernelstats import memory as machine_memory
from strato.metrics import Registry

_log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 1.0
UNSUPPORTED: Final = "NetworkQoSUnsupported"
"""Reason of the event on a node that cannot limit the bandwidth of offline pods."""
_TYPES: Final = "volcano.sh/oversubscription-types"
"""Annotation of the node that overrides ``overSubscriptionTypes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocationOptions:
    """Options of one agent, named as the flags of Volcano's."""

    features: frozenset[Feature] = DEFAULT_FEATURES
    """Features that the configuration may enable."""
    ratio_percent: int = 60
    """Percentage of unused resources that is lent. Above 0."""
    include_system_usage: bool = False
    """Whether the use of the machine's processes outside of pods counts."""
    names: ResourceNames = DEFAULT_NAMES
    own_pod: tuple[str, str] = ("", "")
    """Namespace and name of the agent's pod, on which configuration events are reported; empty: on the ConfigMap."""


DEFAULT_COLOCATION: Final = ColocationOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReadings:
    """Parts of the agent that the colocation functions share."""

    sampler: Sampler
    layout: CgroupLayout
    groups: PodGroups


class Colocation:
    """Runs Volcano's agent functions on one node.

    Args:
        cluster: The node's cluster.
        informers: The agent's, among them those of the node and its pods.
        where: Name of the node, and namespace of the ConfigMap.
        options: Options of this agent.
        readings: Shared parts of the agent.
        events: The agent's recorder of events.
        metrics: Registry for the metric.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        where: tuple[str, str],
        options: ColocationOptions,
        readings: NodeReadings,
        events: EventRecorder,
        metrics: Registry,
    ) -> None:
        self._cluster, self._options = cluster, options
        self._node, self._namespace = where
        self._readings, self._events = readings, events
        self._nodes = informers.informer(Node, field_selector=f"metadata.name={self._node}")
        self._configs = informers.informer(
            ConfigMap, namespace=self._namespace, field_selector=f"metadata.name={CONFIGMAP}"
        )
        self._writer = NodeWriter(cluster, events, self._node)
        self._metric = metrics.gauge(
            "volcano_agent_oversubscription_resource_quantity", "Resources lent to offline pods", ("node", "resource")
        )
        self._source: tuple[str, tuple[tuple[str, str], ...]] | None = None
        """Text and labels from which the configuration in force, or the one refused last, was read."""
        self.config = ColocationConfig()
        self.active: frozenset[Feature] = frozenset()
        self._lending = Lending()
        self._pressure = Pressure()
        self._cpu, self._best_effort = CpuUse(), CpuUse()
        self._throttle_milli = -1
        self._was_relabelled = False
        """Whether the label was removed because its section is off, so that it is restored with the section."""
        self._done: dict[str, tuple[str, int]] = {}
        """Resource version and number of running containers at the last write of each pod's groups, by uid."""
        self._reported: set[tuple[str, str]] = set()
        """Pod or node, and reason, of events that are reported once."""
        self._looked_at: float | None = None

    @property
    def class_quota_milli(self) -> int | None:
        """Return the wanted quota of all best-effort pods together; None for no quota."""
        if Feature.CPU_THROTTLE not in self.active or self._throttle_milli < 0:
            return None
        return quota_milli(self._throttle_milli)

    async def step(self, running: Mapping[str, ContainerFacts], now: float) -> None:
        """Update the groups of changed pods; every 10 s update everything.

        Args:
            running: Running containers by key.
            now: Present time in monotonic seconds, on the sampler's clock.
        """
        node = self._nodes.get(("", self._node))
        if node is None:
            return
        await self._refresh(node, running)
        is_round = self._looked_at is None or now - self._looked_at >= ROUND_SECONDS - _STEP_SECONDS / 2
        await self._write_pods(node, running, only_changed=not is_round)
        if is_round:
            since, self._looked_at = self._looked_at, now
            await self._look(node, running, now, now - ROUND_SECONDS if since is None else since)

    async def _refresh(self, node: Node, running: Mapping[str, ContainerFacts]) -> None:
        """Apply the ConfigMap's configuration if it has changed; report an invalid one, and keep the old one."""
        config = self._configs.get((self._namespace, CONFIGMAP))
        text = config.data.get(KEY, "") if config is not None else default_text()
        labels = node.metadata.labels or {}
        source = text, tuple(sorted(labels.items()))
        if source == self._source:
            return
        if config is None:
            await self._create_config()
        elif (filled := completed(text)) is not None:
            await self._complete_config(filled)
        self._source = source
        try:
            found = read_colocation(text, labels)
        except InvalidInput as error:
            _log.warning("configuration refused, the old one stays: %s", error)
            self._events.event(self._event_object(config, node), WARNING, "ConfigApplyFailed", str(error)[:1000])
            return
        await self._apply_config(found, node, running)
        about = self._event_object(config, node)
        self._events.event(about, NORMAL, "ConfigApplySuccess", "the configuration is in force")

    async def _apply_config(self, found: ColocationConfig, node: Node, running: Mapping[str, ContainerFacts]) -> None:
        before, self.active = self.active, found.active(self._options.features)
        self.config = found
        self._pressure.reset()
        self._done.clear()
        if self._was_relabelled and found.lending.enable:
            self._was_relabelled = not await self._writer.label(lends=True)
        if Feature.OVERSUBSCRIPTION in before - self.active and found.labels.node_over_subscription_enable:
            self._was_relabelled = await self._writer.label(lends=False)  # the section is off although the label is on
        if Feature.OVERSUBSCRIPTION not in self.active:
            self._lending = Lending()
        if Feature.CPU_THROTTLE not in self.active:
            self._throttle_milli = -1
        if Feature.CPU_QOS in before - self.active:
            for own in _by_pod(running).values():
                if is_offline(own[0].pod):
                    await asyncio.to_thread(self._readings.groups.end_level, own)
        if Feature.NETWORK_QOS in before | self.active:
            wanted = found.network_qos if Feature.NETWORK_QOS in self.active else None
            problem = await prepare(wanted, node.metadata.annotations or {})
            if problem and wanted is not None:
                self._report_once(node, UNSUPPORTED, problem)

    async def _create_config(self) -> None:
        metadata = {"name": CONFIGMAP, "namespace": self._namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: default_text()}}
        try:
            await self._cluster.create(catalog.CONFIGMAP, body, self._namespace)
        except AlreadyExists:  # another node's agent has created it
            return
        except ApiError as error:
            _log.warning("configuration not created, the defaults hold: %s", error)

    async def _complete_config(self, text: str) -> None:
        try:
            await self._cluster.patch(catalog.CONFIGMAP, CONFIGMAP, self._namespace, {"data": {KEY: text}})
        except ApiError as error:
            _log.warning("configuration not completed, the defaults hold for what it lacks: %s", error)

    async def _write_pods(self, node: Node, running: Mapping[str, ContainerFacts], *, only_changed: bool) -> None:
        by_pod = _by_pod(running)
        for uid, own in by_pod.items():
            state = own[0].pod.metadata.resource_version, len(own)
            if only_changed and self._done.get(uid) == state:
                continue
            self._done[uid] = state
            for reason, text in await asyncio.to_thread(self._write_pod, own):
                self._report_once(node if reason == UNSUPPORTED else own[0].pod, reason, text)
        for uid in self._done.keys() - by_pod.keys():
            del self._done[uid]
        self._readings.groups.forget(by_pod)

    def _write_pod(self, own: Sequence[ContainerFacts]) -> list[tuple[str, str]]:
        """Write one pod's control groups; return reasons and texts of events to report. Called in a thread."""
        groups, active, names, pod = self._readings.groups, self.active, self._options.names, own[0].pod
        level, annotations = qos_level(pod), pod.metadata.annotations or {}
        containers = _containers(pod)
        is_unified = groups.is_unified
        files: list[GroupFile] = []
        reports = []
        if Feature.RESOURCES in active:
            files += lent_files(containers, level, names, unified=is_unified)
        if Feature.MEMORY_QOS_V2 in active and is_unified:
            try:
                ratios = memory_ratios(annotations.get(COLOCATION_CONFIG, ""))
            except InvalidInput as error:
                ratios = None
                reports.append(("ColocationConfigParseFailed", str(error)[:1000]))
            files += memory_files(containers, level, ratios, names) if ratios is not None else []
        groups.write(own, files)
        burst = wants_burst(annotations) if Feature.CPU_BURST in active else None
        if burst is not None:  # computed from the quotas now in force, including those just written
            quotas, of_pod = groups.quotas(own)
            groups.write(own, burst_files(burst, quotas, of_pod, unified=is_unified))
        if Feature.CPU_QOS in active:
            groups.set_level(own, level)
        if Feature.MEMORY_QOS in active:
            groups.set_memory_level(own, level)
        if Feature.NETWORK_QOS in active:
            if has_own_limits(annotations):
                reports.append(("NetworkQoSSkipped", "its bandwidth is limited by its own annotations"))
            elif not groups.set_network_class(own, level):
                text = "the kernel has no net_cls.classid: what offline pods send cannot be told from the rest"
                reports.append((UNSUPPORTED, text))
        return reports

    async def _look(self, node: Node, running: Mapping[str, ContainerFacts], now: float, since: float) -> None:
        """Measure, and decide on lent resources, evictions and the quota of best-effort pods."""
        pods = list({one.pod.metadata.uid: one.pod for one in running.values()}.values())
        group = self._readings.layout.all_pods()
        pods_milli = self._cpu.milli(group, now)
        used = {CPU: pods_milli, MEMORY: await asyncio.to_thread(memory_bytes, group)}
        if self._options.include_system_usage:
            used = self._of_machine(since)
        total = {CPU: raw_cpu_milli(node), MEMORY: _amount(node, "memory")}
        percents = {
            name: used_ * 100 / total[name] for name, used_ in used.items() if used_ is not None and total[name]
        }
        self._throttle(node, total[CPU], pods_milli, now)
        await self._relieve(node, pods, percents)
        if Feature.OVERSUBSCRIPTION in self.active:
            await self._lend(node, running, total, used, since)
        else:
            await self._end_lending(node, pods)

    async def _lend(
        self,
        node: Node,
        running: Mapping[str, ContainerFacts],
        total: Mapping[str, int],
        used: Mapping[str, float | None],
        since: float,
    ) -> None:
        apart = self._alone(running, since)
        for name in RESOURCES:
            amount = used[name]
            if amount is None:
                continue
            whole, less = (total[name], amount) if name != CPU else (total[name] - apart[0], amount - apart[1])
            self._lending.note(name, sample(whole, less, self._options.ratio_percent))
        types = types_of((node.metadata.annotations or {}).get(_TYPES, self.config.lending.over_subscription_types))
        offer = self._lending.offer(types)
        names = self._options.names
        current = {name: _amount(node, names.of(name)) for name in RESOURCES}
        if any(self._lending.samples.values()) and self._lending.is_due(offer, current):
            await self._writer.publish({names.of(name): amount for name, amount in offer.items()})
        for name, amount in offer.items():
            self._metric.labels(self._node, names.of(name)).set(amount)

    async def _end_lending(self, node: Node, pods: Sequence[Pod]) -> None:
        """Stop lending: remove the node's lent resources and, if evictions are active, evict the pods that use them."""
        names = self._options.names
        lent = [name for name in (names.cpu, names.memory) if name in node.status.capacity]
        if not lent and Feature.OVERSUBSCRIPTION not in self._options.features:
            return
        if lent:
            await self._writer.publish(dict.fromkeys(lent))
            for name in lent:
                self._metric.labels(self._node, name).set(0)
        borrowers = [one for one in victims(pods, CPU, names) if uses_lent(_containers(one), names)]
        for one in borrowers if Feature.EVICTION in self.active else ():
            await self._writer.evict(one, "Evict offline pod due to node overSubscription is turned off")

    async def _relieve(self, node: Node, pods: Sequence[Pod], percents: Mapping[str, float]) -> None:
        """Evict an offline pod for each resource that is short; remove the taint once none is."""
        if Feature.EVICTION not in self.active:
            return
        marks = watermarks(self.config.evicting.marks, node.metadata.annotations or {})
        short = self._pressure.step(percents, marks)
        if is_relieved(percents, marks):
            await self._writer.untaint(node)
        if not self.config.labels.node_over_subscription_enable:
            return
        gone: set[str] = set()
        for resource in short:
            order = [one for one in victims(pods, resource, self._options.names) if one.metadata.uid not in gone]
            if not order:
                continue
            await self._writer.taint(node)
            evicted = await self._writer.evict_first(order, f"Evict offline pod due to {resource} resource pressure")
            gone |= {evicted.metadata.uid} if evicted is not None else set()

    def _throttle(self, node: Node, total_milli: int, pods_milli: float | None, now: float) -> None:
        if Feature.CPU_THROTTLE not in self.active:
            self._best_effort.last = None
            return
        group = self._readings.layout.best_effort()
        if group is None:
            text = "the node has no control group of all best-effort pods: they cannot be slowed down together"
            self._report_once(node, NO_BEST_EFFORT_GROUP, text)
            return
        own = self._best_effort.milli(group, now)
        if own is None or pods_milli is None:
            return
        found = next_available(
            total_milli, max(0.0, pods_milli - own), self._throttle_milli, self.config.throttling.lines
        )
        if found is not None:
            self._throttle_milli = found

    def _alone(self, running: Mapping[str, ContainerFacts], since: float) -> tuple[int, float]:
        """Return the millicores that containers with exclusive CPUs have, and those they use."""
        own = [one for one in running.values() if one.has_exclusive_cpus and not is_offline(one.pod)]
        samples = [self._readings.sampler.containers.get(one.key) for one in own]
        means = [one.cpu.mean_since(since) or 0.0 for one in samples if one is not None]
        return sum(one.request_milli for one in own), sum(means) * 1000

    def _of_machine(self, since: float) -> dict[str, float | None]:
        """Return the CPU and memory used by all processes of the machine."""
        sampler = self._readings.sampler
        mean = sampler.host.cpu.mean_since(since)
        found: dict[str, float | None] = {CPU: None if mean is None else mean * sampler.cpus * 1000, MEMORY: None}
        try:
            memory = machine_memory(sampler.proc)
        except (OSError, ValueError, KeyError):
            return found
        return found | {MEMORY: memory.total - memory.available}

    def _event_object(self, config: ConfigMap | None, node: Node) -> Mapping[str, object] | ConfigMap | Node:
        """Return the object on which events about the configuration are reported."""
        namespace, name = self._options.own_pod
        if name:
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}}
        return config or node

    def _report_once(self, about: Pod | Node, reason: str, text: str) -> None:
        known = about.metadata.uid, f"{reason} {text}"
        if known not in self._reported:
            self._reported = {one for one in self._reported if one[0] in self._done or one[0] == known[0]} | {known}
            self._events.event(about, WARNING, reason, text)


def _by_pod(running: Mapping[str, ContainerFacts]) -> dict[str, list[ContainerFacts]]:
    found: dict[str, list[ContainerFacts]] = {}
    for one in running.values():
        found.setdefault(one.pod.metadata.uid, []).append(one)
    return found


def _containers(pod: Pod) -> list[Container]:
    """Return the containers that run at the same time, including sidecars."""
    return [*(one for one in pod.spec.init_containers if one.restart_policy == "Always"), *pod.spec.containers]


def _amount(node: Node, name: str) -> int:
    try:
        return value(node.status.allocatable.get(name, 0))
    except InvalidQuantity:
        return 0
