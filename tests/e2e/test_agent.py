"""The agent of this machine's node on a real overload: training gives way, and is given everything back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from strato.agent.sampling.groupfiles import read_quota
from strato.agent.sampling.layouts import SandboxLayout
from strato.agent.sampling.weights import gives_way
from strato.node.sandbox.paths import NodePaths
from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]

POLICY = "sampling: {roundSeconds: 1}\nhandlers: {suppress: {rounds: 1, evict: false, overload: %s, warning: %s}}\n"


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


def configured(**sections: Any) -> str:
    """Return the ConfigMap of Volcano's agent functions."""
    metadata = {"name": "volcano-agent-configuration", "namespace": "volcano-system"}
    text = json.dumps({"globalConfig": {"overSubscriptionConfig": {}, "evictingConfig": {}, **sections}})
    data = {"colocation-config": text}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def borrower(name: str, milli: int) -> str:
    resources = {"kubernetes.io/batch-cpu": str(milli)}
    container: dict[str, Any] = {"name": "main", "image": "strato/host", "command": ["sleep", "600"]}
    container["resources"] = {"requests": resources, "limits": resources}
    metadata = {"name": name, "annotations": {"volcano.sh/qos-level": "BE"}}
    body = {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})


def test_what_is_left_is_lent_to_offline_pods_and_taken_back(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--agent", "--pod-network", "host")
    eventually(lambda: "CPUSuppression" in conditions(world), what="the node says whether it has groups")
    if conditions(world)["CPUSuppression"]["status"] == "False":
        pytest.skip("this machine has no control group with a CPU controller that may be written")
    world.kubectl("apply", "-f", "-", stdin=configured(cpuQosConfig={"enable": True}))
    node = world.get("nodes")["items"][0]["metadata"]["name"]
    world.kubectl("create", "-f", "-", stdin=borrower("borrower", 100))
    world.kubectl("label", "node", node, "volcano.sh/oversubscription=true")

    def lent() -> int:
        return int(world.get("node", node)["status"]["allocatable"].get("kubernetes.io/batch-cpu", 0))

    eventually(lambda: lent() > 0, what="CPU is lent", timeout=60)
    eventually(lambda: world.get("pod", "borrower")["status"]["phase"] == "Running", what="the borrower runs")
    uid = world.get("pod", "borrower")["metadata"]["uid"]
    group = SandboxLayout(NodePaths(str(world.home / "node")).cgroups).container(uid, "", "main", "")
    assert group is not None
    eventually(lambda: read_quota(group).milli == 100, what="it is held to what it borrows")
    eventually(lambda: gives_way(group), what="it gives way to all others")

    world.kubectl("create", "-f", "-", stdin=borrower("too-large", 1_000_000))
    world.kubectl("label", "node", node, "volcano.sh/oversubscription=false", "--overwrite")
    eventually(lambda: lent() == 0, what="what was lent is taken back", timeout=60)
    eventually(
        lambda: [one["metadata"]["name"] for one in world.get("pods")["items"]] == ["too-large"],
        what="the borrower has gone, and none that is not there has been let in",
        timeout=60,
    )
