"""What pods leave behind goes, however it was built, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from strato.clock import SystemClock
from strato.node import beneath, removal
from strato.node.removal import TreeRemover, remove_tree
from strato.node.sandbox import linux


@pytest.fixture(params=[True, False], ids=["openat2", "steps"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not beneath._openat2_works():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(beneath, "_works", request.param)


def deepen(path: Path, levels: int) -> None:
    """Make directories in directories, deeper than any path can name."""
    held = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=held)
        below = os.open("d", os.O_RDONLY, dir_fd=held)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(held)
        held = below
    os.close(held)


def mounts_below(path: Path) -> list[str]:
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [point for point in points if point.startswith(f"{path}/")]


def test_a_tree_deeper_than_paths_and_descriptors_reach_goes(tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    deepen(tmp_path / "pod", 3000)
    remove_tree(str(tmp_path / "pod"))
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside, pod = tmp_path / "outside", tmp_path / "pod"
    outside.mkdir()
    (outside / "file").write_text("x")
    (pod / "d" / "e").mkdir(parents=True)
    (pod / "link").symlink_to(outside)
    (pod / "d" / "link").symlink_to(outside)
    (pod / "d" / "e" / "file").symlink_to(outside / "file")
    remove_tree(str(pod))
    assert not pod.exists()
    assert (outside / "file").read_text() == "x"
    (tmp_path / "only").symlink_to(outside)
    remove_tree(str(tmp_path / "only"))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_what_is_mounted_below_stays(tmp_path: Path) -> None:
    shared, pod = tmp_path / "shared", tmp_path / "pod"
    shared.mkdir()
    (shared / "file").write_text("x")
    for point in ("top", "d/e/deep"):
        (pod / point).mkdir(parents=True)
        linux.bind(str(shared), str(pod / point))
    try:
        remove_tree(str(pod))
        assert (shared / "file").read_text() == "x"
        assert len(mounts_below(pod)) == 2
    finally:
        for point in mounts_below(pod):
            linux.unmount(point)
    remove_tree(str(pod))
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_directories_without_rights_go_for_an_ordinary_user_too() -> None:
    """As those overlayfs leaves, and those a container locks on purpose."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)  # pytest's own are closed to others
        assert remove_locked(Path(directory)) == 0


def remove_locked(tmp_path: Path) -> int:
    """Make and remove a tree without rights as an ordinary user; return 0 when it is gone."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            (tmp_path / "pod" / "a" / "b").mkdir(parents=True)
            (tmp_path / "pod" / "a" / "b" / "file").touch()
            for name in ("pod/a/b", "pod/a", "pod"):
                os.chmod(tmp_path / name, 0)
            remove_tree(str(tmp_path / "pod"))
            code = int((tmp_path / "pod").exists())
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


async def test_a_wide_tree_goes_beside_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "AT_ONCE", 10)
    for number in range(35):
        (tmp_path / "pod" / f"d{number % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pod" / f"d{number % 3}" / str(number)).touch()
    remover = TreeRemover()
    remover.remove(str(tmp_path / "pod"))
    assert (tmp_path / "pod").exists()
    running = asyncio.create_task(remover.run(SystemClock()))
    turns = 0
    while (tmp_path / "pod").exists():
        await asyncio.sleep(0)
        turns += 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert turns >= 3


async def test_a_removal_that_is_interrupted_holds_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "AT_ONCE", 10)
    for number in range(100):
        (tmp_path / "pod" / "d" / str(number)).mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    remover = TreeRemover()
    running = asyncio.create_task(remover.run(SystemClock()))
    await asyncio.sleep(0)
    remover.remove(str(tmp_path / "pod"))
    assert len(os.listdir("/proc/self/fd")) > before
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "pod").exists()
