"""What is to be written to the cluster: the edge does it, in this order, before a call is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.api.meta import Json
from strato.interop.mesos.resources import Resources


@dataclass(frozen=True, slots=True)
class Launch:
    """A pod to create: a command task, a group, or an executor with its first task."""

    unit: str
    """Name of the pod."""
    framework_id: str
    agent_id: str
    role: str
    tasks: tuple[Json, ...]
    """TaskInfos."""
    executor: Json | None
    """A custom executor's ExecutorInfo; of a group, its default executor's."""
    is_group: bool
    resources: Resources
    """What all of it asks for."""
    user: str


@dataclass(frozen=True, slots=True)
class Kill:
    """A pod to end: SIGTERM, and SIGKILL after the grace period."""

    unit: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Forget:
    """A pod that nobody waits for any more: all its final states are acknowledged, or its framework is gone."""

    unit: str


@dataclass(slots=True)
class Outbox:
    """Effects since it was last emptied."""

    launches: list[Launch] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    forgotten: list[Forget] = field(default_factory=list)
    saved_units: dict[str, None] = field(default_factory=dict)
    """Pods whose record of tasks and acknowledged states has changed."""
    saved_frameworks: dict[str, None] = field(default_factory=dict)
    removed_frameworks: dict[str, None] = field(default_factory=dict)
    held_agents: dict[str, None] = field(default_factory=dict)
    """Agents on which other room is held than before."""
    offered: dict[str, list[str]] = field(default_factory=dict)
    """New offers by framework, to be announced once their room is held."""
    saved_registry: bool = False
    """Whether weights, quotas, reservations, volumes or the maintenance schedule have changed."""
    volumes: dict[str, None] = field(default_factory=dict)
    """Names of persistent volumes that were made, resized or destroyed."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def take(self) -> Outbox:
        """Return what is in it and empty it."""
        taken, fresh = Outbox(), Outbox()
        for name in self.__slots__:
            setattr(taken, name, getattr(self, name))
            setattr(self, name, getattr(fresh, name))
        return taken
