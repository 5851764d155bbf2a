"""What evicting a node's victims costs, and how many nodes are looked at."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.actions.preempt import cost_of
from tests.scheduler import worlds
from tests.scheduler.rules.deciding import Json, Tier, decided, high, low, running
from tests.scheduler.rules.test_preempting import HIGH, LOW
from tests.scheduler.worlds import node, pod, queue

Victims = list[tuple[int | None, str]]
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

CHEAPER: list[Any] = [
    pytest.param([(1, EARLY)], [(2, EARLY)], id="the most important victim is less important"),
    pytest.param([(None, EARLY)], [(1, EARLY)], id="no priority is 0"),
    pytest.param([(2, EARLY), (0, EARLY)], [(2, EARLY), (1, EARLY)], id="the sum of priorities is smaller"),
    pytest.param([(-5, EARLY)], [(-5, EARLY), (-5, EARLY)], id="fewer, also below zero"),
    pytest.param([(1, LATE)], [(1, EARLY)], id="it started later"),
    pytest.param([(2, LATE), (1, EARLY)], [(2, EARLY), (1, LATE)], id="the most important ones started later"),
    pytest.param([(2, LATE), (2, LATE)], [(2, LATE), (2, EARLY)], id="the first of them started later"),
    pytest.param([(2, LATE), (2, LATE)], [(2, EARLY), (2, LATE)], id="the first of them started later, in any order"),
]


def cost(victims: Victims) -> tuple[int, int, int, str]:
    pods = []
    for at, (priority, start) in enumerate(victims):
        made = pod(f"v{at}", phase="Running", nodeName="n", **({} if priority is None else {"priority": priority}))
        made["status"]["startTime"] = start
        pods.append(made)
    world = worlds.world(node("n"), *pods)
    return cost_of([world.tasks[f"ns/v{at}"] for at in range(len(victims))], 0.0)


@pytest.mark.parametrize(("less", "more"), CHEAPER)
def test_costs(less: Victims, more: Victims) -> None:
    assert cost(less) < cost(more)
    assert cost(more) == cost(more)


RANKED: list[Tier] = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]
LOOKED_AT = [
    pytest.param({"minCandidateNodesPercentage": 100}, True, id="all nodes"),
    pytest.param({"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}, False, id="one at least"),
    pytest.param(
        {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 8},
        True,
        id="eight at least, however few percent",
    ),
    pytest.param(
        {"minCandidateNodesPercentage": 100, "maxCandidateNodesAbsolute": 1, "minCandidateNodesAbsolute": 1},
        False,
        id="one at most",
    ),
]


@pytest.mark.parametrize(("arguments", "best"), LOOKED_AT)
def test_the_cheapest_of_the_nodes_that_are_looked_at(arguments: Json, best: bool) -> None:
    """The search begins anywhere; only one that looks at all nodes finds the cheapest wherever that is."""
    found = set()
    for cheapest in range(1, 9):
        objects: list[Json] = []
        for at in range(1, 9):
            objects.append(node(f"n{at}", cpu="1"))
            objects.append(running(f"v{at}", "l", f"n{at}", priority=0 if at == cheapest else 5))
        given = {"enableTopologyAwarePreemption": True, **arguments}
        made = decided("preempt", RANKED, queue(), HIGH, LOW, low(0), high(1), *objects, pod("h", "h"), preempt=given)
        assert len(made.evicted) == 1
        found.add(made.evicted == [f"v{cheapest}"])
    assert found == ({True} if best else {True, False})
