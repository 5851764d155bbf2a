"""The Mesos master as a process of its own: shares, hoarded offers, kills, and masters that take over."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.testing.mesosframework import FrameworkClient, command_task, fitting
from tests.e2e.worlds import STRATO, EmbeddedWorld, embedded, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TERMINAL = frozenset(("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST", "TASK_ERROR"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """One node of the size of the example in the paper on dominant resource fairness."""
    options = ("--no-sandbox", "--hollow-nodes", "1", "--cpu", "9", "--memory", "18Gi")
    with embedded(tmp_path_factory.mktemp("mesos") / "home", *options) as found:
        yield found


@contextlib.contextmanager
def master(
    world: EmbeddedWorld, port: int, *options: str, log: Path, kubeconfig: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a master for the length of a block, as an administrator or as whom a kubeconfig names."""
    config = str(kubeconfig or world.kubeconfig)
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*STRATO, "run", "mesos", "--kubeconfig", config, "--port", str(port), *options],
            stdout=file,
            stderr=file,
        )
    try:
        eventually(lambda: answer(port, "/version") is not None, timeout=60, what="the master serves")
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def answer(port: int, path: str) -> tuple[int, str] | None:
    """GET a page: status, and where it sends us or what it says."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        return response.status, response.headers.get("Location", body)
    except OSError:
        return None
    finally:
        connection.close()


def leads(port: int) -> bool:
    found = answer(port, "/slaves")
    return found is not None and found[0] == 200


class Hungry:
    """A framework that launches one task of its size from every offer that has room for it."""

    def __init__(self, name: str, cpus: float, memory_mib: float) -> None:
        self.name, self.cpus, self.memory_mib = name, cpus, memory_mib
        self.launched = 0

    def on_event(self, framework: FrameworkClient, event: dict[str, Any]) -> None:
        if event["type"] == "UPDATE":
            framework.acknowledge(event)
        for offer in event.get("offers", {}).get("offers", ()):
            if fitting(offer, self.cpus, self.memory_mib):
                task = command_task(f"{self.name}-{self.launched}", offer, "sleep 1000", self.cpus, self.memory_mib)
                self.launched += 1
                operation = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
                framework.post("ACCEPT", offer_ids=[offer["id"]], operations=[operation], filters={"refuse_seconds": 0})
            else:
                framework.post("DECLINE", offer_ids=[offer["id"]], filters={"refuse_seconds": 1})


def test_two_frameworks_get_the_shares_of_the_paper(world: EmbeddedWorld, tmp_path: Path) -> None:
    """9 CPUs and 18 GB: tasks of <1 CPU, 4 GB> and <3 CPUs, 1 GB> make 3 and 2 tasks, two thirds dominant share each.

    Meanwhile the room of offers is held against Strato's scheduler, and given back when the master ends.
    """
    port = free_port()
    with master(world, port, "--no-leader-elect", log=tmp_path / "log"):
        eventually(lambda: leads(port), timeout=60, what="the master leads")
        a, b = Hungry("a", 1, 4096), Hungry("b", 3, 1024)
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(
                    FrameworkClient(
                        f"127.0.0.1:{port}", {"user": "u", "name": each.name, "role": each.name}, each.on_event
                    )
                )
                for each in (a, b)
            ]
            eventually(lambda: (a.launched, b.launched) == (3, 2), timeout=60, what="the shares are reached")
            queues = Counter(group["spec"]["queue"] for group in world.items("podgroups", "-n", "mesos"))
            assert queues == {"a": 1, "b": 1}
            eventually(lambda: len(world.items("pods", "-n", "mesos")) == 5, timeout=30, what="five pods run")
            assert not [error for client in clients for error in client.errors]
            for client in clients:
                client.call("TEARDOWN")
        eventually(lambda: not world.items("pods", "-n", "mesos"), timeout=60, what="all tasks are gone")
    (node,) = world.items("nodes")
    assert "strato.dev/held-room" not in node["metadata"].get("annotations", {})


def test_an_offer_is_held_against_the_scheduler_until_it_is_rescinded(world: EmbeddedWorld, tmp_path: Path) -> None:
    """A framework that hoards loses its offer after the timeout; another job waits that long and no longer."""
    port = free_port()
    rescinded = threading.Event()
    offered = threading.Event()

    def hoard(framework: FrameworkClient, event: dict[str, Any]) -> None:
        if event["type"] == "OFFERS":
            offered.set()
        if event["type"] == "RESCIND":
            rescinded.set()
            framework.post("SUPPRESS")

    with master(world, port, "--no-leader-elect", "--offer-timeout", "5secs", log=tmp_path / "log"):
        eventually(lambda: leads(port), timeout=60, what="the master leads")
        with FrameworkClient(f"127.0.0.1:{port}", {"user": "u", "name": "hoarder"}, hoard) as framework:
            assert offered.wait(30)
            world.strato(
                "job", "run", "--name", "waits", "--image", "busybox", "--requests", "cpu=2", "--replicas", "1"
            )
            assert rescinded.wait(60)
            eventually(
                lambda: any(pod["status"].get("phase") == "Running" or pod["spec"].get("nodeName")
                            for pod in world.items("pods", "-l", "volcano.sh/job-name=waits")),
                timeout=60, what="the job is placed",
            )  # fmt: skip
            framework.call("TEARDOWN")
    world.strato("job", "delete", "--name", "waits")


class Patient:
    """Launches some tasks; acknowledges nothing before it is told to."""

    def __init__(self, tasks: int) -> None:
        self.left = [f"t-{number}" for number in range(tasks)]
        self.states: dict[str, list[str]] = {}
        self.uuids: dict[str, set[str]] = {}
        self.acknowledges = False

    def on_event(self, framework: FrameworkClient, event: dict[str, Any]) -> None:
        for offer in event.get("offers", {}).get("offers", ()):
            names = [self.left.pop() for _ in range(min(len(self.left), fitting(offer, 0.1, 32)))]
            tasks = [command_task(name, offer, "sleep 3", 0.1, 32) for name in names]
            framework.post("ACCEPT", offer_ids=[offer["id"]],
                           operations=[{"type": "LAUNCH", "launch": {"task_infos": tasks}}])  # fmt: skip
        if event["type"] == "UPDATE":
            status = event["update"]["status"]
            name = status["task_id"]["value"]
            states = self.states.setdefault(name, [])
            if not states or states[-1] != status["state"]:
                states.append(status["state"])
            self.uuids.setdefault(f"{name} {status['state']}", set()).add(status.get("uuid", ""))
            if self.acknowledges:
                framework.acknowledge(event)


def test_a_killed_master_loses_no_task_and_no_update(world: EmbeddedWorld, tmp_path: Path) -> None:
    port, patient = free_port(), Patient(60)
    info = {"user": "u", "name": "patient", "failover_timeout": 120.0}
    framework = FrameworkClient(f"127.0.0.1:{port}", info, patient.on_event)
    with master(world, port, "--no-leader-elect", log=tmp_path / "log") as process:
        eventually(lambda: leads(port), timeout=60, what="the master leads")
        framework.connect()
        eventually(lambda: len(patient.states) == 60, timeout=60, what="every task has been heard of")
        process.send_signal(signal.SIGKILL)
        assert framework.ended.wait(30)
        framework.close()
    with master(world, port, "--no-leader-elect", log=tmp_path / "log"):
        eventually(lambda: leads(port), timeout=60, what="the master leads again")
        patient.acknowledges = True
        framework.connect()
        eventually(
            lambda: all(states[-1] in TERMINAL for states in patient.states.values()), timeout=60, what="all tasks end"
        )
        assert Counter(states[-1] for states in patient.states.values()) == {"TASK_FINISHED": 60}
        assert all(len(uuids) == 1 for uuids in patient.uuids.values())
        eventually(lambda: not world.items("pods", "-n", "mesos"), timeout=60, what="what is acknowledged is gone")
        framework.call("TEARDOWN")
        framework.close()


def test_another_master_takes_over(world: EmbeddedWorld, tmp_path: Path) -> None:
    """Two masters: one leads, the other sends us to it; when the leader is killed the other one leads."""
    quick = ("--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s",
             "--leader-elect-retry-period", "500ms")  # fmt: skip
    first, second = free_port(), free_port()
    with master(world, first, *quick, log=tmp_path / "first") as leader:
        eventually(lambda: leads(first), timeout=60, what="the first leads")
        with master(world, second, *quick, log=tmp_path / "second"):
            eventually(
                lambda: answer(second, "/state") == (307, f"//127.0.0.1:{first}/state"), timeout=30, what="it redirects"
            )
            leader.send_signal(signal.SIGKILL)
            eventually(lambda: leads(second), timeout=60, what="the second leads")


def _account(world: EmbeddedWorld, path: Path) -> Path:
    """Apply what an installation gives the master, but for its pod, and return a kubeconfig of its account."""
    parts = [word for part in ("namespace", "rbac", "mesos") for word in ("--only", part)]
    printed = world.strato("install", "--set", "custom.mesos_enable=true", *parts, "--dry-run")
    for body in yaml.safe_load_all(printed):
        if body["kind"] == "Namespace" or (body["metadata"]["name"] == "strato-mesos" and body["kind"] != "Deployment"):
            world.apply(body)
    config = yaml.safe_load(world.kubeconfig.read_text())
    token = world.kubectl("create", "token", "strato-mesos", "-n", "volcano-system").strip()
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_rights_of_an_installation_suffice(world: EmbeddedWorld, tmp_path: Path) -> None:
    """With a lease, a new role's queue and group, held room, a killed task and one that ends."""
    port, log = free_port(), tmp_path / "log"
    kubeconfig = _account(world, tmp_path / "kubeconfig")
    states: dict[str, str] = {}

    def launch(framework: FrameworkClient, event: dict[str, Any]) -> None:
        if event["type"] == "UPDATE":
            status = event["update"]["status"]
            states[status["task_id"]["value"]] = status["state"]
            framework.acknowledge(event)
        for offer in event.get("offers", {}).get("offers", ()):
            tasks = [command_task(name, offer, f"sleep {end}", 0.1, 32) for name, end in (("short", 1), ("long", 1000))]
            operations = [] if states else [{"type": "LAUNCH", "launch": {"task_infos": tasks}}]
            states.update({} if states else {"short": "", "long": ""})
            framework.post("ACCEPT", offer_ids=[offer["id"]], operations=operations, filters={"refuse_seconds": 60})

    info = {"user": "u", "name": "n", "role": "from/chart"}
    with master(world, port, log=log, kubeconfig=kubeconfig):
        eventually(lambda: leads(port), timeout=60, what="the master leads")
        with FrameworkClient(f"127.0.0.1:{port}", info, launch) as framework:
            eventually(lambda: states.get("short") == "TASK_FINISHED", timeout=60, what="a task ends")
            framework.call("KILL", task_id={"value": "long"})
            eventually(lambda: states.get("long") == "TASK_KILLED", timeout=60, what="a task is killed")
            queues = {queue["metadata"]["name"]: queue["spec"] for queue in world.items("queues")}
            assert [spec["parent"] for name, spec in queues.items() if name.startswith("from-chart")] == ["from"]
            assert world.items("podgroups", "-n", "mesos")
            framework.call("TEARDOWN")
        eventually(lambda: not world.items("pods", "-n", "mesos"), timeout=60, what="what is acknowledged is gone")
    refused = [line for line in log.read_text().splitlines() if "forbidden" in line.lower()]
    assert all("namespace not created" in line for line in refused), "the installation makes the namespace"
