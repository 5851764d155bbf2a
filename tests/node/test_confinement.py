"""Files the node handles on behalf of pods: whatever a pod writes, asks for or links to, nothing outside is reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from strato.node.sandbox.cleanup import teardown
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

ROOT = pytest.param({"own_network": False}, id="root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"))
USER = pytest.param({"isolation": "user"}, id="user")
PLAIN = pytest.param({"isolation": "plain"}, id="plain")
every_level = pytest.mark.parametrize("level", [ROOT, USER, PLAIN])
with_mounts = pytest.mark.parametrize("level", [ROOT, USER])


def container(name: str, script: str, *mounts: dict[str, Any], **more: Any) -> dict[str, Any]:
    command = ["sh", "-c", script]
    return {"name": name, "image": "strato/host", "command": command, "volumeMounts": list(mounts), **more}


def waiting(world: World, name: str) -> dict[str, Any]:
    status = world.api.objects[f"/api/v1/namespaces/default/pods/{name}"].get("status", {})
    statuses = status.get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0].get("state", {}).get("waiting", {})
    return found


async def refused(world: World, name: str) -> str:
    """Return why a container waits with an error in its configuration."""
    await until(lambda: waiting(world, name).get("reason") == "CreateContainerConfigError")
    return str(waiting(world, name)["message"])


def ended(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = status["containerStatuses"][0]["state"]["terminated"]
    return found


@with_mounts
@pytest.mark.parametrize("up", ["", "../../../../../../../.."], ids=["absolute", "relative"])
async def test_a_link_that_an_init_container_made_does_not_lead_a_subpath_out(
    tmp_path: Path, level: dict[str, Any], up: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        world.api.create_pod(
            "p",
            "here",
            initContainers=[container("plant", f"ln -s {up}{outside} /v/link", {"name": "v", "mountPath": "/v"})],
            containers=[
                container("main", "touch /into/file", {"name": "v", "mountPath": "/into", "subPath": "link/new"})
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        assert "leads out of the volume" in await refused(world, "p")
        assert list(outside.iterdir()) == []
    teardown(tmp_path / "node")


@every_level
async def test_links_in_a_volume_of_the_machine_do_not_lead_a_subpath_out(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    volume.mkdir()
    (volume / "link").symlink_to(outside)
    (volume / "up").symlink_to("../outside")
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        for name, path in (("p", "link/new"), ("q", "up"), ("r", "up/deep/er")):
            mount = {"name": "v", "mountPath": "/into", "subPath": path}
            world.api.create_pod(
                name,
                "here",
                containers=[container("main", "true", mount)],
                volumes=[{"name": "v", "hostPath": {"path": str(volume)}}],
            )
            assert "leads out of the volume" in await refused(world, name)
        assert list(outside.iterdir()) == []
    teardown(tmp_path / "node")


@with_mounts
async def test_links_inside_a_volume_are_followed_and_missing_directories_are_the_volumes_kind(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        v = {"name": "v", "mountPath": "/v"}
        sub = {"name": "v", "mountPath": "/sub", "subPathExpr": "near/$(WHO)/x"}
        env = [{"name": "WHO", "value": "me"}]
        world.api.create_pod(
            "p",
            "here",
            initContainers=[container("plant", "mkdir -p /v/a && ln -s a /v/near", v)],
            containers=[container("main", "echo y > /sub/f; cat /v/a/me/x/f; stat -c %a /v/a/me/x", v, sub, env=env)],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        assert ended(await world.finished("p"))["exitCode"] == 0
        assert await world.log("p") == "y\n777\n"
    teardown(tmp_path / "node")


@every_level
@pytest.mark.parametrize(("value", "said"), [("..", "must not contain '..'"), ("/etc", "must not be an absolute path")])
async def test_a_variable_does_not_lead_a_subpath_out(
    tmp_path: Path, level: dict[str, Any], value: str, said: str
) -> None:
    """Only the node knows what becomes of a subPathExpr."""
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        mount = {"name": "v", "mountPath": "/sub", "subPathExpr": "$(WHO)"}
        world.api.create_pod(
            "p",
            "here",
            containers=[container("main", "true", mount, env=[{"name": "WHO", "value": value}])],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        assert said in await refused(world, "p")
    teardown(tmp_path / "node")


@with_mounts
async def test_a_working_directory_behind_a_descriptor_of_the_node_is_refused(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    """The process that becomes the container has directories of the machine open until then."""
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        for number in range(3, 16):
            world.sh(f"p{number}", "pwd; ls", container={"workingDir": f"/proc/self/fd/{number}"})
        for number in range(3, 16):
            status = await world.finished(f"p{number}")
            assert ended(status)["reason"] == "StartError"
    teardown(tmp_path / "node")


def image_of(world: World, tmp_path: Path, links: dict[str, str]) -> list[dict[str, Any]]:
    """Import an image of this machine's programs, with links; return the volumes its containers need."""
    root = tmp_path / "image"
    shared = [name for name in ("bin", "lib", "lib64", "usr") if os.path.isdir(f"/{name}")]
    for name in shared:
        (root / name).mkdir(parents=True)
    for name, target in links.items():
        (root / name).symlink_to(target)
    world.node.images.import_image("linked:1", root)
    return [{"name": name, "hostPath": {"path": f"/{name}"}} for name in shared]


@with_mounts
async def test_mount_points_in_an_image_do_not_lead_out_through_its_links(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        volumes = image_of(world, tmp_path, {"etc": str(outside), "var": f"../../../../../..{outside}"})
        mounts = [{"name": v["name"], "mountPath": v["hostPath"]["path"], "readOnly": True} for v in volumes]
        mounts.append({"name": "e", "mountPath": "/var/made/deep"})
        main = container("main", "cat /etc/hostname; pwd; ls -d /var/made/deep", *mounts)
        main |= {"image": "linked:1", "workingDir": "/var/work"}
        world.api.create_pod("p", "here", containers=[main], volumes=[*volumes, {"name": "e", "emptyDir": {}}])
        status = await world.finished("p")
        assert (await world.log("p"), ended(status)["exitCode"]) == (f"p\n{outside}/work\n/var/made/deep\n", 0)
        assert list(outside.iterdir()) == []
    teardown(tmp_path / "node")


@with_mounts
async def test_an_image_whose_system_directories_are_links_is_refused(tmp_path: Path, level: dict[str, Any]) -> None:
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        image_of(world, tmp_path, {"dev": "/tmp"})
        world.api.create_pod("p", "here", containers=[container("main", "true", image="linked:1")])
        assert "/dev is a link; it must be a directory" in ended(await world.finished("p"))["message"]
    teardown(tmp_path / "node")
