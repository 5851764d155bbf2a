"""What people do with kubectl beside the everyday: top, certificates, autoscalers, events of both groups."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """A cluster of hollow nodes and this machine."""
    cluster = EmbeddedWorld(tmp_path_factory.mktemp("kinds") / "home", "--hollow-nodes", "2", "--pod-network", "host")
    cluster.start()
    yield cluster
    cluster.stop()


def template(ratio: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": {"strato.dev/usage-ratio": ratio}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"node.kubernetes.io/instance-type": "hollow"},
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


def test_top_shows_what_nodes_and_containers_use(world: EmbeddedWorld) -> None:
    busy = {"name": "busy", "image": "strato/host", "command": ["sh", "-c", "while :; do :; done"]}
    name = next(
        node["metadata"]["name"]
        for node in world.items("nodes")
        if node["metadata"]["labels"]["node.kubernetes.io/instance-type"] != "hollow"
    )
    here = {"containers": [busy], "nodeName": name, "terminationGracePeriodSeconds": 0}
    for pod, spec in (("here", here), ("there", template("0.5")["spec"])):
        body = {"metadata": {"name": pod, "annotations": {"strato.dev/usage-ratio": "0.5"}}, "spec": spec}
        world.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Pod", **body}))
    world.kubectl("wait", "--for=condition=Ready", "pod/here", "pod/there", "--timeout=120s")

    def rows() -> dict[str, list[str]] | None:
        lines = [line.split() for line in world.kubectl("top", "pods", "--containers", "--no-headers").splitlines()]
        found = {line[0]: line[1:] for line in lines}
        busy_millicores = int(found["here"][1].rstrip("m")) if "here" in found else 0
        return found if busy_millicores > 50 and "there" in found else None

    shown = eventually(rows, what="both pods are measured")
    assert shown["there"] == ["main", "250m", "32Mi"]
    assert shown["here"][0] == "busy"
    nodes = world.kubectl("top", "nodes", "--no-headers")
    assert {line.split()[0] for line in nodes.splitlines()} == {"hollow-0", "hollow-1", name}
    world.kubectl("delete", "pod", "here", "there", "--force", "--grace-period=0")


def test_a_certificate_that_was_approved_opens_the_door(world: EmbeddedWorld, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(request.public_bytes(Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "expirationSeconds": 3600,
    }
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "jane"}}
    world.kubectl("create", "-f", "-", stdin=json.dumps({**body, "spec": spec}))
    assert "Pending" in world.kubectl("get", "csr", "jane")
    world.kubectl("certificate", "approve", "jane")
    issued = eventually(
        lambda: world.kubectl("get", "csr", "jane", "-o", "jsonpath={.status.certificate}"), what="it is signed"
    )
    assert "Approved,Issued" in world.kubectl("get", "csr", "jane")
    (tmp_path / "jane.crt").write_bytes(base64.b64decode(issued))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "jane.key").write_bytes(private)
    server = world.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    command = [
        *("kubectl", "--kubeconfig", "/dev/null", "--server", server),
        *("--certificate-authority", str(world.home / "pki" / "ca.crt")),
        *("--client-certificate", str(tmp_path / "jane.crt"), "--client-key", str(tmp_path / "jane.key")),
        *("get", "pods"),
    ]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 'User "jane" cannot list resource "pods"' in refused.stderr


def test_an_autoscaler_scales_a_controller_and_tells_in_events_of_both_groups(world: EmbeddedWorld) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "template": template()},
    }
    world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    eventually(lambda: world.get("rc", "web")["status"].get("readyReplicas") == 1, what="its pod runs")
    world.kubectl("scale", "rc", "web", "--replicas=2")
    eventually(lambda: world.get("rc", "web")["status"].get("readyReplicas") == 2, what="its pods run")
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "web"},
            "maxReplicas": 4,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }
    world.kubectl("create", "-f", "-", stdin=json.dumps(scaler))
    eventually(lambda: world.get("rc", "web")["status"].get("readyReplicas") == 4, what="it is scaled")
    assert "memory: 100%/50%" in eventually(
        lambda: "100%" in (text := world.kubectl("get", "hpa", "web")) and text, what="the table shows it"
    )
    for resource, field in (("events", "involvedObject"), ("events.events.k8s.io", "regarding")):
        selector = f"{field}.name=web,{field}.kind=HorizontalPodAutoscaler,reason=SuccessfulRescale"
        found = eventually(
            lambda resource=resource, selector=selector: world.kubectl("get", resource, "--field-selector", selector),
            what="the event is there",
        )
        assert "New size: 4" in found
    assert "SuccessfulRescale" in world.kubectl("describe", "hpa.v1.autoscaling", "web")
    world.kubectl("delete", "hpa,rc", "web")


def test_a_pod_of_an_unknown_runtime_class_is_refused(world: EmbeddedWorld) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "r"},
        "spec": template(runtimeClassName="no")["spec"],
    }
    refused = world.kubectl_process("create", "-f", "-", stdin=json.dumps(pod), check=False)
    assert 'pod rejected: RuntimeClass "no" not found' in refused.stderr
