"""Claims against an embedded server: what is written before a pod is bound, and what happens when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from strato.api.resource import ResourceClaim
from strato.client.local import LocalCluster
from strato.clock import VirtualClock
from strato.scheduler.binding.claimbinder import ClaimBinder, ClaimsNotReady
from strato.scheduler.model.reservation import Reservation
from tests.scheduler import worlds
from tests.scheduler.claims import test_devices as devices
from tests.scheduler.claims import test_volumes as volumes
from tests.scheduler.test_service import create, nodes_of, running, virtually

Json = dict[str, Any]

KINDS = {
    kind.name: kind
    for kind in (
        catalog.DEVICECLASS,
        catalog.PERSISTENTVOLUME,
        catalog.PERSISTENTVOLUMECLAIM,
        catalog.RESOURCECLAIM,
        catalog.RESOURCESLICE,
        catalog.STORAGECLASS,
    )
}


async def stored(cluster: LocalCluster, *objects: Json) -> None:
    """Create claims and what serves them, with their statuses."""
    for obj in objects:
        kind = KINDS[obj["kind"]]
        body = {"apiVersion": kind.api_version, **obj}
        body["metadata"] = {k: v for k, v in obj["metadata"].items() if k != "uid"}
        await cluster.create(kind, body, obj["metadata"].get("namespace", ""))
        if obj.get("status"):
            meta, status = obj["metadata"], {"status": obj["status"]}
            await cluster.patch(kind, meta["name"], meta.get("namespace", ""), status, subresource="status")


async def finish_binding(cluster: LocalCluster, name: str, volume: str) -> None:
    """Do what the volume controller does once a claim has a volume."""
    body = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
    }
    await cluster.patch(catalog.PERSISTENTVOLUMECLAIM, name, "ns", body)
    await cluster.patch(catalog.PERSISTENTVOLUMECLAIM, name, "ns", {"status": {"phase": "Bound"}}, subresource="status")


def test_pod_is_bound_after_its_volume() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, volumes.storage(), volumes.volume("v"), volumes.claim())
            await create(cluster, worlds.node("n"), worlds.group("g", 1), volumes.pod())
            await clock.sleep(2)
            volume = await cluster.get(PersistentVolume, "v")
            claim = await cluster.get(PersistentVolumeClaim, "data", "ns")
            assert volume.spec.claim_ref is not None
            assert volume.spec.claim_ref.uid == claim.metadata.uid
            assert volume.metadata.annotation("pv.kubernetes.io/bound-by-controller") == "yes"
            assert (await nodes_of(cluster))["p"] == ""  # the volume controller has not done its part
            await finish_binding(cluster, "data", "v")
            await clock.sleep(2)
            assert (await nodes_of(cluster))["p"] == "n"

    virtually(story)


def test_volume_is_made_for_the_chosen_node() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, volumes.storage(provisioner="csi.x"), volumes.claim())
            await create(cluster, worlds.node("n"), worlds.group("g", 1), volumes.pod())
            await clock.sleep(2)
            claim = await cluster.get(PersistentVolumeClaim, "data", "ns")
            assert claim.metadata.annotation("volume.kubernetes.io/selected-node") == "n"
            await stored(cluster, volumes.volume("made", on="n"))
            await finish_binding(cluster, "data", "made")
            await clock.sleep(2)
            assert (await nodes_of(cluster))["p"] == "n"

    virtually(story)


def test_pod_is_placed_anew_when_the_provisioner_gives_the_node_up() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, volumes.storage(provisioner="csi.x"), volumes.claim())
            await create(cluster, worlds.node("n1"), worlds.group("g", 1), volumes.pod())
            await clock.sleep(2)
            await cluster.patch(catalog.NODE, "n1", "", {"spec": {"unschedulable": True}})
            await create(cluster, worlds.node("n2"))
            await clock.sleep(2)
            reset = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}
            await cluster.patch(catalog.PERSISTENTVOLUMECLAIM, "data", "ns", reset)
            await clock.sleep(3)
            claim = await cluster.get(PersistentVolumeClaim, "data", "ns")
            assert claim.metadata.annotation("volume.kubernetes.io/selected-node") == "n2"

    virtually(story)


def test_pod_says_so_when_its_volume_does_not_come() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, volumes.storage(provisioner="csi.x"), volumes.claim())
            await create(cluster, worlds.node("n"), worlds.group("g", 1), volumes.pod())
            await clock.sleep(601)
            pod = await cluster.get(Pod, "p", "ns")
            condition = pod.status.condition("PodScheduled")
            assert condition is not None
            assert condition.reason == "SchedulerError"
            assert "execute preBind for pod ns/p failed: timed out after 600 s" in condition.message

    virtually(story)


def test_claim_that_was_bound_elsewhere_meanwhile_takes_no_second_volume() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, volumes.storage(), volumes.volume("v"), volumes.claim(volume="other"))
            await finish_binding(cluster, "data", "other")
            world = worlds.world(worlds.node("n"), volumes.pod())
            chosen = Reservation(0, volumes={"ns/data": "v"})
            with pytest.raises(ClaimsNotReady, match='claim ns/data was bound to volume "other"'):
                await ClaimBinder(cluster, clock, world).prepare(world.tasks["ns/p"], chosen, "n")
            assert (await cluster.get(PersistentVolume, "v")).spec.claim_ref is None

    virtually(story)


def test_device_is_allocated_and_reserved_before_the_bind() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, scheduler):
            slice_ = devices.slice_("n", devices.device("d"))
            await stored(cluster, devices.class_(), slice_, devices.claim())
            await create(cluster, worlds.node("n"), worlds.group("g", 1), devices.pod(), devices.pod("q"))
            await clock.sleep(3)
            claim = await cluster.get(ResourceClaim, "c", "ns")
            assert await nodes_of(cluster) == {"p": "n", "q": "n"}
            assert claim.status.allocation is not None
            assert [r.device for r in claim.status.allocation.devices.results] == ["d"]
            assert sorted(c.name for c in claim.status.reserved_for) == ["p", "q"]
            assert claim.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
            assert len(scheduler.world.devices.in_use()) == 1

    virtually(story)


def test_pod_is_taken_off_its_claim_when_the_bind_fails() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await stored(cluster, devices.class_(), devices.slice_("n", devices.device("d")), devices.claim())
            cluster.failing = 5
            await create(cluster, worlds.node("n"), worlds.group("g", 1), devices.pod())
            await clock.sleep(30)
            claim = await cluster.get(ResourceClaim, "c", "ns")
            assert (await nodes_of(cluster))["p"] == "n"  # in the end
            assert [c.name for c in claim.status.reserved_for] == ["p"]

    virtually(story)
