"""What ``strato job`` tells of a job that runs: logs that follow, waiting across a restart, top and tree."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import STRATO, EmbeddedWorld, World

Laptop = Callable[..., EmbeddedWorld]
FLOWS = {"apiVersion": "flow.volcano.sh/v1alpha1"}


def waiting_job(tmp_path: Path, name: str = "talk") -> dict[str, Any]:
    """Return a job of two tasks that say something, wait for the file ``go``, and say something more.

    The second task starts only when the first has run for a moment: its pod is new to whoever follows already.
    """
    script = "echo $VC_TASK_NAME begins; until [ -e /host/go ]; do sleep 0.1; done; echo $VC_TASK_NAME ends"
    tasks = []
    for task in ("first", "second"):
        container = {
            "name": "main",
            "image": "strato/host",
            "command": ["sh", "-c", script.replace("$VC_TASK_NAME", task)],
        }
        container |= {"resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
        container |= {"volumeMounts": [{"name": "host", "mountPath": "/host"}]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        spec |= {"volumes": [{"name": "host", "hostPath": {"path": str(tmp_path)}}]}
        tasks.append({"name": task, "replicas": 1, "template": {"spec": spec}})
    tasks[1]["dependsOn"] = {"name": ["first"]}
    job = vcjob(name, plugins={"svc": [], "env": []})
    job["spec"] |= {"minAvailable": 1, "tasks": tasks}
    return job


@contextlib.contextmanager
def started(world: EmbeddedWorld, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside the test; it is killed if the test leaves it behind."""
    command = [*STRATO, "--home", str(world.home), *words]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.kill()


def port_of(world: EmbeddedWorld) -> str:
    found = re.search(r"server: https://[^:]+:(\d+)", world.kubeconfig.read_text())
    assert found is not None
    return found[1]


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_logs_of_all_tasks_are_followed_to_the_jobs_end(laptop: Laptop, tmp_path: Path) -> None:
    world = laptop("--cpus", "4")
    world.apply(waiting_job(tmp_path))
    with started(world, "job", "logs", "-f", "--all-tasks", "talk") as reader:
        assert reader.stdout is not None
        seen = {reader.stdout.readline().strip() for _ in range(2)}
        assert seen == {"[talk-first-0] first begins", "[talk-second-0] second begins"}
        assert reader.poll() is None
        top = world.own("job", "top", "talk").splitlines()
        assert [" ".join(line.split()[:4]) for line in top[1:]] == ["first 1 1 0.5", "second 1 1 0.5", "all 2 2 1"]
        tree = world.own("job", "tree", "talk")
        assert tree.splitlines()[0] == "Job default/talk: Running, queue default"
        for part in (
            "PodGroup talk-",
            "task first: 1 of 1 pods",
            "Pod talk-second-0: Running on",
            "Service talk",
            "ConfigMap",
        ):
            assert part in tree, tree
        (tmp_path / "go").touch()
        rest, _ = reader.communicate(timeout=120)
        assert set(rest.split("\n")) == {"[talk-first-0] first ends", "[talk-second-0] second ends", ""}
        assert reader.returncode == 0
    one = world.own("job", "logs", "talk", "-t", "second")
    assert one == "second begins\nsecond ends\n"
    assert world.own("job", "logs", "talk", "-t", "second", "--tail", "1") == "second ends\n"
    assert "talk has no task 'third'; it has first, second" in world.own(
        "job", "logs", "talk", "-t", "third", check=False
    )


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_a_job_is_waited_for_across_a_crash_of_the_server(laptop: Laptop, tmp_path: Path) -> None:
    """The processes of its pods go on meanwhile, and the one who waits finds the new server by itself."""
    world = laptop("--cpus", "4")
    world.apply(waiting_job(tmp_path))
    with started(world, "job", "wait", "talk", "--timeout", "300") as waiter:
        assert waiter.stdout is not None
        line = ""
        while "Running" not in line:
            line = waiter.stdout.readline()
            assert line, "it ended before the job ran"
        port = port_of(world)
        world.kill()
        world.own("up", *world.options, "--port", port)
        assert waiter.poll() is None, waiter.stdout.read()
        (tmp_path / "go").touch()
        said, _ = waiter.communicate(timeout=200)
        assert waiter.returncode == 0, said
        assert "Completed" in said


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_waiting_ends_as_the_jobs_do(world: World, namespace: str) -> None:
    """Two good ones together: 0. A failed one: 1 and which. Time is up: 1 and what to ask."""
    failing = vcjob("bad", replicas=1, seconds=0.1, policies=[{"event": "PodFailed", "action": "TerminateJob"}])
    failing["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"strato.dev/exit-code": "3"}}
    failing["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "exit 3"]
    for job in (vcjob("one", replicas=1), vcjob("two", replicas=2), failing, vcjob("huge", cpu="900")):
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job))

    def wait(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*STRATO, "-k", str(world.kubeconfig), "job", "wait", "-n", namespace, *words]
        return subprocess.run(command, text=True, capture_output=True, timeout=200, check=False)

    assert wait("one", "two").returncode == 0
    done = wait("bad")
    assert done.returncode == 1
    assert re.search(r"Failed to wait for job: bad ended as (Terminated|Failed)", done.stderr), done.stderr
    done = wait("huge", "--timeout", "4")
    assert done.returncode == 1
    assert "not finished after 4 s: huge is Pending (" in done.stderr
    assert "the largest pod needs cpu 900 at least" in done.stderr
    assert "ask 'strato explain job/huge" in done.stderr
    done = wait("nobody")
    assert (done.returncode, done.stderr.strip()) == (1, "Failed to wait for job: job nobody does not exist")


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_the_last_step_of_a_flow_is_waited_for(world: World, namespace: str) -> None:
    """Its job is made once those before it have completed."""
    spec = vcjob("any", replicas=1, seconds=1)["spec"]
    for name in ("first", "last"):
        world.apply({**FLOWS, "kind": "JobTemplate", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    steps = [{"name": "first"}, {"name": "last", "dependsOn": {"targets": ["first"]}}]
    meta = {"name": "night", "namespace": namespace}
    world.apply({**FLOWS, "kind": "JobFlow", "metadata": meta, "spec": {"flows": steps, "jobRetainPolicy": "retain"}})
    said = world.strato("job", "wait", "-n", namespace, "night-last", "--timeout", "120")
    assert "night-last: Completed" in said
