"""The functions about nodes and time that kwok offers to templates of stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from strato.clock import format_time
from strato.node.hollow.stages.gotemplate import Functions

VERSION: Final = "v0.7.0"
"""The release of kwok whose stages are implemented; ``Version`` returns it."""


class Surroundings(Protocol):
    """The information about nodes that functions use."""

    def now(self) -> float:
        """Return the time, seconds since the epoch."""

    def address_of(self, node: str) -> str:
        """Return a node's address; empty for an unknown node."""

    def pod_address(self, uid: str) -> str:
        """Return the address of a pod, the same each time."""


NODE_CONDITIONS: Final[tuple[dict[str, str], ...]] = tuple(
    {"type": kind, "status": status, "reason": reason, "message": message}
    for kind, status, reason, message in (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    )
)


def functions_of(around: Surroundings, node: str = "") -> Functions:
    """Return the functions for the templates of one object.

    Args:
        around: Information about the nodes.
        node: Name of the node whose template is rendered; empty for a pod's template.
    """

    def pod_addresses(name: str, host_network: object, uid: str, *_: object) -> list[str]:
        address = around.address_of(name) if host_network else around.pod_address(str(uid))
        return [address] if address else []

    def addresses(name: str) -> list[str]:
        return [address] if (address := around.address_of(str(name))) else []

    table: dict[str, Callable[..., Any]] = {
        "Now": lambda: format_time(around.now()),
        "StartTime": lambda: format_time(around.now()),
        "Version": lambda: VERSION,
        "NodeConditions": lambda: [dict(one) for one in NODE_CONDITIONS],
        "NodeIP": lambda: around.address_of(node),
        "NodeName": lambda: node,
        "NodePort": lambda: 0,
        "NodeIPWith": lambda name: around.address_of(str(name)),
        "NodeIPsWith": addresses,
        "PodIPWith": lambda *given: next(iter(pod_addresses(*given)), ""),
        "PodIPsWith": pod_addresses,
    }
    return table


class _Nowhere:
    def now(self) -> float:
        return 0.0

    def address_of(self, node: str) -> str:
        return ""

    def pod_address(self, uid: str) -> str:
        return ""


KNOWN: Final[Functions] = functions_of(_Nowhere())
"""Name → function, to check names when templates are parsed."""
