"""Claims and volumes on the embedded cluster: bound, made, expanded, reclaimed, protected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.api.claims import BIND_COMPLETED, LOCAL_PROVISIONER, SELECTED_NODE
from strato.api.core import PersistentVolume, PersistentVolumeClaim
from strato.api.core.volumes import (
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeResources,
)
from strato.api.meta import ObjectMeta
from strato.api.shapes import LabelSelector, ObjectReference
from strato.api.storage import StorageClass
from strato.controllers.context import ControllerSettings
from strato.controllers.kube.volumeplan import PROVISIONED_BY, plan_claim, plan_volume
from strato.controllers.localvolumes import LocalVolumes
from strato.errors import Forbidden, Invalid, NotFound
from strato.node.removal import remove_tree
from strato.server.bootstrap import default_storage_class
from tests.controllers.world import World, play

ENABLED = ("kube-persistentvolume-controller", "kube-ephemeral-volume-controller", "kube-garbage-collector")
HELD = ObjectReference(namespace="default", name="c", uid="u")
OTHER = ObjectReference(namespace="default", name="d", uid="v")


def claim(size: str = "1Gi", bound_to: str = "", *, done: bool = False, **more: Any) -> PersistentVolumeClaim:
    annotations = {**({BIND_COMPLETED: "yes"} if done else {}), **more.pop("annotations", {})}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="default", uid="u", annotations=annotations),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=VolumeResources(requests={"storage": size}),
            volume_name=bound_to,
            **more,
        ),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )


def volume(name: str = "v", size: str = "1Gi", owner: ObjectReference | None = None, **more: Any) -> PersistentVolume:
    meta = ObjectMeta(name=name, labels=more.pop("labels", {}), annotations=more.pop("annotations", {}))
    modes = more.pop("access_modes", ("ReadWriteOnce",))
    spec = PersistentVolumeSpec(capacity={"storage": size}, access_modes=modes, claim_ref=owner, **more)
    return PersistentVolume(metadata=meta, spec=spec, status=PersistentVolumeStatus(phase="Available"))


def storage(provisioner: str = LOCAL_PROVISIONER, mode: str = "Immediate") -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="s"), provisioner=provisioner, volume_binding_mode=mode)


IN_CLASS = {"storage_class_name": "s"}


@pytest.mark.parametrize(
    ("asked", "offers", "found", "want"),
    [
        pytest.param(claim(), [volume("big", "9Gi"), volume("fit")], None, "bind fit", id="the smallest that suits"),
        pytest.param(claim("2Gi"), [volume()], None, "FailedBinding", id="too small"),
        pytest.param(claim(), [volume(access_modes=("ReadOnlyMany",))], None, "FailedBinding", id="other modes"),
        pytest.param(claim(), [volume(storage_class_name="s")], None, "FailedBinding", id="another class"),
        pytest.param(
            claim(selector=LabelSelector(match_labels={"a": "b"})),
            [volume("x"), volume("y", "9Gi", labels={"a": "b"})],
            None,
            "bind y",
            id="the selector decides",
        ),
        pytest.param(
            claim(), [volume("a"), volume("z", "9Gi", HELD)], None, "bind z", id="the one that is held for the claim"
        ),
        pytest.param(claim(**IN_CLASS), [], storage(), "make", id="made on this machine"),
        pytest.param(claim(**IN_CLASS), [], None, "ProvisioningFailed", id="the class does not exist"),
        pytest.param(claim(**IN_CLASS), [], storage("x.org/d"), "ExternalProvisioning", id="made by somebody else"),
        pytest.param(
            claim(**IN_CLASS),
            [volume(**IN_CLASS)],
            storage(mode="WaitForFirstConsumer"),
            "WaitForFirstConsumer",
            id="waits for a pod",
        ),
        pytest.param(
            claim(annotations={SELECTED_NODE: "n"}, **IN_CLASS),
            [],
            storage(mode="WaitForFirstConsumer"),
            "make",
            id="a pod has a node",
        ),
        pytest.param(
            claim(volume_mode="Block", **IN_CLASS), [], storage(), "ProvisioningFailed", id="no block devices"
        ),
    ],
)
def test_a_claim_finds_its_volume(
    asked: PersistentVolumeClaim, offers: list[PersistentVolume], found: StorageClass | None, want: str
) -> None:
    step = plan_claim(asked, None, offers, found)
    bound = f"bind {step.bind.metadata.name}" if step.bind is not None else ""
    assert bound or ("make" if step.make else step.notice and step.notice[1]) == want


@pytest.mark.parametrize(
    ("asked", "named", "want"),
    [
        pytest.param(claim(bound_to="v"), None, "", id="waits for the volume it names"),
        pytest.param(claim(bound_to="v", done=True), None, "ClaimLost", id="lost with its volume"),
        pytest.param(claim(bound_to="v"), volume(owner=HELD), "bind", id="stays bound"),
        pytest.param(claim(bound_to="v"), volume(), "bind", id="takes the volume it names"),
        pytest.param(claim("2Gi", bound_to="v"), volume(), "VolumeMismatch", id="unless that is too small"),
        pytest.param(claim(bound_to="v"), volume(owner=OTHER), "FailedBinding", id="another's volume"),
        pytest.param(claim(bound_to="v", done=True), volume(owner=OTHER), "ClaimMisbound", id="two claims, one volume"),
    ],
)
def test_a_claim_that_names_its_volume(asked: PersistentVolumeClaim, named: PersistentVolume | None, want: str) -> None:
    step = plan_claim(asked, named, (), None)
    assert ("bind" if step.bind is not None else step.notice[1] if step.notice else "") == want


OURS = {"annotations": {PROVISIONED_BY: LOCAL_PROVISIONER}, "persistent_volume_reclaim_policy": "Delete"}


@pytest.mark.parametrize(
    ("one", "holder", "phase", "delete"),
    [
        pytest.param(volume(), None, "Available", False, id="nobody's"),
        pytest.param(volume(owner=HELD), claim(bound_to="v"), "Bound", False, id="bound"),
        pytest.param(volume(owner=HELD), claim(), "", False, id="its claim binds it"),
        pytest.param(volume(owner=HELD), None, "Released", False, id="retained"),
        pytest.param(volume(owner=HELD, **OURS), None, "Released", True, id="made here, and deleted"),
        pytest.param(
            volume(owner=HELD, persistent_volume_reclaim_policy="Delete"), None, "Failed", False, id="nobody deletes it"
        ),
        pytest.param(
            volume(owner=HELD, persistent_volume_reclaim_policy="Delete", annotations={PROVISIONED_BY: "x.org/d"}),
            None,
            "Released",
            False,
            id="its provisioner deletes it",
        ),
    ],
)
def test_what_becomes_of_a_volume(
    one: PersistentVolume, holder: PersistentVolumeClaim | None, phase: str, delete: bool
) -> None:
    step = plan_volume(one, holder)
    assert (step.phase, step.delete) == (phase, delete)


def manifest(name: str = "c", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}, **spec},
    }


def using(name: str, **source: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **source}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def phase_of(world: World, name: str) -> str:
    try:
        found = await world.cluster.get(PersistentVolumeClaim, name, "default")
    except NotFound:
        return "gone"
    return "Terminating" if found.metadata.deletion_timestamp is not None else found.status.phase


def test_a_claim_of_the_default_class_lives_and_ends(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.STORAGECLASS, default_storage_class())
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, manifest(), "default")
        await world.settle()
        bound = await world.cluster.get(PersistentVolumeClaim, "c", "default")
        assert (bound.status.phase, bound.status.capacity) == ("Bound", {"storage": "1Gi"})
        place = tmp_path / "volumes" / bound.spec.volume_name
        assert place.stat().st_mode & 0o777 == 0o777
        (place / "results").write_text("much work")
        await world.cluster.patch(
            catalog.PERSISTENTVOLUMECLAIM, "c", "default", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
        )
        await world.settle()
        assert (await world.cluster.get(PersistentVolumeClaim, "c", "default")).status.capacity == {"storage": "3Gi"}
        await world.cluster.create(catalog.POD, using("p", persistentVolumeClaim={"claimName": "c"}), "default")
        await world.settle()
        await world.cluster.delete(PersistentVolumeClaim, "c", "default")
        await world.settle()
        assert await phase_of(world, "c") == "Terminating"
        assert (place / "results").exists()
        await world.cluster.delete(catalog.POD, "p", "default")
        await world.settle()
        assert await phase_of(world, "c") == "gone"
        assert (await world.cluster.list(PersistentVolume)).items == []
        assert not place.exists()

    settings = ControllerSettings(local_volumes=LocalVolumes(str(tmp_path / "volumes"), remove_tree))
    play(scenario, enabled=ENABLED, settings=settings)


def test_a_hand_made_volume_is_bound_retained_and_freed() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/data"}},
    }

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, manifest(), "default")
        await world.settle()
        assert await phase_of(world, "c") == "Pending"
        larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        with pytest.raises(Invalid, match="immutable after creation"):
            await world.cluster.patch(catalog.PERSISTENTVOLUMECLAIM, "c", "default", larger)
        await world.cluster.create(catalog.PERSISTENTVOLUME, body)
        await world.settle()
        assert await phase_of(world, "c") == "Bound"
        with pytest.raises(Forbidden, match="must support resize"):
            await world.cluster.patch(catalog.PERSISTENTVOLUMECLAIM, "c", "default", larger)
        assert (await world.cluster.get(PersistentVolume, "v")).status.phase == "Bound"
        await world.cluster.delete(PersistentVolume, "v")
        await world.settle()
        assert (await world.cluster.get(PersistentVolume, "v")).status.phase == "Bound"  # protected while it is used
        await world.cluster.delete(PersistentVolumeClaim, "c", "default")
        await world.settle()
        assert await phase_of(world, "c") == "gone"
        with pytest.raises(NotFound):
            await world.cluster.get(PersistentVolume, "v")
        await world.cluster.create(catalog.PERSISTENTVOLUME, body)
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, manifest(), "default")
        await world.settle()
        await world.cluster.delete(PersistentVolumeClaim, "c", "default")
        await world.settle()
        assert (await world.cluster.get(PersistentVolume, "v")).status.phase == "Released"

    play(scenario, enabled=ENABLED)


def test_a_pod_gets_its_ephemeral_claim_and_takes_it_along() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.STORAGECLASS, default_storage_class())
        template = {"metadata": {"labels": {"a": "b"}}, "spec": manifest()["spec"]}
        await world.cluster.create(catalog.POD, using("p", ephemeral={"volumeClaimTemplate": template}), "default")
        await world.settle()
        made = await world.cluster.get(PersistentVolumeClaim, "p-v", "default")
        assert (made.status.phase, made.metadata.labels) == ("Bound", {"a": "b"})
        await world.cluster.delete(catalog.POD, "p", "default")
        await world.settle()
        assert await phase_of(world, "p-v") == "gone"

    play(scenario, enabled=ENABLED)
