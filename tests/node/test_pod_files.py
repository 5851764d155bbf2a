"""Files the node handles on behalf of pods: whatever a pod writes, asks for or links to, nothing outside is reached."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.errors import NotFound
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import GO_VOLUME, World, running, until

ROOT = pytest.param(
    {"network": PodNetwork.HOST}, id="root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
)
USER = pytest.param({"level": "user"}, id="user")
PLAIN = pytest.param({"level": "plain"}, id="plain")
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


async def warned(world: World, reason: str) -> str:
    """Return the newest message of events with a reason."""
    async with asyncio.timeout(120):
        while True:
            found = [message for why, message in await world.events() if why == reason]
            if found:
                return found[-1]
            await asyncio.sleep(0.01)


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


BAD_ITEMS = ["../../../../../../../../../..{outside}/x", "{outside}/x", "", "a/../../../../x"]


@every_level
@pytest.mark.parametrize("path", BAD_ITEMS, ids=["dots", "absolute", "empty", "dots inside"])
@pytest.mark.parametrize("kind", ["configMap", "secret", "projected", "downwardAPI"])
async def test_files_of_a_volume_are_not_written_outside(
    tmp_path: Path, level: dict[str, Any], kind: str, path: str
) -> None:
    """The API server refuses such pods; the node does not count on which server it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    items = [{"key": "k", "path": path.format(outside=outside)}]
    fields = [{"path": path.format(outside=outside), "fieldRef": {"fieldPath": "metadata.name"}}]
    source = {
        "configMap": {"name": "conf", "items": items},
        "secret": {"secretName": "sec", "items": items},
        "projected": {"sources": [{"secret": {"name": "sec", "items": items}}, {"downwardAPI": {"items": fields}}]},
        "downwardAPI": {"items": fields},
    }[kind]
    api = FakeApi()
    core = "/api/v1/namespaces/default"
    api.put(f"{core}/configmaps/conf", {"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"k": "v"}})
    api.put(f"{core}/secrets/sec", {"kind": "Secret", "metadata": {"name": "sec"}, "data": {"k": "dg=="}})
    async with running(tmp_path / "node", api, **level) as world:
        world.sh("p", "true", volumes=[{"name": "v", kind: source}])
        message = await warned(world, "FailedMount")
        assert "must be relative and stay in the volume" in message
        assert list(outside.iterdir()) == []
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["node", "outside"]
    teardown(tmp_path / "node")


@with_mounts
async def test_a_termination_message_is_what_the_container_wrote_cut_to_its_size(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        world.sh("big", "yes | head -c 100000 > /dev/termination-log")
        world.sh("sparse", "truncate -s 1T /dev/termination-log || true; echo end")
        world.sh("gone", "rm -f /dev/termination-log; ln -s /etc/passwd /dev/termination-log; mkfifo /dev/x; exit 1")
        world.sh("own", "echo mine > /tmp/note", container={"terminationMessagePath": "/tmp/note"})
        said = {}
        for name in ("big", "sparse", "gone", "own"):
            said[name] = ended(await world.finished(name)).get("message", "")
        assert said == {"big": "y\n" * 2048, "sparse": said["sparse"], "gone": "", "own": "mine\n"}
        assert len(said["sparse"]) <= 4096
    teardown(tmp_path / "node")


@every_level
@pytest.mark.parametrize("plant", ["pipe", "link"])
async def test_what_lies_in_place_of_a_termination_message_is_neither_followed_nor_waited_for(
    tmp_path: Path, level: dict[str, Any], plant: str
) -> None:
    """A plain process, or one with the machine's root mounted, can put anything there."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        script = f"until [ -e /go/on ] || [ -e {tmp_path}/go/on ]; do sleep 0.05; done"  # plain: nothing is mounted
        world.sh("p", script, **GO_VOLUME(tmp_path))
        await until(lambda: world.api.phase("p") == "Running")
        uid = world.api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
        message = Path(world.node._machine.node_paths.pod(uid).attempt("main", 0)) / "termination-log"
        message.unlink()
        if plant == "pipe":
            os.mkfifo(message)
        else:
            message.symlink_to(secret)
        (tmp_path / "go" / "on").touch()
        assert ended(await world.finished("p")).get("message", "") == ""
    teardown(tmp_path / "node")


@every_level
async def test_the_end_of_the_log_explains_a_failure_where_the_container_asks_for_that(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        world.sh("failed", "seq 1000; exit 1", container=fallback)
        world.sh("fine", "echo fine", container=fallback)
        message = ended(await world.finished("failed"))["message"]
        assert message.splitlines() == [str(number) for number in range(921, 1001)]
        assert ended(await world.finished("fine")).get("message", "") == ""
    teardown(tmp_path / "node")


@every_level
async def test_logs_are_read_from_the_pods_own_files_only(tmp_path: Path, level: dict[str, Any]) -> None:
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        for name in ("p", "q"):
            world.sh(name, f"echo {name}")
            await world.finished(name)
        uid = world.api.objects["/api/v1/namespaces/default/pods/q"]["metadata"]["uid"]
        for container_name in (f"../../{uid}/logs/main", "../logs/main", "..", "."):
            with pytest.raises(NotFound):
                await world.log("p", container_name)
        (tmp_path / "secret").write_text("2026-11-21T07:00:00.123456789Z stdout F secret\n")
        mine = Path(world.node._machine.node_paths.pod(uid).log("main", 0))
        mine.unlink()
        mine.symlink_to(tmp_path / "secret")
        with pytest.raises(FileNotFoundError):
            await world.log("q")
        mine.unlink()
        os.mkfifo(mine)
        with pytest.raises(FileNotFoundError):
            await world.log("q")
    teardown(tmp_path / "node")


@every_level
async def test_memory_volumes_are_not_made_in_a_directory_of_somebody_elses(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    """Anybody may make a directory in /dev/shm, as soon as the pod's uid is known."""
    outside = tmp_path / "outside"
    outside.mkdir()
    api = FakeApi()
    async with running(tmp_path / "node", api, **level) as world:
        held = {"name": "late", "configMap": {"name": "late"}}
        world.sh("p", "true", volumes=[held, {"name": "m", "emptyDir": {"medium": "Memory"}}])
        uid = api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
        planted = Path(world.node._machine.node_paths.memory_dir(uid))
        planted.symlink_to(outside)
        try:
            api.put("/api/v1/namespaces/default/configmaps/late", {"kind": "ConfigMap", "metadata": {"name": "late"}})
            while "somebody else has made it" not in await warned(world, "FailedMount"):
                await asyncio.sleep(0.01)
            assert list(outside.iterdir()) == []
        finally:
            planted.unlink()
    teardown(tmp_path / "node")


@with_mounts
async def test_a_pod_that_nests_thousands_of_directories_goes_like_any_other(
    tmp_path: Path, level: dict[str, Any]
) -> None:
    program = "import os\nos.chdir('/v')\nfor _ in range(2500):\n os.mkdir('d'); os.chdir('d')"
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        main = {"name": "main", "image": "strato/host", "command": ["python", "-c", program]}
        main["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        world.api.create_pod("p", "here", containers=[main], volumes=[{"name": "v", "emptyDir": {}}])
        assert ended(await world.finished("p"))["exitCode"] == 0
        await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=1)
        await until(lambda: world.api.phase("p") == "gone")
        pods = tmp_path / "node" / "pods"
        await until(lambda: not list(pods.iterdir()))
    teardown(tmp_path / "node")


@pytest.mark.parametrize(
    "source",
    [
        {"nfs": {"server": "s", "path": "/"}},
        {"csi": {"driver": "d"}},
        {"iscsi": {"targetPortal": "p", "iqn": "q", "lun": 0}},
        {"cephfs": {"monitors": ["m"]}},
        {"image": {"reference": "data:1"}},
    ],
    ids=lambda source: next(iter(source)),
)
async def test_a_volume_that_cannot_be_mounted_is_no_empty_directory(tmp_path: Path, source: dict[str, Any]) -> None:
    async with running(tmp_path / "node", FakeApi(), level="plain") as world:
        mount = {"name": "v", "mountPath": "/v"}
        world.api.create_pod(
            "p", "here", containers=[container("main", "true", mount)], volumes=[{"name": "v", **source}]
        )
        assert await warned(world, "FailedMount") == "volume 'v': volumes of its kind cannot be mounted by this node"
    teardown(tmp_path / "node")
