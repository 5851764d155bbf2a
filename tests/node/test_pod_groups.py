"""Pods as a whole in the control groups of this machine, with real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.client.cluster import PatchType
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.podlimits import PROCESSES
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Yield a node that can write control groups; pods have the machine's network."""
    async with running(tmp_path / "node", FakeApi()) as found:
        if not found.node.summary().limits:
            pytest.skip("control groups cannot be written here")
        yield found
    teardown(tmp_path / "node")


def start(world: World, *scripts: str, **spec: Any) -> None:
    """Start a pod of containers c0, c1, … on this machine's Python."""
    containers = [
        {"name": f"c{number}", "image": "strato/host", "command": ["python", "-c", script]}
        for number, script in enumerate(scripts)
    ]
    world.api.create_pod("p", "here", containers=containers, restartPolicy="Never", **spec)


def groups(world: World, *below: str) -> dict[str, str]:
    """Return what limits a group, under the names of version 2."""
    uid = world.api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
    names = {
        "unified": {name: name for name in ("cpu.max", "memory.max", "pids.max")},
        "cpu": {"cpu.cfs_quota_us": "cpu.max"},
        "memory": {"memory.limit_in_bytes": "memory.max"},
        "pids": {"pids.max": "pids.max"},
    }
    found = {}
    for hierarchy, home in world.node._machine.cgroups._roots.items():
        for file, name in names.get(hierarchy, {}).items():
            found[name] = (Path(home) / uid / os.path.join(*below, file)).read_text().split()[0]
    return found


def want(millicores: int, mebibytes: int) -> dict[str, str]:
    return {"cpu.max": str(millicores * 100), "memory.max": str(mebibytes << 20), "pids.max": str(PROCESSES)}


async def test_a_pod_and_what_inherits_from_it_are_resized_in_place(world: World) -> None:
    start(world, "import time; time.sleep(1000)", resources={"limits": {"cpu": "500m", "memory": "64Mi"}})
    await until(lambda: world.api.phase("p") == "Running")
    assert groups(world) == groups(world, "c0") == want(500, 64)
    for cpu, memory in ((800, 96), (300, 48)):
        resources = {"limits": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
        await world.api.cluster().patch(
            catalog.POD, "p", "default", {"spec": {"resources": resources}}, patch_type=PatchType.MERGE
        )
        async with asyncio.timeout(60):
            while groups(world) != want(cpu, memory):
                await asyncio.sleep(0.01)
        assert groups(world, "c0") == want(cpu, memory)
    status = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0


async def test_containers_that_together_use_too_much_memory_are_killed_for_it(world: World) -> None:
    """Each of them alone has enough."""
    use = "import time; x = bytearray({} << 20); [time.sleep(0.05) for _ in range({})]"
    limits = {"limits": {"memory": "96Mi"}}
    start(world, use.format(60, 10**6), "import time; time.sleep(1); " + use.format(60, 10**6), resources=limits)

    def killed() -> list[dict[str, Any]]:
        status = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"]
        states = [one["state"].get("terminated") for one in status.get("containerStatuses", ())]
        return [state for state in states if state]

    await until(lambda: bool(killed()))
    assert {(one["reason"], one["exitCode"]) for one in killed()} == {("OOMKilled", 137)}
    assert len(killed()) == 1, "the other one goes on with what is left"
