"""Overcommitted CPUs: twice as many are offered, placed and run; on a real cluster a webhook amplifies."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.e2e.worlds import EmbeddedWorld, World, eventually

FACTOR = "strato.dev/cpu-overcommit-factor"
Laptop = Callable[..., EmbeddedWorld]


def asking(name: str, cpus: str) -> str:
    container = {
        "name": "main",
        "image": "strato/host",
        "command": ["sh", "-c", "sleep 600"],
        "resources": {"requests": {"cpu": cpus}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def allocatable(world: World, node: str) -> str:
    return str(json.loads(world.kubectl("get", "node", node, "-o", "json"))["status"]["allocatable"]["cpu"])


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(360)
def test_twice_the_cpus_are_placed_and_run_and_a_lower_factor_evicts_nobody(laptop: Laptop) -> None:
    world = laptop("--cpus", "3", "--cpu-overcommit-factor", "2", "--pod-network", "host")
    (node,) = [one["metadata"]["name"] for one in json.loads(world.kubectl("get", "nodes", "-o", "json"))["items"]]
    assert allocatable(world, node) == "6"
    for number in range(3):
        world.kubectl("create", "-f", "-", stdin=asking(f"p{number}", "2"))
    for number in range(3):
        eventually(
            lambda name=f"p{number}": world.get("pod", name)["status"].get("phase") == "Running",
            what=f"p{number} runs",
        )
    assert ["all", "cpu", "6"] in [line.split() for line in world.own("queue", "list", "--totals").splitlines()]
    world.kubectl("annotate", "node", node, f"{FACTOR}=1")

    def held() -> bool:
        events = world.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
        return "CpuOvercommitHeld" in events

    eventually(held, what="the factor is held and said so")
    assert allocatable(world, node) == "6"
    assert all(world.get("pod", f"p{number}")["status"]["phase"] == "Running" for number in range(3))
    for number in range(3):
        world.kubectl("delete", "pod", f"p{number}", "--wait=true")
    eventually(lambda: allocatable(world, node) == "3", what="the factor is lowered as pods have left")
    refused = world.kubectl_process("annotate", "node", node, f"{FACTOR}=0", "--overwrite", check=False).stderr
    assert "must be a number from 1 to 10" in refused


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_what_a_kubelet_writes_is_amplified(world: World) -> None:
    """Beside Kubernetes by the webhook on nodes/status; the kubelet here is kubectl."""
    name = "overcommitted"
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}
    status = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    world.kubectl("create", "-f", "-", stdin=json.dumps(node))
    try:
        world.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        assert allocatable(world, name) == "4"
        world.kubectl("annotate", "node", name, f"{FACTOR}=2.5")
        eventually(lambda: allocatable(world, name) == "10", what="the node is amplified")
        world.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)
        assert allocatable(world, name) == "10"
        world.kubectl("annotate", "node", name, f"{FACTOR}-")
        eventually(lambda: allocatable(world, name) == "4", what="the node is as it was")
        found = json.loads(world.kubectl("get", "node", name, "-o", "json"))
        assert not [key for key in found["metadata"].get("annotations", {}) if "koordinator" in key]
    finally:
        world.kubectl("delete", "node", name)
