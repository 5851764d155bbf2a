"""What ``strato status`` shows of this machine's node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """What a person wants to know."""

    name: str
    pods: int
    """Of every node that this machine is."""
    isolation: str
    """``root``, ``user`` or ``plain``."""
    pod_network: str
    limits: bool
    """Whether CPU and memory limits are enforced."""
    egress: bool
    """Whether pods reach what the machine reaches."""
    own_users: bool
    """Whether pods have user namespaces of their own where they can."""
    gpus: tuple[str, ...]
    """Models of the GPUs it offers."""
    substituted_containers: int
    """Containers that ran on the machine's root instead of their image."""
    warnings: tuple[str, ...]
    """What is weaker than it could be, and why."""
