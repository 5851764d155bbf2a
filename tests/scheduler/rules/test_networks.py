"""Network topology and sub-groups, rule by rule (spec volcano-actions 2, scheduler-core 7.3 and 8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.rules.deciding import Json, Tier, decided, many, running
from tests.scheduler.worlds import group, node, pod, queue

TIERS: list[Tier] = [["gang"], ["predicates", "network-topology-aware"]]
ONE_RACK = {"mode": "hard", "highestTierAllowed": 1}
ONE_ZONE = {"mode": "hard", "highestTierAllowed": 2}


def hypernode(name: str, tier: int, tier_name: str, kind: str, *members: str) -> Json:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "tierName": tier_name, "members": chosen},
    }


# two racks of two nodes with 2 cpus each, in one zone
CLUSTER = (
    *(node(f"n{i}", cpu="2") for i in range(4)),
    hypernode("r0", 1, "rack", "Node", "n0", "n1"),
    hypernode("r1", 1, "rack", "Node", "n2", "n3"),
    hypernode("zone", 2, "zone", "HyperNode", "r0", "r1"),
)
HELD = (group("o", 0, phase="Running"), running("o", "o", "n1", cpu="2"))


def gang(minimum: int, pods: int, topology: Json | None, phase: str = "Inqueue", **more: Any) -> tuple[Json, ...]:
    spec = {"networkTopology": topology} if topology is not None else {}
    return group("a", minimum, phase=phase, **spec), *many(pods, "a", "a", waiting=True, **more)


RACKS = [
    pytest.param(gang(4, 4, ONE_RACK), 4, id="what fits in one domain of the tier"),
    pytest.param(gang(5, 5, ONE_RACK), 0, id="what does not"),
    pytest.param(gang(5, 5, ONE_ZONE), 5, id="a higher tier"),
    pytest.param(gang(5, 5, {"mode": "soft"}), 5, id="soft goes as far as it must"),
    pytest.param(gang(1, 1, {"mode": "hard", "highestTierAllowed": 0}), 0, id="a tier below all domains"),
    pytest.param(gang(3, 5, ONE_RACK), 0, id="a domain must have room for all that waits, not for the minimum alone"),
    pytest.param(
        (group("0", 7), *many(7, "z", "0", waiting=True), *gang(1, 4, ONE_RACK)), 8,
        id="room as it was before the cycle, so that a small beginning has its place beside what others were given",
    ),
    pytest.param(
        (group("0", 7), *many(7, "z", "0", waiting=True), *gang(2, 4, ONE_RACK)), 7,
        id="but the minimum has to find its place",
    ),
    pytest.param(gang(5, 5, {"mode": "hard", "highestTierName": "rack"}), 0, id="a tier by its name"),
    pytest.param(gang(5, 5, {"mode": "hard", "highestTierName": "zone"}), 5, id="a higher tier by its name"),
    pytest.param(gang(5, 5, {"mode": "hard", "highestTierName": "hall"}), 5, id="a tier nobody knows limits nothing"),
    pytest.param(
        (*gang(2, 1, ONE_RACK, "Running", cpu="2"), running("a0", "a", "n0")), 1, id="the rest of a gang joins it"
    ),
    pytest.param(
        (*HELD, *gang(2, 1, ONE_RACK, "Running", cpu="2"), running("a0", "a", "n0")), 0,
        id="or waits when its domain is full",
    ),
    pytest.param(
        (*HELD, *gang(2, 1, ONE_ZONE, "Running", cpu="2"), running("a0", "a", "n0")), 1,
        id="or goes to a neighbour that the tier allows",
    ),
    pytest.param(
        (hypernode("other", 3, "", "HyperNode", "r0"), *gang(1, 1, ONE_RACK)), 0,
        id="nothing while the domains are no tree",
    ),
    pytest.param(
        (hypernode("other", 3, "", "HyperNode", "r0"), *gang(1, 1, None)), 1, id="which is nobody else's business"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "placed"), RACKS)
def test_domains(objects: tuple[Json, ...], placed: int) -> None:
    assert len(decided("allocate", TIERS, queue(), *CLUSTER, *objects).binds) == placed


def parts(sizes: tuple[int, ...], minimum: int, cpu: str = "1", of: Json | None = None, **policy: Any) -> list[Json]:
    """Return a group split by the label ``part`` into sub-groups of two, with so many pods in each."""
    rule = {"name": "w", "subGroupSize": 2, "matchLabelKeys": ["part"], **policy}
    spec = {"networkTopology": of} if of is not None else {}
    made = [group("a", minimum, subGroupPolicy=[rule], **spec)]
    for part, size in enumerate(sizes):
        made += [pod(f"a{part}{i}", "a", cpu, labels={"part": str(part)}) for i in range(size)]
    return made


PARTS = [
    pytest.param(parts((2, 2), 4, "2", networkTopology=ONE_RACK), 4, id="each in its own domain"),
    pytest.param(parts((2, 2, 2), 6, "2", networkTopology=ONE_RACK), 0, id="more than there are domains"),
    pytest.param(
        parts((2, 2, 2), 4, "2", networkTopology=ONE_RACK, minSubGroups=2), 4, id="no more than there are domains for"
    ),
    pytest.param(parts((2, 2), 4, minSubGroups=3), 0, id="fewer than the least number"),
    pytest.param(parts((2, 1), 2), 2, id="an incomplete one is left out"),
    pytest.param(parts((2, 2), 4, of=ONE_RACK, networkTopology=ONE_RACK), 4, id="all in one domain"),
    pytest.param(parts((2, 2), 4, "2", of=ONE_RACK, networkTopology=ONE_RACK), 0, id="all in one that is too small"),
    pytest.param(parts((2, 2), 4, "2", of=ONE_ZONE, networkTopology=ONE_RACK), 4, id="each in a domain within one"),
    pytest.param([*parts((2,), 3), pod("x", "a")], 3, id="pods that no policy takes are a part of their own"),
    pytest.param(parts((2,), 2, matchLabelKeys=[]), 2, id="a policy without keys takes nobody"),
    pytest.param(
        parts((2,), 2, minSubGroups=1, labelSelector={"matchLabels": {"k": "v"}}), 0, id="a selector nobody matches"
    ),
]


@pytest.mark.parametrize(("objects", "placed"), PARTS)
def test_sub_groups(objects: list[Json], placed: int) -> None:
    assert len(decided("allocate", TIERS, queue(), *CLUSTER, *objects).binds) == placed
