"""Small worlds of our own making, and what Volcano's scheduler decided in them.

The worlds were drawn at random, in the manner of unit tests; Volcano's own code at the commit that the file names ran
each several times in one session over its cache with recorded binds and evictions. Kept are worlds where all its runs
agreed on which pods are bound, evicted and promised a place, and on the groups' phases; which of equal nodes they get
is chance there.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from strato.scheduler.cycle import decide
from strato.scheduler.placement.placer import Placer
from tests.cases import runner

Json = dict[str, Any]

_GROUPS = {
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
    "Numatopology": "nodeinfo.volcano.sh/v1alpha1",
}
_TOGGLES = (
    "enableBestNode enableJobEnqueued enableJobOrder enableJobPipelined enableJobReady enableJobStarving"
    " enableNodeOrder enablePredicate enablePreemptable enablePreemptive enableQueueOrder enableReclaimable"
    " enableReservedNodes enableTargetJob enableTaskOrder enabledAllocatable enabledClusterOrder"
    " enabledHyperNodeGradient enabledHyperNodeOrder enabledOverused enabledSubJobOrder enabledSubJobPipelined"
    " enabledSubJobReady enabledVictim"
).split()
_FILE = Path(__file__).parent / "data" / "volcano_worlds.json"
_FEWER = frozenset(("gangevict-15",))
"""Worlds in which Volcano evicts all that a job can spare although less makes room enough (docs/compatibility.md)."""
WORLDS: list[Json] = json.loads(_FILE.read_text())["worlds"]


def _object(short: Json) -> Json:
    """Return an object with what the file leaves out."""
    meta = dict(short["metadata"])
    if short["kind"] in ("Pod", "PodGroup", "ResourceQuota"):
        meta.setdefault("namespace", "c1")
    if short["kind"] == "Pod":
        meta["uid"] = f"{meta['namespace']}-{meta['name']}"
    if short["kind"] == "Node":
        meta["labels"] = {"kubernetes.io/hostname": meta["name"], **meta.get("labels", {})}
    return {**short, "apiVersion": _GROUPS.get(short["kind"], "v1"), "metadata": meta}


def _plugin(name: str, on: str, arguments: Json | None = None) -> Json:
    chosen = _TOGGLES if on == "all" else on.split()
    every = dict.fromkeys([*_TOGGLES, "enableHierarchy"], False) | dict.fromkeys(chosen, True)
    return {"name": name, **every, **({"arguments": arguments} if arguments else {})}


def _case(world: Json) -> Json:
    """Return a recorded world in the form of the other cases."""
    tiers = [{"plugins": [_plugin(*plugin) for plugin in tier]} for tier in world["tiers"]]
    config = {"tiers": tiers, "configurations": world.get("configurations", [])}
    return {**world, "config": config, "objects": [_object(short) for short in world["objects"]]}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world["id"])
def test_decides_as_volcano(world: Json) -> None:
    case = _case(world)
    table = runner.world_of(case)
    config = runner.config_of(case, case["actions"])
    placer = Placer(table.nodes)
    ssn = decide(table, config, now=runner.NOW, rng=random.Random(0), uid="world", placer=placer)
    found = runner.outcome(ssn)
    wanted = world["outcome"]
    assert ssn.plan.failures == []
    assert sorted(found["binds"]) == wanted["binds"]
    if world["id"] in _FEWER:
        assert set(found["evicted"]) < set(wanted["evicted"])
    else:
        assert sorted(found["evicted"]) == wanted["evicted"]
    assert sorted(found["pipelined"]) == wanted["pipelined"]
    assert {job: found["phases"].get(job) for job in wanted["phases"]} == wanted["phases"]
