"""Operations on resources: what each takes and makes, and Mesos' words for what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from strato.interop.mesos.master.conversions import Disks, converted
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resources import Resources
from tests.interop.mesos.worlds import World, task

RESERVED = {"reservations": [{"type": "DYNAMIC", "role": "r", "principal": "p"}]}
PROVIDED = {"provider_id": {"value": "rp"}}


def disk(size: float, **fields: Any) -> dict[str, Any]:
    return {"name": "disk", "type": "SCALAR", "scalar": {"value": size}, **fields}


def volume(size: float = 100, **fields: Any) -> dict[str, Any]:
    info = {"persistence": {"id": "v"}, "volume": {"container_path": "data", "mode": "RW"}}
    return disk(size, **{**RESERVED, "disk": info, **fields})


def on(source: dict[str, Any], **volume_fields: Any) -> dict[str, Any]:
    """Return the DiskInfo of a volume on a disk of some source."""
    return {**volume(**volume_fields)["disk"], "source": source}


PATH = {"type": "PATH", "path": {"root": "/disks/1"}}
SHARED_VOLUME = volume(shared={})


def _has(*items: dict[str, Any]) -> Resources:
    return from_json(items)


OUTCOMES = [
    ("a volume grows by a reserved disk",
     {"type": "GROW_VOLUME", "grow_volume": {"volume": volume(100), "addition": disk(20, **RESERVED)}},
     [volume(100), disk(50, **RESERVED)], [volume(100), disk(20, **RESERVED)], [volume(120)]),
    ("a volume on a directory grows by more of that",
     {"type": "GROW_VOLUME", "grow_volume": {
         "volume": volume(100, disk=on(PATH)), "addition": disk(20, **RESERVED, disk={"source": PATH})}},
     [volume(100, disk=on(PATH)), disk(50, **RESERVED, disk={"source": PATH})],
     [volume(100, disk=on(PATH)), disk(20, **RESERVED, disk={"source": PATH})], [volume(120, disk=on(PATH))]),
    ("what a volume shrinks by stays reserved",
     {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": volume(100), "subtract": {"value": 30.5}}},
     [volume(100)], [volume(100)], [volume(69.5), disk(30.5, **RESERVED)]),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "available", "old", "new"), [row[1:] for row in OUTCOMES],
                         ids=[row[0] for row in OUTCOMES])  # fmt: skip
def test_an_operation_makes(operation: Any, available: Any, old: Any, new: Any) -> None:
    assert converted(operation, _has(*available), None, Disks()) == (_has(*old), _has(*new))


def _grow(of: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    return {"type": "GROW_VOLUME", "grow_volume": {"volume": of, "addition": by}}


def _shrink(of: dict[str, Any], by: float) -> dict[str, Any]:
    return {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": of, "subtract": {"value": by}}}


def _create(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "CREATE", "create": {"volumes": list(volumes)}}


NO_VOLUMES = Disks(gives_volumes=False)
TAKEN = Disks(agent_id="S0", volumes=frozenset({volume_name("S0", "r", "v")}))
REFUSALS = [
    (_grow(volume(), disk(0, **RESERVED)), Disks(), "'GrowVolume.addition' field must be greater than zero"),
    (_grow(volume(), disk(1)), Disks(), "Incompatible resources in the 'GrowVolume.volume' and 'GrowVolume.addition'"),
    (_grow(disk(5, **RESERVED), disk(1)), Disks(), "'persistence' is not set in DiskInfo"),
    (_grow(volume(scalar={"value": -1}), disk(1)), Disks(), "Invalid resource in the 'GrowVolume.volume' field"),
    (_grow(SHARED_VOLUME, disk(1, **RESERVED)), Disks(), "Growing a shared persistent volume is not supported"),
    (_grow({**volume(), **PROVIDED}, disk(1)), Disks(), "Growing a volume from a resource provider is not supported"),
    (_grow(volume(), disk(1, **RESERVED)), NO_VOLUMES, "cannot be grown on an agent without RESIZE_VOLUME capability"),
    (_grow(volume(), disk(1, **RESERVED)), Disks(), "Invalid GROW_VOLUME operation: "),
    (_shrink(volume(), 0), Disks(), "Value of 'ShrinkVolume.subtract' must be greater than zero"),
    (_shrink(volume(), 1e300), Disks(), "Value of 'ShrinkVolume.subtract' 1e+300 is more than"),
    (_shrink(volume(100), 100), Disks(), "must be smaller than the size of 'ShrinkVolume.volume'"),
    (_shrink(SHARED_VOLUME, 1), Disks(), "Shrinking a shared persistent volume is not supported"),
    (_shrink(volume(disk=on({"type": "MOUNT"})), 1), Disks(), "Shrinking a volume on a MOUNT disk is not supported"),
    (_shrink(volume(), 1), NO_VOLUMES, "cannot be shrunk on an agent without RESIZE_VOLUME capability"),
    ({"type": "CREATE_DISK", "create_disk": {"source": disk(1), "target_type": "MOUNT"}}, Disks(),
     "'source' is not managed by a resource provider"),
    ({"type": "DESTROY_DISK", "destroy_disk": {"source": disk(1, **PROVIDED)}}, Disks(),
     "Resource provider rp is not known"),
    (_create(volume()), NO_VOLUMES, "pods on this agent's node see no persistent volumes"),
    (_create(volume()), TAKEN, "Persistence ID 'v' is not unique"),
    (_create(volume(), volume(5)), Disks(), "Persistence ID 'v' is not unique"),
    (_create(volume(reservations=[])), Disks(), "cannot be created from unreserved resources"),
    (_create(volume(disk={"persistence": {"id": "v"}})), Disks(), "Expecting 'volume' to be set for persistent volume"),
    (_create(volume(disk={"persistence": {"id": "v"}, "volume": {"container_path": "d", "mode": "RO"}})), Disks(),
     "Read-only persistent volume not supported"),
    ({"type": "RESERVE", "reserve": {"resources": [volume()]}}, Disks(), "must already be reserved"),
    ({"type": "UNRESERVE", "unreserve": {"resources": [volume()]}}, Disks(), "destroy it first"),
    ({"type": "DESTROY", "destroy": {"volumes": [disk(1, **RESERVED)]}}, Disks(), "Not a persistent volume"),
    ({"type": "GROW_VOLUME"}, Disks(), "'GrowVolume.addition' field"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "disks", "text"), REFUSALS, ids=[row[2] for row in REFUSALS])
def test_an_operation_is_refused(operation: Any, disks: Disks, text: str) -> None:
    outcome = converted(operation, Resources(), None, disks)
    assert isinstance(outcome, str)
    assert text in outcome


def test_a_volume_is_made_grown_used_and_destroyed() -> None:
    """What it grows by is in the next offer; a volume that a task has is in none."""
    world = World()
    world.agent("S0", "cpus:4;mem:4096;disk:1000")
    framework, listener = world.subscribe(
        roles=["r"], capabilities=[{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}], principal="p"
    )

    def accept(*operations: dict[str, Any]) -> list[str]:
        world.advance(10)
        [offer] = world.offers(listener)
        named = [{**each, "id": {"value": str(number)}} if each["type"] != "LAUNCH" else each
                 for number, each in enumerate(operations)]  # fmt: skip
        world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=named)
        events = listener.take("UPDATE_OPERATION_STATUS")
        return [event["update_operation_status"]["status"]["state"] for event in events]

    reserve = {"type": "RESERVE", "reserve": {"resources": [disk(500, **RESERVED)]}}
    assert accept(reserve, _create(volume(100)), _grow(volume(100), disk(50, **RESERVED)), _create(volume(10))) == [
        "OPERATION_FINISHED", "OPERATION_FINISHED", "OPERATION_FINISHED", "OPERATION_ERROR",
    ]  # fmt: skip
    [made] = world.state.volumes.values()
    assert (made.agent_id, made.role, made.id, made.size_mib) == ("S0", "r", "v", 150)
    destroy = {"type": "DESTROY", "destroy": {"volumes": [volume(150)]}}
    cpus = {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}}
    launch = {"type": "LAUNCH", "launch": {"task_infos": [{**task(), "resources": [cpus, volume(150)]}]}}
    assert accept(launch, destroy) == ["OPERATION_ERROR"]
    assert world.state.volumes.keys() == {made.name}
    [unit] = world.launched
    world.observe(unit, "TASK_FINISHED")
    assert accept(destroy) == ["OPERATION_FINISHED"]
    assert not world.state.volumes
    world.advance(10)
    [offer] = world.offers(listener)
    assert sorted(r["scalar"]["value"] for r in offer["resources"] if r["name"] == "disk") == [500, 500]
