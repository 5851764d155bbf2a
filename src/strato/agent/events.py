"""Events about a host and its containers, which handlers get, and the actions that handlers return."""

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
    """Kind of workload of a container's pod."""

    TRAINING = "training"
    ONLINE = "online"
    OTHER = "other"


class ActionKind(StrEnum):
    """Kind of an action."""

    SET_QUOTA = "setQuota"
    """Write a container's CPU quota: ``value`` millicores."""
    CLEAR = "clear"
    """Restore a container's original quota: ``value`` millicores, None if it had none."""
    SET_CLASS_QUOTA = "setClassQuota"
    """Write the CPU quota of all best-effort pods together: ``value`` millicores. It lasts for a round."""
    CORDON = "cordon"
    UNCORDON = "uncordon"
    TRAFFIC = "traffic"
    """Request other weights of the load balancer: ``value`` is the used fraction, ``target`` the resource."""
    EVICT = "evict"
    """Evict the pod with the uid ``target``."""
    EVENT = "event"
    """Report an event with ``reason`` on the container's pod; without a target on the node."""


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
    """Level of a resource, and since when."""

    level: Level = Level.OK
    since: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Record of a suppressed container: an entry of its pod's annotation, the only place where this is stored."""

    id: str
    """Id of the suppressed container, which differs after a restart of the container."""
    from_milli: int | None
    """The quota before, in millicores; None if it had none."""
    to_milli: int
    """The quota now, in millicores."""
    at: float
    """Seconds since the epoch."""
    utilisation: float = 0.0
    """Used fraction of the host's CPU at that time."""
    used_milli: int = 0
    """Millicores that the container used at that time; 0 if not recorded."""
    weight: int | None = None
    """Shares or weight of its group before it was made idle (``cpu.idle``); None if it was not made idle."""
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
    """Id of this run of the container."""
    priority: int = 0
    """Value of the pod's PriorityClass."""
    workload: Workload = Workload.OTHER
    used_cores: float = 0.0
    """Mean CPU use of the last rounds."""
    throttled_ratio: float = 0.0
    """Fraction of the last round's periods in which it was throttled."""
    limit_milli: int | None = None
    """Present CPU quota in the kernel; None without one."""
    base_milli: int | None = None
    """CPU limit in the pod's spec; None without one."""
    request_milli: int = 0
    start_time: float = 0.0
    """Seconds since the epoch."""
    is_guaranteed: bool = False
    is_best_effort: bool = False
    """Whether it is best effort: it gets CPU that other containers leave."""
    has_exclusive_cpus: bool = False
    is_sidecar: bool = False
    suppression: Suppression | None = None
    ip: str = ""
    service: str = ""
    job: str = ""
    """Uid of the pod's owner, which all containers of a gang share."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Unique key among the host's containers."""
        return f"{self.pod_uid}/{self.container}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """The host in one round; fractions relate to its capacity without overcommitment."""

    at: float
    """Seconds since the epoch."""
    capacity_cores: float
    """Number of logical CPUs."""
    cpu: float = 0.0
    memory: float = 0.0
    network_receive: float = 0.0
    """Fraction of the link's speed; 0 where that is not known."""
    network_send: float = 0.0
    levels: Mapping[str, ResourceLevel] = field(default_factory=dict)
    """Levels of ``cpu``, ``memory`` and ``network``."""
    containers: tuple[ContainerEvent, ...] = ()
    """All running containers."""
    best_effort_milli: int | None = None
    """The quota of all best-effort pods together; None: there is none."""
    has_best_effort_group: bool = False
    """Whether best-effort pods have a common control group in which a quota can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action that a handler requests."""

    kind: ActionKind
    target: str = ""
    """Key of a container, uid of a pod, or name of a resource; empty: the host."""
    value: float | None = None
    reason: str = ""
    """Reason of the event that reports it."""
    message: str = ""
    ttl_seconds: float = 0.0
    """How long it stays in force if it is not requested again; 0: until another action replaces it."""
    gives_way: bool = False
    """For a suppression: whether the container's group is also made idle (``cpu.idle``) until its CPU is given back."""
