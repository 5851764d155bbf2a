"""The node agent of an installation: a DaemonSet that sees the host's processes and control groups."""

from __future__ import annotations

from typing import Final

from strato.api.meta import Json
from strato.cli.install.values import Values

NAME: Final = "strato-agent"
ENABLED: Final = "custom.colocation_enable"
_PORT: Final = 3300


def daemonset(values: Values) -> Json:
    """Return the DaemonSet, whose pods run as root to write containers' quotas, without further rights on the host."""
    tag = values.first("basic.agent_image_tag_version", "basic.image_tag_version")
    paths = {"cgroup": "/sys/fs/cgroup", "proc": "/proc", "sys": "/sys"}
    lending = {
        "supported-features": values("custom.agent_supported_features"),
        "extend-resource-cpu-name": values("custom.agent_extend_resource_cpu_name"),
        "extend-resource-memory-name": values("custom.agent_extend_resource_memory_name"),
    }
    container = {
        "name": NAME,
        "image": f"{values('basic.image_registry')}/{values('basic.agent_image_name')}:{tag}",
        "imagePullPolicy": values("basic.image_pull_policy"),
        "args": [
            "agent",
            f"--listen-address=:{_PORT}",
            "--layout=kubelet",
            "--cgroup-root=/host/cgroup",
            f"--kube-cgroup-root={values('custom.agent_kube_cgroup_root')}",
            "--proc=/host/proc",
            "--sys=/host/sys",
            f"--namespace={values.namespace}",
            f"--leader-elect-resource-namespace={values.namespace}",
            *(f"--{flag}={value}" for flag, value in lending.items()),
        ],
        "env": [
            {"name": "KUBE_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "KUBE_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KUBE_POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "HOME", "value": "/tmp"},
        ],
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}, "initialDelaySeconds": 30},
        "resources": values("custom.agent_resources"),
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/tmp"},
            {"name": "cgroup", "mountPath": "/host/cgroup"},
            {"name": "proc", "mountPath": "/host/proc", "readOnly": True},
            {"name": "sys", "mountPath": "/host/sys", "readOnly": True},
        ],
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
        },
    }
    volumes: list[Json] = [{"name": "scratch", "emptyDir": {}}]
    volumes += [{"name": name, "hostPath": {"path": path}} for name, path in paths.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": values.namespace, "labels": {"app": NAME}},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-node-critical",
                    "imagePullSecrets": values.named("basic.image_pull_secret"),
                    "nodeSelector": values("custom.agent_ns"),
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }
