"""Pods and services of training jobs as JSON (spec training B2, B3 and H3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from strato.api.frameworks import MASTER, WORKER, JobShape
from strato.api.meta import Json, ObjectMeta
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.controllers.job.terms import PREEMPTABLE
from strato.controllers.kube.ownedpods import pod_body
from strato.controllers.owners import controller_reference
from strato.controllers.training import labels
from strato.controllers.training.environments import Environment
from strato.controllers.training.record import Replica
from strato.controllers.trainingoptions import PodOptions

TASK_SPEC: Final = "volcano.sh/task-spec"
_WAIT_FOR_MASTER: Final = (
    "err=1;for i in $(seq {tries}); do if {lookup} {master}; then err=0 && break; fi;"
    "echo waiting for master; sleep 2; done; exit $err"
)

Dress = Callable[[JobShape, str, Json, PodOptions], None]
"""Changes the spec of a role's pod in place; the values of its members are shared and must be replaced, not edited."""


class PodMaker(Protocol):
    """Makes the pods of jobs."""

    def pod(self, shape: JobShape, owner: ObjectMeta, template: Mapping[str, Any], replica: Replica) -> Json:
        """Return the pod of a replica; the template is not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """Makes the objects of a framework's jobs."""

    environment: Environment
    options: PodOptions
    in_every_container: bool = True
    """Whether sidecars get the environment too."""
    waits_for_master: bool = False
    """Whether workers have an init container that waits until the master's name resolves."""
    dress: Dress | None = None

    def pod(self, shape: JobShape, owner: ObjectMeta, template: Mapping[str, Any], replica: Replica) -> Json:
        """Return the pod of a replica; the template is not changed."""
        role, index = replica.role, replica.index
        annotations = {}
        if self.options.scheduler:
            annotations = {GROUP_ANNOTATION: shape.name, TASK_SPEC: role.lower(), **_keeping(shape, template, replica)}
        body = pod_body(
            shape.framework.kind,
            owner,
            template,
            labels=labels.of_pod(shape, role, index),
            annotations=annotations,
            name=shape.object_name(role, index),
        )
        spec = body["spec"]
        policy = shape.restart_policy(role)
        spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
        if self.options.scheduler and not spec.get("schedulerName"):
            spec["schedulerName"] = self.options.scheduler
        variables = self.environment(shape, role, index, self.options.cluster_domain)
        spec["containers"] = [
            self._container(shape, container, position, variables)
            for position, container in enumerate(spec.get("containers") or ())
        ]
        if self.waits_for_master and role == WORKER and MASTER in shape.roles:
            spec["initContainers"] = [*(spec.get("initContainers") or ()), self._waiting(shape)]
        if self.dress is not None:
            self.dress(shape, role, spec, self.options)
        return body

    def _container(self, shape: JobShape, container: Json, position: int, variables: Sequence[Json]) -> Json:
        """Return a container with its variables, and with the default port if it is the training container."""
        framework = shape.framework
        changed = dict(container)
        if variables and (self.in_every_container or container.get("name") == framework.container):
            changed["env"] = [*(container.get("env") or ()), *variables]
        if framework.port_name and container.get("name") == framework.container:
            ports = container.get("ports") or []
            if all(port.get("name") != framework.port_name for port in ports):
                changed["ports"] = [*ports, {"name": framework.port_name, "containerPort": framework.port}]
        return changed

    def _waiting(self, shape: JobShape) -> Json:
        options, master = self.options, shape.object_name(MASTER, 0)
        script = _WAIT_FOR_MASTER.format(tries=options.init_tries, lookup=options.init_lookup, master=master)
        return {
            "name": "init-pytorch",
            "image": self.options.init_image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {
                "limits": {"cpu": "100m", "memory": "20Mi"},
                "requests": {"cpu": "50m", "memory": "10Mi"},
            },
            "command": ["sh", "-c", script],
        }


def service(shape: JobShape, owner: ObjectMeta, replica: Replica) -> Json:
    """Return the headless service that gives a replica the DNS name by which its peers reach it."""
    role, index = replica.role, replica.index
    kind, selector = shape.framework.kind, labels.of_replica(shape, role, index)
    ports = {
        (port.container_port, port.protocol): {
            "name": port.name or f"port-{port.container_port}-{port.protocol.lower()}",
            "port": port.container_port,
            **({} if port.protocol == "TCP" else {"protocol": port.protocol}),
        }
        for port in shape.ports(role)
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": shape.object_name(role, index),
            "namespace": shape.namespace,
            "labels": selector,
            "ownerReferences": [controller_reference(kind.api_version, kind.name, owner)],
        },
        "spec": {"clusterIP": "None", "selector": selector, "ports": list(ports.values())},
    }


def _keeping(shape: JobShape, template: Mapping[str, Any], replica: Replica) -> dict[str, str]:
    """Return the annotation that exempts an elastic job's rendezvous pods from preemption.

    The other workers may come and go while the job goes on, so these are preempted instead.
    """
    own = (template.get("metadata") or {}).get("annotations") or {}
    comes_and_goes = replica.role == WORKER and replica.index > 0
    return {PREEMPTABLE: "false"} if shape.is_elastic and not comes_and_goes and PREEMPTABLE not in own else {}
