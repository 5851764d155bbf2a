"""Effects: writes to the cluster that the edge carries out, in this order, before a call is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.api.meta import Json
from strato.interop.mesos.resources import Resources


@dataclass(frozen=True, slots=True)
class PodLaunch:
    """A pod to create: a command task, a group, or an executor with its first task."""

    unit: str
    """Name of the pod to create."""
    framework_id: str
    agent_id: str
    role: str
    tasks: tuple[Json, ...]
    """TaskInfos."""
    executor: Json | None
    """ExecutorInfo of a custom executor, or of a group's default executor; None for a command task."""
    is_group: bool
    resources: Resources
    """Resources of all tasks and the executor."""
    user: str


@dataclass(frozen=True, slots=True)
class Kill:
    """A pod to end: SIGTERM, and SIGKILL after the grace period."""

    unit: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Forget:
    """A pod to delete: all its final states are acknowledged, or its framework is gone."""

    unit: str


@dataclass(slots=True)
class Outbox:
    """Effects since the outbox was last emptied."""

    launches: list[PodLaunch] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    forgotten: list[Forget] = field(default_factory=list)
    saved_units: dict[str, None] = field(default_factory=dict)
    """Pods whose record of tasks and acknowledged states has changed."""
    saved_frameworks: dict[str, None] = field(default_factory=dict)
    removed_frameworks: dict[str, None] = field(default_factory=dict)
    held_agents: dict[str, None] = field(default_factory=dict)
    """Agents whose held resources have changed."""
    offered: dict[str, list[str]] = field(default_factory=dict)
    """New offers by framework, to be announced once their resources are held by annotations."""
    saved_registry: bool = False
    """Whether weights, quotas, reservations, volumes or the maintenance schedule have changed."""
    volumes: dict[str, None] = field(default_factory=dict)
    """Names of persistent volumes that were created, resized or destroyed."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def take(self) -> Outbox:
        """Return the effects and empty the outbox."""
        taken, fresh = Outbox(), Outbox()
        for name in self.__slots__:
            setattr(taken, name, getattr(self, name))
            setattr(self, name, getattr(fresh, name))
        return taken
