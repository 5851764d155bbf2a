"""What ``strato status`` shows of this machine's node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """The properties of the node that users see."""

    name: str
    pods: int
    """Number of pods on all nodes of this machine."""
    isolation: str
    """``root``, ``user`` or ``plain``."""
    pod_network: str
    limits: bool
    """Whether CPU and memory limits are enforced."""
    egress: bool
    """Whether pods have egress NAT."""
    own_users: bool
    """Whether pods get their own user namespaces where possible."""
    gpus: tuple[str, ...]
    """Models of the offered GPUs."""
    substituted_containers: int
    """Number of containers that have run on the machine's root instead of their image."""
    warnings: tuple[str, ...]
    """Texts about what is weaker than it could be, and why."""
