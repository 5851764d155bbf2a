"""The operator's settings for all training jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """Settings for the pods of all training jobs."""

    scheduler: str = "volcano"
    """Name of the scheduler of gangs; empty lets the default scheduler place pods one by one."""
    cluster_domain: str = ""
    """Domain of the names in ``TF_CONFIG``; empty omits it, so that the pods' resolvers complete the names."""
    init_image: str = "alpine:3.10"
    """Image of the container that waits for a PyTorch master."""
    init_lookup: str = "nslookup"
    """Command of that container that fails until a name resolves."""
    init_tries: int = 100
    """How often the container tries that command, every 2 seconds."""
    enforces_schedule_timeout: bool = False
    """Whether a job fails that has waited for its PodGroup for its ``scheduleTimeoutSeconds``."""
    kubectl_image: str = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
    """Image of the container that brings kubectl to the launcher of an MPIJob v1, and waits for the workers."""
    kubectl_command: tuple[str, ...] = ()
    """Command of that container; empty runs the image's own."""
