"""What reaches the control groups of a pod, in faked trees of both versions."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgspec
import pytest

from strato.agent.containers import ContainerFacts, facts_of
from strato.agent.sampling.layouts import SandboxLayout
from strato.agent.volcano.podgroups import PodGroups
from strato.agent.volcano.podresources import POD, GroupFile
from strato.agent.volcano.usage import CpuUse, memory_bytes
from strato.api.core import Pod

LEGACY = {
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"),
    "memory": ("memory.limit_in_bytes",),
    "net_cls": ("net_cls.classid",),
}
UNIFIED = ("cpu.weight", "cpu.max", "cpu.max.burst", "memory.max", "memory.high", "memory.low", "memory.min")
START = {"cpu.shares": "1024", "cpu.weight": "100", "cpu.max": "max 100000", "cpu.cfs_quota_us": "-1"}
START |= {"cpu.cfs_period_us": "100000"}


class Tree:
    """The groups of pod ``u`` with containers ``a`` and ``b``."""

    def __init__(self, folder: Path, *, unified: bool, extra: tuple[str, ...] = ()) -> None:
        self.folder, self.unified = folder, unified
        kinds = {"unified": UNIFIED} if unified else LEGACY
        (folder / "note").write_text(json.dumps({kind: str(folder / kind) for kind in kinds}))
        for kind, names in kinds.items():
            for group in ("", "u", "u/a", "u/b"):
                (folder / kind / group).mkdir(parents=True, exist_ok=True)
                for name in (*names, *(one for one in extra if unified or one.startswith(kind))):
                    (folder / kind / group / name).write_text(START.get(name, "0") + "\n")
        self.held: set[str] = set()
        self.groups = PodGroups(SandboxLayout(str(folder / "note")), self.held.__contains__)

    def read(self, group: str, name: str) -> str:
        kind = "unified" if self.unified else name.split(".")[0]
        return (self.folder / kind / "u" / group / name).read_text().strip()

    def put(self, group: str, name: str, text: str) -> None:
        kind = "unified" if self.unified else name.split(".")[0]
        (self.folder / kind / "u" / group / name).write_text(text)


@pytest.fixture(params=[True, False], ids=["version 2", "version 1"])
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Tree:
    return Tree(tmp_path, unified=request.param, extra=("cpu.idle",))


def running(level: str = "", requests: tuple[str, str] = ("500m", "1")) -> list[ContainerFacts]:
    pairs = list(zip("ab", requests, strict=True))
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": {"volcano.sh/qos-level": level}},
        "spec": {
            "containers": [{"name": one, "image": "i", "resources": {"requests": {"cpu": cpu}}} for one, cpu in pairs]
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": one, "containerID": one, "state": {"running": {}}} for one, _ in pairs],
        },
    }
    return facts_of(msgspec.convert(body, Pod))


def test_files_are_written_where_the_kernel_has_them(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    weight = "cpu.weight" if tree.unified else "cpu.shares"
    memory = "memory.max" if tree.unified else "memory.limit_in_bytes"
    files = [GroupFile("a", weight, "77"), GroupFile("a", memory, "4096"), GroupFile(POD, weight, "99")]
    tree.groups.write(running(), [*files, GroupFile("a", "cpu.unheard_of", "1"), GroupFile("gone", weight, "1")])
    assert (tree.read("a", weight), tree.read("", weight)) == ("77", "99")
    assert tree.read("a", memory) == "4096"
    assert not list(tree.folder.rglob("cpu.unheard_of"))
    assert not list(tree.folder.rglob("gone"))
    assert not caplog.messages, "nobody is told of what this kernel has not"


def test_a_file_that_refuses_is_told_once_and_in_nobody_s_way(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    weight = "cpu.weight" if tree.unified else "cpu.shares"
    memory = "memory.max" if tree.unified else "memory.limit_in_bytes"
    refusing = next(tree.folder.rglob(f"a/{memory}"))
    refusing.unlink()
    refusing.mkdir()
    tree.groups.write(running(), [GroupFile("a", memory, "4096"), GroupFile("a", weight, "77")])
    assert tree.read("a", weight) == "77"
    assert len(caplog.messages) == 1


def test_a_quota_that_somebody_else_holds_is_left_with_its_pod_s(tree: Tree) -> None:
    name, text = ("cpu.max", "5000 100000") if tree.unified else ("cpu.cfs_quota_us", "5000")
    before = tree.read("a", name)
    tree.held.add("u/a")
    files = [GroupFile("a", name, text), GroupFile("b", name, text), GroupFile(POD, name, text)]
    tree.groups.write(running(), files)
    assert [tree.read(group, name) for group in ("a", "b", "")] == [before, text, before]
    tree.held.clear()
    tree.groups.write(running(), files)
    assert [tree.read(group, name) for group in ("a", "b", "")] == [text] * 3
    assert tree.groups.quotas(running()) == ({"a": 5000, "b": 5000}, 5000)


def test_offline_pods_give_way_and_get_their_weights_back(tree: Tree) -> None:
    weight = "cpu.weight" if tree.unified else "cpu.shares"
    tree.put("a", weight, "20\n")
    tree.groups.set_level(running("BE"), -1)
    assert [tree.read(group, "cpu.idle") for group in ("", "a", "b")] == ["1"] * 3
    tree.groups.write(running("BE"), [GroupFile("a", weight, "33")])
    assert tree.read("a", weight) == "20", "the kernel takes no weight of who gives way"
    tree.groups.set_level(running("LS"), 1)
    assert [tree.read(group, "cpu.idle") for group in ("", "a", "b")] == ["0"] * 3
    assert tree.read("a", weight) == "20"


def test_weights_that_nobody_remembers_are_those_of_the_requests(tree: Tree) -> None:
    weight = "cpu.weight" if tree.unified else "cpu.shares"
    for group in ("", "a", "b"):
        tree.put(group, "cpu.idle", "1")
        tree.put(group, weight, "3" if not tree.unified else "0")  # as a kernel shows it
    tree.groups.end_level(running("BE"))
    assert [tree.read(group, "cpu.idle") for group in ("", "a", "b")] == ["0"] * 3
    assert [tree.read(group, weight) for group in ("", "a", "b")] == (
        ["138", "59", "100"] if tree.unified else ["1536", "512", "1024"]
    )


def test_online_pods_that_were_cut_are_not_ours_to_bring_back(tree: Tree) -> None:
    tree.put("", "cpu.idle", "1")
    tree.groups.set_level(running(), 0)
    assert tree.read("", "cpu.idle") == "1"


@pytest.mark.parametrize(
    ("name", "texts"), [("cpu.qos_level", ["-1", "2"]), ("cpu.bvt_warp_ns", ["-1", "2"])], ids=["openEuler", "Anolis"]
)
@pytest.mark.parametrize("unified", [True, False])
def test_kernels_with_levels_of_their_own_are_told_them(
    tmp_path: Path, name: str, texts: list[str], unified: bool
) -> None:
    tree = Tree(tmp_path, unified=unified, extra=(name, "cpu.idle"))
    for level, text in zip((-1, 2), texts, strict=True):
        tree.groups.set_level(running(), level)
        assert [tree.read(group, name) for group in ("", "a", "b")] == [text] * 3
    assert tree.read("", "cpu.idle") == "0"
    tree.groups.end_level(running())
    assert tree.read("a", name) == "0"


def test_memory_and_network_know_two_levels(tmp_path: Path) -> None:
    tree = Tree(tmp_path, unified=False, extra=("memory.qos_level",))
    tree.groups.set_memory_level(running(), -1)
    assert tree.groups.set_network_class(running(), -1)
    assert [tree.read(group, "memory.qos_level") for group in ("", "a")] == ["-1", "-1"]
    assert [tree.read(group, "net_cls.classid") for group in ("", "a")] == ["4294967295"] * 2
    for level in (0, 2):
        tree.groups.set_memory_level(running(), level)
        tree.groups.set_network_class(running(), level)
        assert (tree.read("a", "memory.qos_level"), tree.read("a", "net_cls.classid")) == ("0", "0")


def test_what_a_kernel_has_not_is_said(tmp_path: Path) -> None:
    tree = Tree(tmp_path, unified=True)
    assert not tree.groups.set_network_class(running(), -1)
    tree.groups.set_memory_level(running(), -1)
    assert not list(tmp_path.rglob("memory.qos_level"))


def test_a_pod_of_which_nothing_runs_has_no_group_to_write(tmp_path: Path) -> None:
    tree = Tree(tmp_path, unified=False, extra=("cpu.qos_level", "memory.qos_level"))
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    tree.groups.set_level([], -1)
    tree.groups.set_memory_level([], -1)
    tree.groups.end_level([])
    assert tree.groups.set_network_class([], -1) is False
    tree.groups.write([], [GroupFile("a", "cpu.shares", "7"), GroupFile(POD, "cpu.shares", "7")])
    assert tree.groups.quotas([]) == ({}, None)
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_levels_of_memory_are_left_out_without_its_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path, unified=False, extra=("memory.qos_level",))
    note = json.loads((tmp_path / "note").read_text())
    del note["memory"]
    (tmp_path / "note").write_text(json.dumps(note))
    (tmp_path / "memory.qos_level").write_text("0")
    monkeypatch.chdir(tmp_path)  # where a walk of the empty path would begin
    groups = PodGroups(SandboxLayout(str(tmp_path / "note")), tree.held.__contains__)
    groups.set_memory_level(running(), -1)
    assert {path.read_text().strip() for path in tmp_path.rglob("memory.qos_level")} == {"0"}


def test_use_is_counted_between_two_looks_and_each_byte_once(tree: Tree) -> None:
    layout = SandboxLayout(str(tree.folder / "note"))
    group = layout.all_pods()
    assert group is not None
    use = CpuUse()
    cpu, accounting = (Path(one) for one in (group.cpu, group.accounting))

    def used(seconds: float) -> None:
        (cpu / "cpu.stat").write_text(f"usage_usec {seconds * 1e6:.0f}\n")
        (accounting / "cpuacct.usage").write_text(f"{seconds * 1e9:.0f}\n")

    used(100)
    assert use.milli(group, 10.0) is None, "one look says nothing"
    used(125)
    assert use.milli(group, 20.0) == 2500
    used(1)
    assert use.milli(group, 30.0) is None, "counters that went back"
    assert use.milli(None, 40.0) is None
    stat = "anon 100\nfile 50\nshmem 20\nkernel 9\nslab 7\nsock 1\n" if tree.unified else "cache 1\ntotal_cache 50\n"
    stat += "total_rss 100\ntotal_swap 10\n"
    (Path(group.memory) / "memory.stat").write_text(stat)
    assert memory_bytes(group) == 160
    assert memory_bytes(None) is None
