"""Volumes on one node, rule by rule: at the boundary, with one of two siblings, with two of a thing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.claims.test_volumes import claim, decided, pod, storage, volume

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
A = worlds.node("a", labels={ZONE: "z1"})
LATE = storage()
MADE = storage(provisioner="csi.x")
OWN = {"controller": True, "apiVersion": "v1", "kind": "Pod", "name": "p"}


def limits(count: int | None, driver: str = "csi.x") -> Json:
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    drivers = [{"name": driver, "nodeID": "a", **allocatable}]
    return {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}}


def csi(name: str, driver: str = "csi.x") -> list[Json]:
    """Return a volume of a driver and the claim that has it."""
    return [volume(f"v-{name}", csi={"driver": driver, "volumeHandle": name}), claim(name, volume=f"v-{name}")]


def runs(name: str, *claims: str, **more: Any) -> Json:
    return pod(name, *claims, **{"group": "", "phase": "Running", "nodeName": "a", **more})


def room(size: str, storage_class: str = "late", most: str = "", topology: bool = True) -> Json:
    given: Json = {"storageClassName": storage_class, "capacity": size}
    if most:
        given["maximumVolumeSize"] = most
    if topology:
        given["nodeTopology"] = {"matchLabels": {"kubernetes.io/hostname": "a"}}
    return {"kind": "CSIStorageCapacity", "metadata": {"name": "r", "namespace": "ns"}, **given}


def driver(capacity: bool) -> Json:
    return {"kind": "CSIDriver", "metadata": {"name": "csi.x"}, "spec": {"storageCapacity": capacity}}


def ephemeral(**owner: Any) -> list[Json]:
    owners = [{**OWN, **owner}] if owner else []
    made = claim("p-tmp", meta={"ownerReferences": owners})
    return [MADE, made, worlds.pod("p", "g", volumes=[{"name": "tmp", "ephemeral": {}}])]


def asking(**spec: Any) -> list[Json]:
    return [LATE, claim(**spec), pod()]


def taken_by(name: str, uid: str = "") -> Json:
    return {"claimRef": {"namespace": "ns", "name": name, "uid": uid}}


FITS: list[tuple[str, list[Json], bool]] = [
    ("a volume of just its size", [volume("v", "1Gi"), *asking()], True),
    ("a volume that is a byte too small", [volume("v", "1073741823"), *asking()], False),
    ("a volume of another class", [volume("v", storage_class="other"), *asking()], False),
    ("a volume that was released", [volume("v", phase="Released"), *asking()], False),
    ("a volume of another mode", [volume("v", volumeMode="Block"), *asking()], False),
    ("one of two ways of access", [volume("v"), *asking(modes=["ReadWriteOnce", "ReadOnlyMany"])], False),
    (
        "a label that is asked for",
        [volume("v", labels={"x": "y"}), *asking(selector={"matchLabels": {"x": "y"}})],
        True,
    ),
    ("another label", [volume("v", labels={"x": "z"}), *asking(selector={"matchLabels": {"x": "y"}})], False),
    ("no label", [volume("v"), *asking(selector={"matchLabels": {"x": "y"}})], False),
    ("a volume kept for it", [volume("v", storage_class="other", **taken_by("data")), *asking()], True),
    ("a volume kept for it by uid", [volume("v", **taken_by("data", "uid-data")), *asking()], True),
    ("a volume of a claim of that name before", [volume("v", **taken_by("data", "older")), *asking()], False),
    ("a volume kept for another claim", [volume("v", **taken_by("other")), *asking()], False),
    ("two claims, two volumes", [volume("v"), volume("w"), LATE, claim("c"), claim("d"), pod("p", "c", "d")], True),
    ("two claims, one volume", [volume("v"), LATE, claim("c"), claim("d"), pod("p", "c", "d")], False),
    ("one claim twice, one volume", [volume("v"), LATE, claim(), pod("p", "data", "data")], True),
    ("a claim that names a volume and is not bound", [LATE, volume("v"), claim(volumeName="v"), pod()], False),
    ("the selected node", [MADE, claim(annotations={"volume.kubernetes.io/selected-node": "a"}), pod()], True),
    ("another selected node", [MADE, claim(annotations={"volume.kubernetes.io/selected-node": "b"}), pod()], False),
    (
        "a claim with a selected node takes no volume that is there",
        [LATE, volume("v"), claim(annotations={"volume.kubernetes.io/selected-node": "a"}), pod()],
        False,
    ),
    ("an ephemeral volume's own claim", ephemeral(uid="ns-p"), True),
    ("one of a pod before it", ephemeral(uid="older"), False),
    ("one of nobody", ephemeral(), False),
    ("below the driver's limit", [limits(2), *csi("old"), *csi("data"), runs("q", "old"), pod()], True),
    ("at the driver's limit", [limits(1), *csi("old"), *csi("data"), runs("q", "old"), pod()], False),
    ("no limit", [limits(None), *csi("old"), *csi("data"), runs("q", "old"), pod()], True),
    ("a limit of none", [limits(0), *csi("data"), pod()], False),
    ("the limit of another driver", [limits(0, "csi.y"), *csi("data"), pod()], True),
    ("two of its own over the limit", [limits(1), *csi("c"), *csi("d"), pod("p", "c", "d")], False),
    ("two of its own at the limit", [limits(2), *csi("c"), *csi("d"), pod("p", "c", "d")], True),
    ("one of a full driver, one of another", [limits(0), *csi("c", "csi.y"), *csi("d"), pod("p", "c", "d")], False),
    (
        "a full driver whose volume is there already",
        [limits(1), *csi("data"), runs("q", "data"), pod()],
        True,
    ),
    (
        "a driver over its limit whose volume is there already",
        [limits(1), *csi("data"), *csi("old"), runs("q", "data", "old"), pod()],
        True,
    ),
    ("just enough storage", [MADE, driver(True), room("1Gi"), claim(), pod()], True),
    ("a byte too little storage", [MADE, driver(True), room("1073741823"), claim(), pod()], False),
    ("storage, but in smaller pieces", [MADE, driver(True), room("9Gi", most="500Mi"), claim(), pod()], False),
    ("a piece is large enough", [MADE, driver(True), room("1", most="1Gi"), claim(), pod()], True),
    ("storage of another class", [MADE, driver(True), room("9Gi", "other"), claim(), pod()], False),
    ("storage nowhere", [MADE, driver(True), room("9Gi", topology=False), claim(), pod()], False),
    ("a driver that does not say", [MADE, driver(False), claim(), pod()], True),
    ("a class that is not there", [claim(), pod()], False),
]


@pytest.mark.parametrize(("objects", "fits"), [pytest.param(*row[1:], id=row[0]) for row in FITS])
def test_a_node_for_a_pod_with_volumes(objects: list[Json], fits: bool) -> None:
    _, plan = decided(A, *objects)
    assert (worlds.binds(plan).get("ns/p") == "a") is fits


HOLDERS: list[tuple[str, list[Json], bool]] = [
    ("a pod that runs", [runs("q", nodeName="b")], False),
    ("a pod that waits", [pod("q", group="", scheduler="other")], True),
    ("a pod that is done", [runs("q", phase="Succeeded")], True),
    ("two pods, one of which is done", [runs("q", phase="Succeeded"), runs("r", nodeName="b")], False),
    ("a pod that holds another claim", [claim("old", volume="w"), volume("w"), runs("q", "old")], True),
]


@pytest.mark.parametrize(("holders", "fits"), [pytest.param(*row[1:], id=row[0]) for row in HOLDERS])
def test_a_claim_for_one_pod_only(holders: list[Json], fits: bool) -> None:
    modes = ["ReadWriteOncePod"]
    objects = [worlds.node("b", cpu="0"), volume("v", accessModes=modes), claim(volume="v", modes=modes), pod()]
    _, plan = decided(A, *holders, *objects)
    assert ("ns/p" in worlds.binds(plan)) is fits


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [("z1", "z1", "a"), ("z1", "z2", ""), ("z2", "z1", ""), ("z1__z2", "z2", "b"), ("z2", "z2", "b")],
)
def test_all_zones_of_all_volumes_count(first: str, second: str, where: str) -> None:
    bound = [
        item
        for name, zone in (("c", first), ("d", second))
        for item in (volume(f"v-{name}", labels={ZONE: zone}), claim(name, volume=f"v-{name}"))
    ]
    _, plan = decided(A, worlds.node("b", labels={ZONE: "z2"}), *bound, pod("p", "c", "d"))
    assert worlds.binds(plan).get("ns/p", "") == where


def test_pods_that_share_a_claim_share_the_volume_that_was_chosen_in_this_cycle() -> None:
    """The second pod would find a volume on the emptier node too, but the claim has got one already."""
    nodes = [worlds.node("a", cpu="2"), worlds.node("b", cpu="2")]
    volumes = [volume("v1", on="a"), volume("v2", on="b")]
    for names in (("p", "q"), ("q", "p")):
        world, plan = decided(*nodes, LATE, *volumes, claim(), *(pod(name) for name in names), minimum=2)
        assert len(plan.binds) == 2
        assert len(set(worlds.binds(plan).values())) == 1
        given = [world.tasks[key].reservation for key in ("ns/p", "ns/q")]
        assert len({tuple(one.volumes.values()) for one in given if one is not None}) == 1


def test_pods_that_share_a_claim_and_do_not_fit_together_do_not_run_together() -> None:
    nodes = [worlds.node("a", cpu="1"), worlds.node("b", cpu="1")]
    volumes = [volume("v1", on="a"), volume("v2", on="b")]
    _, plan = decided(*nodes, LATE, *volumes, claim(), pod("p"), pod("q"))
    assert len(plan.binds) == 1
