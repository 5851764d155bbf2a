"""Register a node: create and update its Node object as a kubelet does."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from strato.api import amplification, catalog, quantity
from strato.api.amplification import Published
from strato.api.core import Node, NodeCondition
from strato.api.meta import Json
from strato.client.cluster import Cluster, PatchType
from strato.errors import AlreadyExists, NotFound
from strato.node.podstatus import time_text

KUBELET_VERSION = "v1.36.0"
"""The kubelet release whose behaviour these nodes follow; shown by ``kubectl get nodes``."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def machine_architecture() -> str:
    """Return this machine's architecture as Go names it (``amd64``)."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts of a node that its Node object shows."""

    name: str
    address: str
    """Its InternalIP."""
    capacity: Mapping[str, str]
    """Resource name → quantity; also the allocatable amounts, except amplified ones."""
    cpu_overcommit_factor: float = 1.0
    """Factor with which the node was started; annotations of the Node object may set another one later."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels in addition to those that every node has."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    info: Mapping[str, str] = field(default_factory=dict)
    """``status.nodeInfo`` members that differ from the defaults."""
    runtime: str = "hollow://1.0"
    kubelet_port: int = 0
    """Port at which an API server reads logs; 0 for none."""
    outdated: Collection[str] = ()
    """Names of resources and labels that an earlier registration may have written; removed unless given now."""
    message: str = "node is posting ready status"
    """Message of the Ready condition."""
    pressures: frozenset[str] = frozenset()
    """Types of the pressure conditions that are True."""


def node_body(facts: NodeFacts, now: float) -> Json:
    """Return the whole Node object to create, with its status, which a create of a Node accepts."""
    architecture = machine_architecture()
    labels = {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
        **facts.labels,
    }
    body: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels},
        "spec": {},
        "status": node_status(facts, first_published(facts).allocatable, now),
    }
    annotations = {**facts.annotations, **_overcommit(facts), **_raw(first_published(facts))}
    if annotations:
        body["metadata"]["annotations"] = annotations
    if facts.taints:
        body["spec"]["taints"] = [dict(taint) for taint in facts.taints]
    return body


def first_published(facts: NodeFacts) -> Published:
    """Return the amounts that a node offers with the factor with which it was started."""
    factor = facts.cpu_overcommit_factor
    return amplification.published(facts.capacity, {"cpu": amplification.written_ratio(factor)} if factor > 1 else {})


def published_of(facts: NodeFacts, node: Node) -> Published:
    """Return the amounts that a node offers with the ratios in its annotations; invalid ratios are ignored."""
    try:
        ratios = amplification.read_ratios(node.metadata.annotation(amplification.RATIO))
    except amplification.InvalidFactor:  # the overcommit controller reports it by an event
        ratios = {}
    return amplification.published(facts.capacity, ratios)


def _overcommit(facts: NodeFacts) -> dict[str, str]:
    """Return the annotations of the factor that a node was started with."""
    factor = facts.cpu_overcommit_factor
    if factor <= 1:
        return {}
    return {
        amplification.STARTED_WITH: f"{factor:g}",
        amplification.RATIO: amplification.ratios_text({"cpu": factor}),
        amplification.SOURCE: amplification.STARTED_WITH,
    }


def _raw(offer: Published) -> dict[str, str]:
    return {amplification.RAW: offer.raw} if offer.raw is not None else {}


def node_status(
    facts: NodeFacts, allocatable: Mapping[str, str], now: float, known: Sequence[NodeCondition] = ()
) -> Json:
    """Return ``status`` of a working node; unchanged conditions keep the times that they have in the API."""
    info = {
        "architecture": machine_architecture(),
        "bootID": "",
        "containerRuntimeVersion": facts.runtime,
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "Strato",
        "systemUUID": "",
        **facts.info,
    }
    return {
        "capacity": dict(facts.capacity),
        "allocatable": dict(allocatable),
        "conditions": node_conditions(facts, now, known),
        "addresses": [{"type": "InternalIP", "address": facts.address}, {"type": "Hostname", "address": facts.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.kubelet_port}},
        "nodeInfo": info,
    }


_PRESSURES: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "MemoryPressure": (
        ("KubeletHasSufficientMemory", "node has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "node has insufficient memory available"),
    ),
    "DiskPressure": (
        ("KubeletHasNoDiskPressure", "node has no disk pressure"),
        ("KubeletHasDiskPressure", "node has disk pressure"),
    ),
    "PIDPressure": (
        ("KubeletHasSufficientPID", "node has sufficient PID available"),
        ("KubeletHasInsufficientPID", "node has insufficient PID available"),
    ),
}
"""Pressure condition → reason and message while it is False, and while it is True."""


def condition_statuses(facts: NodeFacts) -> dict[str, str]:
    """Return the status of each condition that a node reports."""
    return {kind: "True" if kind in facts.pressures else "False" for kind in _PRESSURES} | {"Ready": "True"}


def pressure_reason(kind: str, *, holds: bool) -> str:
    """Return the reason of the event about a pressure condition, as a kubelet names it."""
    return _PRESSURES[kind][holds][0].replace("Kubelet", "Node")


def node_conditions(facts: NodeFacts, now: float, known: Sequence[NodeCondition] = ()) -> list[Json]:
    """Return the conditions of a working node; those that have not changed keep their transition times."""
    text = time_text(now)
    since = {(condition.type, condition.status): condition.last_transition_time for condition in known}
    conditions: list[Json] = []
    for kind, status in condition_statuses(facts).items():
        reason, summary = _PRESSURES[kind][status == "True"] if kind in _PRESSURES else ("KubeletReady", facts.message)
        times = {"lastHeartbeatTime": text, "lastTransitionTime": since.get((kind, status)) or text}
        conditions.append({"type": kind, "status": status, "reason": reason, "message": summary, **times})
    return conditions


def is_registered(facts: NodeFacts, node: Node) -> bool:
    """Return whether a Node object matches the node's facts, so that it need not be registered again.

    Conditions are not compared: `NodeSync` writes them when they differ.
    """
    labels, annotations, status = node.metadata.labels or {}, node.metadata.annotations or {}, node.status
    return (
        facts.cpu_overcommit_factor <= 1
        and amplification.STARTED_WITH not in annotations
        and amplification.RATIO not in annotations
        and facts.labels.items() <= labels.items()
        and facts.annotations.items() <= annotations.items()
        and not any(name in labels or name in status.capacity for name in facts.outdated)
        and amounts_equal(facts.capacity, status.capacity)
        and any(one.type == "InternalIP" and one.address == facts.address for one in status.addresses)
    )


def amounts_equal(wanted: Mapping[str, str], found: Mapping[str, str | int | float]) -> bool:
    """Return whether amounts are equal, in whatever units they are written."""
    return wanted.keys() == found.keys() and all(
        wanted[name] == found[name] or quantity.parse(wanted[name]) == quantity.parse(str(found[name]))
        for name in wanted
    )


async def register_node(cluster: Cluster, facts: NodeFacts, now: float) -> str:
    """Create the Node, or bring an existing one of that name up to date; return its uid.

    Raises:
        ApiError: The create failed for another reason than that the node exists, or the update failed.
    """
    body = node_body(facts, now)
    try:
        created = await cluster.create(catalog.NODE, body)
    except AlreadyExists:
        known = await cluster.get(Node, facts.name)
        annotations: dict[str, str | None] = {**facts.annotations, amplification.STARTED_WITH: None}
        annotations |= _overcommit(facts)
        # a higher present ratio is kept: the overcommit controller lowers it as pods leave
        if amplification.cpu_ratio(known) > facts.cpu_overcommit_factor:
            for key in (amplification.RATIO, amplification.SOURCE):
                annotations.pop(key, None)
        labels = {**dict.fromkeys(facts.outdated), **body["metadata"]["labels"]}
        metadata = {"labels": labels, "annotations": annotations}
        patch = {"metadata": metadata}
        known = await cluster.patch(Node, facts.name, "", patch, patch_type=PatchType.MERGE)
        created = await report_node(cluster, facts, now, known)
    return str(created["metadata"]["uid"])


async def report_node(cluster: Cluster, facts: NodeFacts, now: float, known: Node) -> Json:
    """Write the whole status of an existing Node, given as last read; return the object.

    Raises:
        ApiError: The write failed.
    """
    offer = published_of(facts, known)
    status, gone = node_status(facts, offer.allocatable, now, known.status.conditions), dict.fromkeys(facts.outdated)
    amounts = {name: {**gone, **status[name]} for name in ("capacity", "allocatable")}
    body: Json = {"status": {**status, **amounts}}
    if known.metadata.annotation(amplification.RAW) != (offer.raw or ""):
        body["metadata"] = {"annotations": {amplification.RAW: offer.raw}}
    return await cluster.patch(catalog.NODE, facts.name, "", body, patch_type=PatchType.STRATEGIC, subresource="status")


async def forget_nodes(cluster: Cluster, label: str, keep: Collection[str]) -> list[str]:
    """Delete the nodes with a label that are not among those to keep, and return their names.

    For a cluster that starts with other nodes than before: nodes that no process runs any more must not look ready
    until their leases expire. The node lifecycle controller deletes their pods after `QUARANTINE_SECONDS`.

    Raises:
        ApiError: A request failed.
    """
    page, kept = await cluster.list(catalog.NODE, label_selector=label), frozenset(keep)
    gone = [name for node in page.items if (name := node["metadata"]["name"]) not in kept]
    for name in gone:
        with contextlib.suppress(NotFound):
            await cluster.delete(catalog.NODE, name)
    return gone
