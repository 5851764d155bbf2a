"""Facts about a node's containers from their pods: workload, priority, limits, and suppressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strato.agent.events import Suppression, Workload
from strato.api.core import Pod
from strato.api.core.container import Container, ContainerStatus
from strato.api.frameworks import FRAMEWORKS
from strato.api.pods import qos_class
from strato.api.quantity import InvalidQuantity, milli, value
from strato.api.suppression import suppression_entries
from strato.api.trainer import JOBSET_NAME
from strato.clock import format_time, parse_time

WORKLOAD_LABEL: Final = "strato.io/workload"
_TRAINING_OWNERS: Final = frozenset({*(framework.kind.name for framework in FRAMEWORKS), "TrainJob", "JobSet"})
_VOLCANO: Final = "batch.volcano.sh/"
_SERVING_OWNERS: Final = frozenset(("ReplicaSet", "StatefulSet", "Deployment", "DaemonSet"))
_BATCH_CPU: Final = "kubernetes.io/batch-cpu"
_QOS_LABEL: Final = "koordinator.sh/qosClass"
_SERVICE_LABEL: Final = "app.kubernetes.io/name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """A running container, as its pod describes it."""

    pod: Pod
    qos: str
    name: str
    id: str
    workload: Workload
    base_milli: int | None
    """The container's CPU limit in millicores; None without one."""
    request_milli: int
    started_at: float
    is_sidecar: bool
    has_exclusive_cpus: bool
    is_best_effort: bool
    suppression: Suppression | None

    @property
    def key(self) -> str:
        """Unique key among the node's containers, the same as `ContainerEvent.key`."""
        return f"{self.pod.metadata.uid}/{self.name}"


def workload_of(pod: Pod) -> Workload:
    """Return a pod's kind of workload, by its label or else by its owner."""
    label = (pod.metadata.labels or {}).get(WORKLOAD_LABEL, "")
    if label in tuple(Workload):
        return Workload(label)
    if pod.metadata.label(JOBSET_NAME):  # the Job that owns the pod belongs to a JobSet of a training
        return Workload.TRAINING
    for owner in pod.metadata.owner_references or ():
        if owner.kind in _TRAINING_OWNERS or (owner.kind == "Job" and owner.api_version.startswith(_VOLCANO)):
            return Workload.TRAINING
        if owner.kind in _SERVING_OWNERS:
            return Workload.ONLINE
    return Workload.OTHER


def service_of(pod: Pod) -> str:
    """Return the name of a pod's service, for calls to a load balancer."""
    return (pod.metadata.labels or {}).get(_SERVICE_LABEL) or (pod.metadata.labels or {}).get("app", "")


def facts_of(pod: Pod, *, static_cpus: bool = False) -> list[ContainerFacts]:
    """Return the running containers of a pod.

    Args:
        pod: A pod of this node.
        static_cpus: Whether the node gives exclusive CPUs to Guaranteed containers that request whole ones.
    """
    if pod.is_finished or pod.metadata.deletion_timestamp:
        return []
    qos, workload, cuts = qos_class(pod.spec), workload_of(pod), read_annotation(pod.metadata.annotations or {})
    statuses = {one.name: one for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)}
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    found = []
    for container in (*sidecars, *pod.spec.containers):
        status = statuses.get(container.name)
        if status is None or status.state is None or status.state.running is None:
            continue
        limit = _milli(container, "limits")
        request = _milli(container, "requests") or limit or _batch_milli(container, "requests") or 0
        cut = cuts.get(container.name)
        found.append(
            ContainerFacts(
                pod=pod,
                qos=qos,
                name=container.name,
                id=status.container_id,
                workload=workload,
                base_milli=limit or _batch_milli(container, "limits"),
                request_milli=request,
                started_at=_started(status),
                is_sidecar=container in sidecars,
                has_exclusive_cpus=static_cpus and qos == "Guaranteed" and request % 1000 == 0,
                is_best_effort=_is_best_effort(pod, qos),
                suppression=cut if cut is not None and cut.id == status.container_id else None,
            )
        )
    return found


def _milli(container: Container, kind: str) -> int | None:
    amounts: Mapping[str, Any] = getattr(container.resources, kind)
    try:
        return milli(amounts["cpu"]) or None if "cpu" in amounts else None
    except InvalidQuantity:
        return None


def _batch_milli(container: Container, kind: str) -> int | None:
    """Return the request or limit of batch CPU, the CPU that other pods leave unused, in millicores."""
    amounts: Mapping[str, Any] = getattr(container.resources, kind)
    try:
        return value(amounts.get(_BATCH_CPU, 0)) or None
    except InvalidQuantity:
        return None


def _is_best_effort(pod: Pod, qos: str) -> bool:
    """Return whether a pod is of Koordinator's class BE, by its label, or without one by its QoS class."""
    return (pod.metadata.labels or {}).get(_QOS_LABEL, "BE" if qos == "BestEffort" else "") == "BE"


def _started(status: ContainerStatus) -> float:
    running = status.state.running if status.state is not None else None
    try:
        return parse_time(running.started_at) if running is not None and running.started_at else 0.0
    except ValueError:
        return 0.0


class _Entry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation's entry of one container."""

    id: str
    origin: str = msgspec.field(name="from")
    to: int
    at: str
    u: float = 0.0
    used: int = 0
    weight: int | None = None
    pod_weight: int | None = None


def read_annotation(annotations: Mapping[str, str]) -> dict[str, Suppression]:
    """Return the suppressions in a pod's annotation by container name; empty if it cannot be decoded."""
    entries = suppression_entries(annotations, _Entry)
    try:
        return {
            name: Suppression(
                id=one.id,
                from_milli=None if one.origin == "max" else int(one.origin),
                to_milli=one.to,
                at=parse_time(one.at),
                utilisation=one.u,
                used_milli=one.used,
                weight=one.weight,
                pod_weight=one.pod_weight,
            )
            for name, one in entries.items()
        }
    except ValueError:
        return {}


def write_annotation(entries: Mapping[str, Suppression]) -> str | None:
    """Return the annotation's text for suppressions; None without any, which removes the annotation."""
    if not entries:
        return None
    values = {
        name: _Entry(
            id=one.id,
            origin="max" if one.from_milli is None else str(one.from_milli),
            to=one.to_milli,
            at=format_time(one.at),
            u=round(one.utilisation, 4),
            used=one.used_milli,
            weight=one.weight,
            pod_weight=one.pod_weight,
        )
        for name, one in sorted(entries.items())
    }
    return msgspec.json.encode(values).decode()
