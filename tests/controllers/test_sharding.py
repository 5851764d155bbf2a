"""Sharding: who gets which nodes, configuration, and life."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.volcano.shard import NodeShard
from strato.controllers.context import ControllerSettings
from strato.controllers.sharding.assign import assign, is_worth_writing
from strato.controllers.sharding.policies import AllocationRate, NodeLimit, NodeMetrics, ShardPolicy, Warmup
from strato.controllers.sharding.settings import SchedulerShare, parse_flags, parse_sharding
from strato.errors import InvalidInput
from tests.controllers.world import World, play

ENABLED = ("sharding-controller",)


def facts(name: str, ratio: float | None = 0.0, **labels: str) -> NodeMetrics:
    return NodeMetrics(name, {"node.volcano.sh/warmup": "true"} if "warm" in labels else {}, ratio)


NODES = [
    facts("a", 0.1),
    facts("b", 0.5),
    facts("c", 0.6),
    facts("d", 0.604, warm="y"),
    facts("e", 0.9),
    facts("f", None),
]


@pytest.mark.parametrize(
    ("policies", "wanted"),
    [
        pytest.param([], "abcdef", id="no policies take all"),
        pytest.param([AllocationRate(maxCPUUtil=0.6)], "abcd", id="bounds count with two decimals; unknown is out"),
        pytest.param([AllocationRate()], "", id="a bound that is left out is nought"),
        pytest.param([AllocationRate(maxCPUUtil=1), NodeLimit(max_nodes=2)], "de", id="the fullest ones"),
        pytest.param([Warmup(), NodeLimit(max_nodes=2)], "ad", id="warm ones first, then in order"),
        pytest.param([Warmup(weight=0.2), AllocationRate(maxCPUUtil=1), NodeLimit(max_nodes=1)], "e", id="weights"),
        pytest.param([NodeLimit(max_nodes=0)], "abcdef", id="a limit of nought is none"),
    ],
)
def test_assign(policies: list[ShardPolicy], wanted: str) -> None:
    assert assign([SchedulerShare("s", tuple(policies))], NODES)["s"] == list(wanted)


RATIO = st.none() | st.floats(0, 1)
SHARES = st.lists(st.tuples(st.floats(0, 0.5), st.floats(0.5, 1), st.integers(0, 80)), min_size=1, max_size=4)


@given(st.lists(RATIO, max_size=150), SHARES)
def test_a_node_goes_to_one_scheduler_at_most_and_limits_hold(
    ratios: list[float | None], shares: list[tuple[float, float, int]]
) -> None:
    nodes = [facts(f"n{i}", ratio) for i, ratio in enumerate(ratios)]
    configured = [
        SchedulerShare(f"s{i}", (AllocationRate(minCPUUtil=low, maxCPUUtil=high), NodeLimit(max_nodes=limit)))
        for i, (low, high, limit) in enumerate(shares)
    ]
    given_nodes = assign(configured, nodes)
    everyone = [name for names in given_nodes.values() for name in names]
    assert len(everyone) == len(set(everyone))
    for i, (_, _, limit) in enumerate(shares):
        assert limit == 0 or len(given_nodes[f"s{i}"]) <= limit


@pytest.mark.parametrize(
    ("present", "wanted", "write"),
    [(20, 21, True), (20, 20, False), (0, 0, False)],
)
def test_a_change_of_number_is_written(present: int, wanted: int, write: bool) -> None:
    assert is_worth_writing([str(i) for i in range(present)], [str(i) for i in range(wanted)]) is write


@pytest.mark.parametrize(("new", "write"), [(1, False), (2, True)])
def test_a_tenth_of_new_nodes_is_written(new: int, write: bool) -> None:
    assert is_worth_writing([str(i) for i in range(20)], [str(i) for i in range(new, 20 + new)]) is write


def test_all_problems_are_told_at_once() -> None:
    text = """
schedulerConfigs:
- {name: a, cpuUtilizationMin: 0.9, cpuUtilizationMax: 0.1}
- {policies: [{name: nope}, {name: warmup, weight: -1}, {name: allocation-rate, arguments: {maxNodes: 3}}]}
shardSyncPeriod: soon
"""
    with pytest.raises(InvalidInput) as caught:
        parse_sharding(text)
    places = [problem.where for problem in caught.value.problems]
    assert places == [
        "schedulerConfigs[0].cpuUtilizationMin",
        "schedulerConfigs[0].arguments",
        "schedulerConfigs[1].name",
        "schedulerConfigs[1].policies[0].name",
        "schedulerConfigs[1].policies[1].weight",
        "schedulerConfigs[1].policies[2].arguments",
        "shardSyncPeriod",
    ]


def test_old_fields_become_policies() -> None:
    text = "schedulerConfigs: [{name: a, cpuUtilizationMax: 0.6, preferWarmupNodes: true, maxNodes: 9}]"
    (share,) = parse_sharding(text).shares
    assert share.policies == (AllocationRate(maxCPUUtil=0.6), Warmup(), NodeLimit(max_nodes=9))
    (flag,) = parse_flags(["a:volcano:0.0:0.6:true:0:9"]).shares
    assert flag == share


@pytest.mark.parametrize("flag", ["a:b:c", "a:volcano:x:0.6:true:0:9", "a:volcano:0.9:0.6:true:0:9"])
def test_bad_flags_are_refused(flag: str) -> None:
    with pytest.raises(InvalidInput, match="scheduler-configs"):
        parse_flags([flag])


# Life


async def add_node(world: World, name: str, cpu: str = "10") -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await world.cluster.create(catalog.NODE, node)
    capacity = {"capacity": {"cpu": cpu, "memory": "10Gi"}}
    await world.cluster.patch(catalog.NODE, name, "", {"status": capacity}, subresource="status")


def filler(name: str, node: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def shards(world: World) -> dict[str, tuple[str, ...]]:
    return {s.metadata.name: s.spec.nodes_desired for s in (await world.cluster.list(NodeShard)).items}


def test_nodes_move_between_shards_as_they_fill() -> None:
    async def scenario(world: World) -> None:
        for name in ("n1", "n2", "n3"):
            await add_node(world, name)
        await world.settle(2)
        assert await shards(world) == {"volcano": ("n1", "n2", "n3"), "agent-scheduler": ()}
        await world.cluster.create(catalog.POD, filler("p", "n2", "8"), "default")
        await world.settle(2)
        assert await shards(world) == {"volcano": ("n1", "n3"), "agent-scheduler": ("n2",)}
        await world.cluster.delete(catalog.POD, "p", "default", grace_period_seconds=0)
        await world.settle(70)
        assert await shards(world) == {"volcano": ("n1", "n2", "n3"), "agent-scheduler": ()}

    play(scenario, enabled=ENABLED)


def test_the_configuration_is_read_while_running() -> None:
    text = "schedulerConfigs: [{name: only, cpuUtilizationMax: 1.0, maxNodes: 1}]"
    where = ControllerSettings().sharding_configmap

    async def scenario(world: World) -> None:
        await add_node(world, "n1")
        await add_node(world, "n2")
        await world.settle(2)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": where.name},
            "data": {"sharding.yaml": text},
        }
        await world.cluster.create(catalog.CONFIGMAP, body, where.namespace)
        await world.settle(2)
        assert await shards(world) == {"only": ("n1",)}
        bad = {"data": {"sharding.yaml": "schedulerConfigs: []"}}
        await world.cluster.patch(catalog.CONFIGMAP, where.name, where.namespace, bad)
        await world.settle(100)
        assert await shards(world) == {"only": ("n1",)}

    play(scenario, enabled=ENABLED)
