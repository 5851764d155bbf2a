"""Volcano's own command-line tools, built from its published module, work unchanged; ours print what they print.

Trailing blanks do not count, and neither do ages and moments, which pass between two commands.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.gobuild import built
from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import World, eventually

SOURCE = Path(__file__).parent / "vcctl"
TOOLS = ("vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def tools() -> Path:
    """Build Volcano's tools once; the first build takes minutes."""
    return built(
        SOURCE, "vcctl", ["volcano.sh/volcano/cmd/cli", *(f"volcano.sh/volcano/cmd/cli/{name}" for name in TOOLS)]
    )


_LOOKS = 8


class Shell:
    """Types the same words to Volcano's program and to ours."""

    def __init__(self, world: World, tools: Path) -> None:
        self.world, self.tools = world, tools

    def volcano(self, tool: str, *words: str, code: int = 0) -> str:
        """Run Volcano's program and return what it printed."""
        return self._typed([str(self.tools / ("cli" if tool == "vcctl" else tool)), *words], code)

    def ours(self, tool: str, *words: str, code: int = 0) -> str:
        """Run our program of the same name and return what it printed."""
        start = f"import sys; from strato.cli import aliases; sys.argv[0] = {tool!r}; aliases.{tool}()"
        return self._typed([sys.executable, "-c", start, *words], code)

    def same(self, tool: str, *words: str, code: int = 0) -> str:
        """Check that both print the same, and return it; the cluster may move between the two, so again if need be."""
        for _ in range(_LOOKS):
            theirs, ours = self.volcano(tool, *words, code=code), self.ours(tool, *words, code=code)
            if timeless(ours) == timeless(theirs):
                break
        assert timeless(ours) == timeless(theirs)
        return theirs

    def _typed(self, command: list[str], code: int) -> str:
        env = {**os.environ, "KUBECONFIG": str(self.world.kubeconfig)}
        done = subprocess.run(command, text=True, capture_output=True, env=env, timeout=300, check=False)
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


def timeless(text: str) -> list[str]:
    """Return the lines with their words, without what depends on when they were printed."""
    lines = [re.sub(r"\b(\d+[smhdy])+\b", "<age>", line).rstrip() for line in text.splitlines()]
    if len(lines) == 1 or any("<age>" in line for line in lines):  # a column is as wide as an age, or as what it hides
        lines = [" ".join(line.split()) for line in lines]
    return lines


@pytest.fixture
def shell(world: World, tools: Path) -> Shell:
    return Shell(world, tools)


@pytest.fixture
def queue(shell: Shell) -> Iterator[str]:
    """Make a queue with Volcano's program; it is closed and deleted with it too."""
    name = f"vcctl-{uuid.uuid4().hex[:6]}"
    assert shell.volcano("vcctl", "queue", "create", "-n", name, "-w", "3") == ""
    state(shell, name, "Open")
    yield name
    shell.volcano("vcctl", "queue", "operate", "-n", name, "-a", "close")
    state(shell, name, "Closed")
    shell.volcano("vcctl", "queue", "delete", "-n", name)
    eventually(lambda: shell.world.get("queue", name) is None, what=f"queue {name} is gone")


def state(shell: Shell, queue: str, wanted: str) -> None:
    eventually(
        lambda: shell.world.get("queue", queue).get("status", {}).get("state") == wanted, what=f"{queue} is {wanted}"
    )


def phase(shell: Shell, namespace: str, name: str, wanted: str) -> None:
    eventually(lambda: shell.world.job_phase(name, namespace) == wanted, what=f"{name} is {wanted}")


def test_a_job_goes_through_its_life(shell: Shell, namespace: str, tmp_path: Path) -> None:
    """Run from a file, listed, viewed, suspended, resumed and deleted; from flags; refused twice."""
    at = ("-n", namespace)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(vcjob("train", seconds=600)))
    assert shell.volcano("vcctl", "job", "run", "-f", str(path), *at) == "run job train successfully\n"
    phase(shell, namespace, "train", "Running")
    listed = shell.same("vcctl", "job", "list", *at)
    assert re.search(r"^train +\d{4}-\d\d-\d\d +Running +Batch +3 +3 ", listed, re.MULTILINE), listed
    shell.same("vcctl", "pod", "list", *at)
    shell.same("vcctl", "pod", "list", "--job", "train", *at)
    shell.same("vjobs", "-N", namespace)
    assert shell.volcano("vcctl", "job", "suspend", "-N", "train", *at) == ""
    phase(shell, namespace, "train", "Aborted")
    shell.same("vcctl", "job", "list", *at)
    shell.volcano("vcctl", "job", "resume", "-N", "train", *at)
    phase(shell, namespace, "train", "Running")
    assert shell.same("vcctl", "job", "list", *at).splitlines()[1].split()[-1] == "1", (
        "a resumed job has been tried once more"
    )
    assert shell.volcano("vcctl", "job", "delete", "-N", "train", *at) == "delete job train successfully\n"
    eventually(lambda: shell.world.get("vcjob", "train", *at) is None, what="the job is gone")
    shell.same("vcctl", "job", "list", *at)
    shell.volcano("vcctl", "job", "run", "-N", "flags", "-r", "2", "-m", "1", "-R", "cpu=500m", "-L", "", *at)
    shell.same("vcctl", "job", "run", "-N", "flags", *at, code=255)
    spec = shell.world.get("vcjob", "flags", *at)["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["queue"]) == (1, 2, "default")


def test_the_page_of_a_job_holds_every_line_of_volcanos(shell: Shell, namespace: str) -> None:
    """In its order. Lines without a value, and sections of values that a job has not, may be missing.

    Volcano walks a map for what plugins made, so those lines have no order.
    """
    job = vcjob("page", seconds=600, plugins={"env": [], "ssh": []})
    job["metadata"]["labels"] = {"team": "research"}
    shell.world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job))
    phase(shell, namespace, "page", "Running")
    for tool, words in (
        ("vcctl", ("job", "view", "-N", "page", "-n", namespace)),
        ("vjobs", ("-n", "page", "-N", namespace)),
    ):
        printed = page(shell.ours(tool, *words))
        ours = iter(printed)
        for line in page(shell.volcano(tool, *words)):
            assert line in (printed if line.startswith("plugin-") else ours), (
                f"{tool}: {line!r} is missing or elsewhere"
            )


def page(text: str) -> list[str]:
    """Return the lines of a page that say something: not ``Cpu: 0``, and not the moment that nothing happened."""
    lines = (" ".join(re.sub(r"\b(\d+[smhdy])+\b", "<age>", line).split()) for line in text.splitlines())
    said = (line for line in lines if not line.endswith((":", ": 0")) and not line.startswith(("----", "Plugins")))
    return [line.replace('":"', '": "') for line in said if "0001-01-01" not in line]


def test_a_queue_goes_through_its_life(shell: Shell, namespace: str, queue: str) -> None:
    shell.world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(vcjob("busy", seconds=600, queue=queue)))
    phase(shell, namespace, "busy", "Running")
    eventually(
        lambda: shell.world.items("podgroups", "-n", namespace)[0]["status"]["phase"] == "Running",
        what="its group is running",
    )
    got = shell.same("vcctl", "queue", "get", "-n", queue)
    assert got.splitlines()[1].split() == [queue, "3", "Open", "root", "0", "0", "1", "0", "0"]
    shell.same("vcctl", "pod", "list", "-q", queue, "-n", namespace)
    shell.same("vcctl", "job", "list", "-q", queue, "-n", namespace)
    shell.volcano("vcctl", "queue", "operate", "-n", queue, "-a", "update", "-w", "7")
    shell.volcano("vcctl", "queue", "operate", "-n", queue, "-a", "close")
    state(shell, queue, "Closing")
    assert shell.same("vcctl", "queue", "get", "-n", queue).splitlines()[1].split()[1:3] == ["7", "Closing"]
    shell.volcano("vcctl", "queue", "operate", "-n", queue, "-a", "open")
    state(shell, queue, "Open")
    listed = [shell.volcano("vcctl", "queue", "list"), shell.ours("vcctl", "queue", "list")]
    assert len({next(line.rstrip() for line in text.splitlines() if line.startswith(queue)) for text in listed}) == 1
    assert len({text.splitlines()[0].rstrip() for text in listed}) == 1
    shell.same("vqueues", "-n", queue)
    shell.world.kubectl("delete", "vcjob", "busy", "-n", namespace)
    eventually(lambda: not shell.world.items("podgroups", "-n", namespace), what="the queue is empty")


FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: night, namespace: NAMESPACE}
spec: {jobRetainPolicy: retain, flows: [{name: first}]}
"""


def test_flows_and_templates_go_through_their_lives(shell: Shell, namespace: str, tmp_path: Path) -> None:
    at = ("-n", namespace)
    job: dict[str, Any] = vcjob("first", seconds=600)
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "spec": job["spec"]}
    template["metadata"] = {"name": "first", "namespace": namespace}
    (tmp_path / "template.yaml").write_text(yaml.safe_dump(template))
    (tmp_path / "flow.yaml").write_text(FLOW.replace("NAMESPACE", namespace))
    made = shell.volcano("vcctl", "jobtemplate", "create", "-f", str(tmp_path / "template.yaml"))
    assert made == f"Created JobTemplate: {namespace}/first\n"
    made = shell.volcano("vcctl", "jobflow", "create", "-f", str(tmp_path / "flow.yaml"))
    assert made == f"Created JobFlow: {namespace}/night\n"
    phase(shell, namespace, "night-first", "Running")
    eventually(lambda: "Running" in shell.volcano("vcctl", "jobflow", "get", "-N", "night", *at), what="the flow runs")
    shell.same("vcctl", "jobflow", "list", *at)
    shell.same("vcctl", "jobflow", "get", "-N", "night", *at)
    shell.same("vcctl", "jobtemplate", "list", *at)
    shell.same("vcctl", "jobtemplate", "get", "-N", "first", *at)
    for group, name in (("jobflow", "night"), ("jobtemplate", "first")):
        words = ("vcctl", group, "describe", "-N", name, *at)
        theirs, ours = shell.volcano(*words), shell.ours(*words)
        assert yaml.safe_load(ours)["spec"] == yaml.safe_load(theirs)["spec"]
        theirs, ours = shell.volcano(*words, "-o", "json"), shell.ours(*words, "-o", "json")
        assert json.loads(ours)["spec"] == json.loads(theirs)["spec"]
        shell.same(*words, "-o", "toml")
    assert shell.volcano("vcctl", "jobflow", "delete", "-N", "night", *at) == f"Deleted JobFlow: {namespace}/night\n"
    deleted = shell.volcano("vcctl", "jobtemplate", "delete", "-f", str(tmp_path / "template.yaml"))
    assert deleted == f"Deleted JobTemplate: {namespace}/first\n"
    eventually(lambda: not shell.world.items("podgroups", *at), what="the flow's job has gone with it")


def test_the_single_tools_do_what_their_names_say(shell: Shell, namespace: str) -> None:
    at = ("-N", namespace)
    made = shell.volcano("vsub", "-n", "small", *at, "-r", "2", "-m", "2", "-c", "sleep 600")
    assert made == "run job small successfully\n"
    spec = shell.world.get("vcjob", "small", "-n", namespace)["spec"]
    assert spec["tasks"][0]["template"]["spec"]["containers"][0]["command"] == ["sleep", "600"]
    shell.world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(vcjob("long", seconds=600)))
    phase(shell, namespace, "long", "Running")
    shell.volcano("vsuspend", "-n", "long", *at)
    phase(shell, namespace, "long", "Aborted")
    shell.volcano("vresume", "-n", "long", *at)
    phase(shell, namespace, "long", "Running")
    shell.same("vjobs", *at, "--selector", "no job is called like this")
    for name in ("small", "long"):
        assert shell.volcano("vcancel", "-n", name, *at) == f"cancel job {name} successfully\n"
    eventually(lambda: shell.volcano("vjobs", *at) == "No resources found\n", what="the jobs are gone")


@pytest.mark.parametrize(
    "words",
    [
        "vcctl job view -N nobody", "vcctl job suspend -N nobody", "vcctl job resume -N nobody",
        "vcctl job delete -N nobody", "vcctl queue get -n nobody", "vcctl queue delete -n nobody",
        "vcctl queue operate -n nobody -a close", "vcctl jobflow get -N nobody", "vcctl jobtemplate get -N nobody",
        "vjobs -n nobody", "vcancel -n nobody", "vsuspend -n nobody", "vresume -n nobody",
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_in_the_same_words(shell: Shell, words: str) -> None:
    tool, *rest = words.split()
    assert "not found" in shell.same(tool, *rest, code=255)
