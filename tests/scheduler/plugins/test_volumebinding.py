"""Volumes that have to be made: where a driver has the room."""

from __future__ import annotations

import pytest

from strato.scheduler.plugins.volumebinding import NO_SPACE
from tests.scheduler import worlds
from tests.scheduler.claims import test_volumes as volumes


@pytest.mark.parametrize(
    ("capacity", "refused"),
    [
        pytest.param("5Gi", False, id="enough"),
        pytest.param("plenty", True, id="no quantity"),
    ],
)
def test_a_driver_has_the_room_that_it_reports(capacity: str, refused: bool) -> None:
    report = {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "r", "namespace": "ns"},
        "storageClassName": "late",
        "nodeTopology": {},
        "capacity": capacity,
    }
    driver = {"kind": "CSIDriver", "metadata": {"name": "csi.x"}, "spec": {"storageCapacity": True}}
    made = volumes.storage(provisioner="csi.x"), driver, report, volumes.claim(), volumes.pod()
    _, plan = volumes.decided(worlds.node("n"), *made)
    assert [NO_SPACE.text in found.message for found in plan.pods] == ([True] if refused else [])
