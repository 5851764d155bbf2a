"""What the master knows: agents, frameworks, offers, tasks and executors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from strato.api.meta import Json
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.roles import UNRESERVED

MOST_COMPLETED_TASKS = 1000
MOST_COMPLETED_FRAMEWORKS = 50
TERMINAL = frozenset(
    f"TASK_{name}" for name in ("FINISHED", "FAILED", "KILLED", "ERROR", "LOST", "DROPPED", "GONE", "GONE_BY_OPERATOR")
)
"""States that a task never leaves."""
LOST_FOR_SHORT = frozenset(f"TASK_{name}" for name in ("DROPPED", "UNREACHABLE", "GONE", "GONE_BY_OPERATOR", "UNKNOWN"))
"""States that frameworks without PARTITION_AWARE are sent as TASK_LOST."""


class Stream(Protocol):
    """The connection on which a framework or an executor receives events."""

    def send(self, event: Json) -> None:
        """Send an event; nothing happens when the other end is gone."""

    def finish(self, *, delayed: bool = False) -> None:
        """End after what was sent; a second later where the client would come back at once."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """A node as the cluster has it now."""

    id: str
    node: str
    hostname: str
    ip: str
    total: Resources
    """What is offered or used by tasks: without what others hold."""
    attributes: tuple[tuple[str, str], ...] = ()
    region: str = ""
    zone: str = ""
    is_ready: bool = True
    is_schedulable: bool = True
    gives_volumes: bool = True
    """Whether its pods see persistent volumes."""


@dataclass(slots=True, eq=False)
class Agent:
    """An agent: a node that is offered."""

    facts: AgentFacts
    registered_at: float
    is_connected: bool = True
    """Whether its node is ready."""
    is_deactivated: bool = False
    """Whether an operator wants no offers of it."""
    is_drained_for_good: bool = False
    """Whether it is to be marked gone once it is drained."""
    unreachable_at: float | None = None
    offers: dict[str, Offer] = field(default_factory=dict)
    executors: dict[tuple[str, str], Executor] = field(default_factory=dict)
    """By framework and executor id."""
    starting: dict[str, Resources] = field(default_factory=dict)
    """Pods that are not created yet, and what they will ask for."""
    unavailability: Json | None = None
    converted_from: Resources = NOTHING
    converted_to: Resources = NOTHING
    """What dynamic reservations and volumes have made of which part of its resources."""

    @property
    def total(self) -> Resources:
        """All it has, reserved or not."""
        return self.facts.total - self.converted_from + self.converted_to

    @property
    def id(self) -> str:
        """Its id, which it keeps for as long as its node exists."""
        return self.facts.id

    @property
    def is_offered(self) -> bool:
        """Whether frameworks may get offers of it."""
        return self.is_connected and self.facts.is_schedulable and not self.is_deactivated


@dataclass(slots=True, eq=False)
class Offer:
    """Room on one agent that one framework may use."""

    id: str
    framework_id: str
    agent_id: str
    role: str
    resources: Resources
    """Allocated to the role."""
    made_at: float
    is_announced: bool = False
    """Whether the framework has been sent it."""


@dataclass(slots=True, eq=False)
class Task:
    """A task that the master lists: not terminal, or terminal and not acknowledged."""

    id: str
    framework_id: str
    agent_id: str
    info: Json
    role: str
    resources: Resources
    executor_id: str = ""
    """Of a custom executor; empty for command tasks."""
    group: bool = False
    """Whether it was launched in a group."""
    unit: str = ""
    """The pod that it runs in, or its executor does."""
    state: str = "TASK_STAGING"
    """The newest that the master knows."""
    statuses: list[Json] = field(default_factory=list)
    """One per state, newest last."""
    pending: deque[Json] = field(default_factory=deque)
    """Updates to be acknowledged, in order; only the first is on its way."""
    retry_at: float = 0.0
    retry_seconds: float = 0.0
    has_resources: bool = True
    """Whether its resources are still counted."""
    kill_wanted: bool = False
    killing_reason: str = ""
    executor_uuid: str = ""

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended."""
        return self.state in TERMINAL


@dataclass(slots=True, eq=False)
class Executor:
    """A custom executor on an agent; its pod is the first task's."""

    id: str
    framework_id: str
    agent_id: str
    info: Json
    resources: Resources
    unit: str
    stream: Stream | None = None
    queued: list[Json] = field(default_factory=list)
    """Events for it until it subscribes."""
    tasks: dict[str, Task] = field(default_factory=dict)
    has_subscribed: bool = False
    is_shutting_down: bool = False


@dataclass(slots=True, eq=False)
class Framework:
    """A framework that is subscribed, or may come back."""

    id: str
    info: Json
    """Its FrameworkInfo, with id."""
    registered_at: float
    reregistered_at: float
    suppressed: frozenset[str] = frozenset()
    constraints: Json | None = None
    principal: str = ""
    stream: Stream | None = None
    stream_id: str = ""
    is_recovered: bool = False
    """Whether the master knows it only from before its own start."""
    disconnected_at: float | None = None
    deadline: float | None = None
    """When it is removed unless it has subscribed again."""
    unregistered_at: float = 0.0
    offers: dict[str, Offer] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    completed: deque[Task] = field(default_factory=lambda: deque(maxlen=MOST_COMPLETED_TASKS))
    unreachable: dict[str, Task] = field(default_factory=dict)
    inverse_offers: dict[str, str] = field(default_factory=dict)
    """Inverse offer to agent."""

    @property
    def is_connected(self) -> bool:
        """Whether it has a stream."""
        return self.stream is not None

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it is subscribed to."""
        if self.has("MULTI_ROLE"):
            return tuple(self.info.get("roles", ()))
        return (self.info.get("role", UNRESERVED),)

    @property
    def failover_seconds(self) -> float:
        """How long it may be away."""
        return float(self.info.get("failover_timeout", 0.0))

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can do."""
        return frozenset(given["type"] for given in self.info.get("capabilities", ()) if "type" in given)

    def has(self, capability: str) -> bool:
        """Whether it has a capability."""
        return capability in self.capabilities

    def send(self, event: Json) -> None:
        """Send it an event; nothing while it is away."""
        if self.stream is not None:
            self.stream.send(event)

    def state_for(self, state: str) -> str:
        """Return a state as the framework knows it."""
        return "TASK_LOST" if state in LOST_FOR_SHORT and not self.has("PARTITION_AWARE") else state


def value_of(holder: Mapping[str, Json] | Json, name: str) -> str:
    """Return an id's text, empty where there is none."""
    return str((holder.get(name) or {}).get("value", ""))


def used_by(tasks: Mapping[str, Task]) -> Resources:
    """Return what tasks hold."""
    total = NOTHING
    for task in tasks.values():
        if task.has_resources:
            total += task.resources
    return total
