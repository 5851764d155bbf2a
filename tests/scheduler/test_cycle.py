"""Whole cycles on small worlds: who runs where, who waits, and why."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from typing import Any

import pytest

from strato.scheduler.config import default_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import Plugin
from tests.scheduler import worlds

SHARE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def gang(name: str, size: int, minimum: int, **pod: Any) -> list[dict[str, Any]]:
    spec = pod.pop("spec", {})
    return [worlds.group(name, minimum, **spec), *[worlds.pod(f"{name}-t-{i}", name, **pod) for i in range(size)]]


def test_gang_is_whole_or_nothing() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="1"), *gang("g", 2, 2))
    plan = worlds.cycle(world)
    assert plan.binds == []
    assert [c.condition.reason for c in plan.groups if c.condition] == ["NotEnoughResources"]
    worlds.check_invariants(world)


def test_gang_waits_for_what_is_leaving_and_keeps_it() -> None:
    old = worlds.pod("old", "x", phase="Running", nodeName="n", leaving=True)
    world = worlds.world(
        worlds.queue(), worlds.node("n", cpu="2"), worlds.group("x", 1, phase="Running"), old, *gang("g", 2, 2)
    )
    plan = worlds.cycle(world, 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n')
    assert plan.binds == []
    assert list(plan.pipelined.values()) == ["n"]


def test_elastic_job_takes_what_fits_and_says_why_the_rest_waits() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="2"), *gang("g", 3, 1))
    plan = worlds.cycle(world, 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n')
    assert len(plan.binds) == 2
    assert [p.message for p in plan.pods] == ["0/1 nodes are unavailable: 1 Insufficient cpu."]


def test_half_started_gangs_do_not_exist_when_two_compete() -> None:
    objects = [worlds.queue(), worlds.node("n", cpu="9"), *gang("a", 6, 6), *gang("b", 6, 6)]
    world = worlds.world(*objects)
    plan = worlds.cycle(world)
    assert Counter(b.task.key.split("-")[0] for b in plan.binds) == {"ns/a": 6}


def test_queues_share_by_weight() -> None:
    objects = [worlds.queue("one", 1), worlds.queue("three", 3), worlds.node("n", cpu="8", memory="64Gi")]
    objects += gang("a", 10, 1, spec={"queue": "one"}) + gang("b", 10, 1, spec={"queue": "three"})
    plan = worlds.cycle(worlds.world(*objects), SHARE)
    assert Counter(b.task.job.queue_name for b in plan.binds if b.task.job) == {"one": 2, "three": 6}


def test_idle_share_is_borrowed_and_capability_caps() -> None:
    objects = [worlds.queue("one", 1, capability={"cpu": "5"}), worlds.queue("three", 3)]
    objects += [worlds.node("n", cpu="8", memory="64Gi"), *gang("a", 10, 1, spec={"queue": "one"})]
    plan = worlds.cycle(worlds.world(*objects), SHARE)
    assert len(plan.binds) == 5


def test_dominant_resource_fairness_of_the_paper() -> None:
    """9 CPU and 18 GB; demands of <1 CPU, 4 GB> and <3 CPU, 1 GB> get 3 and 2 tasks."""
    objects = [worlds.queue(), worlds.node("n", cpu="9", memory="18G")]
    objects += gang("a", 10, 1, cpu="1", memory="4G") + gang("b", 10, 1, cpu="3", memory="1G")
    text = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: drf}, {name: predicates}]\n'
    plan = worlds.cycle(worlds.world(*objects), text)
    assert Counter(b.task.key.split("-")[0] for b in plan.binds) == {"ns/a": 3, "ns/b": 2}


def test_higher_priority_goes_first() -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    objects = [high, worlds.queue(), worlds.node("n", cpu="1"), *gang("a", 1, 1)]
    objects += gang("z", 1, 1, spec={"priorityClassName": "high"})
    assert list(worlds.binds(worlds.cycle(worlds.world(*objects)))) == ["ns/z-t-0"]


NODES = [
    pytest.param({"labels": {"a": "b"}}, {"nodeSelector": {"a": "b"}}, True, id="selector matches"),
    pytest.param({}, {"nodeSelector": {"a": "b"}}, False, id="selector does not match"),
    pytest.param({"unschedulable": True}, {}, False, id="cordoned node"),
    pytest.param({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, {}, False, id="taint"),
    pytest.param(
        {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        True,
        id="tolerated taint",
    ),
    pytest.param({"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}, {}, True, id="soft taint"),
    pytest.param({"pods": "0"}, {}, False, id="no pod slot"),
]


@pytest.mark.parametrize(("node", "spec", "placed"), NODES)
def test_kubernetes_rules_decide_where_a_pod_may_run(node: dict[str, Any], spec: dict[str, Any], placed: bool) -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", **node), worlds.group("g", 1), worlds.pod("p", "g", **spec))
    assert bool(worlds.cycle(world).binds) is placed


def test_host_port_is_given_once_per_node() -> None:
    port = {"ports": [{"hostPort": 80, "containerPort": 80}]}
    world = worlds.world(worlds.queue(), worlds.node("n"), *gang("g", 3, 1, **port))
    plan = worlds.cycle(world)
    assert len(plan.binds) == 1
    assert {p.message for p in plan.pods} == {
        "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."
    }


def test_spread_constraint_keeps_domains_even() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
    objects = [worlds.queue(), *[worlds.node(f"n{i}", labels={"zone": f"z{i % 2}"}, cpu="9") for i in range(4)]]
    objects += gang("g", 6, 1, labels={"app": "x"}, topologySpreadConstraints=spread)
    plan = worlds.cycle(worlds.world(*objects))
    assert Counter(int(b.node[1]) % 2 for b in plan.binds) == {0: 3, 1: 3}


def test_best_effort_pods_are_backfilled() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="0"), worlds.group("g", 1), worlds.pod("p", "g", "", ""))
    assert worlds.binds(worlds.cycle(world)) == {"ns/p": "n"}


def test_unchanged_world_decides_nothing_again() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="1"), *gang("g", 2, 2))
    first = worlds.cycle(world)
    again = worlds.cycle(world)
    assert (again.binds, again.pipelined) == ([], {})
    assert {p.message for p in again.pods} == {p.message for p in first.pods}


def test_a_gang_that_a_crash_left_half_placed_is_completed_before_its_equals() -> None:
    objects = [worlds.node("n", cpu="4"), worlds.queue()]
    for name, created in (("older", "2026-01-01T00:00:00Z"), ("begun", "2026-01-02T00:00:00Z")):
        group = worlds.group(name, 4 if name == "begun" else 2)
        group["metadata"]["creationTimestamp"] = created
        objects.append(group)
    objects += [worlds.pod(f"older-{i}", "older") for i in range(2)]
    objects += [worlds.pod(f"begun-{i}", "begun", phase="Running", nodeName="n") for i in range(2)]
    objects += [worlds.pod(f"begun-{i}", "begun") for i in (2, 3)]
    assert sorted(worlds.binds(worlds.cycle(worlds.world(*objects)))) == ["ns/begun-2", "ns/begun-3"]


def test_a_cycle_leaves_no_session_to_the_garbage_collector() -> None:
    opened: list[weakref.ref[CycleContext]] = []

    class Seen(Plugin):
        name = "seen"

        def open(self, ssn: CycleContext) -> None:
            self._ssn = ssn  # as most plugins do
            opened.append(weakref.ref(ssn))

    config = default_config()
    option = PluginOption("seen", Seen, None, config.tiers[0][0].toggles)
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("g", 1), worlds.pod("a", "g"))
    gc.disable()
    try:
        policy = Config(config.actions, ((option,), *config.tiers))
        plan = run_cycle(world, policy, now=0.0, rng=random.Random(0), uid="c")
        assert worlds.binds(plan) == {"ns/a": "n"}
        assert [ref() for ref in opened] == [None]
    finally:
        gc.enable()
