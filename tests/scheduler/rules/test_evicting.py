"""reclaim, gangpreempt, gangreclaim and shuffle, rule by rule (spec volcano-actions 5 to 9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.rules.deciding import HIGH, LOW, Json, Tier, decided, high, low, many, running
from tests.scheduler.worlds import group, node, pod, queue

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


def spared(minimum: int, **spec: Any) -> Json:
    found = low(minimum, **spec)
    found["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    return found


BUNDLES = [
    pytest.param("gangpreempt", {}, (low(2), high(2)), 2, id="what a gang can spare"),
    pytest.param("gangpreempt", {}, (low(4), high(2)), 4, id="a gang that can spare nothing goes as a whole"),
    pytest.param("gangpreempt", {"allowWholeBundle": False}, (low(4), high(2)), 0, id="unless gangs stay whole"),
    pytest.param("gangpreempt", {}, (low(2, priorityClassName="high"), high(2)), 0, id="not from equals"),
    pytest.param("gangpreempt", {}, (low(2, queue="other"), high(2)), 0, id="not from other queues"),
    pytest.param("gangreclaim", {}, (low(2, queue="other"), high(2)), 2, id="gangreclaim from other queues"),
    pytest.param("gangreclaim", {}, (low(2), high(2)), 0, id="gangreclaim not from its own"),
    pytest.param("gangreclaim", {}, (low(2, queue="gone"), high(2)), 0, id="gangreclaim not from unknown queues"),
    pytest.param("gangpreempt", {}, (spared(2), high(2)), 0, id="not from a gang that says no, whatever its pods say"),
    pytest.param("gangreclaim", {}, (spared(2, queue="other"), high(2)), 0, id="nor gangreclaim"),
]


@pytest.mark.parametrize(("action", "arguments", "groups", "evicted"), BUNDLES)
def test_gangs(action: str, arguments: Json, groups: tuple[Json, ...], evicted: int) -> None:
    objects = (node("n1", cpu="4"), queue(), queue("other"), HIGH, LOW, *many(4, "l", "l"))
    waiting = many(2, "h", "h", waiting=True)
    found = decided(action, [["priority", "gang", "conformance"], ["predicates"]], *objects, *groups, *waiting,
                    **{action: arguments})  # fmt: skip
    assert len(found.evicted) == evicted
    assert len(found.pipelined) == (2 if evicted else 0)


KEEPS_OFF: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
        ]
    }
}


@pytest.mark.parametrize(
    ("rules", "evicted"),
    [
        pytest.param([None, None], ["l3"], id="who needs not go stays"),
        pytest.param([KEEPS_OFF, None], ["l3", "l4"], id="unless one of those who come has rules about its neighbours"),
        pytest.param([KEEPS_OFF, KEEPS_OFF], ["l3", "l4"], id="or all of them"),
    ],
)
def test_gangpreempt_spares_who_is_not_in_the_way(rules: list[Json | None], evicted: list[str]) -> None:
    """What a gang can spare is chosen as a whole: two pods, of which one makes room for both halves."""
    waiting = [pod(f"h{i}", "h", cpu="500m", affinity=rule or {}) for i, rule in enumerate(rules)]
    objects = (node("n1", cpu="4"), queue(), HIGH, LOW, *many(4, "l", "l"), low(2), high(2), *waiting)
    found = decided("gangpreempt", [["priority", "gang"], ["predicates"]], *objects)
    assert len(found.evicted) == len(evicted)
    assert sorted(found.pipelined) == ["h0", "h1"]


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
