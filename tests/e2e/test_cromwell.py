"""The back end of `examples/cromwell`, each command as Cromwell calls it: it fills in ``${…}`` and runs bash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.worlds import EmbeddedWorld, embedded, eventually

CONFIG = (Path(__file__).parents[2] / "examples" / "cromwell" / "strato.conf").read_text()
SETTING = r'{}\s*=\s*(?:"""(.*?)"""|"((?:[^"\\]|\\.)*)")'

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def setting(name: str) -> str:
    found = re.search(SETTING.format(re.escape(name)), CONFIG, re.DOTALL)
    assert found is not None, name
    return found[1] if found[1] is not None else found[2].replace("\\\\", "\\")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    with embedded(tmp_path_factory.mktemp("cromwell") / "home", "--cpus", "4", "--node-memory", "8Gi") as found:
        yield found


class Engine:
    """What Cromwell does with one call."""

    def __init__(self, world: EmbeddedWorld, folder: Path, command: str) -> None:
        self.world, self.folder = world, folder
        (folder / "execution").mkdir(parents=True)
        inside = "/cromwell-executions/hello/1b2c3d4e/call-Hello"
        self.values = {
            "job_name": "cromwell_1b2c3d4e_Hello",
            "cwd": str(folder),
            "docker_cwd": inside,
            "docker_script": f"{inside}/execution/script",
            "job_shell": "/bin/bash",
            "cpu": "1",
            "memory_mb": "64",
            "queue": "default",
            "docker": "strato/host",
        }
        script = f"#!/bin/bash\ncd {inside}/execution\n{command}\necho $? >rc\n"
        (folder / "execution" / "script").write_text(script)

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        text = re.sub(r"\$\{(\w+)\}", lambda found: self.values[found[1]], setting(name))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/bash", "-c", text],
            env={**os.environ, "KUBECONFIG": str(self.world.kubeconfig), "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def submit(self) -> None:
        done = self.run("submit-docker")
        assert done.returncode == 0, done.stderr
        found = re.search(setting("job-id-regex"), done.stdout)
        assert found is not None, done.stdout
        self.values["job_id"] = found[1]


def test_a_call_is_submitted_and_leaves_its_exit_code(world: EmbeddedWorld, tmp_path: Path) -> None:
    call = Engine(world, tmp_path / "call", "echo hello >out.txt; (exit 3)")
    call.submit()
    assert call.values["job_id"].startswith("cromwell-1b2c3d4e-hello-")
    assert call.run("check-alive").returncode == 0
    eventually((call.folder / "execution" / "rc").exists, what="the call has ended")
    assert (call.folder / "execution" / "rc").read_text() == "3\n"
    assert (call.folder / "execution" / "out.txt").read_text() == "hello\n"


def test_a_call_that_is_killed_is_no_longer_alive(world: EmbeddedWorld, tmp_path: Path) -> None:
    call = Engine(world, tmp_path / "call", "sleep 600")
    call.submit()
    done = call.run("kill-docker")
    assert done.returncode == 0, done.stderr
    eventually(lambda: call.run("check-alive").returncode != 0, what="the job is gone")
