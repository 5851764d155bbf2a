"""How this machine is a node: what it offers, how its pods are kept apart, and when it looks again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from strato.node.images.registry import RegistrySettings
from strato.node.restarts import Backoff
from strato.node.sandbox.gpupool import Offer
from strato.node.sandbox.pressure import TRANSITION_SECONDS


class PodNetwork(Enum):
    """The network of pods, where privileges allow; without them all have the machine's and a loopback address each."""

    NAT = "nat"
    """Own addresses, and what the machine reaches by address translation."""
    ISOLATED = "isolated"
    """Own addresses; pods reach one another and this machine."""
    HOST = "host"
    """The machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOffer:
    """What the node shows of itself in the API."""

    name: str
    cpus: str = ""
    memory: str = ""
    """Quantities; empty is what the machine has."""
    cpu_overcommit_factor: float = 1.0
    """By which its cpu is amplified. Range [1, 10]."""
    gpus: Offer = Offer.ALL
    gpu_root: str = "/"
    """Where GPUs are looked for; anything but ``/`` is for tests."""
    labels: Mapping[str, str] = field(default_factory=dict)
    share: int = 1
    """One over this of the machine's cpus, memory and disk is what it has; of several nodes of one machine."""
    kubelet_port: int = 0
    """Where the composition root serves logs and streams to an API server; 0 is nowhere."""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePolicy:
    """Where the images of containers come from."""

    strict: bool = True
    """Never run a container on the machine's root in place of its image."""
    registries: RegistrySettings = field(default_factory=RegistrySettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServices:
    """How the cluster's services are to be had on this machine."""

    api: Callable[[], tuple[str, int]]
    """Returns where the API server listens, as this machine reaches it; asked once the node is registered."""
    is_open: bool = False
    """Whether node ports take clients from other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIsolation:
    """How far pods are kept from the machine and from one another."""

    level: str = ""
    """Force ``root``, ``user`` or ``plain``; empty takes the strongest there is."""
    network: PodNetwork = PodNetwork.NAT
    own_users: bool = True
    """Give pods user namespaces by default, where the machine and they allow it."""
    images: ImagePolicy = field(default_factory=ImagePolicy)
    """Where the images of containers come from."""
    services: ClusterServices | None = None
    """What connects pods to services; None: nothing does."""
    hidden: Sequence[str | os.PathLike[str]] = ()
    """Directories of the machine that no container on its root may see, beside the node's own: the cluster's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeriods:
    """How long the node waits between two looks at the same thing."""

    refresh_seconds: float = 30.0
    """At what the files of ConfigMaps, Secrets and tokens should be."""
    storage_seconds: float = 10.0
    """At how much of the disk the pods use; as a kubelet does."""
    pressure_seconds: float = TRANSITION_SECONDS
    """The node counts as short of disk, memory or processes for so long after it was last seen so."""
    backoff: Backoff = field(default_factory=Backoff)
    """Between restarts of a container."""
