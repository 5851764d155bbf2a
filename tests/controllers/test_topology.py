"""HyperNodes: counts, discovery by label and by fabric manager."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Node
from strato.api.meta import ObjectMeta
from strato.api.volcano.topology import HyperNode
from strato.controllers.topology.desired import WantedHyperNode
from strato.controllers.topology.label_source import TopologyType, discover, parse_types
from strato.controllers.topology.settings import BadDiscovery, parse_discovery
from strato.controllers.topology.ufm_source import FabricPort, HttpsFabric, UfmConfig
from strato.controllers.topology.ufm_source import discover as discover_fabric
from tests.controllers.world import World, play

ENABLED = ("hyperNode-controller",)


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={key.replace("_", "/"): value for key, value in labels.items()}))


def shape(found: list[WantedHyperNode]) -> dict[str, tuple[int, str, tuple[str, ...]]]:
    """HyperNodes by label value, with the values of their children in place of drawn names."""
    value_of = {one.name: one.labels[one.tier_name] for one in found}
    return {
        value_of[one.name]: (one.tier, one.member_type, tuple(sorted(value_of.get(m, m) for m in one.members)))
        for one in found
    }


TYPES = parse_types({"networkTopologyTypes": {"Fat_Tree": [{"nodeLabel": k} for k in ("zone", "rack", "host")]}})
NODES = [
    node("n1", zone="z", rack="r1", host="h1"),
    node("n2", zone="z", rack="r1", host="h2"),
    node("n3", zone="z", rack="r2"),
    node("n4", zone="z"),
    node("n5", rack="r3"),
]


def test_labels_make_a_tree_up_to_the_first_label_a_node_lacks() -> None:
    assert [TopologyType("Fat_Tree", ("rack", "zone"))] == TYPES
    found = discover(TYPES, NODES, [], Random(1))
    assert shape(found) == {
        "r1": (1, "Node", ("n1", "n2")),
        "r2": (1, "Node", ("n3",)),
        "r3": (1, "Node", ("n5",)),
        "z": (2, "HyperNode", ("r1", "r2")),
    }
    assert all(one.name.startswith(f"hypernode-fat-tree-tier{one.tier}-") for one in found)
    assert found[0].labels == {"volcano.sh/network-topology-source": "label", "rack": "r1"}


def test_names_are_kept() -> None:
    first = discover(TYPES, NODES, [], Random(1))
    present = [HyperNode(metadata=ObjectMeta(name=one.name, labels=dict(one.labels))) for one in first]
    again = discover(TYPES, list(reversed(NODES)), present, Random(99))
    assert {one.name: one.members for one in again} == {one.name: one.members for one in first}


@pytest.mark.parametrize("name", ["x" * 21, "twice"], ids=["a long name", "a label twice"])
def test_unusable_types_are_left_out(name: str) -> None:
    labels = [{"nodeLabel": "a"}, {"nodeLabel": "a"}, {"nodeLabel": "h"}]
    good = {"good": [{"nodeLabel": "a"}, {"nodeLabel": "h"}]}
    types = {"networkTopologyTypes": {name: labels if name == "twice" else good["good"], **good}}
    assert [kind.name for kind in parse_types(types)] == ["good"]


@pytest.mark.parametrize("text", ["networkTopologyDiscovery: 3", "a: [", "networkTopologyDiscovery: [{enabled: true}]"])
def test_unusable_configuration_is_refused(text: str) -> None:
    with pytest.raises(BadDiscovery, match="volcano-controller"):
        parse_discovery(text)


def test_all_that_is_wrong_with_a_configuration_is_said_at_once() -> None:
    text = """
    networkTopologyDiscovery:
    - {source: label, enabled: true, interval: soon}
    - {source: ufm, enabled: [1]}
    - {enabled: true}
    """
    with pytest.raises(BadDiscovery) as caught:
        parse_discovery(text)
    places = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    assert places == [
        "networkTopologyDiscovery[0].interval",
        "networkTopologyDiscovery[1]",
        "networkTopologyDiscovery[2]",
    ]


def test_a_configuration_has_a_greatest_length() -> None:
    with pytest.raises(BadDiscovery, match="at most"):
        parse_discovery("a: " + "x" * (1 << 19))


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from(["h1", "h2", "h3", "h4", "h5", "h6", "h7"])), max_size=20
    )
)
def test_leaves_that_share_a_host_are_one(pairs: list[tuple[str, str]]) -> None:
    ports = [FabricPort("Computer IB Port", leaf, host) for leaf, host in pairs]
    ports.append(FabricPort("Switch", "x", "y"))
    found = discover_fabric(ports)
    leaves = [one for one in found if one.tier == 1]
    hosts = [host for one in leaves for host in one.members]
    assert sorted(hosts) == sorted({host for _, host in pairs})  # every host in exactly one
    for leaf in {leaf for leaf, _ in pairs}:
        mine = {host for one, host in pairs if one == leaf}
        assert sum(mine <= set(one.members) for one in leaves) == 1
    assert [one.name for one in found] == [f"leaf-hn-{i}" for i in range(len(leaves))] + ["spine-hn"] * bool(leaves)


# Life


def config_map(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-controller-configmap", "namespace": "volcano-system"},
        "data": {"volcano-controller.conf": text},
    }


LABEL_CONFIG = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      tree: [{nodeLabel: zone}, {nodeLabel: rack}, {nodeLabel: host}]
"""


async def prepare(world: World, text: str) -> None:
    await world.cluster.create(catalog.CONFIGMAP, config_map(text), "volcano-system")


async def add_node(world: World, name: str, **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await world.cluster.create(catalog.NODE, body)


async def hyper_nodes(world: World) -> dict[str, HyperNode]:
    items = (await world.cluster.list(HyperNode)).items
    return {item.metadata.label("rack") or item.metadata.label("zone") or item.metadata.name: item for item in items}


def test_discovery_follows_the_nodes() -> None:
    async def scenario(world: World) -> None:
        await prepare(world, LABEL_CONFIG)
        for number in range(6):
            await add_node(world, f"n{number}", zone="z", rack=f"r{number % 2}")
        await world.settle(2)
        found = await hyper_nodes(world)
        assert {key: (item.spec.tier, item.status.node_count) for key, item in found.items()} == {
            "r0": (1, 3),
            "r1": (1, 3),
            "z": (2, 2),
        }
        await world.cluster.patch(catalog.NODE, "n1", "", {"metadata": {"labels": {"rack": "r0"}}})
        await world.cluster.delete(catalog.NODE, "n3")
        await world.cluster.delete(catalog.NODE, "n5")
        await world.settle(2)
        after = await hyper_nodes(world)
        assert {key: item.status.node_count for key, item in after.items()} == {"r0": 4, "z": 1}
        assert after["r0"].metadata.uid == found["r0"].metadata.uid
        await world.cluster.delete(HyperNode, after["r0"].metadata.name)
        await world.settle(2)
        assert (await hyper_nodes(world))["r0"].status.node_count == 4  # what is deleted by hand comes back

    play(scenario, enabled=ENABLED)


def test_a_source_that_is_switched_off_leaves_its_hyper_nodes() -> None:
    async def scenario(world: World) -> None:
        await prepare(world, LABEL_CONFIG)
        await add_node(world, "n", rack="r", zone="z")
        await world.settle(2)
        await world.cluster.patch(
            catalog.CONFIGMAP,
            "volcano-controller-configmap",
            "volcano-system",
            config_map("networkTopologyDiscovery: []"),
        )
        await add_node(world, "m", rack="s", zone="z")
        await world.settle(2)
        assert set(await hyper_nodes(world)) == {"r", "z"}

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("members", "count"),
    [
        pytest.param(
            [{"exactMatch": {"name": "gone"}}, {"exactMatch": {"name": "n1"}}], 2, id="exact names count anyway"
        ),
        pytest.param([{"regexMatch": {"pattern": "n[12]"}}], 2, id="a pattern is searched"),
        pytest.param(
            [{"labelMatch": {"matchLabels": {"rack": "r"}}}, {"exactMatch": {"name": "n1"}}], 2, id="once each"
        ),
        pytest.param([{"labelMatch": {}}], 0, id="an empty selector selects nothing"),
    ],
)
def test_node_count(members: list[dict[str, Any]], count: int) -> None:
    async def scenario(world: World) -> None:
        for name, rack in (("n1", "r"), ("n2", "r"), ("n3", "s")):
            await add_node(world, name, rack=rack)
        body = {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "h"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": one} for one in members]},
        }
        await world.cluster.create(catalog.HYPERNODE, body)
        await world.settle(2)
        assert (await hyper_nodes(world))["h"].status.node_count == count
        await add_node(world, "n12", rack="r")
        await world.settle(3)
        grown = (await hyper_nodes(world))["h"].status.node_count
        assert grown == (count + 1 if "exactMatch" not in members[0] and count else count)

    play(scenario, enabled=ENABLED)


def test_a_fabric_manager_is_asked_with_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str]] = []

    async def ports(self: HttpsFabric, config: UfmConfig, user: str, password: str) -> bytes:
        asked.append((config.endpoint, user, password))
        listed = [
            {"description": "Computer", "peer_node_name": f"leaf{i % 2}", "system_name": f"h{i}"} for i in range(4)
        ]
        return json.dumps(listed).encode()

    monkeypatch.setattr(HttpsFabric, "ports", ports)
    text = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: 10m
  credentials: {secretRef: {name: ufm, namespace: volcano-system}}
  config: {endpoint: fabric.example, insecureSkipVerify: true}
"""

    async def scenario(world: World) -> None:
        await prepare(world, text)
        data = {key: base64.b64encode(value.encode()).decode() for key, value in (("username", "u"), ("password", "p"))}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ufm"}, "data": data}
        await world.cluster.create(catalog.SECRET, secret, "volcano-system")
        await world.settle(1500)
        found = await hyper_nodes(world)
        assert {name: item.status.node_count for name, item in found.items()} == {
            "leaf-hn-0": 2,
            "leaf-hn-1": 2,
            "spine-hn": 2,
        }
        assert len(asked) in (3, 4)
        assert set(asked) == {("fabric.example", "u", "p")}

    play(scenario, enabled=ENABLED)


async def test_the_fabric_manager_over_a_socket() -> None:
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        expected = "Basic " + base64.b64encode(b"u:p").decode()
        if request.headers.get("Authorization") != expected:
            return web.Response(status=401)
        return web.json_response([{"description": "Computer", "peer_node_name": "l", "system_name": "h"}])

    app = web.Application()
    app.router.add_get("/ufmRest/resources/ports", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        body = await HttpsFabric().ports(UfmConfig(endpoint), "u", "p")
        assert json.loads(body)[0]["system_name"] == "h"
        with pytest.raises(BadDiscovery, match="401"):
            await HttpsFabric().ports(UfmConfig(endpoint), "u", "wrong")
    finally:
        await runner.cleanup()
