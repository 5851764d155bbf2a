"""What network domains add to scores: the kernel, which follows every placement, decides as numpy does one by one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.plugins.network_topology_aware import NetworkTopologyAware
from strato.scheduler.session import Session
from strato.scheduler.topology.proximity import fill_of
from tests.scheduler import worlds
from tests.scheduler.fabrics import fabric, gang
from tests.scheduler.plugins import asking

Json = dict[str, Any]

PLUGINS = [
    "{name: network-topology-aware}",
    "{name: binpack}, {name: network-topology-aware}",
    "{name: predicates}, {name: nodeorder}, {name: network-topology-aware, arguments: {weight: 3}}",
    "{name: network-topology-aware, arguments: {hypernode.binpack.normal-pod.fading: 0, hypernode.binpack.cpu: 5}}",
    "{name: predicates}, {name: nodeorder}, {name: network-topology-aware, arguments: {hypernode.binpack.normal-pod.enable: false}}",  # noqa: E501 # one line per configuration
]


def config(plugins: str) -> str:
    return f'actions: "allocate"\ntiers:\n- plugins: [{{name: gang}}, {plugins}]\n'


@pytest.mark.parametrize(("widths", "lowest"), [((1, 2, 2), 1.0), ((1, 1, 1), 1.0)])
def test_closeness_falls_from_one_to_nothing_with_the_tiers(widths: tuple[int, int, int], lowest: float) -> None:
    world = worlds.world(worlds.queue(), *fabric(widths), *gang("g", 2, 2, None, mode="soft"))
    ssn = asking.session(world, "network-topology-aware")
    layout = world.jobs["ns/g"].layout
    assert layout is not None
    (plugin,) = ssn.plugins
    assert isinstance(plugin, NetworkTopologyAware)
    closeness = plugin._near(layout.subs["ns/g"], 0).closeness
    top = ssn.tree.top_tier
    found = dict(zip(ssn.tree.tiers.tolist(), closeness.tolist(), strict=True))
    assert (found[1], found[top]) == (lowest, 0.0)
    assert found[2] == pytest.approx((top - 2) / (top - 1))


@st.composite
def mixed(draw: st.DrawFn) -> list[Json]:
    """Nodes of several sizes, some taken, some labelled; gangs near each other, jobs anywhere, leaving pods."""
    widths = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)))
    objects = [worlds.queue(), *fabric(widths)]
    nodes = [o for o in objects if o["kind"] == "Node"]
    for node in nodes:
        node["status"]["allocatable"]["cpu"] = draw(st.sampled_from(["2", "4", "6"]))
        node["spec"]["taints"] = draw(
            st.sampled_from(
                [[], [], [{"key": "k", "effect": "PreferNoSchedule"}], [{"key": "k", "effect": "NoSchedule"}]]
            )
        )
    names = [node["metadata"]["name"] for node in nodes]
    for number, name in enumerate(draw(st.lists(st.sampled_from(names), max_size=5, unique=True))):
        objects.append(
            worlds.pod(f"old-{number}", memory="1Gi", phase="Running", nodeName=name, leaving=draw(st.booleans()))
        )
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 6))
        if draw(st.booleans()):
            mode, tier = draw(st.sampled_from([("hard", 1), ("hard", 2), ("hard", 3), ("soft", None), ("hard", "?")]))
            objects += gang(f"g{number}", size, draw(st.integers(1, size)), tier, mode=mode)
        else:
            objects.append(worlds.group(f"j{number}", draw(st.integers(1, size))))
            objects += [worlds.pod(f"j{number}-t-{i}", f"j{number}", memory="512Mi") for i in range(size)]
    return objects


@settings(max_examples=80, deadline=None)
@given(objects=mixed(), plugins=st.sampled_from(PLUGINS), spread=st.integers(0, 7))
def test_batches_are_placed_as_single_tasks_are(objects: list[Json], plugins: str, spread: int) -> None:
    batch = worlds.cycle(worlds.world(*objects), config(plugins), spread=spread)
    with mock.patch.object(Session, "one_by_one", return_value=True):
        single = worlds.cycle(worlds.world(*objects), config(plugins), spread=spread)
    assert worlds.binds(batch) == worlds.binds(single)
    assert batch.pipelined == single.pipelined


@pytest.mark.parametrize(
    ("used", "asked", "weights", "points"),
    [
        pytest.param([2.0, 4.0], [2.0, 0.0], [1.0, 1.0], 0.5, id="what is not asked for does not count"),
        pytest.param([2.0, 4.0], [2.0, 4.0], [1.0, 3.0], 0.875, id="a weighted mean of what is used then"),
        pytest.param([7.0, 4.0], [2.0, 4.0], [1.0, 1.0], 0.0, id="nothing where it does not fit"),
        pytest.param([2.0, 4.0], [0.0, 0.0], [1.0, 1.0], 0.0, id="nothing for who asks for nothing"),
    ],
)
def test_how_full_a_domain_is(used: list[float], asked: list[float], weights: list[float], points: float) -> None:
    found = fill_of(np.array([used]), np.array([[8.0, 8.0]]), np.array(asked), np.array(weights))
    assert found.tolist() == [points]
