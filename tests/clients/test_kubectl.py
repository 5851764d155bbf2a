"""kubectl of 1.20 and of the present release, built from their modules, type what people type."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.e2e.gobuild import built
from tests.e2e.worlds import EmbeddedWorld, eventually, free_port

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

SOURCES = Path(__file__).parent / "kubectl"
SERVE = "echo hello; cd /tmp; echo served > name; exec python3 -m http.server 8000"


def deployment(replicas: int) -> str:
    """Return a web server behind a Service."""
    container = {"name": "main", "image": "strato/host", "command": ["sh", "-c", SERVE]}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container | {"ports": [{"containerPort": 8000}]}]},
    }
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    ports = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": ports}
    return yaml.safe_dump_all([web, service])


class Kubectl:
    """One version of kubectl on one namespace."""

    def __init__(self, version: str, world: EmbeddedWorld, namespace: str) -> None:
        self.is_old = version == "v1.20"
        program = built(SOURCES / version, f"clients/kubectl-{version}", ["k8s.io/kubernetes/cmd/kubectl"]) / "kubectl"
        self.command = [str(program), "-n", namespace]
        self.env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}

    def type(self, *args: str, stdin: str = "", code: int = 0) -> str:
        """Run kubectl; return what it printed on both streams."""
        done = subprocess.run(
            [*self.command, *args], input=stdin, env=self.env, text=True, capture_output=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(params=["v1.20", "v1.36"])
def kubectl(request: pytest.FixtureRequest, sandbox: EmbeddedWorld, namespace: str) -> Kubectl:
    """Return each version, before a namespace in which two web servers run."""
    kubectl = Kubectl(request.param, sandbox, namespace)
    assert kubectl.type("apply", "-f", "-", stdin=deployment(2)).split() == [
        *("deployment.apps/web", "created"),
        *("service/web", "created"),
    ]
    assert "successfully rolled out" in kubectl.type("rollout", "status", "deployment/web", "--timeout=200s")
    return kubectl


def test_kubectl_creates_shows_changes_and_deletes(kubectl: Kubectl) -> None:
    kubectl.type("wait", "--for=condition=Available", "deployment/web", "--timeout=200s")
    assert "2/2" in kubectl.type("get", "deployments,pods,services", "-o", "wide")
    assert len(kubectl.type("get", "pods", "-l", "app=web", "-o", "name").split()) == 2
    assert "2 desired | 2 updated | 2 total" in kubectl.type("describe", "deployment", "web")
    assert "kube-api-access-" in kubectl.type("describe", "pods", "-l", "app=web")
    eventually(
        lambda: "Started container main" in kubectl.type("describe", "pods", "-l", "app=web", "--show-events"),
        what="events are described",
    )
    assert "hello" in kubectl.type("logs", "deployment/web", "--tail=5")
    explained = kubectl.type("explain", "deployment.spec.replicas")
    assert "integer" in explained
    assert "Number of desired pods" in explained
    assert kubectl.type("auth", "can-i", "create", "pods").strip() == "yes"
    assert kubectl.type("auth", "can-i", "create", "pods", "--as=nobody", code=1).strip().endswith("no")

    assert "+  replicas: 3" in kubectl.type("diff", "-f", "-", stdin=deployment(3), code=1)
    assert "deployment.apps/web configured" in kubectl.type("apply", "-f", "-", stdin=deployment(3))
    assert kubectl.type("diff", "-f", "-", stdin=deployment(3)) == ""
    kubectl.type("rollout", "restart", "deployment/web")
    kubectl.type("rollout", "status", "deployment/web", "--timeout=200s")
    assert kubectl.type("rollout", "history", "deployment/web").count("<none>") == 2
    kubectl.type("scale", "deployment/web", "--replicas=1")
    refused = kubectl.type("apply", "--server-side", "-f", "-", stdin=deployment(3), code=1)
    assert ".spec.replicas" in refused
    kubectl.type("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=deployment(3))
    kubectl.type("rollout", "status", "deployment/web", "--timeout=200s")
    kubectl.type("label", "deployment/web", "tier=front")
    patched = kubectl.type("patch", "deployment/web", "-p", json.dumps({"spec": {"paused": True}}), "-o", "yaml")
    assert "paused: true" in patched
    assert "web" in kubectl.type("get", "events", "--field-selector", "involvedObject.kind=Deployment")
    eventually(lambda: "cpu" in kubectl.type("top", "nodes").lower(), what="a node has metrics")
    kubectl.type("delete", "-f", "-", "--timeout=200s", stdin=deployment(3))
    assert kubectl.type("get", "deployments,services").startswith("No resources found")
    assert "hi" in kubectl.type(
        "run", "once", "-i", "--rm", "--image=strato/host", "--restart=Never", "--", "echo", "hi"
    )


def test_kubectl_has_streams_or_a_word_about_what_it_needs(kubectl: Kubectl) -> None:
    """1.20 speaks SPDY alone, which is not spoken here."""
    if kubectl.is_old:
        needs = "SPDY is not spoken here, WebSocket is: use kubectl 1.31 or newer"
        assert needs in kubectl.type("exec", "deployment/web", "--", "true", code=1)
        assert needs in kubectl.type("port-forward", "deployment/web", f"{free_port()}:8000", code=1)
        return
    assert kubectl.type("exec", "deployment/web", "--", "cat", "/tmp/name") == "served\n"
    kubectl.type("exec", "deployment/web", "--", "sh", "-c", "exit 7", code=7)
    assert kubectl.type("exec", "-i", "deployment/web", "--", "cat", stdin="typed") == "typed"
    port = free_port()
    command = [*kubectl.command, "port-forward", "service/web", f"{port}:80"]
    with subprocess.Popen(command, env=kubectl.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as forward:
        assert forward.stdout is not None
        assert str(port).encode() in forward.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=60) as answer:
            assert answer.read() == b"served\n"
        forward.send_signal(signal.SIGTERM)
        forward.communicate(timeout=60)


def test_kubectl_watches_until_what_it_waits_for_is_there(kubectl: Kubectl) -> None:
    command = [*kubectl.command, "get", "deployments", "--watch", "-o", "jsonpath={.spec.replicas}{'\\n'}"]
    with subprocess.Popen(command, env=kubectl.env, text=True, stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "2\n"
        kubectl.type("scale", "deployment/web", "--replicas=1")
        lines = iter(watching.stdout.readline, "")
        eventually(lambda: next(lines) == "1\n", what="the watch shows the change")
        watching.terminate()
