"""Groups that are not let into their queue say why."""

from __future__ import annotations

import pytest

from strato.scheduler.config import parse_config
from tests.scheduler import worlds


@pytest.mark.parametrize(
    ("asked", "capability", "words"),
    [
        (
            "20",
            None,
            (
                "cpu 20",
                "cpu 16",
                "no node is large enough even when empty: the largest pod needs cpu 5 at least, the most is 4",
            ),
        ),
        ("8", "4", ("queue small", "insufficient cpu", "cpu 8")),
    ],
    ids=["more than the cluster, and each pod more than a node", "more than the queue may hold"],
)
def test_refused_group_has_a_condition_with_numbers(asked: str, capability: str | None, words: tuple[str, ...]) -> None:
    spec = {"capability": {"cpu": capability}} if capability else {}
    nodes = [worlds.node(f"n{i}") for i in range(4)]
    group = worlds.group("huge", 4, phase="Pending", queue="small", minResources={"cpu": asked})
    plan = worlds.cycle(worlds.world(worlds.queue("small", **spec), *nodes, group))
    (status,) = plan.groups
    assert status.phase == "Pending"
    assert status.condition is not None
    assert (status.condition.type, status.condition.reason) == ("Unschedulable", "NotEnoughResources")
    for word in words:
        assert word in status.condition.message


def test_a_device_that_only_some_pods_ask_for_is_not_split() -> None:
    group = worlds.group("train", 3, phase="Pending", minResources={"cpu": "3", "nvidia.com/gpu": "2"})
    plan = worlds.cycle(worlds.world(worlds.queue("default"), worlds.node("n0"), group))
    (status,) = plan.groups
    assert status.condition is not None
    assert "the largest pod needs nvidia.com/gpu 1 at least, the most is 0" in status.condition.message


@pytest.mark.parametrize(
    ("asked", "begin"),
    [
        pytest.param("4", "the cluster is full (resource in cluster is overused: overused cpu); ", id="full"),
        pytest.param("20", "the cluster is too small even when empty (resource in cluster is over", id="too small"),
    ],
)
def test_a_group_without_room_in_the_cluster_is_told_so_in_plain_words(asked: str, begin: str) -> None:
    running = [
        worlds.group("old", 1, phase="Running"),
        worlds.pod("old-0", "old", nodeName="n", phase="Running", cpu="4"),
    ]
    group = worlds.group("late", 1, phase="Pending", minResources={"cpu": asked, "memory": "1Gi"})
    config = "actions: 'enqueue'\ntiers:\n- plugins: [{name: overcommit}]"
    world = worlds.world(worlds.queue("default"), worlds.node("n"), *running, group)
    plan = worlds.cycle(world, parse_config(config))
    (message,) = [s.condition.message for s in plan.groups if s.condition is not None and s.job.key == "ns/late"]
    assert message.startswith(f"not admitted to queue default: {begin}")
    assert f"asks for cpu {asked}, memory 1Gi in all, the cluster has cpu 4, memory 8Gi" in message
