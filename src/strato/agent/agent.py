"""The agent of one node: it samples every second, decides every few seconds, and carries out the decisions.

State that must survive a restart is in the pods' annotations and in the kernel, from which the next agent continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from strato.agent.agentmetrics import AgentMetrics
from strato.agent.classquota import ClassQuota
from strato.agent.containers import ContainerFacts
from strato.agent.cordons import CONDITION, Cordons, report_condition
from strato.agent.events import Action, ActionKind, HostEvent
from strato.agent.evicting import evict
from strato.agent.policy import KEY, AgentPolicy, read_policy
from strato.agent.quotas import QuotaWriter, RoundState
from strato.agent.registry import HandlerRegistry
from strato.agent.rounds import HandlerSet, container_events, host_event
from strato.agent.running import RunningContainers
from strato.agent.sampling.layouts import CgroupLayout, ControlGroup
from strato.agent.sampling.sampler import Sampler
from strato.agent.trafficcalls import TrafficCalls
from strato.agent.volcano.colocation import DEFAULT_COLOCATION, Colocation, ColocationOptions, NodeReadings
from strato.agent.volcano.podgroups import PodGroups
from strato.api.core import ConfigMap, Node, Pod
from strato.client.cluster import Cluster
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.client.informer import Informers
from strato.clock import Clock
from strato.errors import ApiError, InvalidInput
from strato.metrics import Registry

_log = logging.getLogger(__name__)

CONFIGMAP: Final = "strato-agent"
NAMESPACE: Final = "volcano-system"
"""Default namespace of the ConfigMap."""
SUPPRESSION_CONDITION: Final = "CPUSuppression"
_NODE_NORMAL: Final = ("HotspotCleared",)
"""Reasons of events on the node of type Normal; all others are warnings."""


def lease_of(node: str) -> str:
    """Return the name of the lease of a node's agent."""
    return f"strato-agent-{node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Options of one agent."""

    node: str
    """Name of the agent's node."""
    namespace: str
    """Namespace of the ConfigMap and the lease."""
    cpus: float
    """Logical CPUs of the host, without overcommitment."""
    proc: str = "/proc"
    sys: str = "/sys"
    handlers_dir: Path | None = None
    """Directory of Python files with handlers."""
    static_cpus: bool = False
    """Whether the kubelet gives some containers exclusive CPUs (``--cpu-manager-policy=static``)."""
    secret: bytes = b""
    """Key for signing calls to the load balancer."""
    node_selector: str = ""
    """Label selector of the nodes to which the budget of cordons applies."""
    colocation: ColocationOptions = DEFAULT_COLOCATION
    """Options of Volcano's agent functions."""


class Agent:
    """Measures a node, runs the policy's handlers, and carries out their actions.

    Args:
        cluster: The node's cluster.
        informers: May be shared with other components of the process.
        layout: Finds the control groups of pods and containers.
        options: Options of this agent.
        metrics: Registry for the agent's metrics.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        random: Random,
        layout: CgroupLayout,
        options: AgentOptions,
        metrics: Registry,
    ) -> None:
        self._cluster, self._clock, self._random = cluster, clock, random
        self._layout, self.options = layout, options
        self._informers = informers
        self._pods = informers.informer(Pod, field_selector=f"spec.nodeName={options.node}")
        self._nodes = informers.informer(Node, field_selector=f"metadata.name={options.node}")
        self._configs = informers.informer(
            ConfigMap, namespace=options.namespace, field_selector=f"metadata.name={CONFIGMAP}"
        )
        self._events = EventRecorder(cluster, clock, "strato-agent", registry=metrics)
        self._registry = HandlerRegistry(options.handlers_dir)
        self._policy_of: tuple[str, tuple[tuple[str, str], ...]] | None = None
        """Text and node labels from which the policy in force, or the one refused last, was read."""
        self.policy: AgentPolicy = read_policy("", {}, self._registry)
        self.handlers = HandlerSet(self.policy, random)
        self._quotas = QuotaWriter(cluster, layout, self._events)
        self._refused: list[Action] = []
        """Actions that the API refused, to be tried again."""
        self._best_effort = ClassQuota(layout)
        self._cordons = Cordons(cluster, clock, options.node, options.node_selector)
        self._traffic = TrafficCalls(clock, random, options.node, options.secret)
        self.sampler = Sampler(options.cpus, self.policy.sampling.interval_seconds, options.proc, options.sys)
        self._running = RunningContainers(layout, static_cpus=options.static_cpus)
        self._has_groups: bool | None = None
        self._metrics = AgentMetrics(metrics, options.node)
        readings = NodeReadings(sampler=self.sampler, layout=layout, groups=PodGroups(layout, self._quotas.holds))
        where = options.node, options.namespace
        self.colocation = Colocation(cluster, informers, where, options.colocation, readings, self._events, metrics)

    async def run(self) -> None:
        """Sample and decide until cancelled; written quotas then stay in force."""
        await self.synced()
        decided_at = self._clock.monotonic()
        colocating = asyncio.create_task(self._colocate())
        try:
            while not colocating.done():
                began = self._clock.monotonic()
                self.refresh_policy()
                await asyncio.to_thread(self.sampler.sample, began, self.groups())
                if began - decided_at >= self.policy.sampling.round_seconds - self.sampler.interval_seconds / 2:
                    await self.decide(decided_at)
                    decided_at = began
                spent = self._clock.monotonic() - began
                await self._clock.sleep(max(0.0, self.sampler.interval_seconds - spent))
            await colocating  # the task ends only by an error, which this raises
        finally:
            colocating.cancel()
            await asyncio.gather(colocating, return_exceptions=True)
            await self._traffic.close()
            await self._events.flush()

    async def _colocate(self) -> None:
        """Run Volcano's functions in a task of their own, so that rounds do not wait for their API calls."""
        while True:
            await self.colocation.step(self._running.containers, self._clock.monotonic())
            await self._clock.sleep(1)

    async def synced(self) -> None:
        """Wait until the informers have pods, node and policy."""
        self._informers.start()
        await self._informers.wait_synced()

    def groups(self) -> Mapping[str, ControlGroup]:
        """Return the control groups of the running containers, by key; the next decision is about these."""
        self._running.update(self._pods.list())
        return self._running.groups

    def refresh_policy(self) -> None:
        """Apply the ConfigMap's policy if it has changed; report an invalid one, and keep the old one in force."""
        config = self._configs.get((self.options.namespace, CONFIGMAP))
        node = self._nodes.get(("", self.options.node))
        text = config.data.get(KEY, "") if config is not None else ""
        labels = (node.metadata.labels if node is not None else None) or {}
        source = text, tuple(sorted(labels.items()))
        if source == self._policy_of and not self._registry.has_changed():
            return
        self._policy_of = source
        try:
            policy = read_policy(text, labels, self._registry)
        except InvalidInput as error:
            _log.warning("policy refused, the old one stays: %s", error)
            self._events.event(config or self._node_object(), WARNING, "PolicyInvalid", str(error)[:1000])
            return
        self.handlers = HandlerSet(policy, self._random, self.handlers)
        self.policy = policy
        self._quotas.backend = policy.backend
        self.sampler.interval_seconds = policy.sampling.interval_seconds
        _log.info("policy in force: handlers=%s", ",".join(policy.handlers))

    async def decide(self, since: float) -> list[Action]:
        """Decide on the samples since an instant, and carry out the actions.

        Args:
            since: The instant in monotonic seconds.

        Returns:
            The actions decided, including those that failed.
        """
        began = self._clock.monotonic()
        await asyncio.to_thread(self.sampler.sample_slowly, began)
        await asyncio.to_thread(self._best_effort.read)
        await self._report_groups()
        containers = self._running.containers
        await asyncio.to_thread(self._quotas.settle, list(containers.values()))
        quotas = {key: one.quota for key, one in self.sampler.containers.items()}
        actions = self._quotas.verify(containers.values(), quotas)
        at = self._clock.now()
        seen = container_events(self.sampler, containers.values(), at, since, self._quotas.known_suppression)
        host = host_event(self.sampler, at, since, seen, self._best_effort)
        if host is not None:
            rewritten = {action.target for action in actions}
            actions += [one for one in self.handlers.decide(host) if one.target not in rewritten]
            if (milli := self.colocation.class_quota_milli) is not None:
                actions.append(Action(kind=ActionKind.SET_CLASS_QUOTA, value=milli))
            await self._act(actions, containers, host)
            self._metrics.count_round(host, actions, self._quotas.rewrites, self.handlers.errors, self._traffic.codes)
        self._metrics.round_seconds.set(self._clock.monotonic() - began)
        return actions

    async def _act(self, actions: Sequence[Action], containers: Mapping[str, ContainerFacts], host: HostEvent) -> None:
        states = {one.key: RoundState(utilisation=host.cpu, used_cores=one.used_cores) for one in host.containers}
        quotas = [one for one in actions if one.kind in (ActionKind.SET_QUOTA, ActionKind.CLEAR)]
        self._metrics.count_done(await self._quotas.apply(quotas, containers, states, host.at))
        await self._best_effort.apply(actions)
        hot = {one.target: one.value for one in actions if one.kind is ActionKind.TRAFFIC and one.value is not None}
        for resource in ("cpu", "network"):
            if resource in hot or not self._traffic.is_relieved(resource):
                self._traffic.step(resource, hot.get(resource), host, self.policy.webhook)
        targets = {one.target for one in actions}
        again, self._refused = [one for one in self._refused if one.target not in targets], []
        for action in (*again, *actions):
            try:
                await self.act_on_node(action, containers)
            except ApiError as error:
                if action.kind is ActionKind.UNCORDON:  # reported once; lasting states are reported each round
                    self._refused.append(action)
                _log.warning("not done: action=%s target=%s: %s", action.kind, action.target, error)

    async def act_on_node(self, action: Action, containers: Mapping[str, ContainerFacts]) -> None:
        """Carry out an action other than on a quota.

        Raises:
            ApiError: The API refuses the action.
        """
        node = self.options.node
        if action.kind is ActionKind.EVENT:
            self._report(action, containers)
        elif action.kind is ActionKind.CORDON and await self._cordons.cordon():
            self._metrics.cordoned.set(1)
            await self._report_hotspot(is_true=True, message=action.message)
        elif action.kind is ActionKind.UNCORDON:
            await self._cordons.uncordon()
            self._metrics.cordoned.set(0)
            await self._report_hotspot(is_true=False, message="memory has cooled down")
        elif action.kind is ActionKind.EVICT:
            pod = next((one.pod for one in containers.values() if one.pod.metadata.uid == action.target), None)
            if pod is not None:
                await evict(self._cluster, pod)
                self._events.event(pod, WARNING, action.reason or "Evicted", f"{node}: {action.message}")

    def _report(self, action: Action, containers: Mapping[str, ContainerFacts]) -> None:
        facts = containers.get(action.target)
        if facts is not None:
            self._events.event(facts.pod, NORMAL, action.reason, f"{facts.name}: {action.message}")
            return
        type_ = NORMAL if action.reason in _NODE_NORMAL else WARNING
        self._events.event(self._node_object(), type_, action.reason, action.message)

    async def _report_hotspot(self, *, is_true: bool, message: str) -> None:
        reason = "MemoryHot" if is_true else "MemoryCool"
        node = self.options.node
        await report_condition(
            self._cluster, self._clock, node, CONDITION, is_true=is_true, reason=reason, message=message
        )

    async def _report_groups(self) -> None:
        """Set a node condition that says whether the node has control groups in which quotas can be written."""
        has_groups = self._layout.pod("x", "") is not None
        if has_groups == self._has_groups:
            return
        self._has_groups = has_groups
        await report_condition(
            self._cluster,
            self._clock,
            self.options.node,
            SUPPRESSION_CONDITION,
            is_true=has_groups,
            reason="Ready" if has_groups else "NoCgroup",
            message="" if has_groups else "no control group with a CPU controller can be written on this node",
        )

    async def reset(self) -> int:
        """Restore the quotas of suppressed containers and of best-effort pods; return the number of containers."""
        await self.synced()
        await self._best_effort.clear()
        self.groups()
        containers = self._running.containers
        actions = [
            Action(kind=ActionKind.CLEAR, target=key, value=one.suppression.from_milli, reason="CPURestored")
            for key, one in containers.items()
            if one.suppression is not None
        ]
        return len(await self._quotas.apply(actions, containers, {}, self._clock.now()))

    def _node_object(self) -> Node | dict[str, object]:
        node = self._nodes.get(("", self.options.node))
        return node or {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.options.node}}
