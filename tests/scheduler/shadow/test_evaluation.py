"""What a shadow policy finds: nothing where the policies are the same, and each way in which they differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import TOGGLES, Plugin
from strato.scheduler.model.plan import Plan
from strato.scheduler.shadow.difference import CHANGES
from strato.scheduler.shadow.evaluation import Evaluation, decides, evaluate
from strato.scheduler.shadow.rewind import rewind
from tests.scheduler import worlds
from tests.scheduler.test_properties import GREEDY, some_world

NOW = 1_700_000_000.0

PREEMPT = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
"""
PLAIN = PREEMPT.replace(" preempt,", "")
BINPACK = PLAIN.replace("{name: nodeorder}", "{name: binpack}")
OVERCOMMIT = PLAIN.replace("{name: drf", "{name: overcommit, arguments: {overcommit-factor: 1.0}}, {name: drf")


def shadowed(world: World, first: str, second: str, cycles: int = 1) -> tuple[Plan, Evaluation]:
    plan = Plan()
    for _ in range(cycles):
        plan = worlds.cycle(world, first)
    verdicts = plan.verdicts
    return plan, evaluate(world, plan, parse_config(second), now=NOW, seed=0, verdicts=verdicts)


def phases(world: World) -> dict[str, str]:
    return {key: job.phase for key, job in world.jobs.items()}


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_rewind_restores_what_the_plan_was_decided_on(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    before = worlds.fingerprint(world), phases(world)
    plan = worlds.cycle(world, GREEDY)
    rewind(world, plan, NOW)
    assert (worlds.fingerprint(world), phases(world)) == before
    worlds.check_invariants(world)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_same_policy_does_not_differ(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    _, found = shadowed(world, GREEDY, GREEDY, cycles=2)
    assert found.failures == []
    assert found.differences == []
    assert found.binds == found.first_binds


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_plan_can_be_compared_after_cycles_that_decided_nothing(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    plan = worlds.cycle(world, GREEDY)
    verdicts = plan.verdicts
    while decides(later := worlds.cycle(world, GREEDY)):
        plan, verdicts = later, later.verdicts
    found = evaluate(world, plan, parse_config(GREEDY), now=NOW, seed=0, verdicts=verdicts)
    assert found.differences == []


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30), second=st.sampled_from([PLAIN, PREEMPT, BINPACK, OVERCOMMIT]))
def test_counts_are_those_of_the_plans(seed: int, second: str) -> None:
    world = worlds.world(*some_world(seed))
    _, found = shadowed(world, GREEDY, second)
    pods = found.pods
    assert set(pods) <= set(CHANGES)
    assert found.binds - found.first_binds == pods.get("would-start", 0) - pods.get("would-wait", 0)
    assert sum(pods.values()) == sum(max(one.pods, 1) for one in found.differences)


class Case(NamedTuple):
    id: str
    given: list[dict[str, Any]]
    first: str
    second: str
    want: list[tuple[str, str, int]]
    reason: str = ""


HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
FULL = [
    worlds.queue(),
    worlds.node("n1", cpu="2"),
    HIGH,
    worlds.group("low", 1, phase="Running"),
    worlds.pod("low-0", "low", phase="Running", nodeName="n1"),
    worlds.pod("low-1", "low", phase="Running", nodeName="n1"),
    worlds.group("urgent", 1, priorityClassName="high"),
    worlds.pod("urgent-0", "urgent", priority=100),
]
TWO_NODES = [
    worlds.queue(),
    worlds.node("n1", cpu="8", memory="8Gi"),
    worlds.node("n2", cpu="8", memory="8Gi"),
    worlds.group("old", 1, phase="Running"),
    worlds.pod("old-0", "old", cpu="4", phase="Running", nodeName="n1"),
    worlds.group("new", 1),
    worlds.pod("new-0", "new", cpu="1"),
]
SMALL = [
    worlds.queue(),
    worlds.node("n1", cpu="2"),
    worlds.group("large", 1, phase="Pending", minResources={"cpu": "4"}),
]
GANG = [
    worlds.queue(),
    worlds.node("n1", cpu="2"),
    worlds.group("gang", 3),
    *(worlds.pod(f"g-{i}", "gang") for i in range(3)),
]
NO_GANG = PLAIN.replace("{name: gang}, ", "")

CASES = [
    Case("a victim would be evicted", FULL, PLAIN, PREEMPT, [("ns/low", "would-be-evicted", 1)], "for ns/urgent-0"),
    Case("a victim would stay", FULL, PREEMPT, PLAIN, [("ns/low", "would-stay", 1)], "for ns/urgent-0"),
    Case("a pod goes elsewhere", TWO_NODES, PLAIN, BINPACK, [("ns/new", "other-node", 1)]),
    Case(
        "a job would not enter its queue", SMALL, PLAIN, OVERCOMMIT, [("ns/large", "would-not-be-enqueued", 0)], "cpu"
    ),
    Case("a job would enter its queue", SMALL, OVERCOMMIT, PLAIN, [("ns/large", "would-be-enqueued", 0)], "cpu"),
    Case("half a gang would start", GANG, PLAIN, NO_GANG, [("ns/gang", "would-start", 2)], "3"),
    Case("a gang would wait", GANG, NO_GANG, PLAIN, [("ns/gang", "would-wait", 2)], "3"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_difference_is_named(case: Case) -> None:
    _, found = shadowed(worlds.world(*case.given), case.first, case.second)
    assert [(one.job, one.change, one.pods) for one in found.differences] == case.want
    assert case.reason in found.differences[0].reason, found.differences


class Broken(Plugin):
    """Fails where it is asked about the order of jobs."""

    name = "broken"

    def job_order(self, job: Any) -> Any:
        raise ValueError("it has no order")


def test_a_failing_plugin_is_named() -> None:
    option = PluginOption("broken", Broken, None, dict.fromkeys(TOGGLES, True))
    config = Config(("allocate",), ((option,), *default_config().tiers))
    found = evaluate(worlds.world(*TWO_NODES), Plan(), config, now=NOW, seed=0, verdicts={})
    assert any("broken" in failure and "no order" in failure for failure in found.failures)
    assert found.binds == 1
