"""Pods on images of registries: policies, Secrets, events and what images say of their containers."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.node.images.build import Recipe, build, pack, python_environment
from strato.node.images.documents import ImageConfig
from strato.node.images.references import parse_reference
from strato.node.images.registry import RegistrySettings
from strato.node.images.store import Image, ImageStore
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.imageconfig import stop_signal, user_of
from strato.node.sandbox.imagegc import to_collect
from strato.node.sandbox.security import ImageUser
from strato.node.sandbox.settings import ImagePolicy
from strato.node.sandbox.storage import PodsFileSystem
from tests.node.fake_api import FakeApi
from tests.node.registries import PASSWORD, USER, Handler, OwnRegistry, own_registry
from tests.node.sandboxes import World, running, until
from tests.node.test_image_imports import archive, member

SHARED = [name for name in ("bin", "lib", "lib64", "usr") if os.path.isdir(f"/{name}")]
STRICT = ImagePolicy(strict=True, registries=RegistrySettings())


@pytest.fixture
def registry() -> Iterator[OwnRegistry]:
    with own_registry() as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path / "node", FakeApi(), images=STRICT) as world:
        if world.node.summary().isolation == "plain":
            pytest.skip("this machine allows no namespaces")
        yield world
        pods = [key.rpartition("/")[2] for key in world.api.objects if "/pods/" in key]
        for name in pods:
            await world.api.cluster().delete(catalog.POD, name, "default", grace_period_seconds=1)
        await until(lambda: all(world.api.phase(name) == "gone" for name in pods))


def create(world: World, name: str, image: str, policy: str = "IfNotPresent", **more: Any) -> None:
    """Create a pod whose image has the machine's programs in it."""
    container = more.pop("container", {})
    mounts = [{"name": d, "mountPath": f"/{d}", "readOnly": True} for d in SHARED]
    volumes = [{"name": d, "hostPath": {"path": f"/{d}"}} for d in SHARED]
    main = {"name": "main", "image": image, "imagePullPolicy": policy, "volumeMounts": mounts, **container}
    world.api.create_pod(name, "here", containers=[main], volumes=volumes, **more)


def waiting(world: World, name: str) -> dict[str, Any]:
    statuses = world.api.objects[f"/api/v1/namespaces/default/pods/{name}"]["status"].get("containerStatuses", [{}])
    found: dict[str, Any] = statuses[0].get("state", {}).get("waiting", {})
    return found


async def test_a_pod_runs_as_its_image_says(world: World, registry: OwnRegistry) -> None:
    layer = archive(
        member("etc/passwd", b"root:x:0:0::/:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n"), member("marker", b"mine")
    )
    made = registry.put_image(
        layer,
        Entrypoint=["sh", "-c", "id -u; id -g; pwd; echo $GREETING $0 $1; cat /marker"],
        Cmd=["zero", "one"],
        Env=["GREETING=hello", "PATH=/usr/bin:/bin"],
        User="ann" if os.geteuid() == 0 else "",
        WorkingDir="/work",
    )
    name = f"{registry.host}/tool"
    create(world, "p", name)
    status = (await world.finished("p"))["containerStatuses"][0]
    log = (await world.log("p")).split("\n")
    assert log[2:] == ["/work", "hello zero one", "mine"]
    if os.geteuid() == 0:
        assert log[:2] == ["1000", "1001"]
    assert status["imageID"] == f"{name}@{made['digest']}"
    create(world, "again", name, container={"args": ["first", "second"], "env": [{"name": "GREETING", "value": "own"}]})
    await world.finished("again")
    assert "own first second" in await world.log("again")
    events = await world.events()
    reasons = [reason for reason, _ in events]
    assert (reasons.count("Pulling"), reasons.count("Pulled")) == (1, 2)
    messages = "\n".join(message for _, message in events)
    assert f'Pulling image "{name}"' in messages
    assert f'Successfully pulled image "{name}" in ' in messages
    assert f'Container image "{name}" already present on machine' in messages


async def test_policies_and_reasons_are_a_kubelets(world: World, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")), Cmd=["true"])
    name = f"{registry.host}/tool"
    create(world, "never", name, "Never")
    create(world, "invalid", "No Such Name")
    create(world, "absent", f"{name}:2")
    await until(lambda: waiting(world, "never").get("reason") == "ErrImageNeverPull")
    await until(lambda: waiting(world, "invalid").get("reason") == "InvalidImageName")
    await until(lambda: waiting(world, "absent").get("reason") == "ImagePullBackOff")
    assert f'Back-off pulling image "{name}:2": ErrImagePull: ' in waiting(world, "absent")["message"]
    assert registry.requests
    assert {path for path, _ in registry.requests} == {"/v2/tool/manifests/2"}
    create(world, "always", name, "Always")
    await world.finished("always")  # and with it the one that never pulls
    await world.finished("never")
    asked = len(registry.requests)
    create(world, "always-again", name, "Always")
    await world.finished("always-again")
    assert any(path.endswith("/latest") for path, _ in registry.requests[asked:])
    registry.put_image(archive(member("f", b"2")), tag="2", Cmd=["true"])
    await world.finished("absent")
    events = await world.events()
    for wanted in (
        ("Failed", "Error: ErrImagePull"),
        ("Failed", "Error: ImagePullBackOff"),
        ("BackOff", f'Back-off pulling image "{name}:2"'),
        ("ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never'),
    ):
        assert wanted in events
    assert any(reason == "InspectFailed" for reason, _ in events)


async def test_secrets_of_a_pod_are_shown_to_its_registry_alone(world: World, registry: OwnRegistry) -> None:
    registry.put_image(archive(member("f", b"1")), Cmd=["true"])
    registry.responders.append(
        lambda h: (
            "Authorization" not in h.headers and Handler.answer(h, 401, b"", ("WWW-Authenticate", "Basic realm=x"))
        )
    )
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    for secret, host in (("right", registry.host), ("other", "registry.invalid")):
        config = base64.b64encode(json.dumps({"auths": {host: {"auth": auth}}}).encode()).decode()
        world.api.objects[f"/api/v1/namespaces/default/secrets/{secret}"] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": "default", "resourceVersion": "1"},
            "data": {".dockerconfigjson": config},
        }
    create(world, "without", f"{registry.host}/tool", "Always", imagePullSecrets=[{"name": "other"}, {"name": "gone"}])
    await until(lambda: "401" in waiting(world, "without").get("message", ""))
    assert {sent for _, sent in registry.requests} == {""}
    create(world, "with", f"{registry.host}/tool", "Always", imagePullSecrets=[{"name": "right"}])
    await world.finished("with")
    assert {sent for _, sent in registry.requests} == {"", f"Basic {auth}"}
    assert any(reason == "FailedToRetrieveImagePullSecret" for reason, _ in await world.events())


# What images say


def test_users_of_images_are_looked_up_inside_of_them(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "passwd").write_text("bad\nann:x:7:8::/:/bin/sh\n")
    (root / "etc" / "group").symlink_to("/files/group")
    (root / "files").mkdir()
    (root / "files" / "group").write_text("staff:x:9:\n")

    def found(user: str) -> ImageUser:
        return user_of(Image("i", str(root), config=ImageConfig(user=user)))

    assert found("") == ImageUser()
    assert found("ann") == ImageUser(7, 8, "ann")
    assert found("7") == ImageUser(7, 8)
    assert found("5") == ImageUser(5, 0)
    assert found("ann:staff") == ImageUser(7, 9, "ann")
    assert found("5:6") == ImageUser(5, 6)
    for wrong in ("bob", "ann:none", "4294967295", "-1", ":staff"):
        if wrong != ":staff":
            with pytest.raises(ConfigProblem, match="whom it does not have"):
                found(wrong)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 15),
        ("SIGQUIT", 3),
        ("quit", 3),
        ("9", 9),
        ("SIGRTMIN+3", 37),
        ("SIGNONE", 15),
        ("99", 15),
        ("SIGRTMAX+9", 15),
    ],
)
def test_stop_signals(text: str, number: int) -> None:
    assert stop_signal(Image("i", "/r", config=ImageConfig(stop_signal=text))) == number


def test_the_longest_unused_of_a_registry_go_first_and_only_when_room_is_short() -> None:
    full, roomy = PodsFileSystem(100 << 30, 1 << 30), PodsFileSystem(100 << 30, 50 << 30)
    images = [
        Image("young", "/young", repo_digest="d", used_at=950.0),
        Image("newer", "/newer", repo_digest="d", used_at=500.0),
        Image("older", "/older", repo_digest="d", used_at=100.0),
        Image("used", "/used", repo_digest="d", used_at=0.0),
        Image("imported", "/imported", used_at=0.0),
    ]
    assert [image.name for image in to_collect(images, {"/used"}, full, 1000.0)] == ["older", "newer"]
    assert list(to_collect(images, {"/used"}, roomy, 1000.0)) == []


# Building


def test_an_image_of_a_folder_has_the_same_digest_each_time_and_comes_back(tmp_path: Path) -> None:
    source = tmp_path / "app"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "run").write_text("#!/bin/sh\n")
    (source / "bin" / "run").chmod(0o755)
    (source / "link").symlink_to("bin/run")
    digests = []
    for number in range(2):
        os.utime(source / "bin" / "run", (number, number))
        recipe = Recipe([(str(source), "/opt/app")], {"Cmd": ["/opt/app/bin/run"]})
        digests.append(build(recipe, parse_reference("app:1"), str(tmp_path / f"layout{number}")))
    assert digests[0] == digests[1]
    pack(str(tmp_path / "layout0"), str(tmp_path / "app.tar"))
    store = ImageStore(tmp_path / "node")
    found = store.import_image("app:1", tmp_path / "app.tar")
    root = Path(found.root)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
        "opt", "opt/app", "opt/app/bin", "opt/app/bin/run", "opt/app/link"
    ]  # fmt: skip
    assert os.access(root / "opt/app/bin/run", os.X_OK)
    assert found.config.command == ("/opt/app/bin/run",)
    assert [image.name for image in store.prune(imported=False)] == []
    assert [image.name for image in store.prune(imported=True)] == ["app:1"]
    assert [image.name for image in store.list()] == ["strato/host"]


def test_an_image_of_a_python_environment_has_all_that_its_python_needs(tmp_path: Path) -> None:
    """Its loader is run on the image's libraries alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    recipe = python_environment(str(tmp_path / "env"))
    names = {target for _, target in recipe.files}
    loader = next(name for name in names if "/ld-linux" in name)
    listed = subprocess.run(
        [loader, "--list", os.path.realpath(sys.executable)], capture_output=True, text=True, check=True
    )
    needed = [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("/")]
    assert {os.path.basename(name) for name in needed} <= {os.path.basename(name) for name in names}
    assert recipe.config["Cmd"] == [f"{tmp_path}/env/bin/python"]
    assert any(name.endswith("/encodings") for name in names)
    assert "/bin/sh" in names
    assert not any("site-packages" in name for name in names)


def test_links_in_an_image_of_a_python_environment_lead_to_files_in_it(tmp_path: Path) -> None:
    """Where ``/lib`` is a link to ``/usr/lib``, the loader is a link to a path below it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    recipe = python_environment(str(tmp_path / "env"))
    names = {target for _, target in recipe.files}
    links = [target for source, target in recipe.files if os.path.islink(source)]
    assert any("/ld-linux" in name for name in names)
    to = {link: os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link))) for link in links}
    assert {link: target for link, target in to.items() if target not in names} == {}


def test_a_library_that_is_found_by_detours_is_in_an_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As TensorFlow's, of 788 MB, which its modules find by as many paths as there are folders of them."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    library = tmp_path / "libs" / "liblarge.so"
    for folder in ("libs/a", "libs/b/c", "elsewhere/deep"):
        (tmp_path / folder).mkdir(parents=True)
    library.touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    (tmp_path / "elsewhere" / "liblarge.so").touch()
    detours = ["libs/a/../liblarge.so", "libs/b/c/../../liblarge.so", "libs/liblarge.so", "link/../liblarge.so"]
    lines = "".join(f"\\tliblarge.so => {tmp_path}/{detour} (0x00007f0000000000)\\n" for detour in detours)
    program = tmp_path / "bin" / "ldd"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    found = [name for _, name in python_environment(str(tmp_path / "env")).files if name.endswith("liblarge.so")]
    assert found == [str(library), str(tmp_path / "elsewhere" / "liblarge.so")]
