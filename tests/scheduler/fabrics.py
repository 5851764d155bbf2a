"""Clusters with network domains, for tests: leaves of nodes, pods of leaves, one spine over all."""

from __future__ import annotations

from typing import Any

from strato.scheduler.cache.world import World
from tests.scheduler import worlds

Json = dict[str, Any]

TOPOLOGY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: network-topology-aware}]
"""


def hyper_node(name: str, tier: int, *, nodes: list[str] | None = None, inner: list[str] | None = None) -> Json:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": n}}} for n in nodes or []]
    members += [{"type": "HyperNode", "selector": {"exactMatch": {"name": n}}} for n in inner or []]
    return {"kind": "HyperNode", "metadata": {"name": name}, "spec": {"tier": tier, "members": members}}


def fabric(widths: tuple[int, int, int], cpu: str = "4", **node: Any) -> list[Json]:
    """``widths``: nodes per leaf, leaves per block, blocks; tiers 1, 2 and 3."""
    per_leaf, per_block, blocks = widths
    out: list[Json] = []
    for b in range(blocks):
        leaves = [f"l{b}-{i}" for i in range(per_block)]
        for leaf in leaves:
            names = [f"{leaf}-n{i}" for i in range(per_leaf)]
            out += [worlds.node(name, cpu=cpu, memory="64Gi", **node) for name in names]
            out.append(hyper_node(leaf, 1, nodes=names))
        out.append(hyper_node(f"b{b}", 2, inner=leaves))
    out.append(hyper_node("spine", 3, inner=[f"b{b}" for b in range(blocks)]))
    return out


def gang(
    name: str, size: int, minimum: int, tier: int | str | None, *, mode: str = "hard", cpu: str = "1", **spec: Any
) -> list[Json]:
    key = "highestTierName" if isinstance(tier, str) else "highestTierAllowed"
    topology = {"mode": mode} if tier is None else {"mode": mode, key: tier}
    pods = [worlds.pod(f"{name}-t-{i}", name, cpu=cpu, memory="") for i in range(size)]
    return [worlds.group(name, minimum, networkTopology=topology, **spec), *pods]


def spans(world: World, pods: dict[str, str]) -> int:
    """Return the tier of the lowest domain that holds these nodes."""
    tree = world.hyper_nodes.tree()
    return int(tree.tiers[tree.span([world.nodes.row_of[node] for node in pods.values()])])
