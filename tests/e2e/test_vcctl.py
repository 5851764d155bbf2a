"""Volcano's own command-line tools, built from its published module, work unchanged; ours print the same bytes.

Both are started at the same moment; of ages, the digits do not count. Descriptions in help are ours, where they stand
is Volcano's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
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
        return self._printed(self._start([str(self.tools / ("cli" if tool == "vcctl" else tool)), *words]), code)

    def ours(self, tool: str, *words: str, code: int = 0) -> str:
        """Run our program of the same name and return what it printed."""
        return self._printed(self._start_ours(tool, words), code)

    def same(self, tool: str, *words: str, code: int = 0, stripped: Callable[[str], str] = str) -> str:
        """Check that both print the same bytes to both streams, and return what Volcano's prints to standard output.

        The cluster may move between the two, so they are run again if need be.
        """
        for _ in range(_LOOKS):
            running = [self._start([str(self.tools / ("cli" if tool == "vcctl" else tool)), *words])]
            running.append(self._start_ours(tool, words))
            (theirs, their_errors), (ours, our_errors) = (process.communicate(timeout=300) for process in running)
            codes = [process.returncode for process in running]
            pairs = [
                (stripped(timeless(a)), stripped(timeless(b))) for a, b in ((ours, theirs), (our_errors, their_errors))
            ]
            if codes == [code, code] and all(a == b for a, b in pairs):
                break
        assert codes == [code, code], f"{tool} {words}: {codes}\n{theirs}{their_errors}\n{ours}{our_errors}"
        for printed, expected in pairs:
            assert printed == expected
        return theirs

    def _start_ours(self, tool: str, words: Sequence[str]) -> subprocess.Popen[str]:
        start = f"import sys; from strato.cli import aliases; sys.argv[0] = {tool!r}; aliases.{tool}()"
        return self._start([sys.executable, "-c", start, *words])

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        env = {**os.environ, "KUBECONFIG": str(self.world.kubeconfig)}
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    @staticmethod
    def _printed(process: subprocess.Popen[str], code: int) -> str:
        out, err = process.communicate(timeout=300)
        assert process.returncode == code, f"{process.args!r}: {process.returncode}\n{out}{err}"
        return out


def timeless(text: str) -> str:
    """Return a text without the digits of its ages; the line of what plugins made is one of a map, without an order."""
    text = re.sub(r"\b(?:\d+[smhdy])+\b", lambda found: re.sub(r"\d", "#", found[0]), text)
    lines = text.splitlines(keepends=True)
    made = sorted(line for line in lines if line.startswith("    plugin-"))
    return "".join(made.pop(0) if line.startswith("    plugin-") else line for line in lines)


def without_descriptions(text: str) -> str:
    """Return help with a star for every description, and without the first line, which is one too."""
    if not text.startswith("Usage:"):
        text = text.partition("\n\n")[2] or text
    text = re.sub(r"^(  (?:-\w, |    )--\S+(?: \w+)? {3,})\S.*?( \(default .*\))?$", r"\1*\2", text, flags=re.MULTILINE)
    return re.sub(r"^(  (?!vcctl )[a-z]+ +)[^\[ ].*$", r"\1*", text, flags=re.MULTILINE)


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


def test_the_page_of_a_job_is_the_same(shell: Shell, namespace: str) -> None:
    job = vcjob("page", seconds=600, plugins={"env": [], "ssh": ["--no-root=true"]})
    job["metadata"].update(labels={"team": "research"}, annotations={"note": "a<b & é"})
    template = job["spec"]["tasks"][0]["template"]
    template.setdefault("metadata", {})["annotations"] = {"kubernetes.io/availablezone": "z1"}
    container = template["spec"]["containers"][0]
    container.update(workingDir="/tmp", ports=[{"containerPort": 80, "name": "web"}, {"containerPort": 81}])
    container["resources"] = {"requests": {"cpu": "0.05", "memory": "1024Ki"}, "limits": {"cpu": "1"}}
    shell.world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job))
    phase(shell, namespace, "page", "Running")
    shell.same("vcctl", "job", "view", "-N", "page", "-n", namespace)
    shell.same("vjobs", "-n", "page", "-N", namespace)


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
    shell.same("vcctl", "queue", "list")
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
        for words in (("vcctl", group, "describe", "-N", name, *at), ("vcctl", group, "describe", *at)):
            shell.same(*words)
            # members in the order of Go's structures are not promised
            shell.same(*words, "-o", "json", stripped=lambda text: json.dumps(json.loads(text or "0"), sort_keys=True))
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


def lines(table: str) -> list[list[str]]:
    """Return the command lines of a table, whose cells stand between bars."""
    return [cell.split() for row in table.splitlines() for cell in row.split("|") if cell.strip()]


HELP = """
vcctl | vcctl --help | vcctl help | vcctl help job run | vcctl help nope more | vcctl job bogus
vcctl job -h | vcctl job run -h | vcctl job list -h | vcctl job view -h | vcctl job suspend -h | vcctl job resume -h
vcctl job delete -h | vcctl queue -h | vcctl queue create -h | vcctl queue delete -h | vcctl queue operate -h
vcctl queue list -h | vcctl queue get -h | vcctl jobflow -h | vcctl jobflow create -h | vcctl jobflow list -h
vcctl jobflow get -h | vcctl jobflow delete -h | vcctl jobflow describe -h | vcctl jobtemplate -h
vcctl jobtemplate create -h | vcctl jobtemplate list -h | vcctl jobtemplate get -h | vcctl jobtemplate delete -h
vcctl jobtemplate describe -h | vcctl pod -h | vcctl pod list -h | vcctl version -h
vsub -h | vjobs -h | vqueues -h | vcancel -h | vsuspend -h | vresume -h
"""


def test_help_has_the_same_commands_flags_defaults_and_layout(shell: Shell) -> None:
    for tool, *words in lines(HELP):
        shell.same(tool, *words, stripped=without_descriptions)


UNREADABLE = """
vcctl nope | vcctl jbo | vcctl que | vcctl -h job list | vcctl --all-namespaces job list | vcctl completion
vcctl -v | vcctl --version | vsub -n | vjobs --bad | vqueues -x | vcctl version --x
vcctl job list --bad | vcctl job list -xyz | vcctl job list ---x | vcctl job list --=x | vcctl job list -n
vcctl job list --namespace | vcctl job list -A | vcctl job run -m x | vcctl job run -m=0b
vcctl queue create -w 99999999999
vcctl job list --all-namespaces=maybe | vcctl job list -v x | vcctl job list --vmodule x
vcctl job list --log-flush-frequency 5 | vcctl job bogus --name x
"""


def test_command_lines_that_cannot_be_read_are_told_the_same(shell: Shell) -> None:
    for tool, *words in lines(UNREADABLE):
        shell.same(tool, *words, code=1, stripped=without_descriptions)


READABLE = """
vcctl -v 3 job list | vcctl -v3 job list | vcctl job -n nope list | vcctl job list --all_namespaces
vcctl job list --all-namespaces=false | vcctl job list extra words | vcctl job list -nnope | vcctl job list -n=nope
vcctl job list -- -n nope | vcctl job list - | vcctl job list --log-flush-frequency 5s --vmodule x=1
vcctl job list -q nope | vcctl job list -S nope | vcctl pod list -q nope | vcctl pod list --all-namespaces | vqueues
vcctl jobflow list --all-namespaces | vcctl jobtemplate list -n nope | vcctl jobflow describe -n nope
"""


def test_flags_mean_the_same(shell: Shell) -> None:
    for tool, *words in lines(READABLE):
        shell.same(tool, *words)


REFUSED = """
vcctl job view -N nobody | vcctl job suspend -N nobody | vcctl job resume -N nobody | vcctl job delete -N nobody
vcctl queue get -n nobody | vcctl queue delete -n nobody | vcctl queue operate -n nobody -a close | vqueues -n nobody
vcctl jobflow get -N nobody | vcctl jobtemplate get -N nobody | vcctl jobtemplate delete -N nobody
vjobs -n nobody | vcancel -n nobody | vsuspend -n nobody | vresume -n nobody
vcctl job view | vcctl job suspend | vcctl job resume | vcctl job delete | vcctl job run | vsub | vsub words
vcctl job view -N a/b | vcctl job view -N .. | vcctl job delete -N a%b | vcancel | vsuspend | vresume
vcctl job run -N a -R cpu | vcctl job run -N a -R cpu=x | vcctl job run -N a -L cpu=1=2 | vsub -n a -R cpu
vcctl job run -f /nope.yaml | vcctl job run -f /nope.txt | vcctl job run -N UPPER | vcctl job run -N a -n nope
vcctl queue get | vcctl queue delete | vcctl queue operate | vcctl queue operate -n x | vcctl queue operate -n x -a y
vcctl queue operate -n x -a update | vcctl queue operate -n default -a update -w -1 | vcctl queue create -n default
vcctl queue create -n BAD | vcctl jobflow get | vcctl jobflow delete | vcctl jobflow create
vcctl jobflow create -f /nope | vcctl jobflow create -f /tmp | vcctl jobtemplate get
vcctl jobtemplate delete | vcctl jobtemplate delete -f /nope
vcctl jobflow describe -N nobody
"""


def test_what_fails_fails_in_the_same_words(shell: Shell) -> None:
    for tool, *words in lines(REFUSED):
        shell.same(tool, *words, code=255)
