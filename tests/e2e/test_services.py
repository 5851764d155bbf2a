"""Services, their names, and clients inside pods, on real pods with stock tools."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, embedded, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]

CLIENT = """
import json, os, socket, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(place + "token").read()
trust = ssl.create_default_context(cafile=place + "ca.crt")
def get(url):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
    return urllib.request.urlopen(request, context=trust, timeout=30).read().decode()
host = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
issuer = json.loads(get("https://kubernetes.default.svc/.well-known/openid-configuration"))
print(json.dumps({
    "version": json.loads(get(host + "/version"))["major"],
    "keys": [key["alg"] for key in json.loads(get(issuer["jwks_uri"]))["keys"]],
    "namespace": open(place + "namespace").read(),
    "service": urllib.request.urlopen("http://web:8080/name", timeout=30).read().decode(),
    "headless": urllib.request.urlopen("http://one.bare.default.svc.cluster.local:80/name", timeout=30).read().decode(),
    "variables": os.environ["WEB_SERVICE_HOST"] == socket.gethostbyname("web"),
}))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """A cluster with a web server behind a Service with a node port, and behind a headless one."""
    cluster = EmbeddedWorld(tmp_path_factory.mktemp("services") / "home", "--cpus", "8")
    cluster.start()
    serve = "mkdir /tmp/web; cd /tmp/web; echo -n served > name; exec python3 -m http.server 80"
    members = {"hostname": "one", "subdomain": "bare", "restartPolicy": "Always"}
    create(cluster, pod("web", ["sh", "-c", serve], {"app": "web"}, **members))
    ports = [{"name": "http", "port": 8080, "targetPort": 80}]
    create(cluster, service("web", type="NodePort", ports=ports))
    create(cluster, service("bare", clusterIP="None", ports=[{"name": "http", "port": 80}]))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    yield cluster
    cluster.stop()


def create(world: EmbeddedWorld, obj: dict[str, Any]) -> None:
    world.kubectl("create", "-f", "-", stdin=json.dumps(obj))


def pod(name: str, command: list[str], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "strato/host", "command": command}
    metadata = {"name": name, "labels": labels or {}}
    body = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def service(name: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"app": "web"}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def test_a_client_in_a_pod_finds_the_api_server_and_services(world: EmbeddedWorld) -> None:
    create(world, pod("client", ["python3", "-c", f"import time\n{_retried(CLIENT)}"]))
    world.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/client", "--timeout=120s")
    assert json.loads(world.kubectl("logs", "client").splitlines()[-1]) == {
        "version": "1",
        "keys": ["ES256"],
        "namespace": "default",
        "service": "served",
        "headless": "served",
        "variables": True,
    }


def _retried(program: str) -> str:
    """Return a program that starts over for a while: endpoints come a moment after their pods are ready."""
    return (
        f"program = {program!r}\nfor _ in range(30):\n    try:\n        exec(program, {{}})\n        break\n"
        "    except OSError as error:\n        print(error)\n        time.sleep(0.5)\nelse:\n    raise SystemExit(1)\n"
    )


def test_a_node_port_answers_on_this_machine_until_the_service_goes(world: EmbeddedWorld) -> None:
    port = world.get("service", "web")["spec"]["ports"][0]["nodePort"]

    def served() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=30) as answer:
                return bool(answer.read() == b"served")
        except OSError:
            return False

    eventually(served, what="the node port answers")
    world.kubectl("delete", "service", "web")
    eventually(lambda: not served(), what="the node port is closed")


def test_a_host_port_is_open_while_its_pod_runs(world: EmbeddedWorld) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def answer() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    for name in ("first", "second"):
        serve = f"mkdir /tmp/web; cd /tmp/web; echo -n {name} > name; exec python3 -m http.server 80"
        body = pod(name, ["sh", "-c", serve], restartPolicy="Always", terminationGracePeriodSeconds=1)
        body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port, "hostIP": "127.0.0.1"}]
        create(world, body)
    eventually(lambda: answer() == "first", what="the first pod's port answers")
    assert world.get("pod", "second")["spec"].get("nodeName") is None, "the port is taken on the only node"
    world.kubectl("delete", "pod", "first")
    eventually(lambda: answer() == "second", what="its successor has the port")
    world.kubectl("delete", "pod", "second")
    eventually(lambda: not answer(), what="the port is closed")


def test_pods_without_a_token_have_no_volume(world: EmbeddedWorld) -> None:
    create(world, pod("plain", ["true"], automountServiceAccountToken=False))
    assert not world.get("pod", "plain")["spec"].get("volumes")


def test_services_have_endpoints_where_pods_have_addresses_of_loopback(tmp_path: Path) -> None:
    """As those of every node of an ordinary user have."""
    with embedded(tmp_path / "home", "--pod-network", "host") as alone:
        serve = "mkdir /tmp/web; cd /tmp/web; echo -n served > name; exec python3 -m http.server 8099 --bind $AT"
        at = {"name": "AT", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        made = pod("web", ["sh", "-c", serve], {"app": "web"}, restartPolicy="Always")
        made["spec"]["containers"][0]["env"] = [at]
        create(alone, made)
        create(alone, service("web", ports=[{"name": "http", "port": 8080, "targetPort": 8099}]))
        alone.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
        assert alone.get("pod", "web")["status"]["podIP"].startswith("127.")
        url = f"http://{alone.get('service', 'web')['spec']['clusterIP']}:8080/name"
        eventually(lambda: urllib.request.urlopen(url, timeout=5).read() == b"served", what="the Service answers")


def test_a_pod_that_looks_for_a_host_elsewhere_in_vain_is_told_why(tmp_path: Path) -> None:
    """Here by the user's wish; without nftables the event names the package in these brackets."""
    with embedded(tmp_path / "home", "--pod-network", "isolated") as alone:
        if alone.items("nodes")[0]["status"]["nodeInfo"]["containerRuntimeVersion"] != "strato://root":
            pytest.skip("pods of an ordinary user have the machine's network")
        create(alone, pod("asks", ["python3", "-c", "import socket; socket.gethostbyname('index.example.com')"]))
        alone.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/asks", "--timeout=120s")
        told = "index.example.com is not found: pods reach nothing beyond this machine here"
        where = "(strato up --pod-network isolated)"

        def messages() -> list[str]:
            found = alone.items("events", "--field-selector=reason=EgressUnavailable,involvedObject.name=asks")
            return [event["message"] for event in found]

        eventually(lambda: messages() == [f"{told} {where}"], what="an event of the pod says why")
