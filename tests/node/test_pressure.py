"""A machine that runs short: conditions of the node, pods that are turned away, and a small disk that really fills."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api.core import NodeCondition, Pod
from strato.node.registration import NodeFacts, node_conditions
from strato.node.sandbox import linux
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.pressure import (
    DISK,
    MEMORY,
    PIDS,
    PressureConditions,
    Signals,
    measure_machine,
    pressures,
    rejection,
)
from strato.node.sandbox.settings import PodNetwork
from strato.node.sandbox.storage import PodsFileSystem
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

GI, MI = 1 << 30, 1 << 20
ROOMY = PodsFileSystem(100 * GI, 50 * GI, inodes=1000, free_inodes=500)
PLENTY = {"disk": ROOMY, "memory_bytes": 8 * GI, "pids": 30_000, "most_pids": 32_768}

LEFT = [
    pytest.param({}, set(), id="plenty"),
    pytest.param({"memory_bytes": 100 * MI}, set(), id="memory at the threshold"),
    pytest.param({"memory_bytes": 100 * MI - 1}, {MEMORY}, id="little memory"),
    pytest.param({"disk": PodsFileSystem(100 * GI, GI)}, set(), id="a disk at the threshold that counts no inodes"),
    pytest.param({"disk": PodsFileSystem(100 * GI, GI - 1)}, {DISK}, id="a low disk"),
    pytest.param({"disk": PodsFileSystem(MI, MI // 20)}, {DISK}, id="a small disk below a tenth"),
    pytest.param({"disk": PodsFileSystem(100 * GI, 50 * GI, 1000, 49)}, {DISK}, id="few inodes"),
    pytest.param({"pids": 1638, "memory_bytes": 0}, {MEMORY, PIDS}, id="few processes and no memory"),
]


@pytest.mark.parametrize(("left", "want"), LEFT)
def test_what_is_left_decides_the_conditions(left: dict[str, Any], want: set[str]) -> None:
    assert pressures(Signals(**(PLENTY | left))) == want


def test_a_condition_comes_at_once_and_goes_after_a_while() -> None:
    seen = PressureConditions(300.0)
    steps = [(0.0, set(), set()), (10.0, {DISK}, {DISK}), (20.0, {MEMORY}, {DISK, MEMORY})]
    steps += [(309.9, set(), {DISK, MEMORY}), (310.0, set(), {MEMORY}), (315.0, {MEMORY}, {MEMORY})]
    steps += [(614.9, set(), {MEMORY}), (615.0, set(), set())]
    for now, found, want in steps:
        assert seen.observe(frozenset(found), now) == want, now


def pod(priority: int = 0, requests: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    body = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container], "priority": priority, **spec}}
    return msgspec.convert(body, Pod)


TAINT = "node.kubernetes.io/memory-pressure"
SHORT = "The node had condition: [MemoryPressure]. "
BEARS = [{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}]
REJECTIONS = [
    pytest.param(pod(), set(), "", id="nothing"),
    pytest.param(pod(), {DISK}, "The node had condition: [DiskPressure]. ", id="disk"),
    pytest.param(
        pod(requests={"cpu": "1"}), {DISK}, "The node had condition: [DiskPressure]. ", id="disk, with requests"
    ),
    pytest.param(pod(2_000_000_000), {DISK, MEMORY}, "", id="a critical pod"),
    pytest.param(pod(), {MEMORY}, "The node had condition: [MemoryPressure]. ", id="memory"),
    pytest.param(pod(requests={"cpu": "1"}), {MEMORY}, "", id="memory, with requests"),
    pytest.param(pod(tolerations=BEARS), {MEMORY}, "", id="memory, tolerated"),
    *(
        pytest.param(pod(tolerations=[toleration]), {MEMORY}, message, id=f"memory, tolerated by {toleration}")
        for toleration, message in (
            ({"operator": "Exists"}, ""),
            ({"key": TAINT, "operator": "Exists"}, ""),
            ({"key": TAINT}, ""),
            ({"key": TAINT, "value": "other"}, SHORT),
            ({"key": TAINT, "operator": "Exists", "effect": "NoExecute"}, SHORT),
            ({"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"}, SHORT),
        )
    ),
    pytest.param(
        pod(tolerations=BEARS), {MEMORY, DISK}, "The node had condition: [DiskPressure MemoryPressure]. ", id="both"
    ),
]


@pytest.mark.parametrize(("one", "conditions", "message"), REJECTIONS)
def test_a_node_that_runs_short_turns_new_pods_away_as_a_kubelet_does(
    one: Pod, conditions: set[str], message: str
) -> None:
    found = rejection(one, frozenset(conditions))
    assert (found.message if found is not None else "") == message
    assert found is None or found.reason == "Evicted"


def test_the_machine_is_measured(tmp_path: Path) -> None:
    """Against what the kernel says of it in other words."""
    found = measure_machine(str(tmp_path))
    assert 0 < found.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < found.pids < found.most_pids <= 1 << 22
    assert found.disk.size_bytes >= found.disk.free_bytes > 0
    assert found.disk.inodes == os.statvfs(tmp_path).f_files


def test_the_signals_come_from_the_kernels_files(tmp_path: Path) -> None:
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "pid_max").write_text("4194304\n")
    (tmp_path / "sys" / "kernel" / "threads-max").write_text("1000\n")
    (tmp_path / "loadavg").write_text("0.10 0.20 0.30 2/970 12345\n")
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\n")
    found = measure_machine("/", str(tmp_path))
    assert (found.memory_bytes, found.pids, found.most_pids) == (300 << 10, 30, 1000)
    assert pressures(found) >= {MEMORY, PIDS}


def test_a_condition_that_stays_keeps_the_time_of_its_change() -> None:
    facts = NodeFacts(name="n", address="", capacity={}, pressures=frozenset({DISK}))
    old = "2020-01-01T00:00:00Z"
    known = [
        NodeCondition(type="Ready", status="True", last_transition_time=old),
        NodeCondition(type=DISK, status="False", last_transition_time=old),
    ]
    by_type = {condition["type"]: condition for condition in node_conditions(facts, 1.6e9, known)}
    assert by_type["Ready"]["lastTransitionTime"] == old
    disk = by_type[DISK]
    assert (disk["status"], disk["reason"]) == ("True", "KubeletHasDiskPressure")
    assert disk["lastTransitionTime"] == disk["lastHeartbeatTime"] != old
    assert by_type[MEMORY]["status"] == by_type[PIDS]["status"] == "False"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 64 MiB; no container outlives the test, also if that fails."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path = tmp_path / "disk"
    path.mkdir()
    linux.mount("disk", str(path), "tmpfs", 0, "size=64m")
    yield path
    teardown(path / "node")
    linux.unmount(str(path))


def status(world: World, kind: str) -> str:
    conditions = world.api.objects["/api/v1/nodes/here"]["status"]["conditions"]
    return str(next(condition["status"] for condition in conditions if condition["type"] == kind))


WRITES = {
    "volumes": [{"name": "v", "emptyDir": {}}],
    "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    "restartPolicy": "Never",
}


async def test_a_disk_that_fills_is_reported_and_the_pod_that_fills_it_goes(disk: Path) -> None:
    """What it wrote goes with it: nobody else has to, and the condition ends."""
    async with running(
        disk / "node", FakeApi(), network=PodNetwork.HOST, storage_seconds=0.1, pressure_seconds=1.0
    ) as world:
        assert status(world, DISK) == status(world, MEMORY) == status(world, PIDS) == "False"
        world.sh("modest", "head -c 500000 /dev/zero > /v/x; sleep 1000", **WRITES)
        await until(lambda: world.api.phase("modest") == "Running")
        world.sh("greedy", "head -c 62000000 /dev/zero > /v/x; sleep 1000", **WRITES)
        await until(lambda: status(world, DISK) == "True")
        assert (await world.finished("greedy"))["reason"] == "Evicted"
        await until(lambda: status(world, DISK) == "False")
        assert world.api.phase("modest") == "Running"
        reasons = [reason for reason, _ in await world.events()]
        assert reasons.count("Evicted") == 1
        assert {"NodeHasDiskPressure", "NodeHasNoDiskPressure"} <= set(reasons)


async def test_a_node_on_a_full_disk_says_so_from_its_start_and_turns_pods_away(disk: Path) -> None:
    (disk / "full").write_bytes(b"x" * 60 * MI)
    async with running(disk / "node", FakeApi(), network=PodNetwork.HOST, storage_seconds=0.1) as world:
        assert status(world, DISK) == "True"
        world.sh("late", "true")
        found = await world.finished("late")
        assert (found["phase"], found["reason"]) == ("Failed", "Evicted")
        assert found["message"] == "Pod was rejected: The node had condition: [DiskPressure]. "
        world.sh("critical", "head -c 100000 /dev/zero > /tmp/x; sleep 1", priority=2_000_000_000)
        assert (await world.finished("critical"))["phase"] == "Succeeded"
