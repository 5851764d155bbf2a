"""Control groups of version 2 of the kernel itself, where a hierarchy of them can be mounted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from strato.node.sandbox import linux
from strato.node.sandbox.container import kill_group

FORKS = "while :; do sh -c 'sleep 0.01' & done"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_group_of_the_kernels_is_killed_whole_however_fast_it_forks(tmp_path: Path) -> None:
    """A hierarchy of version 2 itself; of its controllers a machine that uses version 1 has none to give."""
    root = tmp_path / "cgroup2"
    root.mkdir()
    try:
        linux.mount("none", str(root), "cgroup2")
    except OSError as err:
        pytest.skip(f"no control groups of version 2: {err}")
    group = root / f"strato-test-{os.getpid()}"  # the hierarchy is the whole machine's
    try:
        (group / "below").mkdir(parents=True)
        procs = group / "below" / "cgroup.procs"
        shells = [subprocess.Popen(["sh", "-c", f"echo 0 > {procs}; echo; {FORKS}"], stdout=-1) for _ in range(2)]
        for shell in shells:
            assert shell.stdout is not None
            shell.stdout.readline()
        kill_group(str(group / "cgroup.procs"))
        assert [shell.wait() for shell in shells] == [-9, -9]
        for shell in shells:
            assert shell.stdout is not None
            shell.stdout.close()
        while "populated 1" in (group / "cgroup.events").read_text():  # until the last of them is reaped
            os.sched_yield()
    finally:
        for path in (group / "below", group):
            path.rmdir()
        linux.unmount(str(root))
