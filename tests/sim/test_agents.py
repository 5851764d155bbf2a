"""Agents of hollow nodes in virtual time: they decide as a real node's agent, and skipping rounds changes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from strato.agent.policy import AgentPolicy, read_policy
from strato.agent.registry import HandlerRegistry
from strato.agent.rounds import HandlerSet
from strato.api import catalog
from strato.api.core import Pod
from strato.api.cpudemand import CPU_DEMAND
from strato.api.suppression import SUPPRESSED_CONTAINERS
from strato.clock import VirtualClock, run_virtual
from strato.node.hollow.cpu import HollowCpu
from strato.node.hollow.cpuruns import CpuRun
from strato.node.hollow.runplan import RUN_SECONDS
from strato.node.shapes import parse_nodes
from strato.sim.agents import AgentCounts, SimulatedAgents, SimulatedSampler
from strato.sim.cluster import ClusterOptions, SimulatedCluster

Story = Callable[["World"], Awaitable[None]]
HANDLERS = "handlers: {hotspots: {enabled: false}, burst: {enabled: true}}"


@dataclasses.dataclass
class World:
    cluster: SimulatedCluster
    cpu: HollowCpu
    clock: VirtualClock
    counts: AgentCounts
    closed: list[CpuRun]

    async def put(self, name: str, demand: str, **options: Any) -> None:
        await self.cluster.admin.create(catalog.POD, a_pod(name, demand, **options), "default")

    async def annotation(self, name: str) -> str:
        pod = await self.cluster.admin.get(Pod, name, "default")
        return pod.metadata.annotation(SUPPRESSED_CONTAINERS)

    def run(self, name: str) -> CpuRun:
        return next(run for run in self.cpu.runs_of("node-0").values() if run.pod.metadata.name == name)


def a_pod(
    name: str, demand: str, *, workload: str = "training", limit: str = "", priority: int = 0, seconds: float = 0.0
) -> dict[str, Any]:
    resources: dict[str, Mapping[str, str]] = {"requests": {"cpu": "1"}}
    if limit:
        resources["limits"] = {"cpu": limit}
    notes = {CPU_DEMAND: demand, **({RUN_SECONDS: str(seconds)} if seconds else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"strato.io/workload": workload},
            "annotations": notes,
        },
        "spec": {
            "nodeName": "node-0",
            "restartPolicy": "Never" if seconds else "Always",
            "containers": [{"name": "main", "image": "i", "resources": resources}],
            **({"priorityClassName": "p"} if priority else {}),
        },
    }


def play(story: Story, nodes: str = "1x48cpu,64Gi", policy: str = HANDLERS) -> World:
    clock = VirtualClock()

    async def main() -> World:
        closed: list[CpuRun] = []
        cpu = HollowCpu(clock, on_closed=closed.append)
        options = ClusterOptions(nodes=parse_nodes(nodes), scheduler=False, controllers=())
        cluster = SimulatedCluster(clock, Random(1), options, cpu)
        await cluster.start()
        await cluster.admin.create(
            catalog.PRIORITYCLASS,
            {
                "apiVersion": catalog.PRIORITYCLASS.api_version,
                "kind": "PriorityClass",
                "metadata": {"name": "p"},
                "value": 1000,
            },
        )
        read: AgentPolicy = read_policy(policy, {}, HandlerRegistry())
        agents = SimulatedAgents(
            cluster.admin, cluster.informers, clock, Random(2), cpu, [*cluster.nodes[0].names], read
        )
        cluster.run_beside("agents", agents.run())
        world = World(cluster, cpu, clock, agents.counts, closed)
        try:
            await cluster.guard(story(world))
        finally:
            await cluster.stop()
        return world

    return run_virtual(clock, main())


def test_an_overloaded_node_is_brought_to_its_target_and_restored() -> None:
    """The worked example of a node of 48 cores at 95 %: C comes to 3 cores, D to 2.2, the others stay."""

    async def story(world: World) -> None:
        await world.put("a", "20", priority=1000)
        await world.put("web", "phases 10m=15.6 1h=1", workload="online")
        await world.put("c", "6", seconds=3600)
        await world.put("d", "4")
        await world.clock.sleep(60)
        assert world.counts.suppressions == 2
        assert (world.run("c").quota_milli, world.run("d").quota_milli) == (3000, 2200)
        assert (world.run("a").quota_milli, world.run("web").quota_milli) == (None, None)
        assert world.run("c").gives_way
        assert sum(run.given for run in world.cpu.runs_of("node-0").values()) == pytest.approx(0.85 * 48, abs=0.01)
        assert '"to":3000' in await world.annotation("c")
        assert world.counts.reasons["HostOverloaded"] >= 1
        await world.clock.sleep(1200)  # the service has calmed down after ten minutes
        assert (world.run("c").quota_milli, world.run("d").quota_milli) == (None, None)
        assert not world.run("c").gives_way
        assert await world.annotation("c") == ""
        await world.clock.sleep(7200)

    world = play(story)
    (done,) = [run for run in world.closed if run.pod.metadata.name == "c"]
    assert done.account.used_core_seconds == pytest.approx(6 * 3600), "its work is the same, it only took longer"
    assert 3600 + 60 < done.account.seconds < 3600 + 900


def test_a_service_bursts_over_its_limit_while_there_is_room() -> None:
    async def story(world: World) -> None:
        await world.put("web", "phases 5m=5 1h=1", workload="online", limit="2")
        await world.clock.sleep(120)
        assert world.run("web").given == pytest.approx(5)
        await world.clock.sleep(900)
        assert world.run("web").quota_milli == 2000

    assert play(story).counts.bursts > 3


def test_with_nothing_left_to_cut_the_lowest_priority_is_evicted() -> None:
    async def story(world: World) -> None:
        await world.put("web", "44", workload="online")
        await world.put("train", "4")
        await world.clock.sleep(400)
        with pytest.raises(StopIteration):
            world.run("train")

    assert play(story).counts.evictions == 1


async def busy_hours(world: World) -> None:
    for number in range(4):
        demand = f"phases repeat {11 + number}m=9 {15 + number}m=1"
        await world.put(f"web-{number}", demand, workload="online", limit="8")
    for number in range(8):
        demand = f"phases repeat {97 + 13 * number}s=7 {61 + number}s=1"
        await world.put(f"train-{number}", demand, seconds=1500, priority=1000 * (number % 2))
        await world.clock.sleep(133.3)
    await world.clock.sleep(5000)


def outcome(world: World) -> tuple[Any, ...]:
    counts = world.counts
    done = [counts.suppressions, counts.bursts, counts.evictions, round(counts.cut_cores, 6), dict(counts.reasons)]
    accounts = [(run.pod.metadata.name, run.account) for run in world.closed]
    return done, accounts, world.cpu.used_core_seconds("node-0")


def test_skipped_rounds_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with_skips = play(busy_hours)
    monkeypatch.setattr(HandlerSet, "may_skip", lambda _: False)
    without = play(busy_hours)
    assert with_skips.counts.suppressions > 3
    assert with_skips.counts.bursts > 3
    assert with_skips.counts.skipped_rounds > 20
    assert without.counts.skipped_rounds == 0
    assert with_skips.counts.rounds + with_skips.counts.skipped_rounds == without.counts.rounds
    one, other = outcome(with_skips), outcome(without)
    assert one[0] == other[0]
    for (_, ours), (_, theirs) in zip(one[1], other[1], strict=True):
        assert dataclasses.asdict(ours) == pytest.approx(dataclasses.asdict(theirs), abs=1e-3)
    assert one[2] == pytest.approx(other[2])


def test_the_same_seed_gives_the_same() -> None:
    assert outcome(play(busy_hours)) == outcome(play(busy_hours))


def test_a_sample_is_the_mean_since_the_one_before() -> None:
    clock = VirtualClock()
    cpu = HollowCpu(clock)
    cpu.add_node("n", 4.0)
    sampler = SimulatedSampler(cpu, "n", 5.0)

    async def main() -> None:
        task = asyncio.create_task(cpu.run())
        sampler.look(clock.monotonic())
        assert sampler.has_gap
        body = a_pod("p", "phases 7s=2 1h=4", limit="3")
        body["metadata"]["uid"] = "u"
        body["spec"]["nodeName"] = "n"
        pod = msgspec.convert(body, Pod)
        assert cpu.start(pod, pod.spec.containers[0], float("inf"), lambda: None)
        await clock.sleep(5)
        sampler.look(clock.monotonic())
        assert not sampler.containers["u/main"].cpu
        await clock.sleep(5)
        sampler.look(clock.monotonic())
        samples = sampler.containers["u/main"]
        assert samples.cpu.mean_since(5.0) == pytest.approx((2 * 2 + 3 * 3) / 5)
        assert samples.throttled_ratio == pytest.approx(3 / 5)
        assert sampler.host.cpu.mean_since(5.0) == pytest.approx(13 / 5 / 4)
        await clock.sleep(5)
        sampler.skip_to(12.5, clock.monotonic())
        await clock.sleep(2.5)
        sampler.look(clock.monotonic())
        assert samples.cpu.mean_since(12.5) == pytest.approx(3)
        assert samples.throttled_ratio == pytest.approx(1)
        task.cancel()

    run_virtual(clock, main())
