"""The quota of all best-effort pods on files of both versions of control groups, with and without systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.agent.classquota import ClassQuota
from strato.agent.events import Action, ActionKind
from strato.agent.sampling.layouts import KubeletLayout, SandboxLayout

LAYOUTS = [
    pytest.param("kubepods/besteffort", True, False, id="version 2"),
    pytest.param("kubepods.slice/kubepods-besteffort.slice", True, True, id="version 2 of systemd"),
    pytest.param("cpu/kubepods/besteffort", False, False, id="version 1"),
]


def wanted(milli: int) -> list[Action]:
    return [Action(kind=ActionKind.SET_CLASS_QUOTA, value=milli)]


def read(group: Path) -> str:
    name = "cpu.max" if (group / "cpu.max").exists() else "cpu.cfs_quota_us"
    return (group / name).read_text().split()[0]


def made(root: Path, path: str, *, is_unified: bool, is_systemd: bool) -> tuple[Path, ClassQuota]:
    group = root / path
    group.mkdir(parents=True)
    if is_unified:
        (root / "cgroup.controllers").write_text("cpu\n")
        (group / "cpu.max").write_text("max 100000\n")
    else:
        (group / "cpu.cfs_quota_us").write_text("-1\n")
        (group / "cpu.cfs_period_us").write_text("100000\n")
    return group, ClassQuota(KubeletLayout(str(root), systemd=is_systemd))


@pytest.mark.parametrize(("path", "is_unified", "is_systemd"), LAYOUTS)
async def test_it_is_written_and_lapses(tmp_path: Path, path: str, *, is_unified: bool, is_systemd: bool) -> None:
    group, quota = made(tmp_path, path, is_unified=is_unified, is_systemd=is_systemd)
    nothing = read(group)
    quota.read()
    assert (quota.has_group, quota.milli) == (True, None)
    await quota.apply(wanted(3500))
    assert (read(group), quota.milli) == ("350000", 3500)
    await quota.apply([])
    assert (read(group), quota.milli) == (nothing, None)


async def test_what_others_have_written_stays_until_it_is_reset(tmp_path: Path) -> None:
    group, quota = made(tmp_path, "kubepods/besteffort", is_unified=True, is_systemd=False)
    (group / "cpu.max").write_text("200000 100000\n")
    quota.read()
    await quota.apply([])
    assert read(group) == "200000"
    assert await quota.clear()
    assert read(group) == "max"
    assert not await quota.clear()


@pytest.mark.parametrize(
    ("taken_back", "left"),
    [
        pytest.param("max", "200000", id="others took ours back, and wrote their own later"),
        pytest.param("100000", "max", id="others wrote over it"),
    ],
)
async def test_only_what_is_ours_is_taken_back(tmp_path: Path, taken_back: str, left: str) -> None:
    group, quota = made(tmp_path, "kubepods/besteffort", is_unified=True, is_systemd=False)
    await quota.apply(wanted(3500))
    (group / "cpu.max").write_text(f"{taken_back} 100000\n")
    await quota.apply([])
    assert read(group) == "max"
    if left != "max":
        (group / "cpu.max").write_text(f"{left} 100000\n")
    await quota.apply([])
    assert read(group) == left


async def test_a_quota_that_could_not_be_read_is_taken_back_later(tmp_path: Path) -> None:
    group, quota = made(tmp_path, "kubepods/besteffort", is_unified=True, is_systemd=False)
    await quota.apply(wanted(3500))
    (group / "cpu.max").rename(group / "away")
    await quota.apply([])
    (group / "away").rename(group / "cpu.max")
    await quota.apply([])
    assert read(group) == "max"


async def test_a_group_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    note = tmp_path / "cgroups.json"
    note.write_text("{}")
    group, quota = made(tmp_path, "kubepods/besteffort", is_unified=True, is_systemd=False)
    for one in (ClassQuota(SandboxLayout(str(note))), quota):
        (group / "cpu.max").unlink(missing_ok=True)
        one.read()
        assert (one.has_group, one.milli) == (False, None)
        assert not await one.clear()
    (group).rmdir()
    await quota.apply(wanted(1000))
    assert quota.milli is None
