"""svc: let the pods of a job find each other by name.

A headless Service gives every pod a DNS name, a ConfigMap lists the hosts of each task (mounted at
``/etc/volcano`` and offered as variables), and a NetworkPolicy admits traffic from the job's own pods only.

Source: volcano-controllers Part B, svc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strato.api.core import ConfigMap, Service
from strato.api.meta import Object
from strato.api.unread import NetworkPolicy
from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import (
    JobPlugin,
    RequiredObject,
    every_container,
    host_addresses,
    owned_metadata,
    pod_labels,
)

MOUNT_PATH = "/etc/volcano"


class SvcPlugin(JobPlugin):
    """See the module."""

    name: ClassVar[str] = "svc"
    varies: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Value]] = {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    }

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Mount the host files everywhere, and offer the variables."""
        config_map = _config_map_name(job)
        spec = pod["spec"]
        if not spec.get("subdomain"):
            spec["subdomain"] = job.metadata.name
        config = {"name": config_map}
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {**config, "key": key}}}
            for other in (job.spec.tasks if self.switch("inject-hosts-env") else ())
            for key in (f"VC_{_upper(other)}_HOSTS", f"VC_{_upper(other)}_NUM")
        ]
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": config_map, "configMap": {"name": config_map}}]
        for container in every_container(pod):
            container["env"] = [*(container.get("env") or ()), *variables]
            container["volumeMounts"] = [
                *(container.get("volumeMounts") or ()),
                {"name": config_map, "mountPath": MOUNT_PATH},
            ]

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Name the host after the pod, unless the template fixes it."""
        if not pod["spec"].get("hostname"):
            pod["spec"]["hostname"] = name

    def objects(self, job: Job) -> Sequence[RequiredObject]:
        """Return ConfigMap, Service and NetworkPolicy."""
        wanted = [*self.refreshed(job), RequiredObject(Service, self._service(job))]
        if not self.switch("disable-network-policy"):
            wanted.append(RequiredObject(NetworkPolicy, _policy(job)))
        return wanted

    def refreshed(self, job: Job) -> Sequence[RequiredObject]:
        """Return the ConfigMap, because scaling a task changes the hosts in it."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": owned_metadata(job, _config_map_name(job)),
            "data": hosts_data(job),
        }
        return (RequiredObject(ConfigMap, body, "data"),)

    def removed(self, job: Job) -> Sequence[tuple[type[Object], str]]:
        """Return the same three objects as `objects`."""
        name = job.metadata.name
        gone: list[tuple[type[Object], str]] = [(ConfigMap, _config_map_name(job)), (Service, name)]
        if not self.switch("disable-network-policy"):
            gone.append((NetworkPolicy, name))
        return gone

    def _service(self, job: Job) -> dict[str, Any]:
        spec: dict[str, Any] = {"clusterIP": "None", "selector": pod_labels(job)}
        if self.switch("publish-not-ready-addresses"):
            spec["publishNotReadyAddresses"] = True
        return {"apiVersion": "v1", "kind": "Service", "metadata": owned_metadata(job, job.metadata.name), "spec": spec}


def hosts_data(job: Job) -> dict[str, str]:
    """Return the ConfigMap's data: a host file and two variables per task."""
    data = {}
    for task in job.spec.tasks:
        hosts = host_addresses(job, task)
        data[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
        data[f"VC_{_upper(task)}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_upper(task)}_NUM"] = str(len(hosts))
    return data


def _policy(job: Job) -> dict[str, Any]:
    selector = {"matchLabels": pod_labels(job)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owned_metadata(job, job.metadata.name),
        "spec": {
            "podSelector": selector,
            "ingress": [{"from": [{"podSelector": selector}]}],
            "policyTypes": ["Ingress"],
        },
    }


def _config_map_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _upper(task: TaskSpec) -> str:
    return task.name.replace("-", "_").upper()
