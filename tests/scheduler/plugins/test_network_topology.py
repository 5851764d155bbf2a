"""network-topology-aware: which domains a gang is tried in."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.framework.plugin import EVICT
from tests.scheduler import worlds
from tests.scheduler.fabrics import TOPOLOGY, fabric, gang, hyper_node
from tests.scheduler.plugins import asking

GPU = "nvidia.com/gpu"


def test_a_gang_starts_where_there_are_devices_for_all_of_it() -> None:
    """The fuller leaf comes first, and has the devices for the gang's minimum only."""
    pods: list[dict[str, Any]] = gang("g", 4, 2, 1)
    for made in pods[1:]:
        made["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
    nodes = [worlds.node("few", cpu="8", **{GPU: "2"}), worlds.node("many", cpu="8", **{GPU: "4"})]
    leaves = [hyper_node(f"with-{name}", 1, nodes=[name]) for name in ("few", "many")]
    busy = worlds.pod("busy", memory="", phase="Running", nodeName="few")
    plan = worlds.cycle(worlds.world(worlds.queue(), *nodes, *leaves, busy, *pods), TOPOLOGY)
    assert [bind.node for bind in plan.binds] == ["many"] * 4


@pytest.mark.parametrize(
    ("most", "tried"),
    [
        pytest.param(1, [[], ["b0"]], id="one"),
        pytest.param(3, [["l0-8", "l0-9"], ["b0"]], id="those of the highest tier, then the last ones of the next"),
        pytest.param(99, [[f"l0-{i}" for i in range(10)], ["b0"]], id="all"),
        pytest.param(0, [[f"l0-{i}" for i in range(3, 10)], ["b0"]], id="eight unless it is a number of some"),
    ],
)
def test_evictions_are_tried_in_so_many_domains(most: int, tried: list[list[str]]) -> None:
    world = worlds.world(worlds.queue(), *fabric((1, 10, 1)), *gang("g", 1, 1, 2))
    arguments = {"hypernode.gradient.evict.max-hypernodes": most}
    ssn = asking.session(world, "gang", {"name": "network-topology-aware", "arguments": arguments})
    groups = ssn.gradient(world.jobs["ns/g"], ssn.tree.top, EVICT)
    by_tier = {int(ssn.tree.tiers[group[0]]): sorted(ssn.tree.names[domain] for domain in group) for group in groups}
    assert [by_tier.get(tier, []) for tier in (1, 2)] == tried
