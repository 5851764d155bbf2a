"""numa-aware: which CPUs a pod would get, and where it may go."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from strato.api.core import Container
from strato.api.volcano.nodeinfo import Numatopology
from strato.scheduler.plugins import cpusets
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

ANNOTATION = "volcano.sh/numa-topology-policy"


def numa(name: str, free: str = "0-7", policy: str = "single-numa-node", manager: str = "static", **more: Any) -> Any:
    """Two NUMA nodes, one socket each, with two cores of two threads: 0-3 and 4-7; core = cpu // 2."""
    detail = {str(c): {"numa": c // 4, "socket": c // 4, "core": c // 2} for c in range(8)}
    spec = {
        "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": detail,
        **more,
    }
    return {"kind": "Numatopology", "metadata": {"name": name}, "spec": spec}


def pod(name: str, cpu: str = "2", policy: str = "", group: str = "", guaranteed: bool = True) -> Any:
    made = worlds.pod(name, group, cpu=cpu, memory="1Gi", annotations={ANNOTATION: policy} if policy else {})
    if guaranteed:
        made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": cpu, "memory": "1Gi"}
    return made


TAKEN = [
    pytest.param("0-7", 8, "0-7", id="everything"),
    pytest.param("0-7", 5, "0-4", id="a socket and a thread"),
    pytest.param("1-7", 4, "4-7", id="a whole socket before parts of another"),
    pytest.param("1-3,5-7", 2, "2-3", id="a whole core before single threads"),
    pytest.param("1,3,5", 2, "1,3", id="single threads"),
    pytest.param("1,3", 3, None, id="too few"),
]


def layout(free: str, **more: Any) -> cpusets.CpuLayout:
    return cpusets.layout_of(msgspec.convert(numa("n", free, **more), Numatopology))


@pytest.mark.parametrize(("free", "count", "expected"), TAKEN)
def test_taking_cpus(free: str, count: int, expected: str | None) -> None:
    cpus = layout("0-7").cpus
    taken = cpusets.take(cpus, cpusets.read_cpus(free), count)
    assert taken == (None if expected is None else cpusets.read_cpus(expected))


MASKS = [
    pytest.param("0-7", 4, ((0,), True), id="one node is enough"),
    pytest.param("1-7", 4, ((1,), True), id="the one that has them"),
    pytest.param("1-6", 4, ((0, 1), False), id="one would do were it empty"),
    pytest.param("0-7", 5, ((0, 1), True), id="one is never enough"),
    pytest.param("0-1", 4, ((0, 1), False), id="not there at all"),
]


@pytest.mark.parametrize(("free", "count", "expected"), MASKS)
def test_hints(free: str, count: int, expected: Any) -> None:
    made = layout(free)
    assert cpusets.best_mask(made, made.free, count) == expected


def test_reserved_cpus_are_not_free() -> None:
    assert layout("0-7", resReserved={"cpu": "1500m"}).free == cpusets.read_cpus("2-7")


def test_containers_do_not_share_cpus() -> None:
    made = layout("0-7")
    two = [
        Container(name=n, resources=msgspec.convert({"limits": {"cpu": "3"}}, type(Container().resources)))
        for n in "ab"
    ]
    assert cpusets.assign(made, made.free, two, cpusets.SINGLE) == (cpusets.read_cpus("0-2,4-6"), "")
    assert cpusets.assign(made, made.free, [*two, two[0]], cpusets.SINGLE)[1] == "a"


FITS = [  # pod policy, cpu, Numatopology, refusal
    pytest.param("single-numa-node", "4", numa("n"), None, id="fits one node"),
    pytest.param("single-numa-node", "5", numa("n"), "container main cannot be assigned by numa", id="needs two"),
    pytest.param("restricted", "5", numa("n", policy="restricted"), None, id="restricted: two is the least"),
    pytest.param("restricted", "4", numa("n", "1-6", policy="restricted"), "container main cannot be assigned by numa",
                 id="restricted: one would do were it empty"),
    pytest.param("best-effort", "4", numa("n", "1-6", policy="best-effort"), None, id="best effort takes any"),
    pytest.param("single-numa-node", "4", numa("n", policy="restricted"),
                 "topology manager policy of the node is not the pod's", id="another policy"),
    pytest.param("restricted", "2", numa("n", policy="restricted", manager="none"),
                 "cpu manager policy of the node is not static", id="not static"),
    pytest.param("restricted", "2", None, "node has no numa information", id="nothing known"),
    pytest.param("", "5", numa("n"), "container main cannot be assigned by numa", id="the node's policy holds then"),
    pytest.param("", "5", numa("n", policy="none"), None, id="a node without policy admits"),
    pytest.param("", "5", numa("n", manager="none"), None, id="a node that pins nothing admits"),
    pytest.param("none", "5", None, None, id="none is no policy"),
    pytest.param("", "1500m", numa("n", "0"), None, id="parts of CPUs are not pinned"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "cpu", "topology", "refusal"), FITS)
def test_where_pods_fit(policy: str, cpu: str, topology: Any, refusal: str | None) -> None:
    objects = [worlds.node("n", cpu="8"), pod("p", cpu, policy), *([topology] if topology else [])]
    found = asking.refusals(asking.session(worlds.world(*objects), "numa-aware"), "p")
    assert found == ({} if refusal is None else {"n": (refusal, False)})


def test_pods_that_are_not_guaranteed_are_left_alone() -> None:
    world = worlds.world(worlds.node("n"), numa("n"), pod("p", "5", "restricted", guaranteed=False))
    ssn = asking.session(world, "numa-aware")
    assert asking.refusals(ssn, "p") == {}
    assert not ssn.one_by_one(asking.task(ssn, "p"))


def test_fewer_numa_nodes_score_higher() -> None:
    nodes = [worlds.node(name, cpu="8") for name in ("one", "two")]
    topologies = [numa("one", policy="best-effort"), numa("two", "1-2,4-5", policy="best-effort")]
    ssn = asking.session(
        worlds.world(*nodes, *topologies, pod("p", "4", "best-effort")),
        {"name": "numa-aware", "arguments": {"weight": 2}},
    )
    assert asking.scores(ssn, "p") == {"one": 100.0, "two": 0.0}


def test_what_was_pinned_is_remembered_until_the_node_reports_it() -> None:
    world = worlds.world(worlds.node("n", cpu="16"), numa("n"), worlds.queue(), worlds.group("g", 0))
    worlds.feed(world, *[pod(f"p{i}", "4", "single-numa-node", "g") for i in range(3)])
    plan = worlds.cycle(world, asking.config("numa-aware"))
    given = [json.loads((b.task.bind_annotations() or {})["volcano.sh/topology-decision"]) for b in plan.binds]
    assert given == [{"numa": {"0": {"cpu": "4"}}}, {"numa": {"1": {"cpu": "4"}}}]
    assert worlds.cycle(world, asking.config("numa-aware")).binds == []
    reported = [{"uid": "ns-p0", "name": "p0", "namespace": "ns"}, {"uid": "ns-p1", "name": "p1", "namespace": "ns"}]
    worlds.feed(world, numa("n", "0-3", podAllocations=reported))
    assert [b.task.name for b in worlds.cycle(world, asking.config("numa-aware")).binds] == ["p2"]
