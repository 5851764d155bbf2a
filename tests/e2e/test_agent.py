"""The agent of this machine's node on a real overload: training gives way, and is given everything back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]

POLICY = "sampling: {roundSeconds: 1}\nhandlers: {suppress: {rounds: 1, overload: %s, warning: %s}}\n"


def policy(overload: float, warning: float) -> str:
    """Return the ConfigMap with these lines."""
    metadata = {"name": "strato-agent", "namespace": "volcano-system"}
    data = {"policy.yaml": POLICY % (overload, warning)}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def pod(name: str, workload: str) -> str:
    container: dict[str, Any] = {"name": "main", "image": "strato/host"}
    container["command"] = ["sh", "-c", "while :; do :; done"]
    metadata = {"name": name, "labels": {"strato.io/workload": workload}}
    body = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})


def cut_of(world: EmbeddedWorld, name: str) -> dict[str, Any]:
    annotations = world.get("pod", name)["metadata"].get("annotations") or {}
    return json.loads(annotations.get("strato.io/suppressed", "{}"))


def conditions(world: EmbeddedWorld) -> dict[str, Any]:
    node = world.get("nodes")["items"][0]
    return {one["type"]: one for one in node["status"]["conditions"]}


def test_training_is_cut_on_an_overloaded_host_and_given_back(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--agent", "--pod-network", "host")
    eventually(lambda: "CPUSuppression" in conditions(world), what="the node says whether it can be done")
    if conditions(world)["CPUSuppression"]["status"] == "False":
        assert conditions(world)["CPUSuppression"]["reason"] == "NoCgroup"
        pytest.skip("this machine has no control group with a CPU controller that may be written")
    world.kubectl("apply", "-f", "-", stdin=policy(0.2, 0.1))
    world.kubectl("create", "-f", "-", stdin=pod("train", "training"))
    world.kubectl("create", "-f", "-", stdin=pod("serve", "online"))
    eventually(lambda: cut_of(world, "train"), what="the training pod is cut")
    entry = cut_of(world, "train")["main"]
    assert entry["from"] == "max"
    assert not cut_of(world, "serve")
    eventually(
        lambda: "CPUSuppressed" in {one["reason"] for one in world.get("events")["items"]}, what="its pod has an event"
    )

    world.kubectl("delete", "pod", "serve", "--now")
    wrong = json.dumps({"data": {"policy.yaml": "handlers: {suppress: {warning: 2}}"}})
    world.kubectl("patch", "configmap", "strato-agent", "-n", "volcano-system", "--type=merge", "-p", wrong)

    def refused() -> list[str]:
        found = world.get("events", "-n", "volcano-system")["items"]
        return [one["message"] for one in found if one["reason"] == "PolicyInvalid"]

    eventually(refused, what="the policy is refused")
    assert "handlers.suppress.warning" in refused()[0]
    off = json.dumps({"data": {"policy.yaml": "handlers: {suppress: {enabled: false}}"}})
    world.kubectl("patch", "configmap", "strato-agent", "-n", "volcano-system", "--type=merge", "-p", off)
    eventually(
        lambda: "restored: 1" in world.own("agent", "reset") or not cut_of(world, "train"), what="it is restored"
    )
    eventually(lambda: not cut_of(world, "train"), what="nothing is left of it")
