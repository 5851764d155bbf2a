"""Several schedulers on one cluster: node shards, and replicas by consistent hashing."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.shard import NodeShard
from strato.api.wire import User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.scheduler.cache.replicas import Replicas, from_environment
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.world import World
from strato.scheduler.config import embedded_config
from strato.server.embedded import in_memory_server
from strato.testing import Scene, cluster, manifests
from tests.cases.runner import feed
from tests.scheduler import parts

Json = dict[str, Any]


def shard(name: str, desired: list[str], in_use: list[str] | None = None) -> Json:
    return {
        "kind": "NodeShard",
        "metadata": {"name": name},
        "spec": {"nodesDesired": desired},
        "status": {"nodesInUse": in_use or []},
    }


def test_nodes_another_scheduler_still_uses_are_not_ours_yet() -> None:
    world = World()
    world.shards = Shards(world.nodes, "hard", "mine")
    feed(world, [shard("mine", ["a", "b"], ["c"]), shard("other", ["c"], ["b"])])
    assert world.shards.usable == {"mine": {"a"}}
    status = world.shards.statuses()["mine"]
    assert (status.in_use, status.to_add, status.to_remove) == (("a",), ("b",), ())
    version = world.version
    feed(world, [shard("mine", ["a", "b"], ["a"])])
    feed(world, [{**shard("mine", ["a", "b"], ["a"]), "status": {"nodesInUse": ["a"], "nodesToAdd": ["b"]}}])
    assert world.shards.statuses() == {}
    feed(world, [{**shard("mine", ["a", "b"], ["a"]), "status": {"nodesInUse": ["a"], "nodesToAdd": ["b"]}}])
    assert world.version == version + 1  # only the status that was wrong asked for a cycle


def test_keys_are_shared_out_evenly_and_stay_when_a_replica_is_added() -> None:
    keys = [f"node-{i}" for i in range(3000)]
    three, four = Replicas("s-0", 3), Replicas("s-0", 4)
    shares = Counter(three.owner(key) for key in keys)
    assert set(shares) == {"s-0", "s-1", "s-2"}
    assert min(shares.values()) > 700
    moved = [key for key in keys if three.owner(key) != four.owner(key)]
    assert all(four.owner(key) == "s-3" for key in moved)
    assert len(moved) < 1100


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, None, id="nothing is said"),
        pytest.param({"MULTI_SCHEDULER_ENABLE": "true"}, None, id="a name is missing"),
        pytest.param(
            {"MULTI_SCHEDULER_ENABLE": "true", "SCHEDULER_POD_NAME": "vc-1", "SCHEDULER_NUM": "3"}, 3, id="three"
        ),
        pytest.param(
            {"MULTI_SCHEDULER_ENABLE": "true", "SCHEDULER_POD_NAME": "vc-0", "SCHEDULER_NUM": "x"}, 1, id="bad is one"
        ),
    ],
)
def test_the_ring_comes_from_volcanos_variables(variables: dict[str, str], expected: int | None) -> None:
    found = from_environment(variables)
    assert (None if found is None else found.count) == expected


async def serve(scene: Scene, clock: VirtualClock, *options: Json) -> LocalCluster:
    """Run a scheduler per set of options on a scene for a while."""
    api = LocalCluster(in_memory_server(clock), User("admin", groups=("system:masters",)))
    await scene.create_in(api)
    informers = [Informers(api, clock, Random(i)) for i in range(len(options))]
    running = [parts.scheduler(api, found, clock, **more) for found, more in zip(informers, options, strict=True)]
    tasks = [asyncio.create_task(part.run()) for part in running]
    try:
        await clock.sleep(30)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for found in informers:
            await found.stop()
    return api


def test_a_hard_shard_binds_inside_only_and_says_what_it_uses() -> None:
    async def story(clock: VirtualClock) -> None:
        scene = cluster().namespace("ns").queue("default").nodes(4, cpu="2").gang("g", 4, namespace="ns", cpu="1")
        scene = scene.add({"apiVersion": catalog.NODESHARD.api_version, **shard("mine", ["node-1", "node-3"])})
        api = await serve(scene, clock, {"shard_mode": "hard", "shard_name": "mine"})
        pods = (await api.list(Pod)).items
        assert {pod.spec.node_name for pod in pods} == {"node-1", "node-3"}
        written = await api.get(NodeShard, "mine")
        assert written.status.nodes_in_use == ("node-1", "node-3")

    clock = VirtualClock()
    run_virtual(clock, story(clock))


AGENT = "agent-scheduler"


def agent_scene(*shards: Json) -> Scene:
    scene = cluster().namespace("ns").queue("default").nodes(4, cpu="4").gang("g", 4, namespace="ns", cpu="1")
    agents = [manifests.pod(f"a{i}", namespace="ns", cpu="1", scheduler=AGENT) for i in range(4)]
    return scene.add(*agents, *({"apiVersion": catalog.NODESHARD.api_version, **one} for one in shards))


async def places(api: LocalCluster) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"agents": set(), "gang": set()}
    for pod in (await api.list(Pod)).items:
        found["agents" if pod.spec.scheduler_name == AGENT else "gang"].add(pod.spec.node_name)
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"shard_mode": "hard"}, {"agents": {"node-1"}, "gang": {"node-2", "node-3"}}, id="hard"),
        pytest.param({"shard_mode": "soft"}, {"agents": {"node-1"}, "gang": {"node-2", "node-3"}}, id="soft"),
        pytest.param(
            {"shard_mode": "hard", "names": [AGENT], "shard_name": AGENT}, {"agents": {"node-1"}, "gang": {""}},
            id="alone",
        ),
        pytest.param(
            {"shard_mode": "hard", "names": ["volcano"]}, {"agents": {""}, "gang": {"node-2", "node-3"}}, id="without"
        ),
    ],
)  # fmt: skip
def test_pods_of_the_agent_scheduler_have_a_shard_of_their_own(options: Json, expected: dict[str, set[str]]) -> None:
    """Equal pods of two schedulers go to different nodes, and each shard's status says what is used of it."""

    async def story(clock: VirtualClock) -> None:
        api = await serve(agent_scene(shard("volcano", ["node-2", "node-3"]), shard(AGENT, ["node-1"])), clock, options)
        assert await places(api) == expected
        used = {one.metadata.name: one.status.nodes_in_use for one in (await api.list(NodeShard)).items}
        served = options.get("names", ["volcano", AGENT])
        assert used["volcano"] == (("node-2", "node-3") if "volcano" in served else ())
        assert used[AGENT] == (("node-1",) if AGENT in served else ())

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_a_node_changes_from_one_own_shard_to_the_other() -> None:
    world = World()
    world.shards = Shards(world.nodes, "hard", "volcano", AGENT)
    feed(world, [shard("volcano", ["a", "b"], ["a", "b"]), shard(AGENT, ["b", "c"])])
    assert world.shards.usable == {"volcano": {"a", "b"}, AGENT: {"c"}}, "b is in use still"
    assert world.shards.statuses()[AGENT].to_add == ("b",)
    feed(world, [shard("volcano", ["a"], ["a", "b"])])
    assert world.shards.statuses()["volcano"].in_use == ("a",)
    feed(world, [shard("volcano", ["a"], ["a"])])
    assert world.shards.usable == {"volcano": {"a"}, AGENT: {"b", "c"}}


def test_a_pod_of_the_agent_scheduler_evicts_nobody() -> None:
    async def story(clock: VirtualClock) -> None:
        scene = cluster().namespace("ns").queue("default").nodes(1, cpu="1")
        scene = scene.add(manifests.pod("low", namespace="ns", cpu="1", scheduler="default-scheduler"))
        high = manifests.pod("high", namespace="ns", cpu="1", scheduler=AGENT, priority_class="vip")
        api = LocalCluster(in_memory_server(clock), User("admin", groups=("system:masters",)))
        await scene.create_in(api)
        await api.create(catalog.PRIORITYCLASS, {"metadata": {"name": "vip"}, "value": 1000})
        informers = Informers(api, clock, Random(1))
        running = asyncio.create_task(parts.scheduler(api, informers, clock, config=embedded_config()).run())
        await clock.sleep(5)
        await api.create(catalog.POD, high)
        await clock.sleep(30)
        low = await api.get(Pod, "low", "ns")
        assert low.spec.node_name
        assert low.metadata.deletion_timestamp is None
        waiting = await api.get(Pod, "high", "ns")
        (condition,) = [one for one in waiting.status.conditions if one.type == "PodScheduled"]
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await informers.stop()

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_replicas_bind_everything_between_them_each_on_its_own_nodes() -> None:
    async def story(clock: VirtualClock) -> None:
        scene = cluster().namespace("ns").queue("default").nodes(12, cpu="32")
        scene = scene.add(
            *(manifests.pod(f"p{i}", namespace="ns", cpu="1", scheduler="default-scheduler") for i in range(24))
        )
        rings = [Replicas(f"s-{i}", 2) for i in range(2)]
        api = await serve(scene, clock, *({"replicas": ring} for ring in rings))
        for pod in (await api.list(Pod)).items:
            assert pod.spec.node_name
            assert rings[0].owner(pod.metadata.name) == rings[0].owner(pod.spec.node_name)

    clock = VirtualClock()
    run_virtual(clock, story(clock))
