"""Pods make room by priority in a cluster that was only started: nothing is configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]
Laptop = Callable[..., EmbeddedWorld]


def priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def pod(name: str, cls: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "16"}}}
    spec = {"priorityClassName": cls, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def running(world: EmbeddedWorld) -> set[str]:
    return {p["metadata"]["name"] for p in world.items("pods") if p["status"].get("phase") == "Running"}


def test_one_of_eight_pods_that_fill_the_cluster_makes_room(laptop: Laptop) -> None:
    world = laptop("--no-sandbox", "--hollow-nodes", "1", "--cpu", "128", "--memory", "512Gi")
    world.apply(priority("low", 1))
    world.apply(priority("high", 1000))
    low = {f"low-{number}" for number in range(8)}
    for name in sorted(low):
        world.apply(pod(name, "low"))
    eventually(lambda: running(world) == low, what="eight pods run")
    world.apply(pod("high", "high"))
    eventually(lambda: "high" in running(world), what="the important one runs")
    left = {p["metadata"]["name"] for p in world.items("pods")}
    assert len(left & low) == 7
    reasons = [event["reason"] for event in world.items("events")]
    assert reasons.count("Evict") <= 1
