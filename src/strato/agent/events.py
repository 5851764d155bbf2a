"""What handlers are given about a host and its containers, and the actions that they may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """How loaded a host's resource is."""

    OK = "ok"
    WARN = "warn"
    HOT = "hot"


class Workload(StrEnum):
    """What a container's pod is for."""

    TRAINING = "training"
    ONLINE = "online"
    OTHER = "other"


class ActionKind(StrEnum):
    """What an action does."""

    SET_QUOTA = "setQuota"
    """Write a container's CPU quota: ``value`` millicores."""
    CLEAR = "clear"
    """Give a container its original quota back: ``value`` millicores, None where it had none."""
    SET_CLASS_QUOTA = "setClassQuota"
    """Write the CPU quota of all best-effort pods together: ``value`` millicores. It lapses if no round asks for it."""
    CORDON = "cordon"
    UNCORDON = "uncordon"
    TRAFFIC = "traffic"
    """Ask the load balancer for other weights: ``value`` is the body's share, ``target`` the resource."""
    EVICT = "evict"
    """Evict the pod with the uid ``target``."""
    EVENT = "event"
    """Report ``reason`` on the container's pod, or on the node without a target."""


SUPPRESSED: Final = "CPUSuppressed"
RESTORED: Final = "CPURestored"
BURST: Final = "CPUBurst"
OVERLOADED: Final = "HostOverloaded"
STILL_OVERLOADED: Final = "HostStillOverloaded"
QUOTA_CONFLICT: Final = "QuotaConflict"
MEMORY_HOTSPOT: Final = "MemoryHotspot"
HOTSPOT_CLEARED: Final = "HotspotCleared"
NO_BEST_EFFORT_GROUP: Final = "NoBestEffortGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLevel:
    """A resource's level, and since when it has it."""

    level: Level = Level.OK
    since: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """That a container was cut: an entry of the pod's annotation, which is the only state of it."""

    id: str
    """Of the container that was cut; one that was started again has another."""
    from_milli: int | None
    """Its quota before, in millicores; None: it had none."""
    to_milli: int
    """Its quota now."""
    at: float
    """Seconds since the epoch."""
    utilisation: float = 0.0
    """CPU of the host at that time, as a fraction."""
    used_milli: int = 0
    """What the container used at that time; 0: not recorded."""
    weight: int | None = None
    """Its group's shares or weight before it was made to give way to others; None: it was not."""
    pod_weight: int | None = None
    """The same of its pod's group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEvent:
    """One running container in one round."""

    at: float
    """Seconds since the epoch."""
    pod_uid: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    id: str = ""
    """Of this run of the container."""
    priority: int = 0
    """Value of the pod's PriorityClass."""
    workload: Workload = Workload.OTHER
    used_cores: float = 0.0
    """Mean of the last rounds."""
    throttled_ratio: float = 0.0
    """Throttled periods among all of the last round."""
    limit_milli: int | None = None
    """The quota that the kernel holds it to now; None: there is none."""
    base_milli: int | None = None
    """The limit that its pod asks for; None: there is none."""
    request_milli: int = 0
    start_time: float = 0.0
    """Seconds since the epoch."""
    is_guaranteed: bool = False
    is_best_effort: bool = False
    """Whether it is of the class that gets what others leave."""
    has_exclusive_cpus: bool = False
    is_sidecar: bool = False
    suppression: Suppression | None = None
    ip: str = ""
    service: str = ""
    job: str = ""
    """Owner's uid: containers of one gang have the same."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name it among the host's containers."""
        return f"{self.pod_uid}/{self.container}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """The host in one round; fractions are of its raw capacity."""

    at: float
    """Seconds since the epoch."""
    capacity_cores: float
    """Logical CPUs."""
    cpu: float = 0.0
    memory: float = 0.0
    network_receive: float = 0.0
    """Fraction of the link's speed; 0 where that is not known."""
    network_send: float = 0.0
    levels: Mapping[str, ResourceLevel] = field(default_factory=dict)
    """Of ``cpu``, ``memory`` and ``network``."""
    containers: tuple[ContainerEvent, ...] = ()
    """All that run."""
    best_effort_milli: int | None = None
    """The quota of all best-effort pods together; None: there is none."""
    has_best_effort_group: bool = False
    """Whether they have a control group that can be held to a quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a handler wants done."""

    kind: ActionKind
    target: str = ""
    """Key of a container, uid of a pod, or name of a resource; empty: the host."""
    value: float | None = None
    reason: str = ""
    """Reason of the event that reports it."""
    message: str = ""
    ttl_seconds: float = 0.0
    """How long it holds if it is not asked for again; 0: until something else is."""
    gives_way: bool = False
    """Of a suppression: whether the container also runs only when no other wants to, until it has its CPU back."""
