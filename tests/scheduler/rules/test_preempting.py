"""preempt, rule by rule (spec volcano-actions 4)."""

from __future__ import annotations

import pytest

from tests.scheduler.claims.test_volumes import claim, volume
from tests.scheduler.rules.deciding import HIGH, LOW, MIDDLE, NOTHING, Json, Tier, decided, high, low, many, running
from tests.scheduler.worlds import group, node, pod, queue

RANKED: list[Tier] = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]
GREEDY: list[Tier] = [
    ["priority", {"name": "gang", "enableJobStarving": False}, "conformance"],
    ["predicates", "nodeorder"],
]
FAIR: list[Tier] = [["drf", {"name": "gang", "enablePreemptable": False}], ["predicates"]]

PORTS = [{"containerPort": 80, "hostPort": 80}]
TAINT = [{"key": "x", "effect": "NoSchedule"}]


def mounts(name: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


KEPT = {"volcano.sh/preemptable": "false"}

FULL = node("n1", cpu="2")
PAIR = (FULL, low(1), high(1), *many(2, "l", "l"))

PREEMPT = [
    pytest.param(RANKED, (*PAIR, pod("h", "h")), ["l1"], {"h": "n1"}, id="no more than needed"),
    pytest.param(
        RANKED, (FULL, low(2), high(1), *many(2, "l", "l"), pod("h", "h")), [], {}, id="not below a gang's minimum"
    ),
    pytest.param(
        RANKED, (FULL, low(1, priorityClassName="high"), high(1), *many(2, "l", "l"), pod("h", "h")), [], {},
        id="not from equals",
    ),
    pytest.param(
        RANKED, (FULL, low(1, queue="other"), queue("other"), high(1), *many(2, "l", "l"), pod("h", "h")), [], {},
        id="not from other queues",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1, phase="Pending"), *many(2, "l", "l"), pod("h", "h")), [], {},
        id="not for who is not let in",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1), running("l1", "l", annotations=KEPT), running("l2", "l"), pod("h", "h")),
        ["l2"], {"h": "n1"}, id="not from pods that say no",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1), *many(2, "l", "l", labels={"volcano.sh/preemptable": "so-so"}), pod("h", "h")),
        [], {}, id="what is no boolean says no",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1), *many(2, "l", "l", priorityClassName="system-node-critical"), pod("h", "h")),
        [], {}, id="not from critical pods",
    ),
    pytest.param(RANKED, (*PAIR, pod("h", "h", preemptionPolicy="Never")), [], {}, id="not for who must not"),
    pytest.param(
        RANKED, (node("n1", cpu="3"), *PAIR[1:], pod("h", "h")), [], {"h": "n1"}, id="who needs no victim has a promise"
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1), pod("l1", "l", nodeName="n1"), pod("l2", "l", nodeName="n1"), pod("h", "h")),
        ["l1"], {"h": "n1"}, id="bound pods are victims too",
    ),
    pytest.param(
        RANKED, (node("n1", pods="2"), *PAIR[1:], pod("h", "h", **NOTHING)), [], {}, id="best effort takes no room"
    ),
    pytest.param(
        RANKED, (node("n1", pods="2"), low(1), high(1), running("l1", "l"), running("l2", "l", **NOTHING),
        pod("h", "h", **NOTHING)), ["l2"], {"h": "n1"}, id="but that of best effort",
    ),
    pytest.param(
        RANKED, (FULL, low(0), group("m", 0, phase="Running", priorityClassName="middle"), high(1), running("m", "m"),
        running("l", "l"), pod("h", "h")), ["l"], {"h": "n1"}, id="the least important job gives first",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(2), *many(2, "l", "l"), *many(2, "h", "h", waiting=True)), [], {},
        id="nobody goes for half a gang",
    ),
    pytest.param(
        RANKED, (FULL, low(0), high(2), *many(2, "l", "l"), *many(2, "h", "h", waiting=True)), ["l1", "l2"],
        {"h1": "n1", "h2": "n1"}, id="a minimum of none protects nobody",
    ),
    pytest.param(
        RANKED, (FULL, low(0), high(1), *many(2, "l", "l"), *many(2, "h", "h", waiting=True)), ["l2"], {"h1": "n1"},
        id="with gang and priority in one tier a job starves up to its minimum",
    ),
    pytest.param(
        GREEDY, (FULL, low(0), high(1), *many(2, "l", "l"), *many(2, "h", "h", waiting=True)), ["l1", "l2"],
        {"h1": "n1", "h2": "n1"}, id="with priority alone until all its tasks have a place",
    ),
    pytest.param(
        GREEDY, (FULL, group("a", 1, phase="Running"), *many(2, "a", "a", priority=1), pod("x", "a", priority=9)),
        ["a1"], {"x": "n1"}, id="within a job the important tasks take from the others",
    ),
    pytest.param(
        GREEDY, (FULL, group("a", 2, phase="Running"), *many(2, "a", "a", priority=1), pod("x", "a", priority=9)), [],
        {}, id="but keep the job's minimum",
    ),
    pytest.param(
        RANKED, (FULL, low(1), high(1, networkTopology={"mode": "hard", "highestTierAllowed": 1}), *many(2, "l", "l"),
        pod("h", "h")), [], {}, id="not for jobs with a network topology",
    ),
    pytest.param(
        FAIR, (FULL, low(0), group("h", 1), *many(2, "l", "l"), pod("h", "h")), ["l1"], {"h": "n1"},
        id="drf takes until both have the same share",
    ),
    pytest.param(
        FAIR, (FULL, low(0), group("h", 2), *many(2, "l", "l"), *many(2, "h", "h", waiting=True)), [], {},
        id="but not more",
    ),
    pytest.param(
        RANKED, (node("n1", cpu="1", taints=TAINT), node("n2", cpu="1"), low(0), high(1), running("l1", "l"),
        running("l2", "l", "n2"), pod("h", "h")), ["l2"], {"h": "n2"}, id="only where the pod may run",
    ),
    pytest.param(
        RANKED, (node("n1", pods="1"), low(0), high(1), running("l", "l"), pod("h", "h")), ["l"], {"h": "n1"},
        id="for the sake of a pod slot",
    ),
    pytest.param(
        RANKED, (node("n1", cpu="8"), low(0), high(1), running("l", "l", ports=PORTS), pod("h", "h", ports=PORTS)),
        ["l"], {"h": "n1"}, id="for the sake of a host port",
    ),
    pytest.param(
        RANKED, (node("n1", cpu="8"), low(0), high(1), running("l", "l", ports=PORTS, leaving=True),
        pod("h", "h", ports=PORTS)), [], {"h": "n1"}, id="a host port that is about to be free needs no victim",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tiers", "objects", "evicted", "pipelined"), PREEMPT)
def test_preempt(tiers: list[Tier], objects: tuple[Json, ...], evicted: list[str], pipelined: dict[str, str]) -> None:
    found = decided("preempt", tiers, queue(), HIGH, MIDDLE, LOW, *objects)
    assert (found.evicted, found.pipelined) == (evicted, pipelined)


SLOTS = {"drivers": [{"name": "csi.x", "nodeID": "n1", "allocatable": {"count": 1}}]}
ATTACHED = (
    node("n1", cpu="9"), queue(), HIGH, LOW, low(0), high(1),
    {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": SLOTS},
    *(volume(f"disk-{name}", csi={"driver": "csi.x", "volumeHandle": name}) for name in "lh"),
    *(claim(name, volume=f"disk-{name}") for name in "lh"),
)  # fmt: skip


@pytest.mark.parametrize("by_cost", [True, False], ids=["where it costs least", "by score"])
@pytest.mark.parametrize(
    ("leaving", "evicted"), [(False, ["l"]), (True, [])], ids=["its holder has to go", "its holder goes already"]
)
def test_the_last_slot_for_volumes_can_be_had_by_preemption(by_cost: bool, leaving: bool, evicted: list[str]) -> None:
    holder, waiting = running("l", "l", volumes=mounts("l"), leaving=leaving), pod("h", "h", volumes=mounts("h"))
    arguments = {"enableTopologyAwarePreemption": by_cost}
    found = decided("preempt", RANKED, *ATTACHED, holder, waiting, preempt=arguments)
    assert (found.evicted, found.pipelined) == (evicted, {} if by_cost and leaving else {"h": "n1"})


def test_a_slot_for_volumes_is_taken_as_long_as_its_holder_is_there() -> None:
    holder, waiting = running("l", "l", volumes=mounts("l"), leaving=True), pod("h", "h", volumes=mounts("h"))
    found = decided("allocate", RANKED, *ATTACHED, holder, waiting)
    assert (found.binds, found.pipelined) == ({}, {})


def test_a_host_port_is_taken_as_long_as_its_holder_is_there() -> None:
    objects = (node("n1"), queue(), low(0), high(1), running("l", "l", ports=PORTS, leaving=True))
    found = decided("allocate", RANKED, *objects, pod("h", "h", ports=PORTS))
    assert (found.binds, found.pipelined) == ({}, {})


CHEAPEST = [
    pytest.param((*PAIR, pod("h", "h")), 1, id="no more than needed"),
    pytest.param((node("n1", cpu="3"), *PAIR[1:], pod("h", "h")), 0, id="a node without victims is no candidate"),
    pytest.param(
        (FULL, node("n2", cpu="2"), low(0), high(1), *many(2, "l", "l"), running("big", "l", "n2", cpu="2"),
        pod("h", "h", cpu="2")), ["big"], id="where the fewest have to go",
    ),
    pytest.param(
        (FULL, node("n2", cpu="2"), low(0), high(1), running("l1", "l", cpu="2", priority=5),
        running("l2", "l", "n2", cpu="2", priority=3), pod("h", "h", cpu="2")), ["l2"],
        id="where the most important victim is the least important",
    ),
]  # fmt: skip


SPARED = [
    pytest.param(
        (node("n1", cpu="4"), running("small", "l", priority=1), running("large", "l", cpu="3", priority=2)),
        "3", ["large"], id="who went first and whose room was not needed is spared",
    ),
    pytest.param(
        (node("n1", cpu="4"), running("small", "l", priority=1), running("large", "l", cpu="3", priority=2)),
        "4", ["large", "small"], id="both have to go",
    ),
    pytest.param(
        (node("n1", cpu="6"), *many(3, "l", "l", priority=1), running("large", "l", cpu="3", priority=2)),
        "4", ["large", "l"], id="one of three that went first has to go after all",
    ),
    pytest.param(
        (node("n1", cpu="3"), *many(3, "l", "l", priority=1)), "2", ["l", "l"], id="two victims on a node",
    ),
    pytest.param(
        (node("n1", cpu="2"), node("n2", cpu="2"), running("a", "l", cpu="2", priority=3), running("b", "l", "n2"),
        running("c", "l", "n2")), "2", ["b", "c"], id="two of no priority cost less than one",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "cpu", "evicted"), SPARED)
def test_topology_aware_preempt_spares_whom_it_can(objects: tuple[Json, ...], cpu: str, evicted: list[str]) -> None:
    arguments = {"enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 100}
    groups = (queue(), HIGH, LOW, low(0), high(1))
    found = decided("preempt", RANKED, *groups, *objects, pod("h", "h", cpu=cpu), preempt=arguments)
    assert sorted(name.rstrip("123") for name in found.evicted) == sorted(evicted)
    assert list(found.pipelined) == ["h"]


@pytest.mark.parametrize(("objects", "expected"), CHEAPEST)
def test_topology_aware_preempt(objects: tuple[Json, ...], expected: int | list[str]) -> None:
    arguments = {"enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 100}
    found = decided("preempt", RANKED, queue(), HIGH, LOW, *objects, preempt=arguments)
    assert expected in (len(found.evicted), found.evicted)


@pytest.mark.parametrize("state", ["Open", "Closed"])
@pytest.mark.parametrize("by_cost", [True, False], ids=["where it costs least", "by score"])
def test_preempt_asks_whether_the_queue_takes_pods(state: str, by_cost: bool) -> None:
    tiers: list[Tier] = [["priority", "gang"], ["proportion", "predicates"]]
    arguments = {"enableTopologyAwarePreemption": by_cost}
    found = decided("preempt", tiers, queue(state=state), HIGH, LOW, *PAIR, pod("h", "h"), preempt=arguments)
    assert len(found.evicted) == (state == "Open")


@pytest.mark.parametrize(
    ("there", "leaving", "evicted"),
    [(True, False, ["l2"]), (True, True, []), (False, True, ["l2"])],
    ids=["its place there is taken", "its victim there is still leaving", "the node is gone before its victim"],
)
def test_a_pod_that_was_promised_a_node_evicts_again_when_it_lost_it(
    there: bool, leaving: bool, evicted: list[str]
) -> None:
    first, second = running("l1", "l", leaving=leaving), running("l2", "l", "n2", cpu="2")
    first["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    waiting = pod("h", "h", cpu="2", priority=100)
    waiting["status"]["nominatedNodeName"] = "n1"
    nodes = [node("n1", cpu="1"), node("n2", cpu="2")][0 if there else 1 :]
    objects = (*nodes, queue(), HIGH, LOW, low(0), high(1))
    assert decided("preempt", RANKED, *objects, first, second, waiting).evicted == evicted


def role(name: str) -> Json:
    return {"annotations": {"volcano.sh/task-spec": name}}


AFAR = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"x": "y"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SHY = (FULL, low(0), high(1), running("l", "l", labels={"x": "y"}), pod("h", "h", affinity=AFAR))
SIMULATED: list[Tier] = [["priority", "gang"], ["predicates"]]
AS_IT_IS: list[Tier] = [
    ["priority", "gang"],
    [{"name": "predicates", "enablePreemptable": False, "enabledAllocatable": False}],
]

GANGS = [
    pytest.param({"m": 1, "w": 1}, "1", 2, id="all roles fit"),
    pytest.param({"m": 1, "w": 1}, "3", 0, id="one role does not"),
    pytest.param({"m": 1, "w": 2}, "3", 2, id="minima of roles that exceed the group's are not enforced"),
]


@pytest.mark.parametrize(("minima", "master", "evicted"), GANGS)
def test_preempt_for_gangs_with_roles(minima: dict[str, int], master: str, evicted: int) -> None:
    tasks = (pod("m", "h", master, **role("m")), pod("w1", "h", **role("w")), pod("w2", "h", **role("w")))
    gang = high(2, minTaskMember=minima)
    found = decided("preempt", RANKED, queue(), HIGH, LOW, FULL, low(0), gang, *many(2, "l", "l"), *tasks)
    assert len(found.evicted) == evicted


@pytest.mark.parametrize(
    ("by_cost", "tiers", "evicted"),
    [(False, SIMULATED, []), (True, SIMULATED, ["l"]), (True, AS_IT_IS, [])],
    ids=["by score: not cured", "by cost: cured", "by cost, with simulation switched off: not cured"],
)
def test_anti_affinity_to_the_victim_itself(by_cost: bool, tiers: list[Tier], evicted: list[str]) -> None:
    arguments = {"enableTopologyAwarePreemption": by_cost}
    assert decided("preempt", tiers, queue(), HIGH, LOW, *SHY, preempt=arguments).evicted == evicted


@pytest.mark.parametrize(("cpu", "evicted"), [("1", []), ("2", ["l1"])], ids=["it suffices", "one more has to go"])
def test_what_is_leaving_counts_as_room(cpu: str, evicted: list[str]) -> None:
    there = (running("l1", "l"), running("l2", "l", leaving=True))
    found = decided("preempt", RANKED, queue(), HIGH, LOW, FULL, low(0), high(1), *there, pod("h", "h", cpu))
    assert (found.evicted, found.pipelined) == (evicted, {"h": "n1"})
