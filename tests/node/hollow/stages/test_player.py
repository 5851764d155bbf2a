"""Stages played on an API server: lives of pods and nodes, on the virtual clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from strato.api import catalog
from strato.api.wire import User
from strato.client.cluster import Cluster
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import NotFound
from strato.node.hollow import HollowBehaviour, HollowNodes, HollowOffer
from strato.node.hollow.stages import read_stages
from strato.server.embedded import in_memory_server

ADMIN = User("admin", ("system:masters", "system:authenticated"))
STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: begin}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  delay: {durationMilliseconds: 3000}
  next:
    event: {type: Normal, reason: Begun, message: it begins}
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
      conditions:
      - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: complete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.labels["ends"]', operator: In, values: ["yes"]}
  delay:
    durationMilliseconds: 1000
    durationFrom: {expressionFrom: '.metadata.annotations["run"]'}
  next:
    statusTemplate: "phase: Succeeded"
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: remove}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  delay: {durationMilliseconds: 2000}
  next: {finalizers: {empty: true}, delete: true}
"""
NODE_STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: up}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      {{ range NodeConditions }}
      - type: {{ .type | Quote }}
        status: {{ .status | Quote }}
        reason: {{ .reason | Quote }}
        lastHeartbeatTime: {{ Now | Quote }}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: beat}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
  delay: {durationMilliseconds: 20000, jitterDurationMilliseconds: 25000}
  next:
    statusTemplate: |
      conditions:
      - {type: Ready, status: "True", lastHeartbeatTime: {{ Now | Quote }}}
  immediateNextStage: true
"""

Story = Callable[[Cluster, HollowNodes, VirtualClock], Awaitable[None]]


def play(tmp_path: Path, text: str, story: Story) -> None:
    clock = VirtualClock()
    (tmp_path / "stages.yaml").write_text(text)
    behaviour = HollowBehaviour(stages=read_stages([tmp_path]))

    async def main() -> None:
        cluster = LocalCluster(in_memory_server(clock, random.Random(1)), ADMIN)
        offered = {"n-0": HollowOffer(), "n-1": HollowOffer(capacity={"cpu": "4"})}
        nodes = HollowNodes(cluster, None, clock, random.Random(2), nodes=offered, behaviour=behaviour)
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await story(cluster, nodes, clock)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(clock, main())


def pod(name: str, node: str = "n-0", **metadata: Any) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def phase(cluster: Cluster, name: str) -> str:
    found = await cluster.get(catalog.POD, name, "default")
    return str(found["status"].get("phase", ""))


def test_a_pod_comes_from_stage_to_stage(tmp_path: Path) -> None:
    async def story(cluster: Cluster, nodes: HollowNodes, clock: VirtualClock) -> None:
        meta = {"labels": {"ends": "yes"}, "annotations": {"run": "10s"}}
        await cluster.create(catalog.POD, pod("p", **meta), "default")
        await cluster.create(catalog.POD, pod("service"), "default")
        await cluster.create(catalog.POD, pod("other", node="elsewhere"), "default")
        await clock.sleep(2.9)
        assert await phase(cluster, "p") == "Pending"
        await clock.sleep(0.2)
        running = await cluster.get(catalog.POD, "p", "default")
        assert running["status"]["phase"] == "Running"
        assert running["status"]["hostIP"] == "172.16.0.1"
        assert running["status"]["podIP"].startswith("10.0.0.")
        await clock.sleep(9.8)
        assert await phase(cluster, "p") == "Running"
        await clock.sleep(0.2)
        assert [await phase(cluster, name) for name in ("p", "service", "other")] == ["Succeeded", "Running", "Pending"]
        events = await cluster.list(catalog.EVENT, "default")
        assert {event["reason"] for event in events.items} == {"Begun"}

    play(tmp_path, STAGES, story)


def test_a_pod_is_deleted_by_its_stage_and_its_finalizers_go(tmp_path: Path) -> None:
    async def story(cluster: Cluster, nodes: HollowNodes, clock: VirtualClock) -> None:
        await cluster.create(catalog.POD, pod("p", finalizers=["strato.dev/kept"]), "default")
        await clock.sleep(5)
        await cluster.delete(catalog.POD, "p", "default")
        await clock.sleep(1.9)
        assert (await cluster.get(catalog.POD, "p", "default"))["metadata"]["deletionTimestamp"]
        await clock.sleep(0.2)
        try:
            await cluster.get(catalog.POD, "p", "default")
        except NotFound:
            return
        raise AssertionError("the pod is still there")

    play(tmp_path, STAGES, story)


def test_pods_of_a_node_that_stopped_stand_still(tmp_path: Path) -> None:
    async def story(cluster: Cluster, nodes: HollowNodes, clock: VirtualClock) -> None:
        await cluster.create(catalog.POD, pod("p"), "default")
        await clock.sleep(1)
        nodes.stop_node("n-0")
        await clock.sleep(20)
        assert await phase(cluster, "p") == "Pending"
        nodes.start_node("n-0")
        await clock.sleep(3.1)
        assert await phase(cluster, "p") == "Running"

    play(tmp_path, STAGES, story)


def test_nodes_are_played_too(tmp_path: Path) -> None:
    async def story(cluster: Cluster, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)
        begun = await cluster.get(catalog.NODE, "n-1")
        first = {one["type"]: one for one in begun["status"]["conditions"]}
        assert begun["status"]["allocatable"]["cpu"] == "4"
        assert (first["Ready"]["status"], len(first)) == ("True", 5)
        await clock.sleep(26)
        later = await cluster.get(catalog.NODE, "n-1")
        second = {one["type"]: one for one in later["status"]["conditions"]}
        assert second["Ready"]["lastHeartbeatTime"] > first["Ready"]["lastHeartbeatTime"]
        assert second["DiskPressure"] == first["DiskPressure"]

    play(tmp_path, NODE_STAGES, story)
