"""README's session, and the simulator's of the first steps, typed as they stand on a cluster of the test's own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from strato.testing import manifests
from tests.docs.test_console import ROOT, blocks
from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import STRATO, EmbeddedWorld

SHOWN = {
    "strato --help": "Usage: strato",
    "strato job run": "hello: Completed",
    "strato logs": "[hello-default0-2] hello from a gang",
    "strato queue create": "create queue research successfully",
    "strato kubectl get": "pod/hello-default0-0",
    "strato explain job/hello": "hello is Completed",
    "strato schedule": "",
    "strato config check": "",
    "strato sim run": "makespan",
}
"""What a command prints, by its beginning; what is not here starts or stops a cluster, installs, or tests."""


def sessions(page: str) -> list[list[str]]:
    """Return the commands of a page, as words, without what they are piped into."""
    lines = [line for block in blocks(ROOT / page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(re.split(r"\s+#\s| \| ", line[2:])[0]) for line in lines]


def folder_of_the_reader(path: Path) -> Path:
    """Return a folder with the files that the pages speak of."""
    (path / "manifests").mkdir(parents=True)
    objects = [manifests.node("n", cpu="4", memory="8Gi"), vcjob("job", replicas=2)]
    (path / "manifests" / "all.yaml").write_text("\n---\n".join(map(json.dumps, objects)))
    (path / "scheduler.yaml").write_text('actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: gang}]\n')
    (path / "trace.csv").write_text("submit,run_time,replicas,cpu,memory\n0,60,4,1,1Gi\n10,30,2,2,1Gi\n")
    return path


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(900)
def test_the_sessions_of_the_pages_go_as_they_are_written(laptop: Callable[..., EmbeddedWorld], tmp_path: Path) -> None:
    folder = folder_of_the_reader(tmp_path / "reader")
    world = laptop("--cpus", "1")
    seen = set()
    of_the_simulator = [words for words in sessions("docs/first-steps.md") if words[1] == "sim"]
    for words in [*sessions("README.md"), *of_the_simulator]:
        command = next((known for known in SHOWN if shlex.join(words).startswith(known)), "")
        if not command:
            continue
        typed = [*STRATO, "--home", str(world.home), *words[1:]]
        done = subprocess.run(typed, cwd=folder, text=True, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        assert SHOWN[command] in done.stdout + done.stderr, f"{words}\n{done.stdout}{done.stderr}"
        seen.add(command)
    assert seen == set(SHOWN)
