"""What README promises of manifests: decided on first, then applied; hollow pods that do what their commands say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]
Laptop = Callable[..., EmbeddedWorld]
HOLLOW = ("--no-sandbox", "--hollow-nodes", "4", "--cpu", "8", "--memory", "32Gi")


def pod(name: str, *command: str, **spec: Any) -> str:
    container = {"name": "c", "image": "nginx", **({"command": list(command)} if command else {})}
    body = {"restartPolicy": "Never", "containers": [container], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})


@pytest.mark.timeout(300)
def test_what_schedule_says_of_the_examples_is_what_happens_when_they_are_applied(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = laptop(*HOLLOW)
    monkeypatch.chdir(tmp_path)
    world.own("examples", "shown")
    (tmp_path / "shown/manifests/nodes.yaml").unlink()  # the cluster has its own
    monkeypatch.chdir(tmp_path / "shown")
    said = json.loads(world.own("schedule", "--from-cluster", "-f", "manifests/", "-o", "json"))
    (cycle,) = said["cycles"]
    bound = sorted(bind["pod"].partition("/")[2] for bind in cycle["binds"])
    waiting = {entry["pod"] for entry in cycle["unschedulable"]}
    assert (len(bound), len(waiting)) == (11, 20)
    world.own(
        "kubectl", "apply", "-f", "manifests/queues.yaml", "-f", "manifests/training.yaml", "-f", "manifests/web.yaml"
    )

    def running() -> list[str]:
        return sorted(p["metadata"]["name"] for p in world.items("pods") if p["status"].get("phase") == "Running")

    gangs = [name for name in bound if name.startswith("train-")]
    eventually(lambda: [name for name in running() if name.startswith("train-")] == gangs, what="the gang runs")
    eventually(lambda: sum(name.startswith("web-") for name in running()) == 3, what="the Deployment runs")
    assert not any(name.startswith("train-large") for name in running())


@pytest.mark.timeout(300)
def test_hollow_pods_do_what_their_commands_say_and_take_their_grace(laptop: Laptop) -> None:
    world = laptop(*HOLLOW)
    pods = [
        pod("fails", "sh", "-c", "sleep 1 && exit 3"),
        pod("serves"),
        pod("stays", "sleep", "1000", terminationGracePeriodSeconds=6),
    ]
    for body in pods:
        world.kubectl("create", "-f", "-", stdin=body)
    eventually(lambda: world.get("pod", "fails")["status"].get("phase") == "Failed", what="a command that fails")
    state = world.get("pod", "fails")["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 3
    assert world.get("pod", "serves")["status"]["phase"] == "Running"
    begun = time.monotonic()
    world.kubectl("delete", "pod", "serves", "stays", "--wait=false")
    eventually(lambda: world.get("pod", "serves") is None, what="a service ends when it is told to")
    assert world.get("pod", "stays") is not None
    eventually(lambda: world.get("pod", "stays") is None, what="sleep is killed at the end of its grace period")
    assert time.monotonic() - begun >= 5


@pytest.mark.timeout(300)
def test_kubectl_shows_what_nothing_comes_of(laptop: Laptop) -> None:
    world = laptop(*HOLLOW)
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p"},
        "spec": {"podSelector": {}},
    }
    said = world.kubectl_process("apply", "-f", "-", stdin=json.dumps(policy))
    assert "Warning: NetworkPolicy: stored, but nothing enforces it on this cluster" in said.stderr
    said = world.kubectl_process(
        "create", "-f", "-", stdin=pod("p", "true", securityContext={"seLinuxOptions": {"level": "s0"}})
    )
    assert "Warning: spec.securityContext.seLinuxOptions: stored, but SELinux labels are not set" in said.stderr
    assert not world.kubectl_process("create", "-f", "-", stdin=pod("q", "true")).stderr
