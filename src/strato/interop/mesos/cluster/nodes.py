"""The resources of a node as an agent: its allocatable without the requests of other pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strato.api.core import Node, Pod
from strato.api.pods import effective_requests, effective_spec, host_ports
from strato.api.quantity import parse
from strato.interop.mesos import intervals
from strato.interop.mesos.master.model import AgentFacts
from strato.interop.mesos.resources import Amount, ResourceKind, Resources, ValueType

_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
_MI = 1 << 20
_NANOS = 1_000_000_000
_MOST_ATTRIBUTES = 64


@dataclass(frozen=True, slots=True)
class Dimensions:
    """How Mesos' resources map to Kubernetes'."""

    gpu: str = "nvidia.com/gpu"
    """Extended resource for Mesos' ``gpus``."""
    ports: tuple[int, int] = (31000, 32000)
    """The ports of each agent, both ends inclusive."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """Requests of a pod that is not the master's."""

    nanos: tuple[tuple[str, int], ...]
    ports: tuple[int, ...]


def pod_use(pod: Pod) -> PodUse:
    """Return the requests of a pod."""
    requests = effective_requests(effective_spec(pod))
    ports = tuple(number for _, _, number in host_ports(pod.spec))
    return PodUse(tuple((name, quantity.nanos) for name, quantity in requests.items()), ports)


def agent_id(node: Node) -> str:
    """Return a node's agent id, which depends on the node object alone, so that all masters give the same."""
    return f"{node.metadata.uid}-S0"


def facts_of(
    node: Node, others: Iterable[PodUse], dimensions: Dimensions, *, gives_volumes: bool = False
) -> AgentFacts:
    """Return a node as an agent.

    Args:
        node: The node.
        others: Requests of the node's pods that are not the master's.
        dimensions: The mapping of resources.
        gives_volumes: Whether pods there can mount persistent volumes.
    """
    meta = node.metadata
    labels = meta.labels or {}
    left = {name: parse(amount).nanos for name, amount in node.status.allocatable.items()}
    taken_ports: list[tuple[int, int]] = []
    for use in others:
        for name, nanos in use.nanos:
            if name in left:
                left[name] -= nanos
        taken_ports += [(port, port) for port in use.ports]
    addresses = {address.type: address.address for address in node.status.addresses}
    return AgentFacts(
        id=agent_id(node),
        node=meta.name,
        hostname=addresses.get("Hostname") or labels.get("kubernetes.io/hostname") or meta.name,
        ip=addresses.get("InternalIP") or "127.0.0.1",
        total=_resources(left, taken_ports, dimensions),
        attributes=tuple(sorted(labels.items())[:_MOST_ATTRIBUTES]),
        region=labels.get(_REGION, ""),
        zone=labels.get(_ZONE, "") if labels.get(_REGION) else "",
        is_ready=node.is_ready,
        is_schedulable=not node.spec.unschedulable
        and not any(taint.effect in ("NoSchedule", "NoExecute") for taint in node.spec.taints),
        gives_volumes=gives_volumes,
    )


def _resources(left: dict[str, int], taken: list[tuple[int, int]], dimensions: Dimensions) -> Resources:
    """Return amounts in Mesos' units, rounded down so that no more is offered than exists."""
    ports = intervals.without((dimensions.ports,), intervals.joined(taken))
    amounts: list[tuple[ResourceKind, Amount]] = [
        (ResourceKind("cpus"), left.get("cpu", 0) // 1_000_000),
        (ResourceKind("mem"), left.get("memory", 0) // _NANOS // _MI * 1000),
        (ResourceKind("disk"), left.get("ephemeral-storage", 0) // _NANOS // _MI * 1000),
        (ResourceKind("gpus"), left.get(dimensions.gpu, 0) // _NANOS * 1000),
    ]
    found = [(kind, amount) for kind, amount in amounts if isinstance(amount, int) and amount > 0]
    return Resources.of([*found, (ResourceKind("ports", ValueType.RANGES), ports)])


def requests_of(resources: Resources, dimensions: Dimensions) -> dict[str, str]:
    """Return resources as Kubernetes requests, without ports."""
    millis = resources.scalars()
    found = {
        "cpu": f"{millis.get('cpus', 0)}m",
        "memory": str(millis.get("mem", 0) * _MI // 1000),
        "ephemeral-storage": str(millis.get("disk", 0) * _MI // 1000),
        dimensions.gpu: str(millis.get("gpus", 0) // 1000),
    }
    return {name: amount for name, amount in found.items() if amount not in ("0", "0m")}
