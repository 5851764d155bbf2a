"""Jobs as Slurm's users submit them: arrays, chains, time limits, batch scripts, mail."""

from __future__ import annotations

import json
import re
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.worlds import STRATO, EmbeddedWorld, World, embedded, eventually

SMALL = ("--image", "strato/host", "-R", "cpu=100m,memory=32Mi")


class Relay(socketserver.StreamRequestHandler):
    """The least of an SMTP server."""

    messages: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 relay\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.messages.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


@pytest.fixture(scope="module")
def relay() -> Iterator[tuple[str, int]]:
    Relay.messages = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address  # type: ignore[misc]  # of TCP over IPv4
        server.shutdown()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, relay: tuple[str, int]) -> Iterator[EmbeddedWorld]:
    """A cluster whose only node is this machine."""
    options = ("--cpus", "16", "--pod-network", "host", "--smtp-server", f"127.0.0.1:{relay[1]}")
    with embedded(tmp_path_factory.mktemp("machine") / "home", *options) as cluster:
        yield cluster


def run(world: EmbeddedWorld, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [*STRATO, "--home", str(world.home), *words]
    return subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=300, check=False)


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_an_array_of_twenty_never_runs_more_than_five_at_once(machine: EmbeddedWorld, tmp_path: Path) -> None:
    """Every element counts the files of those that run: they are made and taken away by the processes themselves."""
    script = (
        "f=/shared/run-$SLURM_ARRAY_TASK_ID; touch $f; ls /shared | grep -c run- >> /shared/counts; sleep 0.5; "
        "ls /shared | grep -c run- >> /shared/counts; echo $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT; rm $f"
    )
    words = ("-N", "twenty", "--array", "10-48:2%5", *SMALL, "--dry-run", "--", "sh", "-c", script)
    job = yaml.safe_load(run(machine, "job", "run", *words).stdout)
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    pod["hostUsers"] = True
    tmp_path.chmod(0o777)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    done = run(machine, "job", "run", "-f", str(path), "--wait", "--timeout", "200")
    assert done.returncode == 0, done.stderr
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 40
    assert max(counts) == 5, counts
    logs = machine.own("job", "logs", "--all-tasks", "twenty")
    assert sorted(int(n) for n in re.findall(r"\] (\d+) 20$", logs, re.MULTILINE)) == list(range(10, 49, 2))
    row = next(line for line in machine.own("job", "list").splitlines() if line.startswith("twenty "))
    assert row.split()[-2:] == ["20", "0"]  # succeeded, failed


@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_chains_end_as_their_conditions_say(world: World, namespace: str) -> None:
    """On any API server; nobody who submitted them is there any more."""

    def submit(name: str, command: str, *words: str) -> None:
        options = ("-n", namespace, "-N", name, "--image", "busybox", "-R", "cpu=100m,memory=32Mi")
        world.strato("job", "run", *options, *words, "--", "sh", "-c", command)

    submit("good", "sleep 3")
    submit("bad", "sleep 3; exit 3")
    submit("ok", "sleep 1", "--after", "good")
    submit("ok-of-bad", "sleep 1", "--after", "ok:bad")
    submit("not-ok", "sleep 1", "--after", "not-ok:bad")
    submit("not-ok-of-good", "sleep 1", "--after", "not-ok:good")
    submit("any", "sleep 1", "--after", "any:good,any:bad")
    submit("after-all", "sleep 1", "--after", "ok:ok", "--after", "any:ok-of-bad")
    ends = {
        "good": "Completed",
        "bad": "Failed",
        "ok": "Completed",
        "ok-of-bad": "Terminated",
        "not-ok": "Completed",
        "not-ok-of-good": "Terminated",
        "any": "Completed",
        "after-all": "Completed",
    }
    for name, phase in ends.items():
        eventually(lambda name=name, phase=phase: world.job_phase(name, namespace) == phase, what=f"{name} is {phase}")
    listed = world.strato("job", "list", "-n", namespace)
    assert re.search(r"^ok-of-bad .* Terminated .* DependencyNeverSatisfied$", listed, re.MULTILINE), listed
    pods = {item["metadata"]["name"].rsplit("-", 2)[0] for item in world.items("pods", "-n", namespace)}
    assert pods == {name for name, phase in ends.items() if phase != "Terminated"}
    began = {name: _started(world, namespace, name) for name in ("good", "bad", "ok", "any", "after-all")}
    ended = {name: _ended(world, namespace, name) for name in ("good", "bad", "ok")}
    assert ended["good"] <= began["ok"] and ended["ok"] <= began["after-all"]  # noqa: PT018 -- a chain
    assert max(ended["good"], ended["bad"]) <= began["any"]


def _pod(world: World, namespace: str, job: str) -> Any:
    return world.items("pods", "-n", namespace, "-l", f"volcano.sh/job-name={job}")[0]


def _started(world: World, namespace: str, job: str) -> str:
    return str(_pod(world, namespace, job)["metadata"]["creationTimestamp"])


def _ended(world: World, namespace: str, job: str) -> str:
    state = _pod(world, namespace, job)["status"]["containerStatuses"][0]["state"]
    return str(state["terminated"]["finishedAt"])


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_a_job_ends_at_its_time_limit(machine: EmbeddedWorld) -> None:
    done = run(machine, "job", "run", "-N", "slow", "--time", "2s", *SMALL, "-c", "sleep 600", "--wait")
    assert done.returncode == 1
    assert "slow ended as Failed" in done.stderr
    state = machine.get("vcjob", "slow")["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "DeadlineExceeded")


BATCH = """#!/usr/bin/env python3
#SBATCH --job-name="My Training"
#SBATCH -N 2 --ntasks-per-node=2 -c 1    # four tasks
#SBATCH --mem=64M
#SBATCH --time=10 --output=out.%j

#STRATO --image strato/host
import os, sys
#SBATCH --nodes=7
print("args", sys.argv[1:])
print("node", os.environ["SLURM_NODEID"], "of", os.environ["SLURM_NNODES"], "tasks", os.environ["SLURM_NTASKS"])
print("extra", os.environ["EXTRA"], "cpus", os.environ["SLURM_CPUS_ON_NODE"])
"""


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_a_batch_script_runs_on_its_nodes_with_its_arguments(machine: EmbeddedWorld, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(BATCH)
    done = run(machine, "submit", "--export", "EXTRA=a b", "--wait", str(path), "--epochs", "3", "with space")
    assert done.returncode == 0, done.stderr
    name = re.fullmatch(r"Submitted batch job (my-training-\w{5})\n", done.stdout)
    assert name is not None, done.stdout
    assert "ignored: --output (the cluster keeps what containers print: strato job logs NAME)" in done.stderr
    logs = machine.own("job", "logs", "--all-tasks", name[1])
    assert logs.count("args ['--epochs', '3', 'with space']") == 2
    for node in (0, 1):
        assert f"node {node} of 2 tasks 4" in logs
    assert "extra a b cpus 2" in logs
    job = machine.get("vcjob", name[1])
    assert job["spec"]["minAvailable"] == 2
    assert machine.get("configmap", f"{name[1]}-script")["data"]["script"] == BATCH
    machine.own("job", "delete", "-N", name[1])
    eventually(lambda: machine.get("configmap", f"{name[1]}-script") is None, what="the script went with its job")


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_scripts_depend_on_each_other_and_fail_as_they_do(machine: EmbeddedWorld) -> None:
    failing = run(machine, "submit", "--parsable", "--image", "strato/host", "-", stdin="#!/bin/sh\nexit 3\n")
    name = failing.stdout.strip()
    assert re.fullmatch(r"standard-input-\w{5}", name), failing.stderr
    done = run(machine, "submit", "-d", f"afterok:{name}", "--image", "strato/host", "--wrap", "true", "--wait")
    assert done.returncode == 1
    assert f"was to start once job {name} has completed, but it is Failed" in done.stderr
    done = run(machine, "submit", "-Q", "-d", f"afternotok:{name}", "--image", "strato/host", "--wrap", "true", "-W")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_mail_is_sent_when_a_job_begins_and_fails(machine: EmbeddedWorld) -> None:
    Relay.messages.clear()
    words = ("--mail", "ann@example.org", *SMALL, "-c", "sh -c 'sleep 2; exit 3'", "--wait")
    done = run(machine, "job", "run", "-N", "mailed", *words)
    assert done.returncode == 1
    assert "warning: mail" not in done.stderr
    eventually(lambda: len(Relay.messages) == 2, what="both messages have come")
    assert "Subject: Strato job default/mailed began" in Relay.messages[0]
    assert "Subject: Strato job default/mailed failed" in Relay.messages[1]
    assert "0 of 1 succeeded, 1 failed" in Relay.messages[1]


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_without_a_relay_it_is_said_that_no_mail_is_sent(world: World, namespace: str) -> None:
    printed = world.strato("job", "run", "-n", namespace, "-N", "quiet", "--mail", "ann@example.org", "-c", "sleep 1")
    assert "warning: mail about quiet is not sent: the controllers have no SMTP server" in printed


VIEWS = [
    ("job", "list", "-w"),
    ("job", "list", "-o", "yaml", "-w"),
    ("job", "view", "-N", "watched", "-w"),
    ("job", "tree", "watched", "-w"),
    ("job", "top", "watched", "-w"),
    ("queue", "list", "-w"),
    ("queue", "get", "-n", "default", "-w"),
    ("queue", "tree", "-w"),
    ("queue", "tree", "-o", "yaml", "-w"),
    ("pod", "list", "-w"),
    ("podgroup", "list", "-o", "wide", "-w"),
    ("jobflow", "list", "-w"),
    ("status", "-w"),
    ("slurm", "squeue", "-i", "1"),
    ("slurm", "sinfo", "--iterate=1"),
]


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", VIEWS, ids=" ".join)
def test_watching_shows_what_is_there_and_ends_by_ctrl_c(machine: EmbeddedWorld, words: tuple[str, ...]) -> None:
    if machine.get("vcjob", "watched") is None:
        machine.own("job", "run", "-N", "watched", *SMALL, "-c", "sleep 600")
    command = [*STRATO, "--home", str(machine.home), *words]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_watching_shows_changes_as_they_come(machine: EmbeddedWorld) -> None:
    command = [*STRATO, "--home", str(machine.home), "job", "list", "-w"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        machine.own("job", "run", "-N", "changing", *SMALL, "-c", "sleep 1")
        phases: list[str] = []
        while "Completed" not in phases:
            fields = process.stdout.readline().split()
            assert fields, "it ended"
            phases += [fields[2]] if fields[0] == "changing" else []
        machine.own("job", "delete", "-N", "changing")
        while phases[-1] != "Deleted":
            fields = process.stdout.readline().split()
            phases += [fields[2]] if fields[0] == "changing" else []
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert phases[-2:] == ["Completed", "Deleted"], phases
    assert json.loads(machine.own("job", "list", "-o", "json"))["kind"] == "List"


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_a_watched_tree_is_shown_again_when_a_queue_is_new(machine: EmbeddedWorld) -> None:
    command = [*STRATO, "--home", str(machine.home), "queue", "tree", "-w"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        machine.own("queue", "create", "-n", "planted")
        line = ""
        while not line.strip().startswith("planted"):
            line = process.stdout.readline()
            assert line, "it ended"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert first.split()[0].lower() == "queue"
