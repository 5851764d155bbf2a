"""Files of control groups of both versions, on faked trees; the kernel's refusals are played by what it cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strato import kernelstats
from strato.agent.sampling.groupfiles import CpuCounters, Quota, read_cpu, read_holdings, read_quota, write_quota
from strato.agent.sampling.layouts import ControlGroup, KubeletLayout, SandboxLayout
from strato.agent.sampling.rings import Ring


def unified(folder: Path) -> ControlGroup:
    files = {
        "cpu.stat": "usage_usec 2500000\nuser_usec 1\nnr_periods 10\nnr_throttled 3\n",
        "cpu.max": "400000 100000\n",
        "cpu.max.burst": "0\n",
        "memory.current": "900\n",
        "memory.stat": "anon 500\ninactive_file 300\n",
        "cpu.pressure": "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 total=1\n",
        "io.stat": "8:0 rbytes=100 wbytes=20 rios=1 wios=1\n8:16 rbytes=5 wbytes=0\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return ControlGroup(str(folder), str(folder), str(folder), is_unified=True)


def legacy(folder: Path) -> ControlGroup:
    files = {
        "cpu/cpu.stat": "nr_periods 10\nnr_throttled 3\nthrottled_time 5\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "50000\n",
        "cpu/cpu.cfs_burst_us": "90000\n",
        "cpuacct/cpuacct.usage": "2500000000\n",
        "memory/memory.usage_in_bytes": "900\n",
        "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return ControlGroup(*(str(folder / name) for name in ("cpu", "cpuacct", "memory")), is_unified=False)


def test_both_versions_count_the_same(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "one").mkdir()
    new, old = unified(tmp_path / "two"), legacy(tmp_path / "one")
    assert read_cpu(new) == read_cpu(old) == CpuCounters(2.5, 10, 3)
    assert read_holdings(new).memory_bytes == read_holdings(old).memory_bytes == 600
    assert read_holdings(new).cpu_pressure == pytest.approx(0.125)
    assert read_holdings(new).disk_bytes == 125
    assert read_quota(new) == Quota(4000)
    assert read_quota(old) == Quota(None, 50_000, 90_000)


def test_a_group_without_a_quota_has_no_periods(tmp_path: Path) -> None:
    group = unified(tmp_path)
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\n")
    assert read_cpu(group) == CpuCounters(2.5, 0, 0)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("cpu.stat", f"usage_usec {'9' * 400}\n", id="a time of 400 digits"),
        pytest.param("cpu.max", f"{'9' * 400} 100000\n", id="a quota of 400 digits"),
        pytest.param("cpu.max", "400000 0\n", id="a period of zero"),
    ],
)
def test_what_no_kernel_writes_is_an_error_as_any_other(tmp_path: Path, file: str, text: str) -> None:
    group = unified(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=r"more than 64 bits|no period"):
        read_cpu(group) if file == "cpu.stat" else read_quota(group)


def test_quotas_are_written_in_the_group_s_own_period_and_what_is_saved_stays_below(tmp_path: Path) -> None:
    old = legacy(tmp_path)
    assert write_quota(old, 1500).milli == 1500
    assert (tmp_path / "cpu/cpu.cfs_quota_us").read_text() == "75000"
    assert (tmp_path / "cpu/cpu.cfs_burst_us").read_text() == "75000"
    assert write_quota(old, 1).milli == 20, "the kernel's floor is a millisecond"
    assert write_quota(old, None).milli is None
    new = unified(tmp_path)
    assert write_quota(new, 2200) == Quota(2200)
    assert (tmp_path / "cpu.max").read_text() == "220000 100000"
    assert write_quota(new, None) == Quota(None)


def test_a_group_that_has_gone_says_so(tmp_path: Path) -> None:
    gone = ControlGroup(*[str(tmp_path / "gone")] * 3, is_unified=True)
    with pytest.raises(OSError, match="gone"):
        read_cpu(gone)
    assert read_holdings(gone).memory_bytes == 0


@pytest.mark.parametrize(
    ("systemd", "qos", "want"),
    [
        (False, "Burstable", "kubepods/burstable/poda-b/c1"),
        (False, "Guaranteed", "kubepods/poda-b/c1"),
        (
            True,
            "BestEffort",
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice/cri-containerd-c1.scope",
        ),
    ],
)
def test_groups_of_a_kubelet(tmp_path: Path, systemd: bool, qos: str, want: str) -> None:
    (tmp_path / "cgroup.controllers").touch()
    layout = KubeletLayout(str(tmp_path), systemd=systemd)
    group = layout.container("a-b", qos, "main", "containerd://c1")
    assert group is not None
    assert group.cpu == str(tmp_path / want)
    assert layout.container("a-b", qos, "main", "containerd://../../etc") is None


_SLICE = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"
_KIND = (
    "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
    "kubelet-kubepods-burstable-poda_b.slice/cri-containerd-c1.scope"
)


@pytest.mark.parametrize("unified", [True, False])
@pytest.mark.parametrize(
    ("parent", "directory"),
    [
        ("", "kubepods/burstable/poda-b/c1"),
        ("", "kubepods/burstable/poda-b/crio-c1"),
        ("/kubelet", "kubelet/kubepods/burstable/poda-b/c1"),
        ("", f"{_SLICE}/cri-containerd-c1.scope"),
        ("/", f"{_SLICE}/crio-c1.scope"),
        ("", f"{_SLICE}/docker-c1.scope"),
        ("/kubelet", _KIND),
    ],
)
def test_groups_of_a_kubelet_are_found_by_what_is_there(
    tmp_path: Path, unified: bool, parent: str, directory: str
) -> None:
    if unified:
        (tmp_path / "cgroup.controllers").touch()
    for hierarchy in ("",) if unified else ("cpu", "cpuacct", "memory"):
        (tmp_path / hierarchy / directory).mkdir(parents=True)
    cpu = tmp_path if unified else tmp_path / "cpu"
    layout = KubeletLayout(str(tmp_path), parent)
    group = layout.container("a-b", "Burstable", "main", "cri://c1")
    pod = layout.pod("a-b", "Burstable")
    assert group is not None
    assert pod is not None
    assert (group.cpu, group.is_unified) == (str(cpu / directory), unified)
    assert pod.cpu == str((cpu / directory).parent)
    assert Path(group.memory).is_dir()


def test_traffic_is_the_machine_s_and_not_that_of_the_reader_s_network(tmp_path: Path) -> None:
    head = "a\nb\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(f"{head} eth0: 1 0 0 0 0 0 0 0 2 0\n")
    assert kernelstats.traffic(str(tmp_path)) == {"eth0": kernelstats.Traffic(1, 2)}
    (tmp_path / "1/net").mkdir(parents=True)
    (tmp_path / "1/net/dev").write_text(f"{head} uplink: 3 0 0 0 0 0 0 0 4 0\n")
    assert kernelstats.traffic(str(tmp_path)) == {"uplink": kernelstats.Traffic(3, 4)}


def test_groups_of_our_own_node(tmp_path: Path) -> None:
    note = tmp_path / "cgroups.json"
    layout = SandboxLayout(str(note))
    assert layout.pod("u", "") is None
    note.write_text(json.dumps({"cpu": "/c", "cpuacct": "/a", "memory": "/m", "pids": "/p"}))
    assert layout.container("u", "", "main", "") == ControlGroup(
        "/c/u/main", "/a/u/main", "/m/u/main", is_unified=False
    )


def test_a_ring_keeps_the_newest() -> None:
    ring = Ring(3)
    assert ring.mean_since(0) is None
    for second in range(1, 6):
        ring.add(second, second * 10)
    assert list(ring.newest()) == [(5, 50), (4, 40), (3, 30)]
    assert ring.mean_since(3) == 45
    assert len(ring) == 3


def test_the_machine_s_own_counters() -> None:
    assert kernelstats.busy_seconds() > 0
    assert 0 < kernelstats.memory().available <= kernelstats.memory().total
    assert "lo" in kernelstats.traffic()
