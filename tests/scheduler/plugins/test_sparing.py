"""pdb, cdp and resourcequota: who may be evicted, and who may enter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def budget(name: str, allowed: int, labels: dict[str, str], disrupted: tuple[str, ...] = ()) -> dict[str, Any]:
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2023-11-14T22:13:20Z")}
    meta = {"name": name, "namespace": "ns"}
    selector = {"matchLabels": labels}
    return {"kind": "PodDisruptionBudget", "metadata": meta, "spec": {"selector": selector}, "status": status}


BUDGETS = [
    pytest.param([], ["a0", "a1", "b0"], id="without budgets only pods without labels are spared"),
    pytest.param([budget("x", 1, {"app": "a"})], ["a0", "b0"], id="one may go"),
    pytest.param([budget("x", 0, {"app": "a"})], ["b0"], id="none may go"),
    pytest.param([budget("x", 0, {})], ["a0", "a1", "b0"], id="an empty selector selects nothing"),
    pytest.param(
        [budget("x", 0, {"app": "a"}, ("a1",))], ["a1", "b0"], id="a pod that is going already is not counted"
    ),
    pytest.param([budget("x", 2, {"app": "a"}), budget("y", 1, {"tier": "t"})], ["a0", "a1"], id="every budget counts"),
]


@pytest.mark.parametrize(("budgets", "victims"), BUDGETS)
def test_disruption_budgets(budgets: list[dict[str, Any]], victims: list[str]) -> None:
    labels = {"a0": {"app": "a", "tier": "t"}, "a1": {"app": "a"}, "b0": {"app": "b", "tier": "t"}, "bare": {}}
    pods = [worlds.pod(name, phase="Running", nodeName="n", labels=given) for name, given in labels.items()]
    ssn = asking.session(worlds.world(worlds.node("n"), *pods, *budgets, worlds.pod("p")), "pdb")
    candidates = [asking.task(ssn, name) for name in labels]
    for found in (
        ssn.preemptable(asking.task(ssn, "p"), candidates),
        ssn.reclaimable(asking.task(ssn, "p"), candidates),
        ssn.victim_tasks(candidates),
    ):
        assert asking.keys(found) == victims


def test_evictions_of_this_session_count_until_they_are_taken_back() -> None:
    pods = [worlds.pod(name, phase="Running", nodeName="n", labels={"app": "a"}) for name in ("a0", "a1", "a2")]
    ssn = asking.session(worlds.world(worlds.node("n"), *pods, budget("x", 2, {"app": "a"}), worlds.pod("p")), "pdb")
    tasks = [asking.task(ssn, name) for name in ("a0", "a1", "a2")]
    stmt = ssn.statement()
    assert asking.keys(ssn.victim_tasks(tasks)) == ["a0", "a1"]
    stmt.evict(tasks[1], "for the test")
    assert asking.keys(ssn.victim_tasks(tasks)) == ["a0"], "one is left, and who goes already is no victim"
    stmt.discard()
    assert asking.keys(ssn.victim_tasks(tasks)) == ["a0", "a1"]


def test_a_pod_that_lost_a_promise_is_no_eviction() -> None:
    running = worlds.pod("a0", phase="Running", nodeName="n", labels={"app": "a"})
    waits = worlds.pod("a1", "g", labels={"app": "a"})
    objects = [worlds.node("n"), running, worlds.queue(), worlds.group("g", 1), waits, budget("x", 1, {"app": "a"})]
    ssn = asking.session(worlds.world(*objects), "pdb")
    stmt = ssn.statement()
    stmt.pipeline(asking.task(ssn, "a1"), ssn.world.nodes.row_of["n"], evicted=False)
    stmt.discard()
    assert asking.keys(ssn.victim_tasks([asking.task(ssn, "a0")])) == ["a0"]


COOLDOWNS = [
    pytest.param({"labels": {"volcano.sh/cooldown-time": "600s"}}, "22:04:00", False, id="still cooling down"),
    pytest.param({"labels": {"volcano.sh/cooldown-time": "9m"}}, "22:04:00", True, id="over"),
    pytest.param({"annotations": {"volcano.sh/cooldown-time": "1h"}}, "22:04:00", False, id="as annotation"),
    pytest.param({"labels": {"volcano.sh/cooldown-time": "soon"}}, "22:13:00", True, id="unreadable"),
    pytest.param({}, "22:13:00", True, id="none asked for"),
    pytest.param({"labels": {"volcano.sh/cooldown-time": "1h"}}, "", True, id="never scheduled"),
]


@pytest.mark.parametrize(("meta", "since", "victim"), COOLDOWNS)
def test_cooldown(meta: dict[str, Any], since: str, victim: bool) -> None:
    running = worlds.pod("r", phase="Running", nodeName="n", **meta)
    if since:
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2023-11-14T{since}Z"}
        running["status"]["conditions"] = [condition]
    ssn = asking.session(worlds.world(worlds.node("n"), running, worlds.pod("p")), "cdp", now=NOW)
    assert bool(ssn.preemptable(asking.task(ssn, "p"), [asking.task(ssn, "r")])) is victim
    assert bool(ssn.reclaimable(asking.task(ssn, "p"), [asking.task(ssn, "r")])) is victim


def quota(name: str, hard: dict[str, str], used: dict[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns"}
    return {"kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}


QUOTAS = [
    pytest.param([], {"cpu": "100"}, [True, True], id="no quota"),
    pytest.param([quota("a", {"cpu": "4"}, {"cpu": "1"})], {"cpu": "1500m", "memory": "9Ti"}, [True, True], id="fits"),
    pytest.param([quota("a", {"cpu": "4"}, {"cpu": "1"})], {"cpu": "2"}, [True, False], id="what was let in counts"),
    pytest.param(
        [quota("a", {"cpu": "9"}, {}), quota("b", {"requests.cpu": "1"}, {})],
        {"cpu": "2", "requests.cpu": "2"},
        [False, False],
        id="every quota must hold, whatever its names",
    ),
    pytest.param([quota("a", {"cpu": "0"}, {})], None, [True, True], id="a group that asks for nothing"),
]


@pytest.mark.parametrize(("quotas", "minimum", "answers"), QUOTAS)
def test_namespace_quotas(quotas: list[dict[str, Any]], minimum: dict[str, str] | None, answers: list[bool]) -> None:
    groups = [worlds.group(name, 1, minResources=minimum) for name in ("one", "two")]
    ssn = asking.session(worlds.world(*quotas, worlds.queue(), *groups), "resourcequota")
    found = []
    for job in (ssn.world.jobs["ns/one"], ssn.world.jobs["ns/two"]):
        found.append(ssn.job_enqueueable(job))
        if found[-1]:
            ssn.job_enqueued(job)
    assert found == answers
    if not answers[-1]:
        assert "resource quota insufficient" in ssn.note(ssn.world.jobs["ns/two"]).verdicts[-1].text
