"""The master's objects: agents, frameworks, offers, tasks and executors."""

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
        """Send an event; ignored after the client has gone."""

    def finish(self, *, delayed: bool = False) -> None:
        """End the stream after the events sent so far; ``delayed``: later, to slow down clients that reconnect."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """Present state of a node."""

    id: str
    node: str
    hostname: str
    ip: str
    total: Resources
    """Resources for offers and tasks: the node's without those that other pods request."""
    attributes: tuple[tuple[str, str], ...] = ()
    region: str = ""
    zone: str = ""
    is_ready: bool = True
    is_schedulable: bool = True
    gives_volumes: bool = True
    """Whether its pods can mount persistent volumes."""


@dataclass(slots=True, eq=False)
class Agent:
    """An agent: a node whose resources are offered."""

    facts: AgentFacts
    registered_at: float
    is_connected: bool = True
    """Whether its node is ready."""
    is_deactivated: bool = False
    """Whether an operator has stopped offers of it."""
    is_drained_for_good: bool = False
    """Whether it is to be marked gone once it is drained."""
    unreachable_at: float | None = None
    offers: dict[str, Offer] = field(default_factory=dict)
    executors: dict[tuple[str, str], Executor] = field(default_factory=dict)
    """Executors by framework and executor id."""
    starting: dict[str, Resources] = field(default_factory=dict)
    """Resources that pods not created yet will request, by pod."""
    unavailability: Json | None = None
    converted_from: Resources = NOTHING
    converted_to: Resources = NOTHING
    """The dynamic reservations and volumes into which part of its resources was converted."""

    @property
    def total(self) -> Resources:
        """All its resources, reserved or not."""
        return self.facts.total - self.converted_from + self.converted_to

    @property
    def id(self) -> str:
        """The agent's id, which is constant while its node exists."""
        return self.facts.id

    @property
    def is_offered(self) -> bool:
        """Whether frameworks may get offers of it."""
        return self.is_connected and self.facts.is_schedulable and not self.is_deactivated


@dataclass(slots=True, eq=False)
class Offer:
    """Resources of one agent that one framework may use."""

    id: str
    framework_id: str
    agent_id: str
    role: str
    resources: Resources
    """The offered resources, allocated to the role."""
    made_at: float
    is_announced: bool = False
    """Whether the offer has been sent to the framework."""


@dataclass(slots=True, eq=False)
class Task:
    """A task that is not terminal, or whose terminal state is not acknowledged yet."""

    id: str
    framework_id: str
    agent_id: str
    info: Json
    role: str
    resources: Resources
    executor_id: str = ""
    """Id of the task's custom executor; empty for command tasks."""
    group: bool = False
    """Whether it was launched in a group."""
    unit: str = ""
    """Name of the pod in which the task, or its executor, runs."""
    state: str = "TASK_STAGING"
    """The newest state that the master knows."""
    statuses: list[Json] = field(default_factory=list)
    """Statuses, one per state, newest last."""
    pending: deque[Json] = field(default_factory=deque)
    """Updates to be acknowledged, in order; only the first one has been sent."""
    retry_at: float = 0.0
    retry_seconds: float = 0.0
    has_resources: bool = True
    """Whether the allocator still counts its resources."""
    kill_wanted: bool = False
    killing_reason: str = ""
    executor_uuid: str = ""

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended."""
        return self.state in TERMINAL


@dataclass(slots=True, eq=False)
class Executor:
    """A custom executor on an agent; it runs in the pod created for its first task."""

    id: str
    framework_id: str
    agent_id: str
    info: Json
    resources: Resources
    unit: str
    stream: Stream | None = None
    queued: list[Json] = field(default_factory=list)
    """Events to send once it subscribes."""
    tasks: dict[str, Task] = field(default_factory=dict)
    has_subscribed: bool = False
    is_shutting_down: bool = False


@dataclass(slots=True, eq=False)
class Framework:
    """A framework that is subscribed, or may reconnect."""

    id: str
    info: Json
    """FrameworkInfo, with the id."""
    registered_at: float
    reregistered_at: float
    suppressed: frozenset[str] = frozenset()
    constraints: Json | None = None
    principal: str = ""
    stream: Stream | None = None
    stream_id: str = ""
    is_recovered: bool = False
    """Whether it has not reconnected since the master's restart."""
    disconnected_at: float | None = None
    deadline: float | None = None
    """When it is removed unless it has subscribed again."""
    unregistered_at: float = 0.0
    offers: dict[str, Offer] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    completed: deque[Task] = field(default_factory=lambda: deque(maxlen=MOST_COMPLETED_TASKS))
    unreachable: dict[str, Task] = field(default_factory=dict)
    inverse_offers: dict[str, str] = field(default_factory=dict)
    """Agent by id of the inverse offer."""

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
        """How long it may be disconnected."""
        return float(self.info.get("failover_timeout", 0.0))

    @property
    def capabilities(self) -> frozenset[str]:
        """Its capabilities."""
        return frozenset(given["type"] for given in self.info.get("capabilities", ()) if "type" in given)

    def has(self, capability: str) -> bool:
        """Whether it has a capability."""
        return capability in self.capabilities

    def send(self, event: Json) -> None:
        """Send an event to the framework; ignored while it is disconnected."""
        if self.stream is not None:
            self.stream.send(event)

    def state_for(self, state: str) -> str:
        """Return a task's state in terms that the framework's capabilities allow."""
        return "TASK_LOST" if state in LOST_FOR_SHORT and not self.has("PARTITION_AWARE") else state


def value_of(holder: Mapping[str, Json] | Json, name: str) -> str:
    """Return an id's text, empty where there is none."""
    return str((holder.get(name) or {}).get("value", ""))


def used_by(tasks: Mapping[str, Task]) -> Resources:
    """Return the resources that tasks hold."""
    total = NOTHING
    for task in tasks.values():
        if task.has_resources:
            total += task.resources
    return total
