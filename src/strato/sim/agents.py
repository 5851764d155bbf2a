"""The agents of hollow nodes in virtual time: the handlers and rounds of a real node's agent on simulated samples.

`strato.node.hollow.cpu` stands in for the kernel: samples are read from it and quotas are set on it. The decisions, the
annotations and the evictions are those of the agent's own code. A node's rounds are skipped while nothing changes on
the node and `Handler.may_skip` says that a round with equal samples would ask for no action and leave no state behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from strato.agent.classquota import ClassQuota
from strato.agent.containers import ContainerFacts
from strato.agent.events import SUPPRESSED, Action, ActionKind, HostEvent, Suppression
from strato.agent.evicting import evict
from strato.agent.policy import AgentPolicy
from strato.agent.quotas import QuotaWriter, RoundState
from strato.agent.rounds import HandlerSet, container_events, host_event
from strato.agent.running import RunningContainers
from strato.agent.sampling.groupfiles import Quota
from strato.agent.sampling.layouts import ControlGroup
from strato.agent.sampling.sampler import ContainerSamples, Sampler
from strato.agent.yielding import Yielding, who_gives_way
from strato.api.core import Pod
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.errors import ApiError
from strato.node.hollow.cpu import HollowCpu
from strato.seeding import child

T = TypeVar("T")
_NO_GROUP: Final = ControlGroup("", "", "", is_unified=True)
_SOME_WEIGHT: Final = 100
"""Recorded as the old weight of a container that gives way. `HollowCpu` restores the weight without this number."""


class _NoGroups:
    """A layout of a node without control groups."""

    def pod(self, uid: str, qos: str) -> ControlGroup | None:
        return None

    def container(self, uid: str, qos: str, name: str, container_id: str) -> ControlGroup | None:
        return None

    def best_effort(self) -> ControlGroup | None:
        return None

    def all_pods(self) -> ControlGroup | None:
        return None


class SimulatedSampler(Sampler):
    """Samples a hollow node once a round; a sample is the exact mean of the time since the one before."""

    def __init__(self, cpu: HollowCpu, node: str, round_seconds: float) -> None:
        super().__init__(cpu.cores_of(node), round_seconds)
        self._cpu, self._node = cpu, node
        self._at = -math.inf
        self._used = 0.0
        self._counted: dict[str, tuple[float, float]] = {}
        """By container: core-seconds that it has used, and seconds in which its quota held it back."""

    def look(self, at: float) -> None:
        """Take a sample at a monotonic instant."""
        runs, used = self._cpu.runs_of(self._node), self._cpu.used_core_seconds(self._node)
        seconds = at - self._at
        self.has_gap = not 0 < seconds < math.inf
        if not self.has_gap:
            self.host.cpu.add(at, min(1.0, (used - self._used) / seconds / self.cpus))
        for key in self.containers.keys() - runs.keys():
            del self.containers[key]
        counted = {}
        for key, run in runs.items():
            now = counted[key] = run.account.used_core_seconds, run.account.limited_seconds
            samples = self.containers.get(key)
            if samples is None:
                samples = self.containers[key] = ContainerSamples(_NO_GROUP)
            samples.quota = Quota(run.quota_milli)
            before = self._counted.get(key)
            if before is not None and not self.has_gap:
                samples.cpu.add(at, max(0.0, (now[0] - before[0]) / seconds))
                samples.throttled_ratio = min(1.0, max(0.0, (now[1] - before[1]) / seconds))
        self._at, self._used, self._counted = at, used, counted

    def skip_to(self, at: float, now: float) -> None:
        """Set the counters to what a sample at ``at`` would have read; from then to ``now`` the node did not change."""
        since = now - at
        self._at, self._used = at, self._cpu.used_core_seconds(self._node) - self._cpu.given_cores(self._node) * since
        self._counted = {
            key: (
                run.account.used_core_seconds - run.given * since,
                run.account.limited_seconds - (since if run.is_limited else 0.0),
            )
            for key, run in self._cpu.runs_of(self._node).items()
            if key in self._counted
        }


class _SimulatedYielding(Yielding):
    """Lets containers of hollow nodes give way."""

    def __init__(self, cpu: HollowCpu) -> None:
        super().__init__(_NoGroups())
        self._cpu = cpu

    def weights(self, facts: ContainerFacts, entries: Iterable[Suppression]) -> tuple[int | None, int | None]:
        return _SOME_WEIGHT, None

    def settle(
        self, running: Sequence[ContainerFacts], entries: Mapping[str, Suppression], ended: Mapping[str, Suppression]
    ) -> None:
        names = who_gives_way(running, entries)
        for one in running:
            self._cpu.give_way(one.pod.metadata.uid, one.name, does=one.name in names)


class _SimulatedQuotas(QuotaWriter):
    """Writes quotas of hollow containers."""

    def __init__(self, cluster: Cluster, events: EventRecorder, cpu: HollowCpu) -> None:
        super().__init__(cluster, _NoGroups(), events, yielding=_SimulatedYielding(cpu), offload=_at_once)
        self._cpu = cpu

    def write_group(self, facts: ContainerFacts, milli: int | None) -> Quota | None:
        return Quota(milli) if self._cpu.set_quota(facts.pod.metadata.uid, facts.name, milli) else None


async def _at_once(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


@dataclass(slots=True)
class AgentCounts:
    """What the agents of all nodes did."""

    suppressions: int = 0
    cut_cores: float = 0.0
    """Sum over the suppressions: use before, less the limit."""
    bursts: int = 0
    """Quotas raised above the limit."""
    evictions: int = 0
    rounds: int = 0
    """Rounds that an agent took part in."""
    skipped_rounds: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason of an event → how many rounds asked for it."""


class _NodeAgent:
    """The agent of one node."""

    def __init__(
        self, cluster: Cluster, clock: Clock, random: Random, cpu: HollowCpu, node: str, policy: AgentPolicy
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._round_seconds = policy.sampling.round_seconds
        self.sampler = SimulatedSampler(cpu, node, self._round_seconds)
        self.pods: dict[str, Pod] = {}
        """The node's pods, by uid."""
        self.sleeps = False
        """Whether rounds are skipped until something changes."""
        self._handlers = HandlerSet(policy, random)
        self._quotas = _SimulatedQuotas(cluster, EventRecorder(cluster, clock, "strato-agent"), cpu)
        self._quotas.backend = policy.backend
        self._best_effort = ClassQuota(_NoGroups())
        self._running = RunningContainers(_NoGroups(), static_cpus=False)
        self._decided_at = -math.inf

    def wake(self, now: float, first: float) -> None:
        """Take part in rounds again, because the node changes now for the first time since the last round.

        Args:
            now: Monotonic seconds.
            first: When the first round was, monotonic seconds.
        """
        if self.sleeps:
            self.sleeps = False
            last = first + math.floor((now - first) / self._round_seconds) * self._round_seconds
            self.sampler.skip_to(last, now)
            self._decided_at = last

    async def decide(self, counts: AgentCounts) -> None:
        """Sample, decide and carry out the actions, as `Agent.decide` does on a real node."""
        began, since = self._clock.monotonic(), self._decided_at
        self._decided_at = began
        self.sampler.look(began)
        self._running.update(self.pods.values())
        containers = self._running.containers
        actions = self._quotas.verify(
            containers.values(), {key: one.quota for key, one in self.sampler.containers.items()}
        )
        self._quotas.settle(containers.values())
        at = self._clock.now()
        seen = container_events(self.sampler, containers.values(), at, since, self._quotas.known_suppression)
        host = host_event(self.sampler, at, since, seen, self._best_effort)
        counts.rounds += 1
        if host is None:
            return
        rewritten = {action.target for action in actions}
        actions += [one for one in self._handlers.decide(host) if one.target not in rewritten]
        await self._act(actions, containers, host, counts)
        self.sleeps = not actions and len(seen) == len(containers) and self._handlers.may_skip()

    async def _act(
        self,
        actions: Sequence[Action],
        containers: Mapping[str, ContainerFacts],
        host: HostEvent,
        counts: AgentCounts,
    ) -> None:
        states = {one.key: RoundState(utilisation=host.cpu, used_cores=one.used_cores) for one in host.containers}
        quotas = [one for one in actions if one.kind in (ActionKind.SET_QUOTA, ActionKind.CLEAR)]
        done = await self._quotas.apply(quotas, containers, states, host.at) if quotas else []
        for action in done:
            if action.reason == SUPPRESSED and action.value is not None:
                counts.suppressions += 1
                counts.cut_cores += states[action.target].used_cores - action.value / 1000
            elif action.value is not None and action.value > (containers[action.target].base_milli or math.inf):
                counts.bursts += 1
        for action in actions:
            if action.kind is ActionKind.EVENT:
                counts.reasons[action.reason] += 1
            elif action.kind is ActionKind.EVICT:
                pod = self.pods.get(action.target)
                if pod is not None and await self._evict(pod):
                    counts.evictions += 1

    async def _evict(self, pod: Pod) -> bool:
        try:
            await evict(self._cluster, pod)
        except ApiError:  # a disruption budget forbids it: the handler asks again in later rounds
            return False
        return True


class SimulatedAgents:
    """An agent on each hollow node.

    Args:
        cluster: Takes annotations and evictions.
        cpu: The CPU of the nodes, which agents sample and limit.
        nodes: The nodes' names.
        policy: The policy of every agent. The network, memory and the load balancer are not simulated.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        random: Random,
        cpu: HollowCpu,
        nodes: Sequence[str],
        policy: AgentPolicy,
    ) -> None:
        self._clock, self._cpu = clock, cpu
        self._informer = informers.informer(Pod)
        self._round_seconds = policy.sampling.round_seconds
        self._agents = {node: _NodeAgent(cluster, clock, child(random), cpu, node, policy) for node in nodes}
        self._first = 0.0
        self.counts = AgentCounts()

    async def run(self) -> None:
        """Run a round of all agents every ``round_seconds`` of the policy, until cancelled."""
        first = self._first = self._clock.monotonic()
        self._informer.add_batch_handler(self._on_pods)
        for node, agent in self._agents.items():
            self._cpu.before_change(node, lambda now, agent=agent: agent.wake(now, first))  # type: ignore[misc] # its own
        number = 0
        while True:
            for agent in self._agents.values():
                if agent.sleeps:
                    self.counts.skipped_rounds += 1
                else:
                    await agent.decide(self.counts)
            number += 1
            await self._clock.sleep(max(0.0, first + number * self._round_seconds - self._clock.monotonic()))

    def _on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        for change in changes:
            pod = change.object
            agent = self._agents.get(pod.spec.node_name)
            if agent is None:
                continue
            agent.wake(self._clock.monotonic(), self._first)
            if change.new is None:
                agent.pods.pop(pod.metadata.uid, None)
            else:
                agent.pods[pod.metadata.uid] = change.new
