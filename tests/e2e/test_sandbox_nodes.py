"""One machine as two nodes: pods of both are real, and reach one another, with stock kubectl."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SERVE = "mkdir /tmp/web; cd /tmp/web; echo $NODE > index.html; exec python3 -m http.server 8000"
LABELS = {"app": "web"}
HOST_PORT, NODE_PORT = 18473, 30473


def daemon_set() -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "strato/host",
        "command": ["sh", "-c", SERVE],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"containerPort": 8000, "hostPort": HOST_PORT}],
        "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container], "volumes": [{"name": "tmp"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {
        "type": "NodePort",
        "selector": LABELS,
        "ports": [{"port": 80, "targetPort": 8000, "nodePort": NODE_PORT}],
    },
}


def read(address: str, port: int) -> str:
    with urllib.request.urlopen(f"http://{address}:{port}/", timeout=20) as answer:
        return str(answer.read().decode().strip())


def answers(address: str, node: str) -> bool:
    with contextlib.suppress(OSError):
        return read(address, HOST_PORT) == node
    return False


def test_one_machine_is_two_nodes(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--sandbox-nodes", "2", "--cpus", "2", "--processes", "2")
    nodes = json.loads(world.kubectl("get", "nodes", "-o", "json"))["items"]
    addresses = {
        node["metadata"]["name"]: next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
        for node in nodes
    }
    assert len(addresses) == 2
    for body in (daemon_set(), SERVICE):
        world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    world.kubectl("rollout", "status", "daemonset/web", "--timeout=120s")
    pods = json.loads(world.kubectl("get", "pods", "-o", "json"))["items"]
    places = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in pods}
    assert places.keys() == addresses.keys()

    ask = (
        "import urllib.request as u; "
        "print(*sorted({u.urlopen('http://web').read().decode().strip() for _ in range(24)}))"
    )
    for name in places.values():
        found = world.kubectl("exec", name, "--", "python3", "-c", ask).split()
        assert found == sorted(addresses), "a service connects pods of both nodes"
        assert "GET /" in world.kubectl("logs", name)
    if len(set(addresses.values())) == 2:  # as root; pods have addresses of their own then
        for node, address in addresses.items():
            assert read(address, HOST_PORT) == node, "a host port is its node's"
            assert read(address, NODE_PORT) in addresses, "a node port is open at every node"

    _, process = world.processes
    os.kill(process, signal.SIGKILL)  # of controllers, scheduler and nodes: it is started again
    before = {pod["metadata"]["uid"] for pod in pods}
    if len(set(addresses.values())) == 2:
        for node, address in addresses.items():
            eventually(lambda node=node, address=address: answers(address, node), what="the host port is open again")
    pods = json.loads(world.kubectl("get", "pods", "-o", "json"))["items"]
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert {pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods} == {0}

    second = sorted(addresses, key=len)[-1]
    world.kubectl("drain", second, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    world.kubectl("delete", "pod", places[second], "--wait=false")
    eventually(lambda: places[second] not in world.kubectl("get", "pods"), what="the pod is gone")
    world.kubectl("rollout", "status", "daemonset/web", "--timeout=120s")
