"""Limits on what pods write: emptyDir volumes, container roots, logs, and a disk that is nearly full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.node.removal import remove_tree
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.paths import PodPaths
from strato.node.sandbox.settings import PodNetwork
from strato.node.sandbox.storage import ENDLESS, PodsFileSystem, PodUsage, evictions, measure
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import running, until

MI = 1 << 20
ROOMY = PodsFileSystem(size_bytes=100 << 30, free_bytes=50 << 30)
FULL = PodsFileSystem(size_bytes=100 << 30, free_bytes=100 * MI)


def pod(uid: str = "u", *, request: str = "", limit: str = "", size_limit: str = "", medium: str = "") -> Pod:
    resources: dict[str, Any] = {}
    if request:
        resources["requests"] = {"ephemeral-storage": request}
    if limit:
        resources["limits"] = {"ephemeral-storage": limit}
    empty_dir = {**({"sizeLimit": size_limit} if size_limit else {}), **({"medium": medium} if medium else {})}
    return msgspec.convert(
        {
            "metadata": {"name": uid, "namespace": "d", "uid": uid},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": resources}],
                "volumes": [{"name": "v", "emptyDir": empty_dir}],
            },
        },
        Pod,
    )


LIMITS = [
    pytest.param(pod(), 900 * MI, 900 * MI, "", id="no limit"),
    pytest.param(pod(size_limit="1Mi"), 0, MI, "", id="a volume at its limit"),
    pytest.param(
        pod(size_limit="1Mi"),
        0,
        MI + 1,
        'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        id="a volume over its limit",
    ),
    pytest.param(
        pod(size_limit="1Mi", medium="Memory"),
        0,
        2 * MI,
        'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        id="a volume in memory over its limit",
    ),
    pytest.param(
        pod(limit="2Mi"),
        3 * MI,
        0,
        'Container c exceeded its local ephemeral storage limit "2Mi". ',
        id="a container over its limit",
    ),
    pytest.param(
        pod(limit="2Mi"),
        MI,
        2 * MI,
        f"Pod ephemeral local storage usage exceeds the total limit of containers {2 * MI}. ",
        id="containers and volumes together",
    ),
    pytest.param(pod(limit="2Mi", medium="Memory"), MI, 2 * MI, "", id="memory is not on the disk"),
]


@pytest.mark.parametrize(("one", "written", "in_volume", "message"), LIMITS)
def test_a_pod_over_a_limit_of_its_own_goes(one: Pod, written: int, in_volume: int, message: str) -> None:
    found = evictions([PodUsage(one, {"c": written}, {"v": in_volume})], ROOMY)
    assert [eviction.message for eviction in found] == ([message] if message else [])


def test_of_a_disk_that_is_low_the_pod_goes_that_uses_most_beyond_its_request() -> None:
    usages = [
        PodUsage(pod("modest"), {"c": 10 * MI}, {}),
        PodUsage(pod("entitled", request="500Mi"), {"c": 400 * MI}, {}),
        PodUsage(pod("greedy"), {"c": 300 * MI}, {"v": 5 * MI}),
    ]
    assert evictions(usages, ROOMY) == []
    (found,) = evictions(usages, FULL)
    assert found.uid == "greedy"
    assert found.message.startswith("The node was low on resource: ephemeral-storage. Threshold quantity: 1073741824")
    assert "Container c was using 307200Ki, request is 0, has larger consumption" in found.message


def test_a_low_disk_waits_for_the_room_that_a_leaving_pod_makes() -> None:
    usages = [PodUsage(pod("greedy"), {"c": 300 * MI}, {}), PodUsage(pod("over", limit="1Mi"), {"c": 2 * MI}, {})]
    assert evictions(usages[:1], FULL, is_freeing=True) == []
    assert [found.uid for found in evictions(usages, FULL, is_freeing=True)] == ["over"]


def test_a_disk_that_others_filled_costs_no_pod_that_uses_nothing() -> None:
    assert evictions([PodUsage(pod(), {"c": 0}, {"v": 0})], FULL) == []
    assert evictions([], FULL) == []


def test_nothing_outside_the_pod_is_counted_and_a_file_with_two_names_once(tmp_path: Path) -> None:
    place = PodPaths(str(tmp_path / "pod"))
    volume = Path(place.volume("v"))
    volume.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 8 * MI)
    (volume / "link").symlink_to(outside)
    (volume / "file").write_bytes(b"x" * MI)
    os.link(volume / "file", volume / "again")
    (volume / "sparse").touch()
    os.truncate(volume / "sparse", 1 << 40)
    used = measure(pod(), place, str(tmp_path / "memory")).volumes["v"]
    assert MI <= used < MI + 65536


def test_what_lies_deeper_than_any_path_can_say_is_counted(tmp_path: Path) -> None:
    place = PodPaths(str(tmp_path / "pod"))
    volume = Path(place.volume("v"))
    volume.mkdir(parents=True)
    directory = os.open(volume, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 200, dir_fd=directory)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=directory)
    os.write(file, b"x" * MI)
    os.close(file)
    os.close(directory)
    assert measure(pod(), place, "/nowhere").volumes["v"] >= MI
    remove_tree(str(volume))


def test_a_tree_that_would_hold_a_descriptor_a_level_counts_as_endless(tmp_path: Path) -> None:
    """Whichever of two siblings is entered first, the other one waits: both go down."""
    place = PodPaths(str(tmp_path / "pod"))
    volume = Path(place.volume("v"))
    (volume / "0").mkdir(parents=True)
    path = volume
    for _ in range(2 * 300):
        (path / "0").mkdir(exist_ok=True)
        (path / "1").mkdir()
        path /= "0"
    for names in ("0", "1"):
        path = volume
        for _ in range(300):
            (path / "0").mkdir(exist_ok=True)
            (path / "1").mkdir(exist_ok=True)
            path /= names
    (used,) = measure(pod(), place, "/nowhere").volumes.values()
    assert used == ENDLESS
    remove_tree(place.home)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Return a node's directory; no container outlives the test, also if that fails."""
    yield tmp_path / "node"
    teardown(tmp_path / "node")


@pytest.mark.parametrize("isolation", ["root", "user"])
@pytest.mark.parametrize("where", ["volume", "root", "log"])
async def test_a_pod_that_fills_the_disk_is_evicted(data_dir: Path, isolation: str, where: str) -> None:
    if isolation == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    target = {"volume": "/data/x", "root": "/tmp/x", "log": "/dev/stdout"}[where]
    limit = {"emptyDir": {"sizeLimit": "4Mi"}} if where == "volume" else {"emptyDir": {}}
    resources = {} if where == "volume" else {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
    async with running(data_dir, FakeApi(), level=isolation, network=PodNetwork.HOST, storage_seconds=0.05) as world:
        world.sh("neighbour", "sleep 1000", restartPolicy="Never")
        world.sh(
            "p",
            f"yes fill the disk | head -c 8000000 > {target}; sleep 1000",
            volumes=[{"name": "v", **limit}],
            container={"volumeMounts": [{"name": "v", "mountPath": "/data"}], **resources},
            restartPolicy="Never",
        )
        status = await world.finished("p")
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert "exceed" in status["message"]
        assert ("Evicted", status["message"]) in await world.events()
        await until(lambda: world.api.phase("neighbour") == "Running")
        await world.api.cluster().delete(catalog.POD, "neighbour", "default", grace_period_seconds=1)
        await until(lambda: world.api.phase("neighbour") == "gone")  # its container would outlive the node
