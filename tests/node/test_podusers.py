"""User namespaces of pods: who has one by default, what still works in it, and what keeps the machine's users."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.node.sandbox import linux
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.podusers import UserBlocks, needs_host_users
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until
from tests.node.test_confinement import said

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
MAP = "tr -s ' ' < /proc/self/uid_map"
MACHINES = " 0 0 4294967295"
LOW = {"securityContext": {"runAsUser": 1000, "runAsGroup": 1000}}


def with_capability(name: str) -> dict[str, Any]:
    return {"securityContext": {"capabilities": {"add": [name]}}}


NEEDS = [
    pytest.param({}, {}, "", id="nothing"),
    pytest.param({"hostUsers": False}, {}, "", id="its own"),
    pytest.param({"hostUsers": True}, {}, "hostUsers", id="the machine's"),
    pytest.param({"hostNetwork": True}, {}, "hostNetwork", id="network"),
    pytest.param({"hostPID": True}, {}, "hostPID", id="processes"),
    pytest.param({"hostIPC": True}, {}, "hostIPC", id="IPC"),
    pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/srv"}}]}, {}, "hostPath", id="a path"),
    pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, {}, "", id="an emptyDir"),
    pytest.param({"securityContext": {"fsGroup": 65535}}, {}, "", id="the last group of a block"),
    pytest.param({"securityContext": {"fsGroup": 65536}}, {}, "user or group 65536", id="a group beyond"),
    pytest.param({"securityContext": {"runAsUser": 70000}}, {}, "user or group 70000", id="a user beyond"),
    pytest.param({}, {"securityContext": {"runAsUser": 70000}}, "user or group 70000", id="a container's beyond"),
    pytest.param({}, {"securityContext": {"privileged": True}}, "privileged", id="privileged"),
    pytest.param({}, with_capability("NET_ADMIN"), "", id="a capability over the pod's own network"),
    pytest.param({}, with_capability("CAP_SYS_TIME"), "capability CAP_SYS_TIME", id="a capability over the machine"),
    pytest.param({}, with_capability("ALL"), "capability ALL", id="all capabilities"),
    pytest.param({}, {"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "devices", id="a GPU"),
]


@pytest.mark.parametrize(("spec", "container", "want"), NEEDS)
def test_what_a_pod_asks_for_decides_whose_users_it_has(
    spec: dict[str, Any], container: dict[str, Any], want: str
) -> None:
    body = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", **container}], **spec}}
    assert needs_host_users(msgspec.convert(body, Pod)) == want


def test_no_block_is_given_twice_and_one_that_was_given_back_comes_last(tmp_path: Path) -> None:
    for uid in "abc":
        (tmp_path / uid).mkdir()
    blocks = UserBlocks(str(tmp_path))
    first, second = blocks.give("a"), blocks.give("b")
    assert (blocks.give("a"), second) == (first, first + 65536)
    blocks.release("a")
    assert blocks.given("a") == 0
    assert blocks.give("c") == second + 65536
    later = UserBlocks(str(tmp_path))
    later.keep(["a", "b", "c", "gone"])
    assert [later.given(uid) for uid in "abc"] == [0, second, second + 65536]
    assert later.give("a") == first


def test_blocks_are_taken_again_when_all_have_been_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strato.node.sandbox.podusers._COUNT", 2)
    for uid in "abc":
        (tmp_path / uid).mkdir()
    blocks = UserBlocks(str(tmp_path))
    first, _ = blocks.give("a"), blocks.give("b")
    blocks.release("a")
    assert blocks.give("c") == first


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path / "node", FakeApi()) as found:
        yield found
    teardown(tmp_path / "node")


def is_own(line: str) -> bool:
    inside, outside, count = line.split()
    return (inside, count) == ("0", "65536") and int(outside) >= 1 << 29


@as_root
async def test_a_root_pod_is_not_root_of_the_machine_unless_it_asks_for_that(world: World) -> None:
    assert world.node.summary().own_users
    world.sh("plain", MAP)
    world.sh("asks", MAP, hostUsers=True)
    world.sh("path", MAP, volumes=[{"name": "v", "hostPath": {"path": "/srv"}}])
    await world.finished("plain")
    await world.finished("asks")
    await world.finished("path")
    assert is_own(await world.log("plain"))
    assert await world.log("asks") == await world.log("path") == MACHINES + "\n"


@as_root
@pytest.mark.parametrize("options", [{"own_users": False}, {"network": PodNetwork.HOST}])
async def test_the_operator_can_keep_the_machines_users(tmp_path: Path, options: dict[str, bool]) -> None:
    async with running(tmp_path / "node", FakeApi(), **options) as world:
        assert not world.node.summary().own_users
        world.sh("p", MAP)
        world.sh("own", MAP, hostUsers=False)
        await world.finished("p")
        await world.finished("own")
        assert await world.log("p") == MACHINES + "\n"
        assert is_own(await world.log("own"))
    teardown(tmp_path / "node")


@as_root
async def test_a_kernel_without_idmapped_mounts_is_told_of_and_pods_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's directory on a file system that has none, as an older kernel's all are."""
    place = tmp_path / "ramfs"
    place.mkdir()
    linux.mount("none", str(place), "ramfs")
    try:
        async with running(place / "node", FakeApi()) as world:
            (warning,) = (text for text in world.node.summary().warnings if "root of this machine" in text)
            assert "has no idmapped mounts" in warning
            assert await said(world, MAP, volumes=[{"name": "v", "emptyDir": {}}]) == [MACHINES]
        teardown(place / "node")
    finally:
        linux.unmount(str(place))


@as_root
async def test_what_package_managers_and_shells_do_works(world: World) -> None:
    """Owners of all kinds, set-group-id directories, the root directory."""
    script = (
        "cd /tmp && touch f && chown 100:65534 f && stat -c %u:%g f && mkdir d && chgrp 50 d && chmod 2775 d &&"
        "touch d/x && stat -c %g d/x && stat -c %u:%g / /dev"
    )
    assert await said(world, script) == ["100:65534", "50", "0:0", "0:0"]


@as_root
@pytest.mark.parametrize("users", [True, False])
async def test_a_user_can_open_its_own_output_by_name(tmp_path: Path, users: bool) -> None:
    async with running(tmp_path / "node", FakeApi(), own_users=users) as world:
        lines = await said(world, "echo out > /dev/stdout; echo err > /proc/self/fd/2", LOW)
        assert sorted(lines) == ["err", "out"]
    teardown(tmp_path / "node")


@as_root
async def test_volumes_belong_to_the_pods_own_users(world: World) -> None:
    """Also where one is mounted below another, at directories that are missing there, and in its working directory."""
    world.api.put(
        "/api/v1/namespaces/default/configmaps/cm",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"key": "value"}},
    )
    volumes: list[dict[str, Any]] = [
        {"name": "dir", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "map", "configMap": {"name": "cm", "defaultMode": 0o400}},
        {"name": "info", "projected": {"sources": [{"configMap": {"name": "cm"}}]}},
    ]
    mounts = [
        {"name": "dir", "mountPath": "/deep"},
        {"name": "memory", "mountPath": "/deep/memory/below"},
        {"name": "map", "mountPath": "/deep/map"},
        {"name": "info", "mountPath": "/etc/info"},
        {"name": "dir", "mountPath": "/part", "subPath": "a/b"},
    ]
    script = (
        f"{MAP}; id -u; id -G; pwd; cat /deep/map/key /etc/info/key; echo; for d in /deep /deep/memory/below /part ."
        "; do touch $d/new && stat -c %u:%g $d/new; done; stat -c %u /deep/memory /deep/work"
    )
    lines = await said(
        world,
        script,
        {"volumeMounts": mounts, "workingDir": "/deep/work"},
        volumes=volumes,
        securityContext={"fsGroup": 2000, "supplementalGroups": [3000]},
    )
    assert is_own(lines[0])
    assert lines[1:5] == ["0", "0 2000 3000", "/deep/work", "valuevalue"]
    assert lines[5:] == ["0:2000", "0:2000", "0:2000", "0:2000", "0", "0"]


@as_root
async def test_safe_sysctls_are_set_in_namespaces_of_the_pods_users(world: World) -> None:
    wanted = {
        "kernel.shm_rmid_forced": "1",
        "net.ipv4.ip_local_port_range": "40000 50000",
        "net.ipv4.ip_unprivileged_port_start": "80",
        "net.ipv4.ping_group_range": "0 65535",
        "net.ipv4.tcp_fin_timeout": "33",
        "net.ipv4.tcp_syncookies": "0",
    }
    paths = " ".join("/proc/sys/" + name.replace(".", "/") for name in wanted)
    sysctls = [{"name": name, "value": value} for name, value in wanted.items()]
    lines = await said(world, f"{MAP}; cat {paths} | tr '\\t' ' '", securityContext={"sysctls": sysctls})
    assert is_own(lines[0])
    assert lines[1:] == list(wanted.values())


def claim(world: World, path: Path) -> list[dict[str, Any]]:
    spec = {"capacity": {"storage": "1Gi"}, "local": {"path": str(path)}}
    world.api.put(
        "/api/v1/persistentvolumes/pv",
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec},
    )
    world.api.put(
        "/api/v1/namespaces/default/persistentvolumeclaims/data",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"volumeName": "pv"},
        },
    )
    return [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.fixture
def unmappable(tmp_path: Path) -> Iterator[Path]:
    """Return a directory on a file system without idmapped mounts."""
    path = tmp_path / "unmappable"
    path.mkdir()
    linux.mount("none", str(path), "ramfs")
    yield path
    linux.unmount(str(path))


MOUNTED = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


@as_root
async def test_a_claimed_volume_is_shown_in_the_pods_ids(world: World, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    lines = await said(world, f"{MAP}; touch /v/new; stat -c %u /v /v/new", MOUNTED, volumes=claim(world, path))
    assert is_own(lines[0])
    assert lines[1:] == ["0", "0"]
    assert (path / "new").stat().st_uid == 0


@as_root
async def test_a_claimed_volume_that_cannot_be_shown_so_keeps_the_machines_users(
    world: World, unmappable: Path
) -> None:
    assert await said(world, f"{MAP}; touch /v/new", MOUNTED, volumes=claim(world, unmappable)) == [MACHINES]
    assert (unmappable / "new").exists()


@as_root
async def test_a_pod_that_insists_on_its_own_users_is_told_which_volume_forbids_them(
    world: World, unmappable: Path
) -> None:
    world.sh("p", "true", container=MOUNTED, volumes=claim(world, unmappable), hostUsers=False)
    status = await world.finished("p")
    message = status["containerStatuses"][0]["state"]["terminated"]["message"]
    assert "/v cannot be shown in the ids of the pod's user namespace" in message


@as_root
async def test_a_pod_keeps_its_users_when_the_node_comes_back(tmp_path: Path) -> None:
    """Whatever that node gives new pods; a container that starts again is in the namespaces of the first one."""
    api = FakeApi()
    script = f"{MAP} >> /v/maps; id -u >> /v/maps; until [ -e /v/go ]; do sleep 0.05; done; rm /v/go; exit 1"
    async with running(tmp_path / "node", api) as world:
        world.sh("p", script, container=MOUNTED, volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="Always")
        await until(lambda: api.phase("p") == "Running")
        uid = api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
        volume = Path(world.node._machine.node_paths.pod(uid).volume("v"))
        await until(lambda: (volume / "maps").exists() and len((volume / "maps").read_text().splitlines()) == 2)
    async with running(tmp_path / "node", api, own_users=False) as world:
        (volume / "go").touch()
        await until(lambda: len((volume / "maps").read_text().splitlines()) == 4)
        lines = (volume / "maps").read_text().splitlines()
        await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=1)
        await until(lambda: api.phase("p") == "gone")
    teardown(tmp_path / "node")
    assert is_own(lines[0])
    assert lines[:2] == lines[2:]
