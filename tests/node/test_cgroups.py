"""Control groups of both versions on a tree of plain files, with the kernel's rules about them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from strato.kernelstats import cpu_weight
from strato.node.sandbox.cgroups import Cgroups, Limits

HOME = "strato-test"
LEAF = "uid-1/main"
LIMITED = Limits(cpu_millicores=1500, cpu_request_millicores=500, memory_bytes=64 << 20)
HANDED_DOWN = "+memory"
"""The last of the controllers, each of which is handed down alone: one that is missing costs no other."""


class Tree:
    """A mounted hierarchy: ``unified`` for version 2, else one folder per controller of version 1."""

    def __init__(self, path: Path, version: int, own: str = "/me", root_is_ours: bool = True) -> None:
        self.root = path / "cgroup"
        self.membership = path / "membership"
        if version == 1:
            self.membership.write_text(f"4:memory:{own}\n1:cpu,cpuacct:{own}\n0::{own}\n")
            self.homes = {name: self.root / name / own.strip("/") / HOME for name in ("cpu", "memory")}
        else:
            self.membership.write_text(f"0::{own}\n")
            parent = self.root if root_is_ours else self.root / os.path.dirname(own).strip("/")
            self.homes = {"unified": parent / HOME}
        for home in self.homes.values():
            home.mkdir(parents=True)
            (home / "cgroup.procs").touch()
        if version == 2:
            (self.root / "cgroup.controllers").write_text("cpu memory pids\n")
            if not root_is_ours:
                (self.root / "cgroup.subtree_control").mkdir()  # what cannot be opened for writing, also as root

    def cgroups(self) -> Cgroups:
        return Cgroups(HOME, str(self.root), str(self.membership))

    def noted(self, note: Path) -> Cgroups:
        return Cgroups(HOME, str(self.root), str(self.membership), note=str(note))

    def settings(self) -> dict[str, str]:
        """Return file → text of the container's groups, by hierarchy."""
        return {
            f"{name}/{file.name}": file.read_text()
            for name, home in self.homes.items()
            for file in (home / LEAF).iterdir()
        }


@pytest.fixture(autouse=True)
def _groups_go_with_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel removes a group with its files, but not one with groups below it or processes in it."""
    real = os.rmdir

    def rmdir(path: str, **more: Any) -> None:
        entries = list(Path(path).iterdir())
        procs = Path(path) / "cgroup.procs"
        if any(entry.is_dir() for entry in entries) or (procs.exists() and procs.read_text()):
            raise OSError(errno.EBUSY, "busy")
        for entry in entries:
            entry.unlink()
        real(path, **more)

    monkeypatch.setattr("strato.node.sandbox.cgroups.os.rmdir", rmdir)


LIMITS: list[Any] = [
    pytest.param(
        1,
        LIMITED,
        {
            "cpu/cpu.shares": "512",
            "cpu/cpu.cfs_quota_us": "150000",
            "memory/memory.limit_in_bytes": "67108864",
            "memory/memory.memsw.limit_in_bytes": "67108864",
        },
        id="version 1",
    ),
    pytest.param(1, Limits(), {"cpu/cpu.shares": "2"}, id="version 1 without limits"),
    pytest.param(
        2,
        LIMITED,
        {
            "unified/cpu.weight": "59",
            "unified/cpu.max": "150000 100000",
            "unified/memory.max": "67108864",
            "unified/memory.swap.max": "0",
            "unified/memory.oom.group": "1",
        },
        id="version 2",
    ),
    pytest.param(2, Limits(), {"unified/cpu.weight": "1"}, id="version 2 without limits"),
    pytest.param(
        2,
        Limits(cpu_millicores=1),
        {"unified/cpu.weight": "1", "unified/cpu.max": "1000 100000"},
        id="version 2, less than the kernel's least",
    ),
]


@pytest.mark.parametrize(("version", "limits", "want"), LIMITS)
def test_a_container_has_its_limits(tmp_path: Path, version: int, limits: Limits, want: dict[str, str]) -> None:
    tree = Tree(tmp_path, version)
    joins = tree.cgroups().create(LEAF, limits)
    assert tree.settings() == want
    assert joins == [str(home / LEAF / "cgroup.procs") for home in tree.homes.values()]


@pytest.mark.parametrize("root_is_ours", [pytest.param(True, id="root"), pytest.param(False, id="an ordinary user")])
def test_version_2_hands_the_controllers_down_to_every_group_with_limits(tmp_path: Path, root_is_ours: bool) -> None:
    """A group has ``cpu.max`` and ``memory.max`` only where the group above it hands the controllers down."""
    tree = Tree(tmp_path, 2, "/user.slice/user-7.slice/shell.scope", root_is_ours)
    cgroups = tree.cgroups()
    assert cgroups.enabled
    cgroups.create(LEAF, LIMITED)
    leaf = tree.homes["unified"] / LEAF
    assert (leaf / "cpu.max").exists()
    for above in (leaf.parent, leaf.parent.parent, leaf.parent.parent.parent):
        assert (above / "cgroup.subtree_control").read_text() == HANDED_DOWN
    assert not (leaf / "cgroup.subtree_control").exists()  # it has processes, so it may not


@pytest.mark.parametrize("version", [1, 2])
def test_groups_are_found_again_by_a_process_in_other_groups(tmp_path: Path, version: int) -> None:
    """``strato up`` from one login session, killed; again, or ``strato down``, from another."""
    note, elsewhere = tmp_path / "node" / "cgroups.json", "/user.slice/other/shell.scope"
    tree = Tree(tmp_path, version, "/user.slice/mine/shell.scope", root_is_ours=False)
    for joined in tree.noted(note).create(LEAF, LIMITED):
        Path(joined).write_text("41\n")
    tree.membership.write_text(tree.membership.read_text().replace("/user.slice/mine/shell.scope", elsewhere))
    later = tree.noted(note)
    assert later.processes("uid-1") == [41]
    for home in tree.homes.values():
        (home / LEAF / "cgroup.procs").write_text("")
    later.remove_all()
    assert not note.exists()
    assert not any(home.exists() for home in tree.homes.values())


def test_a_note_of_before_the_machine_was_restarted_is_not_followed(tmp_path: Path) -> None:
    note, tree = tmp_path / "cgroups.json", Tree(tmp_path, 2)
    note.write_text('{"unified": "/sys/fs/cgroup/gone"}')
    assert tree.noted(note).create(LEAF, LIMITED) == [str(tree.homes["unified"] / LEAF / "cgroup.procs")]


def test_without_a_writable_group_there_are_no_limits(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("not a folder")
    cgroups = Cgroups(HOME, str(tmp_path / "cgroup"), str(tmp_path / "none"))
    assert not cgroups.enabled
    assert cgroups.missing == ("cpu", "memory", "pids")
    assert cgroups.create(LEAF, LIMITED) == []
    assert cgroups.unenforced(LEAF, LIMITED) == ["cpu", "memory"]
    assert not cgroups.oom_killed(LEAF)


def test_a_limit_the_kernel_does_not_know_keeps_no_other_from_working(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 2)
    cgroups = tree.cgroups()
    (tree.homes["unified"] / LEAF / "cpu.max").mkdir(parents=True)  # cannot be written
    assert cgroups.create(LEAF, LIMITED) == [str(tree.homes["unified"] / LEAF / "cgroup.procs")]
    assert (tree.homes["unified"] / LEAF / "memory.max").read_text() == str(64 << 20)


KILLS: list[Any] = [
    pytest.param(1, "memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", id="version 1"),
    pytest.param(2, "unified", "memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n", id="version 2"),
]


@pytest.mark.parametrize(("version", "hierarchy", "file", "text"), KILLS)
def test_an_oom_kill_is_told_of_the_run_it_ended(
    tmp_path: Path, version: int, hierarchy: str, file: str, text: str
) -> None:
    tree = Tree(tmp_path, version)
    cgroups = tree.cgroups()
    cgroups.create(LEAF, LIMITED)
    events = tree.homes[hierarchy] / LEAF / file
    events.write_text(text.replace("oom_kill 1", "oom_kill 0"))
    assert not cgroups.oom_killed(LEAF)
    events.write_text(text)
    assert cgroups.oom_killed(LEAF)
    cgroups.create(LEAF, LIMITED)  # the next run: killed by somebody else, it was not short of memory
    assert not cgroups.oom_killed(LEAF)


@pytest.mark.parametrize("version", [1, 2])
def test_groups_are_removed_with_all_below_them_but_not_while_in_use(tmp_path: Path, version: int) -> None:
    tree = Tree(tmp_path, version)
    cgroups = tree.cgroups()
    for key in ("uid-1/main", "uid-1/side", "uid-2/main"):
        for joined in cgroups.create(key, LIMITED):
            Path(joined).write_text({"uid-1/main": "41\n", "uid-1/side": "42\n43\n", "uid-2/main": "44\n"}[key])
    assert cgroups.processes("uid-1") == [41, 42, 43]
    assert cgroups.processes("uid-1/side") == [42, 43]
    cgroups.remove("uid-1")
    assert cgroups.processes("uid-1") == [41, 42, 43]
    for home in tree.homes.values():
        for procs in (home / "uid-1").glob("*/cgroup.procs"):
            procs.write_text("")
    cgroups.remove("uid-1")
    assert not any((home / "uid-1").exists() for home in tree.homes.values())
    assert cgroups.processes("uid-2") == [44]


@pytest.mark.parametrize(
    ("millicores", "weight"), [(0, 1), (2, 1), (3, 2), (100, 17), (1000, 100), (2000, 174), (256_000, 10_000)]
)
def test_a_weight_is_what_runtimes_make_of_a_request(millicores: int, weight: int) -> None:
    assert cpu_weight(millicores) == weight


def test_a_controller_that_is_not_handed_down_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary users get memory and pids of systemd, and cpu only of newer ones."""
    tree = Tree(tmp_path, 2)

    def write(path: str, text: str) -> None:
        if text == "+cpu":
            raise OSError(errno.ENOENT, "no such controller here")
        Path(path).write_text(text)

    monkeypatch.setattr("strato.node.sandbox.cgroups._write", write)
    cgroups = tree.cgroups()
    assert cgroups.enabled
    assert cgroups.missing == ("cpu",)
    cgroups.create(LEAF, LIMITED)
    assert tree.settings()["unified/memory.max"] == str(64 << 20)


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_kernel_does_not_hold_a_container_to_is_known(tmp_path: Path, version: int) -> None:
    tree = Tree(tmp_path, version)
    cgroups = tree.cgroups()
    assert cgroups.missing == (("pids",) if version == 1 else ())
    assert cgroups.unenforced(LEAF, LIMITED) == ["cpu", "memory"]  # before it is made
    cgroups.create(LEAF, LIMITED)
    assert cgroups.unenforced(LEAF, LIMITED) == []
    assert cgroups.unenforced(LEAF, Limits()) == []
    nothing = {"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "9223372036854771712"}
    if version == 2:
        nothing = {"unified/cpu.max": "max 100000", "unified/memory.max": "max"}
    for file, text in nothing.items():
        hierarchy, _, name = file.partition("/")
        (tree.homes[hierarchy] / LEAF / name).write_text(f"{text}\n")
    assert cgroups.unenforced(LEAF, LIMITED) == ["cpu", "memory"]


GROWN = Limits(cpu_millicores=2000, cpu_request_millicores=1000, memory_bytes=128 << 20)
RESIZED: list[Any] = [
    pytest.param(
        1,
        GROWN,
        {"cpu/cpu.shares": "1024", "cpu/cpu.cfs_quota_us": "200000", "memory/memory.limit_in_bytes": "134217728"},
        id="version 1",
    ),
    pytest.param(
        1,
        Limits(cpu_request_millicores=1000),
        {"cpu/cpu.cfs_quota_us": "-1"}
        | dict.fromkeys(("memory/memory.limit_in_bytes", "memory/memory.memsw.limit_in_bytes"), "-1"),
        id="version 1 to none",
    ),
    pytest.param(2, GROWN, {"unified/cpu.max": "200000 100000", "unified/memory.max": "134217728"}, id="version 2"),
    pytest.param(
        2,
        Limits(cpu_request_millicores=1000),
        {"unified/cpu.max": "max 100000", "unified/memory.max": "max", "unified/memory.swap.max": "max"},
        id="version 2 to none",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("version", "limits", "want"), RESIZED)
def test_a_container_that_runs_gets_other_limits(
    tmp_path: Path, version: int, limits: Limits, want: dict[str, str]
) -> None:
    tree = Tree(tmp_path, version)
    cgroups = tree.cgroups()
    cgroups.create(LEAF, LIMITED)
    assert cgroups.update(LEAF, limits) == ""
    settings = tree.settings()
    assert {name: settings[name] for name in want} == want


@pytest.mark.parametrize(("version", "used"), [(1, "memory/memory.usage_in_bytes"), (2, "unified/memory.current")])
def test_a_limit_below_what_is_used_is_not_set(tmp_path: Path, version: int, used: str) -> None:
    tree = Tree(tmp_path, version)
    cgroups = tree.cgroups()
    cgroups.create(LEAF, LIMITED)
    hierarchy, name = used.split("/")
    (tree.homes[hierarchy] / LEAF / name).write_text("1048576\n")
    before = tree.settings()
    assert cgroups.update(LEAF, Limits(memory_bytes=4096)) == "memory limit (4096) below current usage (1048576)"
    assert tree.settings() == before
    assert cgroups.update(LEAF, Limits(memory_bytes=2 << 20)) == ""
