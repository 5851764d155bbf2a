"""What containers of this machine use, from a made-up /proc and from this very process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from strato.clock import VirtualClock
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.usage import MachineUsage

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Machine:
    """A /proc whose processes are written by the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_machine(0)

    def set_process(self, pid: int, parent: int, seconds: float, pages: int = 1) -> None:
        folder = self.path / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["S", parent, *[0] * 9, int(seconds * TICKS), 0, 0, 0, *[0] * 6, pages]
        (folder / "stat").write_text(f"{pid} (a name) with) " + " ".join(map(str, fields)))

    def set_machine(self, seconds: float) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "stat").write_text(f"cpu {int(seconds * TICKS)} 0 0 999 5 0 0 0 0 0\n")
        (self.path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "proc")


def run(tmp_path: Path, clock: VirtualClock, pid: int, container: str = "c", number: int = 0) -> None:
    folder = tmp_path / "node" / "pods" / "uid" / "containers" / container / str(number)
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"pid": pid, "startedAt": clock.now()}))


def test_cpu_is_counted_since_the_reading_before(tmp_path: Path, machine: Machine) -> None:
    clock = VirtualClock()
    usage = MachineUsage(NodePaths(str(tmp_path / "node")), ["n"], clock, str(machine.path))
    run(tmp_path, clock, 10)
    machine.set_process(10, 1, 500)  # the supervisor's own time does not count
    machine.set_process(11, 10, 5, pages=2)
    machine.set_process(12, 11, 5, pages=3)
    machine.set_process(13, 1, 999)
    clock.advance(20)
    machine.set_machine(10)
    measured = usage.measure()
    assert measured["uid"]["c"] == (500_000_000, 5 * PAGE, 20.0)
    assert measured["n"][""] == (500_000_000, 60 << 10, 20.0)
    clock.advance(10)
    machine.set_process(11, 10, 15)
    assert usage.measure()["uid"]["c"].cpu_nanocores == 1_000_000_000
    clock.advance(1)  # too soon for a reading of its own
    assert usage.measure()["uid"]["c"].window_seconds == 11.0


def test_what_has_ended_uses_nothing(tmp_path: Path, machine: Machine) -> None:
    clock = VirtualClock()
    usage = MachineUsage(NodePaths(str(tmp_path / "node")), ["n"], clock, str(machine.path))
    run(tmp_path, clock, 10)
    run(tmp_path, clock, 20, "d")
    machine.set_process(20, 1, 0)
    (tmp_path / "node/pods/uid/containers/d/0/exit.json").write_text("{}")
    clock.advance(20)
    assert usage.measure().keys() == {"n"}


def test_the_memory_of_a_group_counts_without_what_can_be_dropped(tmp_path: Path, machine: Machine) -> None:
    clock = VirtualClock()
    usage = MachineUsage(NodePaths(str(tmp_path / "node")), ["n"], clock, str(machine.path))
    run(tmp_path, clock, 10)
    machine.set_process(10, 1, 0)
    group = tmp_path / "group" / "uid" / "c"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("5000")
    (group / "memory.stat").write_text("anon 1\ninactive_file 1000\n")
    (tmp_path / "node" / "cgroups.json").write_text(json.dumps({"unified": str(tmp_path / "group")}))
    assert usage.measure()["uid"]["c"].memory_bytes == 4000


def test_the_kernel_is_read(tmp_path: Path) -> None:
    clock = VirtualClock()
    usage = MachineUsage(NodePaths(str(tmp_path)), ["n"], clock)
    run(tmp_path / "x", clock, os.getpid())
    run(tmp_path, clock, os.getppid())
    (tmp_path / "node").rename(tmp_path / "gone")
    os.rename(tmp_path / "gone" / "pods", tmp_path / "pods")
    clock.advance(1)
    assert usage.measure()["uid"]["c"].memory_bytes > 1 << 20
