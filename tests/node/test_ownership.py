"""``fsGroup`` of claimed volumes: Kubernetes' bits and policies, and volumes made to lead somewhere else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from strato.node.removal import remove_tree
from strato.node.sandbox import linux
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.ownership import ON_ROOT_MISMATCH, set_ownership
from strato.node.sandbox.settings import PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import running
from tests.node.test_confinement import said
from tests.node.test_podusers import MOUNTED, claim

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
GROUP = 4321


def make(path: Path, mode: int, *, directory: bool = False) -> Path:
    if directory:
        path.mkdir()
    else:
        path.write_text("x")
    path.chmod(mode)
    return path


def facts(path: Path) -> tuple[int, str]:
    found = path.lstat()
    return found.st_gid, f"{stat.S_IMODE(found.st_mode):o}"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return make(tmp_path / "volume", 0o755, directory=True)


def test_a_group_may_read_write_and_enter_and_owns_what_comes(volume: Path) -> None:
    make(volume / "closed", 0o600)
    make(volume / "program", 0o4711)
    make(volume / "shared", 0o1700, directory=True)
    make(volume / "shared" / "file", 0o444)
    os.mkfifo(volume / "pipe", 0o600)
    assert set_ownership(str(volume), GROUP) == 6
    want = {".": "2775", "closed": "660", "program": "4771", "shared": "3770", "shared/file": "664", "pipe": "660"}
    assert {name: facts(volume / name) for name in want} == {name: (GROUP, mode) for name, mode in want.items()}
    assert volume.stat().st_uid == 0


def test_a_group_that_only_reads_may_not_write(volume: Path) -> None:
    make(volume / "closed", 0o600)
    set_ownership(str(volume), GROUP, read_only=True)
    assert (facts(volume), facts(volume / "closed")) == ((GROUP, "2755"), (GROUP, "640"))


@pytest.mark.parametrize(
    ("group", "mode", "policy", "changes"),
    [
        pytest.param(GROUP, 0o2770, ON_ROOT_MISMATCH, False, id="a root that is right"),
        pytest.param(GROUP, 0o2777, ON_ROOT_MISMATCH, False, id="a root with more bits"),
        pytest.param(GROUP + 1, 0o2770, ON_ROOT_MISMATCH, True, id="another group"),
        pytest.param(GROUP, 0o0770, ON_ROOT_MISMATCH, True, id="no set-group-id"),
        pytest.param(GROUP, 0o2750, ON_ROOT_MISMATCH, True, id="too few bits"),
        pytest.param(GROUP, 0o2770, "Always", True, id="always"),
        pytest.param(GROUP, 0o2770, "", True, id="no policy"),
    ],
)
def test_the_policy_decides_whether_a_volume_is_walked(
    volume: Path, group: int, mode: int, policy: str, changes: bool
) -> None:
    inner = make(volume / "inner", 0o600)
    os.chown(volume, -1, group)
    volume.chmod(mode)
    set_ownership(str(volume), GROUP, policy)
    assert facts(inner) == ((GROUP, "660") if changes else (0, "600"))


def test_no_link_is_followed_and_no_mount_entered(volume: Path, tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", 0o700, directory=True)
    secret = make(outside / "secret", 0o600)
    (volume / "file").symlink_to(secret)
    (volume / "directory").symlink_to(outside)
    mounted = make(volume / "mounted", 0o700, directory=True)
    linux.bind(str(outside), str(mounted))
    try:
        set_ownership(str(volume), GROUP)
    finally:
        linux.unmount(str(mounted))
    assert (volume / "file").lstat().st_gid == (volume / "directory").lstat().st_gid == GROUP
    assert (facts(outside), facts(secret)) == ((0, "700"), (0, "600"))


def test_what_is_exchanged_meanwhile_leads_nowhere(volume: Path, tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", 0o700, directory=True)
    for number in range(20):
        make(outside / f"f{number}", 0o600)
    make(volume / "d", 0o700, directory=True)
    for number in range(20):
        make(volume / "d" / f"f{number}", 0o600)
    over = threading.Event()

    def exchange() -> None:
        while not over.is_set():
            os.rename(volume / "d", volume / "kept")
            os.symlink(outside, volume / "d")
            os.unlink(volume / "d")
            os.rename(volume / "kept", volume / "d")

    other = threading.Thread(target=exchange)
    other.start()
    try:
        for _ in range(300):
            set_ownership(str(volume), GROUP)
    finally:
        over.set()
        other.join()
    assert {facts(path) for path in outside.iterdir()} == {(0, "600")}
    assert facts(outside) == (0, "700")


def test_a_volume_without_a_bottom_is_refused_and_holds_no_descriptors(volume: Path) -> None:
    path = volume
    for _ in range(300):
        path /= "d"
        path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigProblem, match="levels deep"):
        set_ownership(str(volume), GROUP)
    assert len(os.listdir("/proc/self/fd")) == before
    remove_tree(str(volume))


@pytest.mark.parametrize("kind", ["local", "hostPath"])
async def test_a_pods_group_gets_local_volumes_and_no_host_paths(volume: Path, tmp_path: Path, kind: str) -> None:
    make(volume / "old", 0o600)
    async with running(tmp_path / "node", FakeApi(), network=PodNetwork.HOST) as world:
        volumes = claim(world, volume)
        spec = world.api.objects["/api/v1/persistentvolumes/pv"]["spec"]
        spec[kind] = spec.pop("local")
        script = "cat /v/old && echo && echo new > /v/new && stat -c %g /v/new || echo refused"
        who = {"fsGroup": GROUP, "runAsUser": 1000, "fsGroupChangePolicy": "Always"}
        lines = await said(world, f"({script}) 2> /dev/null", MOUNTED, volumes=volumes, securityContext=who)
    teardown(tmp_path / "node")
    assert lines == (["x", str(GROUP)] if kind == "local" else ["refused"])
    assert facts(volume)[0] == (GROUP if kind == "local" else 0)
