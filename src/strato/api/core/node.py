"""Nodes."""

from __future__ import annotations

import msgspec

from strato.api.core.affinity import Taint
from strato.api.meta import Object, View
from strato.api.shapes import EMPTY, ResourceList


class NodeSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")
    pod_cidr: str = msgspec.field(default="", name="podCIDR")


class NodeAddress(View, frozen=True, kw_only=True):
    """One address: InternalIP, Hostname, …."""

    type: str = ""
    address: str = ""


class NodeCondition(View, frozen=True, kw_only=True):
    """One condition, with the time of the node's last report."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class ContainerImage(View, frozen=True, kw_only=True):
    """An image that is on the node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(View, frozen=True, kw_only=True):
    """``status.nodeInfo``."""

    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    machine_id: str = msgspec.field(default="", name="machineID")


class NodeStatus(View, frozen=True, kw_only=True):
    """``status``."""

    capacity: ResourceList = EMPTY
    allocatable: ResourceList = EMPTY
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()

    def condition(self, type_: str) -> NodeCondition | None:
        """Return the condition of that type."""
        for condition in self.conditions:
            if condition.type == type_:
                return condition
        return None


class Node(Object, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its Ready condition is True."""
        condition = self.status.condition("Ready")
        return condition is not None and condition.status == "True"
