"""The manifests in ``examples/``: every one is accepted as it is, and does what the commands at its top promise.

A manifest's leading comment holds a session: lines ``$ command``, each followed by what its output must contain. A new
file is covered by itself; one that promises nothing fails.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import EXAMPLES
from tests.e2e.worlds import STRATO, EmbeddedWorld, World, eventually

_OF_OTHERS = (
    "manifests/",
    "scheduler.yaml",
    "schools/",
    "tfjob/chart/",
    "pytorch-elastic/",
    "spark-operator/",
    "training-policy/",
    "utilisation/",
    "twenty-nodes/",
    "load-test.yaml",
)
"""What other tests run: tests/cli/test_examples.py, tests/e2e/test_manifests.py, tests/clients/test_training.py and
test_spark_operator.py, tests/scheduler for the policy, tests/sim for experiments, and tests/e2e/test_docs.py as it
types the pages."""
MANIFESTS = sorted(
    name
    for path in EXAMPLES.rglob("*.yaml")
    if not (name := path.relative_to(EXAMPLES).as_posix()).startswith(_OF_OTHERS)
)
_ONLY_STORED = ("unable to find job queue", "trainingRuntime must be created before the TrainJob")
"""What is said of jobs whose queue or runtime stands in the same file and is not stored."""
_PROGRAMS = frozenset({"strato", "mkdir", "cp", "sh"})
"""What a session may call."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a session."""

    words: tuple[str, ...]
    shows: tuple[str, ...]
    """What the output must contain, blanks aside."""


def session(text: str) -> list[Step]:
    """Read the session in the leading comment of a manifest."""
    steps: list[Step] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if line.startswith("#   $ "):
            steps.append(Step(tuple(shlex.split(line.removeprefix("#   $ "))), ()))
        elif line.startswith("#   ") and steps:
            last = steps[-1]
            steps[-1] = Step(last.words, (*last.shows, _plain(line.removeprefix("#"))))
    return steps


def _plain(text: str) -> str:
    return " ".join(text.split())


def missing_programs(text: str) -> list[str]:
    """Return the programs that a manifest says it needs and that are not here."""
    found = re.search(r"^# Needs ([\w, -]+) on this machine", text, re.MULTILINE)
    wanted = re.split(r", | and ", found[1]) if found else []
    return [name for name in wanted if shutil.which(name, path="/usr/sbin:/usr/local/bin:/usr/bin:/bin") is None]


@pytest.mark.e2e
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_is_accepted_as_it_is(world: World, namespace: str, manifest: str) -> None:
    """Without storing: queues are cluster-wide. Jobs are told of queues and runtimes in their file, nothing else."""
    done = world.kubectl_process(
        "create", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", str(EXAMPLES / manifest), check=False
    )
    refusals = [line for line in done.stderr.splitlines() if not any(words in line for words in _ONLY_STORED)]
    assert refusals == [], done.stderr


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_promises_something(manifest: str) -> None:
    steps = session((EXAMPLES / manifest).read_text())
    assert any(step.shows for step in steps), f"{manifest}: write what to type and what it shows into its first comment"
    assert {step.words[0] for step in steps} <= _PROGRAMS
    assert any(step.words[:2] == ("strato", "up") for step in steps)
    assert any(Path(manifest).name in step.words for step in steps), "the session does not use the file"


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(600)
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_keeps_its_promise(laptop: Callable[..., EmbeddedWorld], tmp_path: Path, manifest: str) -> None:
    """Typed as they stand, on a cluster of the test's own; sandboxes are real processes and sockets."""
    path = EXAMPLES / manifest
    missing = missing_programs(path.read_text())
    if missing:
        pytest.skip(f"{manifest} needs {', '.join(missing)}")
    world: EmbeddedWorld | None = None
    folder = shutil.copytree(path.parent, tmp_path / "example")

    def typed(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = list(words)
        if words[0] == "strato":
            assert world is not None, "strato up comes first"
            command = [*STRATO, "--home", str(world.home), *words[1:]]
        return subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=400, check=False)

    for step in session(path.read_text()):
        if step.words[:2] == ("strato", "up"):
            world = laptop(*step.words[2:])
            continue
        done = typed(step.words)
        assert done.returncode == 0 or step.shows, f"{step.words}\n{done.stdout}{done.stderr}"
        for shown in step.shows:
            if shown not in _plain(done.stdout):
                eventually(
                    lambda shown=shown, step=step: shown in _plain(typed(step.words).stdout),
                    what=f"{shlex.join(step.words)} shows {shown!r}; at first it showed\n{done.stdout}{done.stderr}",
                    every=0.5,
                )
