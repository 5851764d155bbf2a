"""Every verb of the command line against a server in this process, as its users type it."""

from __future__ import annotations

import asyncio
import io
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User
from strato.cli import aliases, connect
from strato.cli.main import main
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.errors import Forbidden
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server

Json = dict[str, Any]
ADMIN = User("admin", ("system:masters",))


async def _server() -> ApiServer:
    return in_memory_server(SystemClock(), random.Random(3))


class Shell:
    """Types commands and reads what they print."""

    def __init__(
        self, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.server = runner.run(_server())
        self.options: Json = {}
        monkeypatch.setattr(connect, "connect", self._connect)
        monkeypatch.setattr(asyncio, "run", runner.run)  # the server lives on one loop, and so do all commands

    def _connect(self, ctx: Any) -> LocalCluster:
        self.options = ctx.find_root().obj
        return LocalCluster(self.server, ADMIN)

    def strato(self, *args: str, code: int = 0, partly: bool = False) -> str:
        """Return what was printed, of a failure the errors; of what failed ``partly`` both."""
        return self._run(lambda: main(args), code, partly=partly)

    def tool(self, tool: str, *args: str, code: int = 0) -> str:
        self._monkeypatch.setattr(sys, "argv", [tool, *args])
        return self._run(getattr(aliases, tool), code)

    def _run(self, command: Callable[[], object], code: int, *, partly: bool = False) -> str:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            command()
        out, err = self._capsys.readouterr()
        assert (caught.value.code or 0) == code, out + err
        assert "Traceback" not in err
        if partly:
            return out + err
        if code and code != 255:
            assert out == ""
            return err
        return out

    def create(self, kind: Kind, name: str, namespace: str = "default", **members: Any) -> Json:
        metadata = {"name": name, "namespace": namespace if kind.namespaced else "", **members.pop("metadata", {})}
        status = members.pop("status", None)
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **members}

        async def work() -> Json:
            cluster = LocalCluster(self.server, ADMIN)
            made = await cluster.create(kind, body)
            if status is not None:
                subresource = "status" if kind.has_status else ""
                made = await cluster.patch(
                    kind, name, metadata["namespace"], {"status": status}, subresource=subresource
                )
            return made

        return asyncio.run(work())

    def get(self, kind: Kind, name: str, namespace: str = "default") -> Json:
        return asyncio.run(LocalCluster(self.server, ADMIN).get(kind, name, namespace if kind.namespaced else ""))

    def list(self, kind: Kind, namespace: str = "default") -> list[Json]:
        return list(asyncio.run(LocalCluster(self.server, ADMIN).list(kind, namespace)).items)

    def job(self, name: str, phase: str = "Running", task: str = "work", **spec: Any) -> Json:
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = {"queue": "default", "tasks": [{"name": task, "replicas": 2, "template": template}], **spec}
        status = {"state": {"phase": phase}, "minAvailable": 2, "running": 2}
        return self.create(catalog.VCJOB, name, spec=body, status=status)

    def pod(
        self,
        name: str,
        job: Json | None = None,
        phase: str = "Running",
        queue: str = "",
        status: Json | None = None,
        **metadata: Any,
    ) -> Json:
        labels: Json = {"volcano.sh/queue-name": queue} if queue else {}
        if job is not None:
            labels["volcano.sh/job-name"] = job["metadata"]["name"]
            metadata["annotations"] = {"volcano.sh/task-spec": "work", **metadata.get("annotations", {})}
            metadata["ownerReferences"] = [_owner(job)]
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
        spec = {"containers": [container], "restartPolicy": "Never", "nodeName": "n1"}
        return self.create(
            catalog.POD, name, metadata={"labels": labels, **metadata}, spec=spec, status=status or {"phase": phase}
        )


def _owner(job: Json) -> Json:
    names = {key: job[key] for key in ("apiVersion", "kind")}
    return {**names, "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    with asyncio.Runner() as runner:
        yield _prepared(Shell(runner, monkeypatch, capsys))


def _prepared(shell: Shell) -> Shell:
    for kind, name in ((catalog.NAMESPACE, "default"), (catalog.NAMESPACE, "other")):
        try:
            shell.get(kind, name)
        except Exception:
            shell.create(kind, name)
    for name in ("root", "default"):
        try:
            shell.get(catalog.QUEUE, name)
        except Exception:
            shell.create(catalog.QUEUE, name, spec={"weight": 1})
    return shell


def test_a_job_is_run_from_flags_listed_viewed_and_deleted(shell: Shell) -> None:
    made = shell.strato("job", "run", "-N", "hello", "-r", "3", "-m", "2", "-c", "sleep 5", "-L", "")
    assert made == "run job hello successfully\n"
    spec = shell.get(catalog.VCJOB, "hello")["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["tasks"][0]["name"]) == (2, 3, "default0")
    assert spec["tasks"][0]["template"]["spec"]["containers"][0]["command"] == ["sleep", "5"]
    header, row = shell.strato("job", "list").splitlines()
    assert header.split() == ["Name", "Queue", "Phase", "Age", "Duration", "Pods", "Min", "Pending", "Running",
                              "Succeeded", "Failed", "Reason"]  # fmt: skip
    assert row.split()[:2] == ["hello", "default"]
    assert header.index("Queue") == len("hello") + 3
    header, row = shell.tool("vcctl", "job", "list").splitlines()
    assert header.split() == ["Name", "Creation", "Phase", "JobType", "Replicas", "Min", "Pending", "Running",
                              "Succeeded", "Failed", "Unknown", "RetryCount"]  # fmt: skip
    assert "Min Available:\t2" in shell.strato("job", "view", "-N", "hello")
    assert "Min Available:\t2" in shell.strato("job", "view", "hello")
    assert shell.strato("job", "delete", "-N", "hello") == "delete job hello successfully\n"
    assert shell.strato("job", "list") == "No resources found\n"


FAILED = {"phase": "Failed", "containerStatuses": [
    {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
     "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
]}  # fmt: skip


def test_why_a_job_failed_is_in_the_list_on_its_page_and_beside_its_logs(shell: Shell) -> None:
    job = shell.job("one", phase="Failed")
    for name in ("one-work-0", "one-work-1"):
        shell.pod(name, job, status=FAILED)
    why = "2 of 2 pods: container c exited with code 3"
    header, row = shell.strato("job", "list").splitlines()
    assert row[header.index("Reason") :] == "exit code 3"
    page = shell.strato("job", "view", "-N", "one")
    assert f"    Phase:\tFailed\n    Reason:\t{why}\n    Next:\tstrato job logs one\n" in page
    assert f"one ended as Failed: {why}; next: strato job logs one" in shell.strato("job", "wait", "one", code=1)
    told = shell.strato("logs", "one-work-0", code=1)  # hollow pods have no logs
    assert told.startswith("pod default/one-work-0 is Failed: container c exited with code 3\n")
    assert f"job default/one is Failed: {why}\n" in shell.strato("logs", "job/one", code=1)
    assert f"job default/one (Failed): {why}" in shell.strato("explain", "job/one")
    assert json.loads(shell.strato("explain", "job/one", "-o", "json"))["reason"] == "exit code 3"


def test_volcanos_own_names_print_what_its_users_scripts_know(shell: Shell) -> None:
    job = shell.job("one", phase="Failed")
    shell.pod("one-work-0", job, status=FAILED)
    assert "Reason" not in shell.tool("vcctl", "job", "list")
    assert "Reason:" not in shell.tool("vcctl", "job", "view", "-N", "one")
    assert "Reason" not in shell.tool("vjobs")


def test_a_name_that_is_not_there_is_told_apart_from_one_that_was(shell: Shell) -> None:
    gone = shell.job("gone")
    shell.job("train")
    assert "there is no job 'trian' in namespace default; did you mean 'train'?" in shell.strato(
        "explain", "job/trian", code=1
    )
    about = {key: gone[key] for key in ("apiVersion", "kind")} | {"name": "gone", "namespace": "default"}
    shell.create(
        catalog.EVENT, "gone.1", involvedObject=about, reason="ExecuteAction", message="did", type="Normal",
        lastTimestamp="2026-01-01T00:00:00Z",
    )  # fmt: skip
    shell.strato("job", "delete", "-N", "gone")
    told = shell.strato("explain", "job/gone", code=1)
    assert "the job 'gone' in namespace default was deleted (by hand, by its owner, or ttlSeconds" in told
    assert told.endswith("the last event about it is ExecuteAction: did\n")


class Confined(LocalCluster):
    """A cluster whose user may read his own namespace alone."""

    async def list(self, kind: Any, *args: Any, **options: Any) -> Any:
        if kind is catalog.NODE:
            raise Forbidden('nodes is forbidden: User "dev" cannot list resource "nodes"')
        return await super().list(kind, *args, **options)


def test_who_may_read_his_namespace_alone_learns_what_it_says(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.job("one", phase="Pending")
    monkeypatch.setattr(connect, "connect", lambda _: Confined(shell.server, ADMIN))
    told = shell.strato("explain", "job/one")
    assert told.startswith("job default/one (Pending): the scheduler has not admitted its pod group yet\n")
    assert '  the engine was not asked, as it needs more: nodes is forbidden: User "dev" cannot list' in told


def test_a_job_is_run_from_a_file(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "filed"}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**body, "spec": {"tasks": [{"replicas": 1, "template": template}]}}))
    assert shell.strato("job", "run", "-f", str(path), "-n", "other") == "run job filed successfully\n"
    assert shell.get(catalog.VCJOB, "filed", "other")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert shell.strato("job", "run", "-f", "-") == "run job filed successfully\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(
            ("job", "view", "-N", "no"), 'Failed to view job: jobs.batch.volcano.sh "no" not found', id="no job"
        ),
        pytest.param(
            ("job", "logs", "no"), 'Failed to show logs of job: jobs.batch.volcano.sh "no" not found', id="logs of none"
        ),
        pytest.param(("queue", "get", "-n", "no"), 'queues.scheduling.volcano.sh "no" not found', id="no queue"),
        pytest.param(("queue", "delete", "-n", "default"), "can not be deleted", id="a queue that must stay"),
        pytest.param(("image", "import", "x", "broken.yaml"), "is not a tar archive that can be read", id="no archive"),
    ],
)
def test_a_failure_is_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1,\n")
    monkeypatch.chdir(tmp_path)
    error = shell.strato(*args, code=2 if args[0] == "image" else 1)
    assert message in error
    assert error.count("\n") == 1


UNUSABLE = [
    pytest.param(("job", "run"), "Failed to run job: --name: job name cannot be left blank", id="no name for a job"),
    pytest.param(("job", "run", "-N", "x", "-R", "cpu"), "'cpu' is not name=quantity", id="no pair"),
    pytest.param(("job", "run", "-f", "x.json"), "only support yaml file", id="no yaml"),
    pytest.param(("job", "run", "-N", "x", "-c", "echo 'a"), "quote it as for a shell", id="an open quote"),
    pytest.param(("queue", "operate", "-n", "default", "-a", "update"), "greater than 0", id="no weight"),
    pytest.param(("jobtemplate", "delete"), "name cannot be left blank", id="nothing to delete"),
    pytest.param(("job", "run", "-f", "broken.yaml"), "broken.yaml: not YAML: line 2: did not find", id="no YAML"),
    pytest.param(("jobflow", "create", "-f", "broken.yaml"), "not YAML: line 2: did not find", id="broken flows"),
    pytest.param(("jobflow", "create", "-f", "empty.yaml"), "empty.yaml: holds no JobFlow", id="an empty file"),
    pytest.param(("job", "run", "-f", "no.yaml"), "no.yaml: No such file", id="no file"),
    pytest.param(("job", "run", "-f", "bytes.yaml"), "bytes.yaml: is not UTF-8 text: byte 0 is 0xff", id="no text"),
    pytest.param(("job", "run", "-f", "folder.yaml"), "folder.yaml: Is a directory", id="a folder"),
    pytest.param(("jobflow", "create", "-f", "no.yaml"), "Failed to create jobflow: no.yaml: No such", id="no flows"),
    pytest.param(
        ("install", "--dry-run", "-f", "bytes.yaml"), "bytes.yaml: is not UTF-8", id="values that are no text"
    ),
    pytest.param(("install", "--dry-run", "-n", "B A"), "'B A' is no name of a namespace", id="no namespace"),
    pytest.param(("job", "view", "-N", ""), "'' is no name of an object", id="an empty name"),
    pytest.param(
        ("get", "pods", "-A"), "No such command 'get'. kubectl has one: 'strato kubectl get pods -A'", id="get"
    ),
    pytest.param(("quee", "list"), "No such command 'quee'. Did you mean 'queue'?", id="a misspelt command"),
    pytest.param(("job", "view", ""), "'' is no name of an object", id="an empty bare name"),
    pytest.param(("sim", "record", "-o", "-"), "'-': a log is files", id="a log to standard output"),
    pytest.param(("job", "view"), "Missing argument NAME", id="no name"),
    pytest.param(("queue", "get", "a", "-n", "b"), "two names: 'a', and 'b' after -n", id="two names"),
    pytest.param(("job", "delete", "-N", "a/b"), "'a/b' is no name of an object", id="a name with a namespace"),
    pytest.param(("job", "wait", "x", "--timeout", "-1"), "is not in the range x>=0", id="a negative time"),
    pytest.param(("job", "logs", "x", "--tail", "-1"), "is not in the range x>=0", id="a negative number of lines"),
]


@pytest.mark.parametrize(("args", "message"), UNUSABLE)
def test_what_cannot_be_used_is_said_with_status_2(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "broken.yaml").write_text("a: [1,\n")
    (tmp_path / "empty.yaml").write_text("---\n")
    monkeypatch.chdir(tmp_path)
    assert message in shell.strato(*args, code=2)


def test_a_folder_that_cannot_be_written_is_named(shell: Shell) -> None:
    assert shell.strato("install", "--chart", "/proc/x", code=1) == "error: /proc/x: No such file or directory\n"


def test_the_embedded_cluster_takes_no_second_set_of_its_parts(shell: Shell) -> None:
    said = shell.strato("install", code=2)
    assert "the cluster is strato's own" in said
    assert "definitions alone: --only crds" in said
    assert "queues.scheduling.volcano.sh applied" in shell.strato("install", "--only", "crds")


def test_jobs_are_selected(shell: Shell) -> None:
    shell.job("one")
    shell.job("two", schedulerName="other")
    assert "two" not in shell.strato("job", "list", "-S", "volcano")
    assert "one" not in shell.strato("job", "list", "--selector", "tw")
    assert "one" not in shell.strato("job", "list", "-q", "elsewhere")
    everywhere = shell.strato("job", "list", "--all-namespaces").splitlines()
    assert everywhere[0].split()[:2] == ["Namespace", "Name"]
    assert [line.split()[1] for line in everywhere[1:]] == ["one", "two"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_objects_are_printed_whole(shell: Shell, output: str) -> None:
    shell.job("one")
    load = json.loads if output == "json" else yaml.safe_load
    assert load(shell.strato("job", "list", "-o", output))["items"][0]["metadata"]["name"] == "one"
    assert load(shell.strato("job", "view", "-N", "one", "-o", output))["kind"] == "Job"
    names = [item["metadata"]["name"] for item in load(shell.strato("queue", "list", "-o", output))["items"]]
    assert "default" in names
    assert load(shell.strato("queue", "get", "-n", "default", "-o", output))["kind"] == "Queue"
    assert load(shell.strato("pod", "list", "-o", output))["items"] == []


@pytest.mark.parametrize(
    ("words", "action"),
    [
        pytest.param(("strato", "job", "suspend", "-N", "one"), "AbortJob", id="job suspend"),
        pytest.param(("strato", "job", "resume", "-N", "one"), "ResumeJob", id="job resume"),
        pytest.param(("vsuspend", "-n", "one"), "AbortJob", id="vsuspend"),
        pytest.param(("vresume", "-n", "one"), "ResumeJob", id="vresume"),
        pytest.param(("vcctl", "job", "suspend", "-N", "one", "-n", "default"), "AbortJob", id="vcctl job suspend"),
    ],
)
def test_orders_to_a_job_are_commands_it_owns(shell: Shell, words: tuple[str, ...], action: str) -> None:
    job = shell.job("one")
    tool, *args = words
    printed = shell.strato(*args) if tool == "strato" else shell.tool(tool, *args)
    assert printed.endswith("job one successfully\n") if tool == "strato" else printed == ""
    (command,) = shell.list(catalog.COMMAND)
    assert command["action"] == action
    assert command["metadata"]["name"].startswith(f"one-{action.lower()}-")
    assert command["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_queues_are_made_changed_shown_and_deleted(shell: Shell) -> None:
    shell.strato("queue", "create", "-n", "q1", "-w", "3")
    shell.create(catalog.PODGROUP, "g", spec={"queue": "q1", "minMember": 1}, status={"phase": "Inqueue"})
    row = shell.strato("queue", "get", "-n", "q1").splitlines()[1].split()
    assert row == ["q1", "3", "1", "0", "0", "0", "0"] or row[:2] == ["q1", "3"]
    assert "1" in row[2:]
    shell.strato("queue", "operate", "-n", "q1", "-a", "update", "-w", "7")
    assert shell.get(catalog.QUEUE, "q1")["spec"]["weight"] == 7
    shell.strato("queue", "operate", "q1", "-a", "close")
    assert shell.list(catalog.COMMAND, "default")[0]["action"] == "CloseQueue"
    assert shell.strato("queue", "get", "q1") == shell.strato("queue", "get", "-n", "q1")
    shell.strato("queue", "delete", "q1")
    assert "q1" not in shell.strato("queue", "list")


def test_pods_are_listed_by_job_queue_and_namespace(shell: Shell) -> None:
    job = shell.job("one")
    shell.pod("one-work-1", job, queue="default")
    shell.pod("one-work-0", job, phase="Pending", queue="default")
    shell.pod("loose", annotations={"scheduling.volcano.sh/queue-name": "other"})
    header, *rows = shell.strato("pod", "list").splitlines()
    assert header.split() == ["Name", "Ready", "Status", "Restart", "Age"]
    assert [row.split()[:3] for row in rows] == [["one-work-0", "0/1", "Pending"], ["one-work-1", "0/1", "Running"]]
    assert [row.split()[0] for row in shell.strato("pod", "list", "-q", "other").splitlines()[1:]] == ["loose"]
    assert shell.strato("pod", "list", "-j", "none") == "No resources found\n"
    assert shell.strato("pod", "list", "--all-namespaces").splitlines()[1].split()[:2] == ["default", "one-work-0"]
    assert "not in queue 'other'" in shell.strato("pod", "list", "-j", "one", "-q", "other", code=1)


FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
spec: {flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}], jobRetainPolicy: retain}
---
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: loop, namespace: other}
spec: {flows: [{name: a, dependsOn: {targets: [a]}}]}
"""


def test_job_flows_are_made_shown_and_deleted(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(FLOW)
    first, second = shell.strato("jobflow", "create", "-f", str(path), code=1, partly=True).splitlines()
    assert first == "Created JobFlow: default/f"
    assert second.startswith("Failed to create jobflow: JobFlow other/loop: ")
    header, row = shell.strato("jobflow", "list").splitlines()
    assert header.split() == ["Name", "Namespace", "Phase", "Age"]
    assert row.split()[:2] == ["f", "default"]
    assert shell.strato("jobflow", "get", "-N", "f").splitlines()[0].split() == header.split()
    assert yaml.safe_load(shell.strato("jobflow", "describe", "-N", "f"))["spec"]["flows"][0]["name"] == "a"
    assert json.loads(shell.strato("jobflow", "describe", "-o", "json"))["kind"] == "JobFlow"
    assert "--format 'xml': is not yaml or json" in shell.strato("jobflow", "describe", "-o", "xml", code=2)
    assert shell.strato("jobflow", "delete", "-N", "f") == "Deleted JobFlow: default/f\n"
    assert shell.strato("jobflow", "list") == "No resources found\n"


def test_job_templates_are_made_and_listed(shell: Shell, tmp_path: Path) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    body = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": "t"}}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump({**body, "spec": {"tasks": [{"replicas": 1, "name": "w", "template": template}]}}))
    assert shell.strato("jobtemplate", "create", "-f", str(path)) == "Created JobTemplate: default/t\n"
    assert [line.split() for line in shell.strato("jobtemplate", "list").splitlines()] == [
        ["Name", "Namespace"],
        ["t", "default"],
    ]
    assert shell.strato("jobtemplate", "delete", "-f", str(path)) == "Deleted JobTemplate: default/t\n"


def test_a_finished_job_is_not_waited_for(shell: Shell) -> None:
    shell.job("good", phase="Completed")
    shell.job("bad", phase="Failed")
    shell.strato("job", "wait", "good")
    assert "bad ended as Failed" in shell.strato("job", "wait", "good", "bad", code=1)
    assert "does not exist" in shell.strato("job", "wait", "none", code=1)
    shell.job("slow")
    error = shell.strato("job", "wait", "slow", "--timeout", "0.05", code=1)
    assert "not finished after 0.05 s: slow is Running" in error


def test_the_job_of_a_step_is_waited_for_before_it_is_made(shell: Shell) -> None:
    flow = {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}
    shell.create(catalog.JOBFLOW, "f", spec=flow, status={"state": {"phase": "Running"}})
    shell.create(catalog.JOBFLOW, "old", spec=flow, status={"state": {"phase": "Failed"}})
    shell.job("f-a", phase="Completed")
    assert "f-b is not made yet" in shell.strato("job", "wait", "f-a", "f-b", "--timeout", "0.05", code=1)
    assert "job f-c does not exist\n" in shell.strato("job", "wait", "f-b", "f-c", code=1)
    said = shell.strato("job", "wait", "f-b", "old-b", code=1)
    assert "job old-b does not exist: its flow is Failed; ask 'strato explain jobflow/old' why" in said


def test_the_tree_shows_all_that_a_job_owns(shell: Shell) -> None:
    job = shell.job("one")
    owned = {"ownerReferences": [_owner(job)]}
    shell.create(catalog.PODGROUP, "one-g", metadata=owned, spec={"minMember": 2}, status={"phase": "Running"})
    shell.create(catalog.CONFIGMAP, "one-svc", metadata=owned, data={})
    shell.create(catalog.CONFIGMAP, "somebody-elses", data={})
    for index in (10, 9):
        shell.pod(f"one-work-{index}", job)
    assert shell.strato("job", "tree", "one").splitlines() == [
        "Job default/one: Running, queue default",
        "├─ PodGroup one-g: Running, at least 2 pods",
        "├─ task work: 2 of 2 pods",
        "│  ├─ Pod one-work-9: Running on n1",
        "│  └─ Pod one-work-10: Running on n1",
        "└─ ConfigMap one-svc",
    ]


def test_top_sums_what_live_pods_ask_for(shell: Shell) -> None:
    job = shell.job("one")
    shell.pod("one-work-0", job)
    shell.pod("one-work-1", job)
    shell.pod("one-work-2", job, phase="Succeeded")
    header, row, total = (line.split() for line in shell.strato("job", "top", "one").splitlines())
    assert header[:3] == ["Task", "Pods", "Running"]
    assert row[:5] == ["work", "3", "2", "1", "0"]  # they use what no container of theirs asks for: nothing
    assert total[0] == "all"


def test_logs_of_what_has_not_started_say_so(shell: Shell) -> None:
    job = shell.job("one")
    shell.pod("one-work-0", job, phase="Pending")
    shell.job("bare")
    assert "job default/bare has no pods; see 'strato explain job/bare'" in shell.strato("logs", "job/bare", code=1)
    assert 'jobs.batch.volcano.sh "none" not found' in shell.strato("logs", "job/none", code=1)
    assert 'pods "none" not found' in shell.strato("logs", "none", code=1)
    assert "no pod of job one has started" in shell.strato("job", "logs", "one", code=1)
    assert "has no task 'x'; it has work" in shell.strato("job", "logs", "one", "-t", "x", code=1)


def test_logs_that_every_pod_refuses_are_a_failure(shell: Shell) -> None:
    job = shell.job("one")
    for name in ("one-work-0", "one-work-1"):
        shell.pod(name, job)
    told = shell.strato("logs", "job/one", "-c", "nope", code=1)
    assert "[one-work-1] container nope is not valid for pod one-work-1" in told
    assert "none of the 2 pods of job default/one gave a log" in told


def test_jobs_are_selected_by_labels(shell: Shell) -> None:
    shell.job("mine")
    shell.create(catalog.VCJOB, "yours", metadata={"labels": {"team": "b"}}, spec=shell.job("other")["spec"])
    assert [line.split()[0] for line in shell.strato("job", "list", "-l", "team=b").splitlines()[1:]] == ["yours"]


def test_lists_say_what_their_items_are(shell: Shell) -> None:
    shell.pod("p", shell.job("one"))
    (pod,) = json.loads(shell.strato("pod", "list", "-o", "json"))["items"]
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) == ("v1", "Pod", "p")
    assert json.loads(shell.strato("jobflow", "list", "-A", "-o", "json"))["items"] == []
    assert shell.strato("jobtemplate", "describe") == "No resources found\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("strato que", {"queue"}, id="a command"),
        pytest.param("strato job l", {"list", "logs"}, id="a verb"),
        pytest.param("strato job list --all", {"--all-namespaces"}, id="a flag"),
        pytest.param("strato job list -o ", {"table", "wide", "json", "yaml", "name"}, id="a choice"),
        pytest.param("strato run s", {"scheduler"}, id="a component"),
    ],
)
def test_a_shell_completes_what_is_typed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str]
) -> None:
    monkeypatch.setenv("_STRATO_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    offered = {one.partition(",")[2] for one in shell.strato().splitlines()}
    assert offered == expected


def test_the_completion_script_asks_for_what_is_answered(shell: Shell) -> None:
    for name in ("bash", "zsh", "fish"):
        assert f"_STRATO_COMPLETE={name}_complete" in shell.strato("completion", name)


def test_an_address_alone_names_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KUBECONFIG", "STRATO_HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["--master", "http://127.0.0.1:1", "job", "list"])
    assert "the server http://127.0.0.1:1 cannot be reached" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_named_with_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    body = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster], "contexts": [context]}
    config.write_text(yaml.safe_dump({**body, "users": [{"name": "u", "user": {}}]}))
    with pytest.raises(SystemExit) as caught:
        main(["-k", str(config), "job", "list"])
    told = capsys.readouterr().err
    assert caught.value.code == 1
    assert "Failed to list job: the server http://127.0.0.1:1 cannot be reached" in told
    assert f"named by {config}); is it up? Another one is named by --master URL or --kubeconfig FILE" in told


def test_what_queues_share_is_shown_by_group_of_nodes(shell: Shell) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    for name, group in (("a", "train"), ("b", "")):
        labels = {"volcano.sh/nodegroup-name": group} if group else {}
        shell.create(
            catalog.NODE, name, metadata={"labels": labels}, status={"capacity": amounts, "allocatable": amounts}
        )
    rows = [line.split() for line in shell.strato("queue", "list", "--totals").splitlines()]
    assert rows[0] == ["Pool", "Resource", "Total"]
    assert ["all", "cpu", "8"] in rows
    assert ["train", "cpu", "4"] in rows
    assert ["<none>", "memory", "8Gi"] in rows
