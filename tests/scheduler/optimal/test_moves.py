"""Evictions and migrations of the action `flow`: the cheapest victims, with proven gain, or nobody."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.clock import format_time
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.decisions import to_json
from strato.scheduler.dryrun.examine import examine
from strato.scheduler.dryrun.run import settle
from strato.scheduler.model.plan import Plan
from strato.scheduler.optimal.evictions import FREE, LEFT_OUT, EvictionPlan, Place, Seeker, cheapest
from strato.scheduler.optimal.gains import weight
from strato.scheduler.reporting.evictionrecords import STARTED, EvictionRecords
from tests.scheduler import worlds
from tests.scheduler.dryrun.test_examine import copy
from tests.scheduler.test_properties import FLOW

NOW = 1_700_000_000.0
CLASSES = [
    {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("mid", 10), ("high", 100))
]
PLUGINS = "{name: priority}, {name: gang}, {name: conformance}"


def config(arguments: str, plugins: str = PLUGINS) -> str:
    return f"""
actions: "enqueue, flow, backfill"
configurations: [{{name: flow, arguments: {{{arguments}}}}}]
tiers:
- plugins: [{plugins}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


PREEMPTION, MIGRATION = config("preemption: true"), config("migration: true")


def running(name: str, group: str, node: str, *, minutes: float = 0, owner: str = "", **more: Any) -> dict[str, Any]:
    pod = worlds.pod(name, group, phase="Running", nodeName=node, **more)
    pod["status"]["startTime"] = format_time(NOW - 60 * minutes)
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": f"uid-{group}", "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    return pod


def gang(name: str, size: int, *, priority: str = "high", minimum: int | None = None, **more: Any) -> list[Any]:
    pods = [worlds.pod(f"{name}-{i}", name, **more) for i in range(size)]
    return [worlds.group(name, size if minimum is None else minimum, priorityClassName=priority), *pods]


def decided(*objects: dict[str, Any], given: str = PREEMPTION) -> Plan:
    world = worlds.world(worlds.queue(), *CLASSES, *objects)
    plan = worlds.cycle(world, given, now=NOW)
    worlds.check_invariants(world)
    return plan


def evicted(plan: Plan) -> set[str]:
    assert {e.action for e in plan.evictions} <= {"flow"}
    return {e.task.key.removeprefix("ns/") for e in plan.evictions}


def said(plan: Plan, job: str) -> str:
    return next(v.text for v in plan.verdicts[f"ns/{job}"] if v.code in ("FlowGain", "FlowNoGain", "FlowNoPlace"))


NODES = [worlds.node(f"n{i}", cpu="2") for i in range(3)]
LOW = worlds.group("low", 0)
MID = worlds.group("mid", 0, priorityClassName="mid")


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [LOW, MID, running("mid-0", "mid", "n0", cpu="2"),
             *(running(f"low-{i}", "low", f"n{i}", cpu="2") for i in (1, 2))],
            {"low-1", "low-2"},
            id="those of the lowest priority go, not the more important one",
        ),
        pytest.param(
            [LOW, *(running(f"low-{i}", "low", f"n{i}", cpu="2", minutes=10 * i) for i in range(3))],
            {"low-0", "low-1"},
            id="of equals those go that have done least",
        ),
        pytest.param(
            [LOW, running("low-0", "low", "n0", cpu="2"), running("low-1", "low", "n1", cpu="1")],
            {"low-1"},
            id="what is free is used first, and the smaller loss next",
        ),
        pytest.param(
            [LOW, MID, running("mid-0", "mid", "n1", cpu="2"),
             *(running(f"low-{i}", "low", "n0", cpu="1") for i in range(2))],
            {"low-0", "low-1"},
            id="two small ones of low priority are cheaper than one that matters more",
        ),
        pytest.param(
            [MID, LOW, running("mid-0", "mid", "n0", cpu="2"), running("mid-1", "mid", "n1", cpu="2"),
             running("low-0", "low", "n2", cpu="1"), running("mid-2", "mid", "n2", cpu="1")],
            {"low-0", "mid-2", "mid-0"},
            id="the mixed node costs less than a whole important one",
        ),
    ],
)  # fmt: skip
def test_a_gang_evicts_exactly_the_cheapest_victims(objects: list[dict[str, Any]], want: set[str]) -> None:
    plan = decided(*NODES, *objects, *gang("g", 2, cpu="2"))
    assert evicted(plan) == want
    assert {e.beneficiary for e in plan.evictions} <= {"ns/g-0", "ns/g-1"}
    assert set(plan.pipelined) == {"ns/g-0", "ns/g-1"}


@pytest.mark.parametrize(
    ("objects", "arguments", "want"),
    [
        pytest.param([LOW, running("low-0", "low", "n0", cpu="2")], "minGain: 200", "no more than the threshold of 200",
                     id="the gain is below the threshold"),
        pytest.param([LOW, running("low-0", "low", "n0", cpu="2")], "minGain: 100", "gain 100 node-hours",
                     id="the gain is the threshold and not more"),
        pytest.param([worlds.group("low", 1), running("low-0", "low", "n0", cpu="2")], "",
                     "makes room for 1 of its tasks", id="a gang keeps its minimum"),
        pytest.param([LOW, running("low-0", "low", "n0", cpu="2", priorityClassName="system-node-critical")], "",
                     "makes room for 1 of its tasks", id="conformance spares what the cluster needs"),
        pytest.param([worlds.group("low", 0, priorityClassName="high"), running("low-0", "low", "n0", cpu="2")], "",
                     "makes room for 1 of its tasks", id="nobody goes for his equal"),
        pytest.param([worlds.queue("other"), worlds.group("low", 0, queue="other"),
                      running("low-0", "low", "n0", cpu="2")],
                     "", "makes room for 1 of its tasks", id="another queue's pods are not to be had"),
        pytest.param([LOW, running("low-0", "low", "n0", cpu="2", annotations={"volcano.sh/preemptable": "false"})], "",
                     "makes room for 1 of its tasks", id="a pod that says no is left alone"),
    ],
)  # fmt: skip
def test_nobody_is_evicted_and_the_record_says_why(objects: list[dict[str, Any]], arguments: str, want: str) -> None:
    plan = decided(NODES[0], *objects, *gang("g", 1, cpu="2"), given=config(f"preemption: true, {arguments}"))
    assert (evicted(plan), dict(plan.pipelined)) == (set(), {})
    assert want in said(plan, "g")


def test_one_victim_too_few_and_the_whole_gang_waits() -> None:
    plan = decided(*NODES[:2], LOW, running("low-0", "low", "n0", cpu="2"), *gang("g", 3, cpu="2"))
    assert (plan.evictions, plan.pipelined) == ([], {})


def test_a_disruption_budget_holds_for_all_jobs_of_a_cycle_together() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }
    web = [running(f"low-{i}", "low", f"n{i}", cpu="2", labels={"app": "web"}) for i in range(3)]
    given = config("preemption: true", PLUGINS + ", {name: pdb}")
    assert (
        len(evicted(decided(*NODES, LOW, budget, *web, *gang("g", 1, cpu="2"), *gang("h", 1, cpu="2"), given=given)))
        == 1
    )
    assert not evicted(decided(*NODES, LOW, budget, *web, *gang("g", 2, cpu="2"), given=given))


def test_a_queue_takes_no_more_than_it_may_have() -> None:
    capped = worlds.queue("capped", capability={"cpu": "3"})
    low = [worlds.group("low", 0, queue="capped"), *(running(f"low-{i}", "low", f"n{i}", cpu="1") for i in range(3))]
    wants = [worlds.group("g", 2, queue="capped", priorityClassName="high")]
    wants += [worlds.pod(f"g-{i}", "g", cpu="2") for i in range(2)]
    assert not evicted(decided(capped, *NODES, *low, *wants))


def test_a_done_eviction_says_which_prices_decided() -> None:
    plan = decided(NODES[0], LOW, running("low-0", "low", "n0", cpu="2", minutes=30), *gang("g", 1, cpu="2"))
    assert said(plan, "g") == ("evicts ns/low-0 (1.5) for 1 tasks worth 101: gain 99.5 node-hours, threshold 0.1")


def test_the_explanation_of_a_promised_job_names_victims_and_prices() -> None:
    objects = [worlds.queue(), *CLASSES, NODES[0], LOW, running("low-0", "low", "n0", cpu="2"), *gang("g", 1, cpu="2")]
    found = examine(copy(*objects, config=PREEMPTION), "ns/g")
    assert found is not None
    assert found.summary == "it was promised room on n0 and waits for pods there to leave"
    assert [v.text for v in found.verdicts] == [
        "evicts ns/low-0 (1) for 1 tasks worth 101: gain 100 node-hours, threshold 0.1"
    ]


# -- migration ---------------------------------------------------------------------------------------------------------

PICKY = {"nodeSelector": {"disk": "ssd"}}
ON_SLOW = {"nodeSelector": {"kubernetes.io/hostname": "slow"}}
TWO = [worlds.node("fast", cpu="2", labels={"disk": "ssd"}), worlds.node("slow", cpu="2")]


def test_a_migration_frees_the_only_place_of_a_gang() -> None:
    world = worlds.world(worlds.queue(), *CLASSES, *TWO, worlds.group("web", 0))
    worlds.feed(world, running("web-0", "web", "fast", cpu="2", owner="ReplicaSet"))
    worlds.feed(world, *gang("g", 1, priority="", cpu="2", **PICKY))
    plan = worlds.cycle(world, MIGRATION, now=NOW)
    assert [(e.task.key, e.beneficiary, e.moves_to) for e in plan.evictions] == [("ns/web-0", "ns/g-0", "slow")]
    assert to_json(plan, world)["evictions"] == [
        {"pod": "ns/web-0", "by": "ns/g-0", "action": "flow", "movesTo": "slow"}
    ]
    assert "moves ns/web-0 to slow" in said(plan, "g")
    settle(plan, world)
    successor = worlds.pod("web-1", "web", cpu="2")
    successor["metadata"]["ownerReferences"] = running("", "web", "", owner="ReplicaSet")["metadata"]["ownerReferences"]
    worlds.feed(world, *gang("thief", 1, cpu="2", **ON_SLOW), successor)
    after = worlds.cycle(world, MIGRATION, now=NOW + 5)
    assert worlds.binds(after) == {"ns/web-1": "slow", "ns/g-0": "fast"}
    worlds.check_invariants(world)


def test_a_kept_place_is_nobodys_until_its_minute_is_over() -> None:
    world = worlds.world(worlds.queue(), *CLASSES, *TWO, worlds.group("web", 0))
    worlds.feed(world, running("web-0", "web", "fast", cpu="2", owner="StatefulSet"))
    worlds.feed(world, *gang("g", 1, priority="", cpu="2", **PICKY))
    settle(worlds.cycle(world, MIGRATION, now=NOW), world)
    worlds.feed(world, *gang("thief", 1, cpu="2", **ON_SLOW))
    assert "ns/thief-0" not in worlds.binds(worlds.cycle(world, MIGRATION, now=NOW + 30))
    worlds.check_invariants(world)
    assert worlds.binds(worlds.cycle(world, MIGRATION, now=NOW + 90)) == {"ns/thief-0": "slow"}


@pytest.mark.parametrize(
    ("web", "pods", "more"),
    [
        pytest.param(worlds.group("web", 0), {"owner": "Job"}, [], id="its owner counts a lost pod as a failure"),
        pytest.param(worlds.group("web", 0), {}, [], id="nobody would replace it"),
        pytest.param(worlds.group("web", 1), {"owner": "ReplicaSet"}, [], id="its gang would fall below the minimum"),
        pytest.param(worlds.group("web", 0), {"owner": "ReplicaSet", "nodeSelector": {"disk": "ssd"}}, [],
                     id="it has no other place"),
        pytest.param(worlds.group("web", 0, priorityClassName="high"), {"owner": "ReplicaSet"}, [],
                     id="it is more important than the gang"),
        pytest.param(worlds.group("web", 0), {"owner": "ReplicaSet", "minutes": 90}, [],
                     id="it would lose more than the gang gains"),
    ],
)  # fmt: skip
def test_a_pod_is_not_moved_when(web: dict[str, Any], pods: dict[str, Any], more: list[Any]) -> None:
    plan = decided(*TWO, web, running("web-0", "web", "fast", cpu="2", **pods), *more,
                   *gang("g", 1, priority="", cpu="2", **PICKY), given=MIGRATION)  # fmt: skip
    assert not plan.evictions


def test_with_nowhere_to_move_to_a_less_important_pod_is_left_out() -> None:
    both = config("preemption: true, migration: true")
    full = running("web-1", "web", "slow", cpu="2", owner="ReplicaSet")
    objects = [*TWO, worlds.group("web", 0), running("web-0", "web", "fast", cpu="2", owner="ReplicaSet"), full]
    plan = decided(*objects, *gang("g", 1, cpu="2", **PICKY), given=both)
    assert [(e.task.key, e.moves_to) for e in plan.evictions] == [("ns/web-0", "")]


def test_off_nothing_is_evicted_and_nothing_remembered() -> None:
    world = worlds.world(worlds.queue(), *CLASSES, NODES[0], LOW, running("low-0", "low", "n0", cpu="2"))
    worlds.feed(world, *gang("g", 1, cpu="2"))
    plan = worlds.cycle(world, config("minGain: 1"), now=NOW)
    assert not plan.evictions
    assert "flow" not in world.plugin_state


def test_the_records_know_whom_an_eviction_helped() -> None:
    world = worlds.world(worlds.queue(), *CLASSES, NODES[0], LOW, running("low-0", "low", "n0", cpu="2"))
    worlds.feed(world, *gang("g", 1, cpu="2"))
    records = EvictionRecords()
    plan = worlds.cycle(world, PREEMPTION, now=NOW)
    records.note(plan.evictions, world.nodes.names, NOW)
    settle(plan, world)
    for bind in worlds.cycle(world, PREEMPTION, now=NOW + 1).binds:
        records.started(bind.task.key, NOW + 1)
    (entry,) = records.entries
    assert (entry.victim, entry.beneficiary, entry.action, entry.node) == ("ns/low-0", "ns/g-0", "flow", "n0")
    assert entry.outcome == STARTED


# -- prices and subsets ------------------------------------------------------------------------------------------------


def test_weight_grows_with_priority() -> None:
    assert [weight(p) for p in (-1, 0, 1, 100, 1_000_000, 2_000_000)] == [0.5, 1, 2, 101, 1_000_001, 1_001_001]


@settings(max_examples=200, deadline=None)
@given(
    lack=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    victims=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5), st.integers(0, 5)), max_size=8),
)
def test_the_chosen_victims_are_the_cheapest_that_suffice(
    lack: tuple[int, int], victims: list[tuple[int, int, int]]
) -> None:
    need = np.array([10, 10])
    free = need - np.array(lack)
    found = cheapest(free, need, [(float(p), np.array([a, b]), LEFT_OUT) for p, a, b in victims])
    enough = [
        subset
        for size in range(len(victims) + 1)
        for subset in itertools.combinations(range(len(victims)), size)
        if all(sum(victims[i][d + 1] for i in subset) >= lack[d] for d in (0, 1))
    ]
    if not enough:
        assert found is None
    else:
        assert found is not None
        best = min(sum(victims[i][0] for i in subset) for subset in enough)
        assert (sum(victims[i][0] for i in found), tuple(found) in enough) == (best, True)


def test_of_many_victims_none_goes_needlessly() -> None:
    rng = random.Random(1)
    victims = [(rng.uniform(0.1, 3), np.array([rng.randint(1, 4)]), LEFT_OUT) for _ in range(40)]
    found = cheapest(np.array([0]), np.array([20]), victims)
    assert found is not None
    given = sum(int(victims[i][1][0]) for i in found)
    assert given >= 20
    assert all(given - int(victims[i][1][0]) < 20 for i in found)


def test_a_mover_pushes_its_unit_on_to_a_free_row() -> None:
    """Two seekers, one free row: whoever moves there takes it from the one who would use it himself."""
    free = Place(row=7, tasks=1, price=0.0, goes_to=FREE)
    moves = Place(row=3, tasks=1, price=0.5, goes_to=0)
    plan = EvictionPlan([Seeker(1, 10.0, [moves]), Seeker(1, 2.0, [free])], [[(7, 1)]])
    assert plan.solve() == [[(moves, 1)], []]
    plan.drop([0])
    assert plan.solve() == [[], [(free, 1)]]


# -- whatever the world looks like -------------------------------------------------------------------------------------

ON = (
    FLOW.replace(", preempt", "") + "\nconfigurations: [{name: flow, arguments: {preemption: true, migration: true}}]\n"
)
OFF = FLOW.replace(", preempt", "") + "\nconfigurations: [{name: flow, arguments: {minGain: 3}}]\n"


def crowded_world(seed: int) -> list[dict[str, Any]]:
    """Nodes nearly full of pods of every sort, and gangs that would have their places."""
    rng = random.Random(seed)
    out: list[dict[str, Any]] = [worlds.queue("q0"), worlds.queue("q1"), *CLASSES]
    names = [f"n{i}" for i in range(rng.randint(2, 5))]
    out += [worlds.node(name, cpu="4", labels={"disk": rng.choice(["ssd", "hdd"])}) for name in names]
    for j in range(rng.randint(1, 4)):
        spec = {"queue": rng.choice(["q0", "q0", "q1"]), "priorityClassName": rng.choice(["", "", "mid", "high"])}
        out.append(worlds.group(f"r{j}", rng.randint(0, 2), **spec))
    jobs = [o["metadata"]["name"] for o in out if o["kind"] == "PodGroup"]
    for name in names:
        free, number = 4 - rng.randint(0, 1), 0
        while free > 0:
            cpu, job = rng.randint(1, min(2, free)), rng.choice(jobs)
            owner = rng.choice(["", "ReplicaSet", "Job"])
            pod = running(
                f"{job}-{name}-{number}", job, name, cpu=str(cpu), memory="", minutes=rng.randint(0, 90), owner=owner
            )
            out.append(pod)
            free, number = free - cpu, number + 1
    for j in range(rng.randint(1, 3)):
        size = rng.randint(1, 3)
        more = {"nodeSelector": {"disk": "ssd"}} if rng.random() < 0.4 else {}
        priority = rng.choice(["", "mid", "high", "high"])
        out.append(
            worlds.group(f"g{j}", rng.randint(1, size), queue=rng.choice(["q0", "q1"]), priorityClassName=priority)
        )
        out += [
            worlds.pod(f"g{j}-{i}", f"g{j}", cpu=rng.choice(["1", "2", "3"]), memory="", **more) for i in range(size)
        ]
    return out


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_nobody_is_evicted_unless_his_beneficiary_runs(seed: int) -> None:
    world = worlds.world(*crowded_world(seed))
    plan = worlds.cycle(world, ON, now=NOW)
    worlds.check_invariants(world)
    by_job: dict[str, int] = {}
    for key in plan.pipelined:
        by_job[world.tasks[key].job.key] = by_job.get(world.tasks[key].job.key, 0) + 1
    for eviction in [e for e in plan.evictions if e.action == "flow"]:
        assert eviction.beneficiary in plan.pipelined
        job = world.tasks[eviction.beneficiary].job
        assert job.ready + job.pending_best_effort + by_job[job.key] >= job.min_available, "the gang runs whole"
        victim = eviction.task.job
        assert victim.priority < job.priority or eviction.moves_to
        assert victim.ready >= victim.min_available, "the victim's gang keeps its minimum"
    # What was promised fits once all have left.
    nodes = world.nodes
    promised = {name: world.dims.zeros() for name in nodes.row_of}
    for key, node in plan.pipelined.items():
        promised[node] += world.tasks[key].cls.request
    for name, row in nodes.row_of.items():
        assert (nodes.idle[row] + nodes.releasing[row] - promised[name] >= 0).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_evictions_never_take_a_place_from_a_bound_pod_and_same_seed_decides_the_same(seed: int) -> None:
    plans = [worlds.cycle(worlds.world(*crowded_world(seed)), text, now=NOW) for text in (ON, ON, OFF)]
    first, second, off = plans
    assert worlds.binds(first) == worlds.binds(second)
    asking = [{b.task.key: b.node for b in plan.binds if not b.task.cls.best_effort} for plan in (first, off)]
    assert asking[0] == asking[1]  # pods that ask for nothing are backfilled afterwards, where promises are scored
    assert [(e.task.key, e.beneficiary, e.moves_to) for e in first.evictions] == [
        (e.task.key, e.beneficiary, e.moves_to) for e in second.evictions
    ]
    assert [e for e in off.evictions if e.action == "flow"] == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_off_is_as_if_there_were_no_such_arguments(seed: int) -> None:
    plain, off = (
        worlds.cycle(worlds.world(*crowded_world(seed)), text, now=NOW) for text in (FLOW.replace(", preempt", ""), OFF)
    )
    assert worlds.binds(plain) == worlds.binds(off)
    assert [e.task.key for e in plain.evictions] == [e.task.key for e in off.evictions]
    assert plain.pipelined == off.pipelined


def test_the_arguments_are_checked() -> None:
    parsed = parse_config(config("preemption: true, migration: true, minGain: 2.5"))
    args = parsed.action_args["flow"]
    assert (args.preemption, args.migration, args.min_gain) == (True, True, 2.5)
