"""preempt: pods for which it evicts or has evicted."""

from __future__ import annotations

from tests.scheduler import worlds
from tests.scheduler.rules.deciding import HIGH, LOW, Tier, decided, high, low, running
from tests.scheduler.worlds import node, pod, queue

TIERS: list[Tier] = [["priority", "gang"], ["predicates", "nodeorder"]]
PREEMPT = """
actions: "preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


def test_pods_on_a_nominated_node_that_nobody_evicted_are_no_victims_to_wait_for() -> None:
    nominated = pod("h", "h", priority=100)
    nominated["status"]["nominatedNodeName"] = "n1"
    objects = (node("n1", cpu="1"), queue(), HIGH, LOW, low(0), high(1), running("l", "l"), nominated)
    assert decided("preempt", TIERS, *objects).evicted == ["l"]


def test_a_gang_that_lost_one_of_two_places_evicts_for_that_one_only() -> None:
    """The other task waits for its victim to leave, though its status does not say yet that it was promised a node."""
    nodes = [node("n1", cpu="1"), node("n2", cpu="1")]
    held = [running("l1", "l"), running("l2", "l", "n2")]
    waiting = [pod("h1", "h"), pod("h2", "h")]
    world = worlds.world(*nodes, queue(), HIGH, LOW, low(0), high(2), *held, *waiting)
    first = worlds.cycle(world, PREEMPT)
    gone = next(one.task.name for one in first.evictions if one.beneficiary == "ns/h2")
    world.remove_pod(f"ns/{gone}")
    worlds.feed(world, running("l3", "l", "n1" if gone == "l1" else "n2"))
    assert [one.task.name for one in worlds.cycle(world, PREEMPT, now=1_700_001_000.0).evictions] == ["l3"]
