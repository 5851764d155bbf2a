"""Settings of this machine as a node: capacity, isolation of its pods, and the periods of its checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from strato.node.images.registry import RegistrySettings
from strato.node.restarts import Backoff
from strato.node.sandbox.gpupool import GpuOffer
from strato.node.sandbox.pressure import TRANSITION_SECONDS

NO_EGRESS = "EgressUnavailable"
"""Reason of the events about pods that reach nothing beyond this machine."""


class PodNetwork(Enum):
    """The network of pods. Without privileges all share the machine's, with a loopback address each."""

    NAT = "nat"
    """Pods have their own addresses, and reach what the machine reaches by egress NAT."""
    ISOLATED = "isolated"
    """Pods have their own addresses, and reach each other and this machine."""
    HOST = "host"
    """Pods share the machine's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOffer:
    """Capacity and labels that the node shows in the API."""

    name: str
    cpus: str = ""
    memory: str = ""
    """Quantities of cpu and memory; empty for what the machine has."""
    cpu_overcommit_factor: float = 1.0
    """Factor by which its cpu is amplified. Range [1, 10]."""
    gpus: GpuOffer = GpuOffer.ALL
    gpu_root: str = "/"
    """Directory below which GPUs are looked for; anything but ``/`` is for tests."""
    labels: Mapping[str, str] = field(default_factory=dict)
    share: int = 1
    """Number of nodes that share the machine: each has this fraction of its cpus, memory and disk."""
    kubelet_port: int = 0
    """Port at which the composition root serves logs and streams to an API server; 0 for none."""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePolicy:
    """Where the images of containers come from."""

    strict: bool = True
    """Never run a container on the machine's root in place of its image."""
    registries: RegistrySettings = field(default_factory=RegistrySettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServices:
    """How the node connects pods to the cluster's services."""

    api: Callable[[], tuple[str, int]]
    """Returns address and port at which this machine reaches the API server; called once the node is registered."""
    is_open: bool = False
    """Whether node ports accept clients from other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIsolation:
    """How pods are isolated from the machine and from each other."""

    level: str = ""
    """Level to force: ``root``, ``user`` or ``plain``; empty takes the strongest possible."""
    network: PodNetwork = PodNetwork.NAT
    own_users: bool = True
    """Give pods their own user namespaces by default, if the machine supports it and the pods do not prevent it."""
    images: ImagePolicy = field(default_factory=ImagePolicy)
    """Where the images of containers come from."""
    services: ClusterServices | None = None
    """How pods are connected to services; None for not at all."""
    hidden: Sequence[str | os.PathLike[str]] = ()
    """Directories of the machine to hide from containers on its root besides the node's own, such as the cluster's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeriods:
    """The periods of the node's checks."""

    refresh_seconds: float = 30.0
    """Seconds between two updates of mounted ConfigMaps, Secrets and tokens."""
    storage_seconds: float = 10.0
    """Seconds between two measurements of the pods' disk usage; a kubelet's default."""
    pressure_seconds: float = TRANSITION_SECONDS
    """How long a pressure condition stays True after it was last observed."""
    backoff: Backoff = field(default_factory=Backoff)
    """Back-off between restarts of a container."""
