"""How a node introduces itself to the API: the Node object, as a kubelet writes it."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from strato.api import catalog
from strato.client.cluster import Cluster, PatchType
from strato.errors import AlreadyExists, NotFound
from strato.node.podstatus import time_text

Json = dict[str, Any]

KUBELET_VERSION = "v1.36.0"
"""The kubelet release whose behaviour these nodes follow; shown by ``kubectl get nodes``."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def machine_architecture() -> str:
    """Return this machine's architecture in Go's words (``amd64``)."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node says about itself."""

    name: str
    address: str
    """Its InternalIP."""
    capacity: Mapping[str, str]
    """Resource name → quantity; also the allocatable amounts."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """In addition to the ones every node carries."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    info: Mapping[str, str] = field(default_factory=dict)
    """``status.nodeInfo`` members that differ from the defaults."""
    runtime: str = "hollow://1.0"
    kubelet_port: int = 0
    """Where an API server asks for logs; 0 is nowhere."""
    outdated: Collection[str] = ()
    """Names of resources and labels an earlier registration may have left: they go unless given now."""
    message: str = "node is posting ready status"
    """Message of the Ready condition."""


def node_body(facts: NodeFacts, now: float) -> Json:
    """Return the whole Node object to create, status included (the API takes it on create)."""
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
        "status": node_status(facts, now),
    }
    if facts.annotations:
        body["metadata"]["annotations"] = dict(facts.annotations)
    if facts.taints:
        body["spec"]["taints"] = [dict(taint) for taint in facts.taints]
    return body


def node_status(facts: NodeFacts, now: float) -> Json:
    """Return ``status`` of a healthy node."""
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
        "allocatable": dict(facts.capacity),
        "conditions": node_conditions(now, facts.message),
        "addresses": [
            {"type": "InternalIP", "address": facts.address},
            {"type": "Hostname", "address": facts.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.kubelet_port}},
        "nodeInfo": info,
    }


def node_conditions(now: float, message: str) -> list[Json]:
    """Return the conditions of a healthy node, all seen now."""
    text = time_text(now)
    quiet = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "node has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "node has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "node has sufficient PID available"),
    )
    times = {"lastHeartbeatTime": text, "lastTransitionTime": text}
    conditions: list[Json] = [
        {"type": kind, "status": "False", "reason": reason, "message": words, **times} for kind, reason, words in quiet
    ]
    conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": message, **times})
    return conditions


async def register_node(cluster: Cluster, facts: NodeFacts, now: float) -> str:
    """Create the Node, or bring an existing one of that name up to date; return its uid.

    Raises:
        ApiError: What the API answered, other than that the node exists.
    """
    body = node_body(facts, now)
    try:
        created = await cluster.create(catalog.NODE, body)
    except AlreadyExists:
        gone = dict.fromkeys(facts.outdated)
        metadata = {"labels": {**gone, **body["metadata"]["labels"]}, "annotations": dict(facts.annotations)}
        await cluster.patch(catalog.NODE, facts.name, "", {"metadata": metadata}, patch_type=PatchType.MERGE)
        created = await report_node(cluster, facts, now)
    return str(created["metadata"]["uid"])


async def report_node(cluster: Cluster, facts: NodeFacts, now: float) -> Json:
    """Write the whole status of a Node that exists; return the object.

    Raises:
        ApiError: What the API answered.
    """
    status, gone = node_status(facts, now), dict.fromkeys(facts.outdated)
    amounts = {name: {**gone, **status[name]} for name in ("capacity", "allocatable")}
    body = {"status": {**status, **amounts}}
    return await cluster.patch(catalog.NODE, facts.name, "", body, patch_type=PatchType.STRATEGIC, subresource="status")


async def forget_nodes(cluster: Cluster, label: str, keep: Collection[str]) -> list[str]:
    """Delete the nodes with a label that are not among those to keep, and return their names.

    For a cluster that starts with other nodes than before: what nobody runs any more must not look ready until its
    lease ends. Pods of nodes that are gone are deleted after their quarantine.

    Raises:
        ApiError: What the API answered.
    """
    page = await cluster.list(catalog.NODE, label_selector=label)
    gone = [name for node in page.items if (name := node["metadata"]["name"]) not in keep]
    for name in gone:
        with contextlib.suppress(NotFound):
            await cluster.delete(catalog.NODE, name)
    return gone
