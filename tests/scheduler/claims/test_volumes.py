"""Volumes: where a pod's claims let it run, which volume they get, and in whose words it is told why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Plan
from tests.scheduler import worlds

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
NODES = [worlds.node("a", labels={ZONE: "east"}), worlds.node("b", labels={ZONE: "west"})]
QUEUE = worlds.queue()


def claim(name: str = "data", size: str = "1Gi", storage_class: str | None = "late", **more: Any) -> Json:
    spec: Json = {"resources": {"requests": {"storage": size}}, "accessModes": more.pop("modes", ["ReadWriteOnce"])}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    annotations = more.pop("annotations", {})
    volume = more.pop("volume", "")
    status = {"phase": more.pop("phase", "Pending")}
    if volume:
        spec["volumeName"] = volume
        status["phase"] = "Bound"
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": annotations, **more.pop("meta", {})}
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**spec, **more}, "status": status}


def volume(name: str, size: str = "2Gi", storage_class: str = "late", on: str = "", **more: Any) -> Json:
    spec: Json = {"capacity": {"storage": size}, "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"]}
    spec["hostPath"] = {"path": f"/volumes/{name}"}
    if on:
        requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    labels, phase = more.pop("labels", {}), more.pop("phase", "Available")
    meta = {"name": name, "labels": labels, "uid": f"uid-{name}"}
    return {"kind": "PersistentVolume", "metadata": meta, "spec": {**spec, **more}, "status": {"phase": phase}}


def storage(name: str = "late", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> Json:
    mode = more.pop("mode", "WaitForFirstConsumer")
    meta = {"name": name}
    return {"kind": "StorageClass", "metadata": meta, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def pod(name: str = "p", *claims: str, **more: Any) -> Json:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims or ("data",)]
    return worlds.pod(name, more.pop("group", "g"), volumes=volumes, **more)


def decided(*objects: Json, minimum: int = 1) -> tuple[World, Plan]:
    world = worlds.world(QUEUE, worlds.group("g", minimum), *objects)
    return world, worlds.cycle(world)


@dataclass(frozen=True)
class Case:
    id: str
    objects: list[Json]
    node: str = ""
    said: str = ""
    volumes: dict[str, str] = field(default_factory=dict)
    provisions: tuple[str, ...] = ()


EAST = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["east"]}]}]}
CASES = [
    Case(
        "a claim that is not there stops the pod",
        [*NODES, pod()],
        said='plugin VolumeBinding pre-predicates failed persistentvolumeclaim "data" not found',
    ),
    Case(
        "a claim that is being deleted stops the pod",
        [*NODES, storage(), claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), pod()],
        said='persistentvolumeclaim "data" is being deleted',
    ),
    Case(
        "a claim that lost its volume stops the pod",
        [*NODES, storage(), claim(volumeName="gone", phase="Lost"), pod()],
        said='persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
    ),
    Case(
        "a claim that is bound at once has to be bound first",
        [*NODES, storage(mode="Immediate"), claim(), pod()],
        said="pod has unbound immediate PersistentVolumeClaims",
    ),
    Case(
        "a claim without a class has to be bound first",
        [*NODES, claim(storage_class=""), pod()],
        said="pod has unbound immediate PersistentVolumeClaims",
    ),
    Case(
        "a bound volume draws the pod to the node it is on",
        [*NODES, volume("v", on="b"), claim(volume="v"), pod()],
        "b",
    ),
    Case(
        "a bound volume that no node reaches keeps the pod waiting",
        [*NODES, volume("v", on="elsewhere"), claim(volume="v"), pod()],
        said="0/2 nodes are unavailable: 2 node(s) didn't match PersistentVolume's node affinity.",
    ),
    Case(
        "a claim bound to a volume that is gone keeps the pod waiting",
        [*NODES, claim(volume="v"), pod()],
        said="2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    ),
    Case("a volume's zone label counts", [*NODES, volume("v", labels={ZONE: "west"}), claim(volume="v"), pod()], "b"),
    Case(
        "a volume's old zone label counts, with several zones",
        [
            *NODES,
            volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "north__west"}),
            claim(volume="v"),
            pod(),
        ],
        "b",
    ),
    Case(
        "a zone without nodes keeps the pod waiting",
        [*NODES, volume("v", labels={ZONE: "north"}), claim(volume="v"), pod()],
        said="2 node(s) had no available volume zone",
    ),
    Case(
        "a claim that waits gets the smallest volume that is large enough",
        [*NODES, storage(), volume("l", "9Gi"), volume("m", "2Gi"), volume("s", "1Mi"), claim(), pod(nodeName="")],
        "*",
        volumes={"ns/data": "m"},
    ),
    Case(
        "two claims of a pod get two volumes of one node",
        [
            *NODES,
            storage(),
            *[volume(n, on=n[0]) for n in ("a1", "b1", "b2")],
            claim(),
            claim("more"),
            pod("p", "data", "more"),
        ],
        "b",
        volumes={"ns/data": "b1", "ns/more": "b2"},
    ),
    Case(
        "a volume that is meant for the claim is taken before others",
        [
            *NODES,
            storage(),
            volume("s", "1Gi"),
            volume("v", "5Gi", on="b", claimRef={"namespace": "ns", "name": "data"}),
            claim("data", "2Gi"),
            pod(),
        ],
        "b",
        volumes={"ns/data": "v"},
    ),
    Case(
        "a volume of another claim, class or mode, or too few access modes is no volume",
        [
            *NODES,
            storage(),
            volume("v1", claimRef={"namespace": "ns", "name": "other"}),
            volume("v2", storage_class="fast"),
            volume("v3", volumeMode="Block"),
            volume("v4", phase="Released"),
            volume("v5", accessModes=["ReadOnlyMany"]),
            volume("v6", labels={"tier": "slow"}),
            claim(selector={"matchLabels": {"tier": "fast"}}),
            pod(),
        ],
        said="0/2 nodes are unavailable: 2 node(s) didn't find available persistent volumes to bind.",
    ),
    Case(
        "a volume is made where there is none",
        [*NODES, storage(provisioner="csi.x"), claim(), pod()],
        "*",
        provisions=("ns/data",),
    ),
    Case(
        "a volume is made only where the class allows it",
        [*NODES, storage(provisioner="csi.x", **EAST), claim(), pod()],
        "a",
        provisions=("ns/data",),
    ),
    Case(
        "a volume that is being made for a node keeps the pod to it",
        [*NODES, storage(provisioner="csi.x"), claim(annotations={"volume.kubernetes.io/selected-node": "b"}), pod()],
        "b",
        provisions=("ns/data",),
    ),
    Case(
        "a driver that tells its free space is believed",
        [
            *NODES,
            storage(provisioner="csi.x"),
            {"kind": "CSIDriver", "metadata": {"name": "csi.x"}, "spec": {"storageCapacity": True}},
            {
                "kind": "CSIStorageCapacity",
                "metadata": {"name": "c1", "namespace": "kube-system"},
                "storageClassName": "late",
                "nodeTopology": {"matchLabels": {ZONE: "west"}},
                "capacity": "5Gi",
            },
            claim(),
            pod(),
        ],
        "b",
        provisions=("ns/data",),
    ),
    Case(
        "a driver without space anywhere keeps the pod waiting",
        [
            *NODES,
            storage(provisioner="csi.x"),
            {"kind": "CSIDriver", "metadata": {"name": "csi.x"}, "spec": {"storageCapacity": True}},
            claim(),
            pod(),
        ],
        said="2 node(s) did not have enough free storage",
    ),
    Case(
        "an ephemeral volume waits for its claim",
        [*NODES, storage(provisioner="csi.x"), worlds.pod("p", "g", volumes=[{"name": "tmp", "ephemeral": {}}])],
        said='waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"',
    ),
    Case(
        "an ephemeral volume's claim must be the pod's own",
        [
            *NODES,
            storage(provisioner="csi.x"),
            claim("p-tmp"),
            worlds.pod("p", "g", volumes=[{"name": "tmp", "ephemeral": {}}]),
        ],
        said='PVC "ns/p-tmp" was not created for pod "ns/p" (pod is not owner)',
    ),
    Case(
        "a claim for one pod only is not shared",
        [
            *NODES,
            volume("v", accessModes=["ReadWriteOncePod"]),
            claim(volume="v", modes=["ReadWriteOncePod"]),
            pod("old", group="", phase="Running", nodeName="a"),
            pod(),
        ],
        said="node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    ),
    Case(
        "a node full of a driver's volumes takes no more of them",
        [
            *NODES,
            {
                "kind": "CSINode",
                "metadata": {"name": "a"},
                "spec": {"drivers": [{"name": "csi.x", "nodeID": "a", "allocatable": {"count": 1}}]},
            },
            volume("old", csi={"driver": "csi.x", "volumeHandle": "1"}),
            volume("new", csi={"driver": "csi.x", "volumeHandle": "2"}),
            claim("old", volume="old"),
            claim(volume="new"),
            pod("q", "old", group="", phase="Running", nodeName="a"),
            pod(),
        ],
        "b",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_volumes_decide_where_a_pod_runs(case: Case) -> None:
    world, plan = decided(*case.objects)
    node = worlds.binds(plan).get("ns/p", "")
    assert bool(node) if case.node == "*" else node == case.node
    messages = [verdict.message for verdict in plan.pods]
    assert all(case.said in message for message in messages)
    assert bool(messages) == bool(case.said)
    given = world.tasks["ns/p"].reservation
    assert (given.volumes if given else {}) == case.volumes
    assert (given.provisions if given else ()) == case.provisions


def test_two_pods_never_get_one_volume() -> None:
    objects = [*NODES, storage(), volume("v1"), claim("c1"), claim("c2"), pod("p", "c1"), pod("q", "c2")]
    world, plan = decided(*objects)
    assert len(plan.binds) == 1
    assert "didn't find available persistent volumes to bind" in plan.pods[0].message
    worlds.feed(world, volume("v2"))
    again = worlds.cycle(world)
    given = [world.tasks[key].reservation for key in ("ns/p", "ns/q")]
    assert len(again.binds) == 1
    assert {name for r in given if r is not None for name in r.volumes.values()} == {"v1", "v2"}


def test_gang_that_does_not_come_about_leaves_no_volume_behind() -> None:
    objects = [*NODES, storage(), volume("v1"), claim("c1"), claim("c2"), pod("p", "c1"), pod("q", "c2")]
    world, plan = decided(*objects, minimum=2)
    assert plan.binds == []
    assert list(world.reservations.standing()) == []
    assert world.volumes.picked() == ({}, {})


def test_pods_that_share_a_claim_to_be_made_share_the_node() -> None:
    world, plan = decided(*NODES, storage(provisioner="csi.x"), claim(), pod("p"), pod("q"), minimum=2)
    assert len(plan.binds) == 2
    assert len(set(worlds.binds(plan).values())) == 1
    assert world.tasks["ns/q"].reservation is not None


def test_volume_is_free_again_when_its_pod_is_gone() -> None:
    world, _ = decided(*NODES, storage(), volume("v1"), claim("c1"), claim("c2"), pod("p", "c1"))
    assert world.volumes.picked()[0] == {"ns/c1": "v1"}
    world.remove_pod("ns/p")
    worlds.feed(world, pod("q", "c2"))
    assert worlds.binds(worlds.cycle(world)).keys() == {"ns/q"}


def test_volume_stays_held_while_the_pod_changes_its_labels() -> None:
    world, _ = decided(*NODES, storage(), volume("v1"), claim(), pod())
    on = world.nodes.names[world.tasks["ns/p"].row]
    worlds.feed(world, pod("p", phase="Pending", nodeName=on, labels={"new": "label"}))
    assert world.volumes.picked()[0] == {"ns/data": "v1"}


def test_a_volume_that_has_grown_has_a_cycle_decide() -> None:
    world, plan = decided(*NODES, storage(), volume("v1", size="1Mi"), claim(), pod())
    assert plan.binds == []
    before = world.schedulable_generation
    worlds.feed(world, volume("v1", size="1Mi"))
    assert world.schedulable_generation == before, "nothing new"
    worlds.feed(world, volume("v1"))
    assert world.schedulable_generation > before
    assert worlds.binds(worlds.cycle(world)).keys() == {"ns/p"}
