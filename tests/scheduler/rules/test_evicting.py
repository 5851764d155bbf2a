"""preempt, reclaim, gangpreempt, gangreclaim and shuffle, rule by rule (spec volcano-actions 4 to 9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.rules.deciding import HIGH, LOW, MIDDLE, NOTHING, Json, Tier, decided, many, running
from tests.scheduler.worlds import group, node, pod, queue

RANKED: list[Tier] = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]
GREEDY: list[Tier] = [
    ["priority", {"name": "gang", "enableJobStarving": False}, "conformance"],
    ["predicates", "nodeorder"],
]
FAIR: list[Tier] = [["drf", {"name": "gang", "enablePreemptable": False}], ["predicates"]]

PORTS = [{"containerPort": 80, "hostPort": 80}]
TAINT = [{"key": "x", "effect": "NoSchedule"}]
KEPT = {"volcano.sh/preemptable": "false"}


def low(minimum: int, **spec: Any) -> Json:
    return group("l", minimum, phase="Running", **{"priorityClassName": "low"} | spec)


def high(minimum: int, **spec: Any) -> Json:
    return group("h", minimum, priorityClassName="high", **spec)


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


SHARED: list[Tier] = [["priority", {"name": "gang", "enableReclaimable": False}], ["proportion", "predicates"]]
GANGS_LAST: list[Tier] = [["gang", "proportion"], ["predicates"]]
DESERVED: list[Tier] = [["priority", {"name": "gang", "enableReclaimable": False}], ["capacity", "predicates"]]


def borrower(minimum: int = 0, name: str = "q1") -> Json:
    return group("a", minimum, queue=name, phase="Running")


def deserves(name: str, cpu: str, **spec: Any) -> Json:
    return queue(name, deserved={"cpu": cpu, "memory": "4Gi"}, **spec)


FOUR = (node("n1", cpu="4"), *many(4, "a", "a"))
Q1, Q2 = queue("q1"), queue("q2")
ONE, TWO = (
    (group("b", 1, queue="q2"), *many(1, "b", "b", waiting=True)),
    (
        group("b", 2, queue="q2"),
        *many(2, "b", "b", waiting=True),
    ),
)

RECLAIM = [
    pytest.param(SHARED, (*FOUR, borrower(), Q1, Q2, *ONE), 1, id="one for one"),
    pytest.param(SHARED, (*FOUR, borrower(), Q1, Q2, *TWO), 2, id="up to what the borrower deserves"),
    pytest.param(
        SHARED, (*FOUR, borrower(), Q1, Q2, group("b", 3, queue="q2"), *many(3, "b", "b", waiting=True)), 0,
        id="not for a gang that is more than its queue deserves",
    ),
    pytest.param(
        SHARED, (*FOUR, borrower(), queue("q1", weight=3), Q2, *TWO), 0, id="a queue of small weight gets little back"
    ),
    pytest.param(
        SHARED, (*FOUR, borrower(), queue("q1", weight=3),
        queue("q2", guarantee={"resource": {"cpu": "2", "memory": "2Gi"}}), *TWO), 2, id="but what it is guaranteed",
    ),
    pytest.param(SHARED, (*FOUR, borrower(), queue("q1", reclaimable=False), Q2, *ONE), 0, id="not from who keeps all"),
    pytest.param(SHARED, (*FOUR, borrower(), Q1, queue("q2", state="Closed"), *ONE), 0, id="not for closed queues"),
    pytest.param(SHARED, (*FOUR, borrower(), queue("q1", state="Closed"), Q2, *ONE), 1, id="from closed queues"),
    pytest.param(SHARED, (*FOUR, borrower(name="gone"), Q2, *ONE), 0, id="not from queues that are unknown"),
    pytest.param(
        SHARED, (FOUR[0], *(pod(f"a{i}", "a", nodeName="n1") for i in range(4)), borrower(), Q1, Q2, *ONE), 0,
        id="not from pods that do not run yet",
    ),
    pytest.param(
        SHARED, (node("n1", cpu="5"), *FOUR[1:], borrower(), Q1, Q2, *ONE), 0, id="not where there is room anyway"
    ),
    pytest.param(
        SHARED, (FOUR[0], running("a", "a", cpu="4"), borrower(), Q1, Q2, *ONE), 1,
        id="even if the borrower then has less than it deserves",
    ),
    pytest.param(
        [["gang"], ["proportion", "predicates"]], (*FOUR, borrower(4), Q1, Q2, *ONE), 1,
        id="a gang's minimum in an earlier tier only ends that tier",
    ),
    pytest.param(GANGS_LAST, (*FOUR, borrower(4), Q1, Q2, *ONE), 0, id="in the same tier it protects the gang"),
    pytest.param(DESERVED, (*FOUR, borrower(), deserves("q1", "2"), deserves("q2", "2"), *ONE), 1, id="capacity"),
    pytest.param(
        DESERVED, (*FOUR, borrower(), deserves("q1", "4"), deserves("q2", "2"), *ONE), 0, id="not what is deserved"
    ),
    pytest.param(DESERVED, (*FOUR, borrower(), deserves("q1", "2"), Q2, *ONE), 0, id="not for who deserves nothing"),
    pytest.param(DESERVED, (*FOUR, borrower(), Q1, deserves("q2", "2"), *ONE), 1, id="from who deserves nothing"),
    pytest.param(
        DESERVED, (*FOUR, borrower(), deserves("q1", "2", guarantee={"resource": {"cpu": "4"}}), deserves("q2", "2"),
        *ONE), 0, id="not what is guaranteed",
    ),
    pytest.param(
        DESERVED, (*FOUR, borrower(), deserves("q1", "2"), deserves("q2", "2", capability={"cpu": "1"}), *TWO), 0,
        id="not more than the queue may hold",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tiers", "objects", "evicted"), RECLAIM)
def test_reclaim(tiers: list[Tier], objects: tuple[Json, ...], evicted: int) -> None:
    found = decided("reclaim", tiers, *objects)
    assert len(found.evicted) == evicted
    assert evicted == 0 or len(found.pipelined) == evicted


BUNDLES = [
    pytest.param("gangpreempt", {}, (low(2), high(2)), 2, id="what a gang can spare"),
    pytest.param("gangpreempt", {}, (low(4), high(2)), 4, id="a gang that can spare nothing goes as a whole"),
    pytest.param("gangpreempt", {"allowWholeBundle": False}, (low(4), high(2)), 0, id="unless gangs stay whole"),
    pytest.param("gangpreempt", {}, (low(2, priorityClassName="high"), high(2)), 0, id="not from equals"),
    pytest.param("gangpreempt", {}, (low(2, queue="other"), high(2)), 0, id="not from other queues"),
    pytest.param("gangreclaim", {}, (low(2, queue="other"), high(2)), 2, id="gangreclaim from other queues"),
    pytest.param("gangreclaim", {}, (low(2), high(2)), 0, id="gangreclaim not from its own"),
    pytest.param("gangreclaim", {}, (low(2, queue="gone"), high(2)), 0, id="gangreclaim not from unknown queues"),
]


@pytest.mark.parametrize(("action", "arguments", "groups", "evicted"), BUNDLES)
def test_gangs(action: str, arguments: Json, groups: tuple[Json, ...], evicted: int) -> None:
    objects = (node("n1", cpu="4"), queue(), queue("other"), HIGH, LOW, *many(4, "l", "l"))
    waiting = many(2, "h", "h", waiting=True)
    found = decided(action, [["priority", "gang", "conformance"], ["predicates"]], *objects, *groups, *waiting,
                    **{action: arguments})  # fmt: skip
    assert len(found.evicted) == evicted
    assert len(found.pipelined) == (2 if evicted else 0)


def budget(allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(("named", "expected"), [("default", ["l1", "other"]), ("gone", [])])
def test_shuffle_evicts_what_plugins_name_of_the_jobs_there_are(named: str, expected: list[str]) -> None:
    pods = (*many(3, "l", "l", labels={"a": "b"}), running("bare", "l"), running("other", "l", labels={"c": "d"}))
    found = decided("shuffle", [["pdb"]], node("n1", cpu="8"), queue(), low(0, queue=named), budget(1), *pods)
    assert found.evicted == expected


@pytest.mark.parametrize(("started", "evicted"), [("22:13:00", []), ("22:12:00", ["l"])], ids=["warm", "cooled down"])
def test_cdp_spares_pods_for_a_while_after_their_start(started: str, evicted: list[str]) -> None:
    young = running("l", "l", annotations={"volcano.sh/cooldown-time": "60s"})
    young["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2023-11-14T{started}Z"}
    ]
    objects = (node("n1", cpu="1"), queue(), HIGH, LOW, low(0), high(1), young, pod("h", "h"))
    assert decided("preempt", [["priority", "cdp"], ["predicates"]], *objects).evicted == evicted


@pytest.mark.parametrize(
    ("leaving", "evicted"),
    [(False, ["l2"]), (True, [])],
    ids=["its place there is taken", "its victim there is still leaving"],
)
def test_a_pod_that_was_promised_a_node_evicts_again_when_it_lost_it(leaving: bool, evicted: list[str]) -> None:
    first, second = running("l1", "l", leaving=leaving), running("l2", "l", "n2", cpu="2")
    first["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    waiting = pod("h", "h", cpu="2", priority=100)
    waiting["status"]["nominatedNodeName"] = "n1"
    objects = (node("n1", cpu="1"), node("n2", cpu="2"), queue(), HIGH, LOW, low(0), high(1))
    assert decided("preempt", RANKED, *objects, first, second, waiting).evicted == evicted


BOTH = (node("n1", cpu="1"), node("n2", cpu="1"), queue(), queue("other"), HIGH, LOW)


@pytest.mark.parametrize("ours", ["n1", "n2"])
@pytest.mark.parametrize(
    ("action", "home", "arguments"),
    [
        ("preempt", "default", {}),
        ("preempt", "default", {"enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 100}),
        ("reclaim", "other", {}),
    ],
    ids=["preempt", "preempt where it costs least", "reclaim"],
)
def test_a_preferred_shard_gives_first(action: str, home: str, arguments: Json, ours: str) -> None:
    pods = (running("on-n1", "l", "n1", priority=1), running("on-n2", "l", "n2", priority=2), pod("h", "h"))
    tiers: list[Tier] = [["priority", {"name": "gang"}], ["predicates"]]
    found = decided(action, tiers, *BOTH, low(0, queue=home), high(1), *pods, ours=[ours], **{action: arguments})
    assert (found.evicted, found.pipelined) == ([f"on-{ours}"], {"h": ours})
