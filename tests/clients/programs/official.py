"""What the official client does in a namespace: objects, watches, patches, apply, and the streams of a pod."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.stream import portforward, stream

NAMESPACE = sys.argv[1]
SERVE = "echo started; mkdir /tmp/web; cd /tmp/web; echo hello > page.txt; exec python3 -m http.server 8000"


def pod(name: str, script: str) -> dict[str, Any]:
    main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script]}
    spec = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def refusal(call: Callable[..., Any], *args: Any, **options: Any) -> client.ApiException:
    try:
        call(*args, **options)
    except client.ApiException as error:
        return error
    raise AssertionError(f"{call} was not refused")


def objects(core: client.CoreV1Api) -> None:
    made = core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"), data={"a": "1"})
    )
    assert made.metadata.uid
    core.patch_namespaced_config_map("settings", NAMESPACE, {"data": {"b": "2"}})
    core.patch_namespaced_config_map(
        "settings", NAMESPACE, [{"op": "replace", "path": "/data/a", "value": "3"}]
    )  # a list goes as a JSON patch
    assert core.read_namespaced_config_map("settings", NAMESPACE).data == {"a": "3", "b": "2"}
    print("ok objects are created, read and patched")
    made.data = {"stale": "yes"}
    assert refusal(core.replace_namespaced_config_map, "settings", NAMESPACE, made).status == 409
    print("ok a stale object is a conflict")
    for number in range(5):
        name = f"page-{number}"
        core.create_namespaced_config_map(
            NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"paged": "yes"}))
        )
    first = core.list_namespaced_config_map(NAMESPACE, label_selector="paged=yes", limit=2)
    rest = core.list_namespaced_config_map(NAMESPACE, label_selector="paged=yes", _continue=first.metadata._continue)
    assert [item.metadata.name for item in first.items + rest.items] == [f"page-{number}" for number in range(5)]
    print("ok lists come in pages")


def manifests() -> None:
    api = client.ApiClient()
    text = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {NAMESPACE}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: strato/host, command: [sleep, "3600"]}}]}}
"""
    utils.create_from_dict(api, yaml.safe_load(text))
    seen = watch.Watch()
    for event in seen.stream(client.AppsV1Api().list_namespaced_deployment, NAMESPACE, timeout_seconds=120):
        if (event["object"].status.available_replicas or 0) == 2:
            seen.stop()
    print("ok a deployment is created from YAML and watched until it is available")
    body = yaml.safe_load(text)
    body["spec"]["replicas"] = 1
    deployments = dynamic.DynamicClient(api).resources.get(api_version="apps/v1", kind="Deployment")
    ours = {"body": body, "namespace": NAMESPACE, "field_manager": "program"}
    assert ".spec.replicas" in str(refusal(deployments.server_side_apply, **ours).body)
    applied = deployments.server_side_apply(**ours, force_conflicts=True)
    assert applied.spec.replicas == 1
    assert "program" in [entry.manager for entry in applied.metadata.managedFields]
    print("ok the dynamic client applies, with conflicts and force")
    scale = client.AppsV1Api().patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 0}})
    assert scale.spec.replicas == 0
    client.AppsV1Api().delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    print("ok it is scaled and deleted")


def streams(core: client.CoreV1Api) -> None:
    server = pod("server", SERVE)
    server["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    core.create_namespaced_pod(NAMESPACE, server)
    seen = watch.Watch()
    for event in seen.stream(
        core.list_namespaced_pod, NAMESPACE, field_selector="metadata.name=server", timeout_seconds=120
    ):
        if any(status.ready for status in event["object"].status.container_statuses or ()):
            seen.stop()
    print("ok a pod is watched until it is ready")
    for line in watch.Watch().stream(core.read_namespaced_pod_log, "server", NAMESPACE, follow=True):
        assert line == "started", line
        break
    print("ok its log is followed")
    said = stream(core.connect_get_namespaced_pod_exec, "server", NAMESPACE, command=["echo", "hello"], stdout=True)
    assert said == "hello\n", said
    shell = stream(
        core.connect_get_namespaced_pod_exec,
        "server",
        NAMESPACE,
        command=["sh"],
        stdin=True,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    shell.write_stdin("echo typed; echo bad >&2\n")
    assert shell.readline_stdout(timeout=60) == "typed"
    assert shell.readline_stderr(timeout=60) == "bad"
    shell.write_stdin("exit 7\n")
    shell.run_forever(timeout=60)
    assert shell.returncode == 7, shell.returncode
    print("ok commands run in it, with streams and an exit code")
    forward = portforward(core.connect_get_namespaced_pod_portforward, "server", NAMESPACE, ports="8000")
    connection = forward.socket(8000)
    connection.setblocking(True)
    connection.sendall(b"GET /page.txt HTTP/1.0\r\n\r\n")
    answer = b""
    while data := connection.recv(4096):
        answer += data
    connection.close()
    assert answer.endswith(b"hello\n"), answer
    print("ok its port is forwarded")
    assert core.connect_get_namespaced_pod_proxy_with_path("server:8000", NAMESPACE, "page.txt") == "hello\n"
    print("ok its port answers through the proxy")


def main() -> None:
    socket.setdefaulttimeout(120)
    config.load_kube_config()
    core = client.CoreV1Api()
    objects(core)
    manifests()
    streams(core)


main()
