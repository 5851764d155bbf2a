"""Builders of single objects: plain Kubernetes JSON with small defaults, changed by chaining.

    pod("a", cpu="1").label("tier", "gold").on("node-1", phase="Running")

Every builder *is* the manifest (a dict), so it can be created through a cluster, dumped to YAML or compared as it
is. Each step returns a changed copy; the original can be shared between tests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.api.volcano.scheduling import GROUP_ANNOTATION, QUEUE_ANNOTATION
from strato.client.cluster import Json

V = TypeVar("V", bound=Object)

RUN_SECONDS_ANNOTATION = "strato.dev/run-seconds"
"""On a pod: how long it runs on a hollow node."""
GPU = "nvidia.com/gpu"


class Manifest(dict[str, Any]):
    """A manifest that knows a few ways to change itself. Steps return copies."""

    def label(self, name: str, value: str) -> Self:
        """Set a label."""
        return self.set("metadata", "labels", name, value)

    def annotate(self, name: str, value: str) -> Self:
        """Set an annotation."""
        return self.set("metadata", "annotations", name, value)

    def owned_by(self, owner: Mapping[str, Any], *, controller: bool = True) -> Self:
        """Add an owner reference to an object that has been created (or at least has a uid)."""
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"].get("uid", ""),
            "controller": controller,
            "blockOwnerDeletion": True,
        }
        references = [*self["metadata"].get("ownerReferences", ()), reference]
        return self.set("metadata", "ownerReferences", references)

    def set(self, *path_and_value: Any) -> Self:
        """Set the last argument at the path that the others name; missing maps are made, list items by number."""
        *path, last, value = path_and_value
        changed = copy.deepcopy(self)
        place: Any = changed
        for step in path:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        place[last] = value
        return changed

    def spec(self, **fields: Any) -> Self:
        """Set fields of ``spec`` by their wire names."""
        changed = copy.deepcopy(self)
        changed.setdefault("spec", {}).update(fields)
        return changed

    def status(self, **fields: Any) -> Self:
        """Set fields of ``status`` by their wire names."""
        changed = copy.deepcopy(self)
        changed.setdefault("status", {}).update(fields)
        return changed

    def view(self, view: type[V]) -> V:
        """Read this manifest as a typed view, as a component would get it."""
        return msgspec.json.decode(msgspec.json.encode(self), type=view)

    def kind(self) -> Kind:
        """Return the catalog's entry for this object."""
        return kind_of_manifest(self)


class PodManifest(Manifest):
    """A pod."""

    def on(self, node_name: str, *, phase: str = "Running") -> Self:
        """Bind the pod to a node, and set its phase."""
        return self.spec(nodeName=node_name).status(phase=phase)

    def tolerate(self, key: str, *, value: str = "", effect: str = "") -> Self:
        """Add a toleration; without a value any value is tolerated."""
        toleration = {"key": key, "operator": "Equal" if value else "Exists"}
        if value:
            toleration["value"] = value
        if effect:
            toleration["effect"] = effect
        tolerations = [*self["spec"].get("tolerations", ()), toleration]
        return self.spec(tolerations=tolerations)

    def port(self, number: int, *, protocol: str = "TCP") -> Self:
        """Claim a host port."""
        ports = [{"containerPort": number, "hostPort": number, "protocol": protocol}]
        return self.set("spec", "containers", 0, "ports", ports)

    def runs(self, seconds: float) -> Self:
        """Set how long the pod runs on a hollow node."""
        return self.annotate(RUN_SECONDS_ANNOTATION, f"{seconds:g}")


class JobManifest(Manifest):
    """A Volcano job."""

    def task(
        self,
        name: str,
        replicas: int = 1,
        *,
        cpu: str = "",
        memory: str = "",
        gpus: int = 0,
        requests: Mapping[str, str] | None = None,
        min_available: int | None = None,
        command: Sequence[str] = (),
        run_seconds: float | None = None,
        restart_policy: str = "Never",
        policies: Sequence[Mapping[str, Any]] = (),
        **template_spec: Any,
    ) -> Self:
        """Add a task; further keyword arguments are fields of its pods' spec."""
        metadata = {} if run_seconds is None else {"annotations": {RUN_SECONDS_ANNOTATION: f"{run_seconds:g}"}}
        container = _container(cpu, memory, gpus, requests, command)
        task: Json = {
            "name": name,
            "replicas": replicas,
            "template": {
                "metadata": metadata,
                "spec": {"restartPolicy": restart_policy, "containers": [container], **template_spec},
            },
        }
        if min_available is not None:
            task["minAvailable"] = min_available
        if policies:
            task["policies"] = [dict(policy) for policy in policies]
        tasks = [*self["spec"]["tasks"], task]
        return self.spec(tasks=tasks)

    def policy(self, action: str, *, event: str = "", exit_code: int | None = None) -> Self:
        """Add a lifecycle policy of the job."""
        policy: Json = {"action": action}
        if event:
            policy["event"] = event
        if exit_code is not None:
            policy["exitCode"] = exit_code
        return self.spec(policies=[*self["spec"].get("policies", ()), policy])

    def plugin(self, name: str, *arguments: str) -> Self:
        """Switch on a job plugin (``svc``, ``env``, …)."""
        return self.set("spec", "plugins", name, list(arguments))


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    gpus: int = 0,
    pods: int = 110,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: bool = True,
    unschedulable: bool = False,
) -> Manifest:
    """Return a node of 4 cpus and 8 GiB with its capacity allocatable."""
    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods), **(resources or {})}
    if gpus:
        capacity[GPU] = str(gpus)
    spec: Json = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return Manifest(
        apiVersion="v1",
        kind="Node",
        metadata={"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        spec=spec,
        status={
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    )


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "",
    memory: str = "",
    gpus: int = 0,
    requests: Mapping[str, str] | None = None,
    group: str = "",
    queue: str = "",
    scheduler: str = "volcano",
    priority: int | None = None,
    priority_class: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
    run_seconds: float | None = None,
    restart_policy: str = "Never",
) -> PodManifest:
    """Return a pending pod with one container that requests nothing by default."""
    notes = dict(annotations or {})
    if group:
        notes[GROUP_ANNOTATION] = group
    if queue:
        notes[QUEUE_ANNOTATION] = queue
    if run_seconds is not None:
        notes[RUN_SECONDS_ANNOTATION] = f"{run_seconds:g}"
    spec: Json = {
        "schedulerName": scheduler,
        "restartPolicy": restart_policy,
        "containers": [_container(cpu, memory, gpus, requests, command)],
    }
    if priority is not None:
        spec["priority"] = priority
    if priority_class:
        spec["priorityClassName"] = priority_class
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    if affinity:
        spec["affinity"] = copy.deepcopy(dict(affinity))
    metadata: Json = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if notes:
        metadata["annotations"] = notes
    return PodManifest(apiVersion="v1", kind="Pod", metadata=metadata, spec=spec, status={"phase": "Pending"})


def podgroup(
    name: str,
    *,
    namespace: str = "default",
    min_member: int = 1,
    queue: str = "default",
    min_resources: Mapping[str, str] | None = None,
    priority_class: str = "",
    phase: str = "",
) -> Manifest:
    """Return a pod group."""
    spec: Json = {"minMember": min_member, "queue": queue}
    if min_resources is not None:
        spec["minResources"] = dict(min_resources)
    if priority_class:
        spec["priorityClassName"] = priority_class
    group = Manifest(
        apiVersion=catalog.PODGROUP.api_version,
        kind=catalog.PODGROUP.name,
        metadata={"name": name, "namespace": namespace},
        spec=spec,
    )
    return group.status(phase=phase) if phase else group


def queue(
    name: str,
    *,
    weight: int = 1,
    capability: Mapping[str, str] | None = None,
    guarantee: Mapping[str, str] | None = None,
    deserved: Mapping[str, str] | None = None,
    reclaimable: bool | None = None,
    parent: str = "",
    priority: int | None = None,
    state: str = "",
) -> Manifest:
    """Return a queue of weight 1."""
    spec: Json = {"weight": weight}
    if capability is not None:
        spec["capability"] = dict(capability)
    if guarantee is not None:
        spec["guarantee"] = {"resource": dict(guarantee)}
    if deserved is not None:
        spec["deserved"] = dict(deserved)
    if reclaimable is not None:
        spec["reclaimable"] = reclaimable
    if parent:
        spec["parent"] = parent
    if priority is not None:
        spec["priority"] = priority
    made = Manifest(apiVersion=catalog.QUEUE.api_version, kind=catalog.QUEUE.name, metadata={"name": name}, spec=spec)
    return made.status(state=state) if state else made


def vcjob(
    name: str,
    *,
    namespace: str = "default",
    queue: str = "default",
    min_available: int | None = None,
    priority_class: str = "",
    scheduler: str = "volcano",
) -> JobManifest:
    """Return a Volcano job without tasks; add them with `JobManifest.task`."""
    spec: Json = {"schedulerName": scheduler, "queue": queue, "tasks": []}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if priority_class:
        spec["priorityClassName"] = priority_class
    return JobManifest(
        apiVersion=catalog.VCJOB.api_version,
        kind=catalog.VCJOB.name,
        metadata={"name": name, "namespace": namespace},
        spec=spec,
    )


def priority_class(name: str, value: int) -> Manifest:
    """Return a priority class."""
    return Manifest(
        apiVersion=catalog.PRIORITYCLASS.api_version, kind="PriorityClass", metadata={"name": name}, value=value
    )


def namespace(name: str) -> Manifest:
    """Return a namespace."""
    return Manifest(apiVersion="v1", kind="Namespace", metadata={"name": name})


def kind_of_manifest(manifest: Mapping[str, Any]) -> Kind:
    """Return the catalog's entry for a manifest.

    Raises:
        KeyError: The catalog does not have its kind.
    """
    kind = catalog.find_named(manifest["apiVersion"], manifest["kind"])
    if kind is None:
        raise KeyError(f"{manifest['apiVersion']} {manifest['kind']}")
    return kind


def _container(cpu: str, memory: str, gpus: int, requests: Mapping[str, str] | None, command: Sequence[str]) -> Json:
    container: Json = {"name": "main", "image": "strato/host"}
    wanted = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    wanted.update(requests or {})
    if gpus:
        wanted[GPU] = str(gpus)
    if wanted:
        container["resources"] = {"requests": wanted}
        if gpus:
            container["resources"]["limits"] = {GPU: str(gpus)}
    if command:
        container["command"] = list(command)
    return container
