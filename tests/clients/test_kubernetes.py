"""Libraries for Python: the official ones, kr8s and lightkube."""

from __future__ import annotations

import json

import pytest

from tests.clients.environments import PROGRAMS, client_image, environment, run_program
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]


def test_the_official_client(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("kubernetes", "official.py", sandbox, namespace) == [
        "objects are created, read and patched",
        "a stale object is a conflict",
        "lists come in pages",
        "a deployment is created from YAML and watched until it is available",
        "the dynamic client applies, with conflicts and force",
        "it is scaled and deleted",
        "a pod is watched until it is ready",
        "its log is followed",
        "commands run in it, with streams and an exit code",
        "its port is forwarded",
        "its port answers through the proxy",
    ]


def test_the_official_client_for_asyncio(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("kubernetes-asyncio", "asyncio_client.py", sandbox, namespace) == [
        "a pod is watched until it runs",
        "it is patched and listed by label",
        "the dynamic client applies",
        "its log is read and followed",
        "commands run in it",
    ]


def test_kr8s(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("kr8s", "kr8s_client.py", sandbox, namespace) == [
        "objects are created, patched, labelled and found",
        "custom resources are read",
        "a deployment is waited for",
        "a log is followed",
        "commands run in it",
        "ports of a pod and of a service are forwarded",
        "a service answers through the proxy",
        "it is scaled and deleted",
    ]


def test_lightkube(sandbox: EmbeddedWorld, namespace: str) -> None:
    assert run_program("lightkube", "lightkube_client.py", sandbox, namespace) == [
        "objects are applied, with conflicts and force",
        "a deployment is applied from YAML and waited for",
        "custom resources are read",
        "a pod is watched until it runs",
        "its log is followed",
        "commands run in it, with streams and an exit code",
    ]


def test_a_pod_reaches_the_api_with_its_account(sandbox: EmbeddedWorld, namespace: str) -> None:
    """The image is the client's environment, the program comes as a ConfigMap, the rights as a Role."""
    image = client_image("kubernetes", sandbox)
    python = str(environment("kubernetes") / "bin" / "python")
    own = ("-n", namespace)
    sandbox.kubectl("create", "serviceaccount", "reader", *own)
    sandbox.kubectl("create", "role", "reader", "--verb=get,list,watch", "--resource=pods", *own)
    account = f"--serviceaccount={namespace}:reader"
    sandbox.kubectl("create", "rolebinding", "reader", "--role=reader", account, *own)
    sandbox.kubectl("create", "configmap", "program", f"--from-file={PROGRAMS / 'in_cluster.py'}", *own)
    main = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": [python, "/program/in_cluster.py"]}
    main["volumeMounts"] = [{"name": "program", "mountPath": "/program"}]
    spec = {"serviceAccountName": "reader", "restartPolicy": "Never", "containers": [main]}
    spec["volumes"] = [{"name": "program", "configMap": {"name": "program"}}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inside", "namespace": namespace}, "spec": spec}
    sandbox.kubectl("create", "-f", "-", stdin=json.dumps(body))
    phases = "jsonpath={.status.phase}=Succeeded"
    done = sandbox.kubectl_process("wait", f"--for={phases}", "pod/inside", "--timeout=180s", *own, check=False)
    log = sandbox.kubectl("logs", "inside", *own)
    assert done.returncode == 0, log + done.stderr
    assert log.splitlines() == [
        "ok the pod finds itself in its own namespace",
        "ok it is its service account",
        "ok it may do nothing else",
    ]
