"""The state that the parts of the master share."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from strato.api.meta import Json
from strato.interop.mesos.allocator import Allocator
from strato.interop.mesos.master.conversions import Disks
from strato.interop.mesos.master.effects import Outbox
from strato.interop.mesos.master.model import (
    MOST_COMPLETED_FRAMEWORKS,
    Agent,
    Executor,
    Framework,
    Stream,
    Task,
)
from strato.interop.mesos.master.volumes import Volume, volumes_of
from strato.interop.mesos.resources import NOTHING, Resources
from strato.interop.mesos.specs import AgentId, FrameworkId

HEARTBEAT_SECONDS = 15.0
VERSION = "1.11.0"
"""The version of Mesos whose API this is; clients read digits and dots only."""
_TASKS = uuid.UUID("5d3b1c6c-5b0f-5a39-8d5b-0f6f2f0c3d1e")
"""UUID namespace of status updates' ids, so that a restarted master gives an update the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    """Options of a master, with the names and defaults of Mesos' flags."""

    allocation_interval_seconds: float = 1.0
    offer_timeout_seconds: float | None = None
    """Time after which an unanswered offer is rescinded; with None a framework may hold offers for ever."""
    roles: frozenset[str] = frozenset()
    """The only roles allowed; empty allows all."""
    root_submissions: bool = True
    filter_gpu_resources: bool = True
    min_allocatable_resources: tuple[str, ...] = ("cpus:0.01", "mem:32")
    fair_sharing_excluded: frozenset[str] = frozenset()
    reregister_seconds: float = 600.0
    """Least time that a framework has to reconnect after a restart of the master."""
    cluster: str = ""
    """Name shown to operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterIdentity:
    """Id, address and version of the master, as shown to clients."""

    id: str
    hostname: str
    ip: str
    port: int
    started_at: float
    scheme: str = "http"
    """Scheme of the addresses shown to frameworks."""

    @property
    def pid(self) -> str:
        """The master's name as a libprocess process (``master@IP:PORT``)."""
        return f"master@{self.ip}:{self.port}"

    def to_info(self) -> Json:
        """Return the identity as MasterInfo."""
        octets = self.ip.split(".")
        number = int.from_bytes(bytes(map(int, reversed(octets))), "big") if len(octets) == 4 else 0
        return {
            "id": self.id,
            "ip": number,
            "port": self.port,
            "pid": self.pid,
            "hostname": self.hostname,
            "version": VERSION,
            "address": {"hostname": self.hostname, "ip": self.ip, "port": self.port},
            "capabilities": [{"type": "AGENT_UPDATE"}, {"type": "AGENT_DRAINING"}, {"type": "QUOTA_V2"}],
        }


@dataclass(slots=True, eq=False)
class Unit:
    """One of the master's pods: a command task, a group of tasks, or an executor with its tasks."""

    name: str
    framework_id: str
    agent_id: str
    role: str
    tasks: list[Task]
    """Tasks in the order of the containers; for an executor, all its tasks that are not forgotten."""
    executor: Executor | None = None
    default_executor: Json | None = None
    """ExecutorInfo of a group's default executor."""
    old_executor: Json | None = None
    """ExecutorInfo of the pod's executor after it has ended."""
    uid: str = ""
    """Uid of the pod, once it has been created."""
    pod_resources: Resources = NOTHING
    """Resources that the pod requests."""
    grace_seconds: float | None = None
    """Shortest grace period of kills so far; None without a kill."""

    @property
    def is_group(self) -> bool:
        """Whether its tasks were launched together."""
        return self.default_executor is not None


@dataclass(slots=True, eq=False)
class MasterState:
    """The master's state, and its outbox of effects."""

    identity: MasterIdentity
    options: MasterOptions
    allocator: Allocator
    new_uuid: Callable[[], uuid.UUID]
    agents: dict[str, Agent] = field(default_factory=dict)
    frameworks: dict[str, Framework] = field(default_factory=dict)
    completed: deque[Framework] = field(default_factory=lambda: deque(maxlen=MOST_COMPLETED_FRAMEWORKS))
    units: dict[str, Unit] = field(default_factory=dict)
    _units_on: dict[str, dict[str, Unit]] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    listeners: dict[Stream, None] = field(default_factory=dict)
    """Event streams of operators."""
    weights: dict[str, float] = field(default_factory=dict)
    quotas: dict[str, Json] = field(default_factory=dict)
    """Guarantees and limits by role, as on the wire."""
    gone_agents: dict[str, float] = field(default_factory=dict)
    """Agents that an operator has marked gone, with the time."""
    schedule: Json = field(default_factory=dict)
    """The maintenance schedule."""
    down_machines: list[Json] = field(default_factory=list)
    conversions: dict[str, tuple[Resources, Resources]] = field(default_factory=dict)
    """Conversions of resources before the restart, by agent, for agents not seen since."""
    volumes: dict[str, Volume] = field(default_factory=dict)
    """Persistent volumes of all agents, by name."""
    numbers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    is_recovering: bool = False
    """Whether the master is still reading agents after a restart."""

    def convert(self, framework_id: str, agent: Agent, role: str, old: Resources, new: Resources) -> None:
        """Convert resources of an agent that a framework holds: reserve, create a volume, or undo that."""
        self.allocator.convert_held(FrameworkId(framework_id), AgentId(agent.id), role, old, new)
        self.note_conversion(agent, old, new)

    def note_conversion(self, agent: Agent, old: Resources, new: Resources) -> None:
        """Record a conversion of an agent's resources."""
        agent.converted_from += old.allocated(None)
        agent.converted_to += new.allocated(None)
        both = agent.converted_from - (agent.converted_from - agent.converted_to)
        agent.converted_from, agent.converted_to = agent.converted_from - both, agent.converted_to - both
        self.outbox.saved_registry = True
        gone, made = volumes_of(agent.id, old), volumes_of(agent.id, new)
        self.set_volumes({**dict.fromkeys(gone), **made})

    def set_volumes(self, changed: Mapping[str, Volume | None]) -> None:
        """Update persistent volumes by name: created, resized, or destroyed."""
        for name, volume in changed.items():
            if volume is None:
                self.volumes.pop(name, None)
            else:
                self.volumes[name] = volume
            self.outbox.volumes[name] = None

    def disks(self, agent: Agent) -> Disks:
        """Return the facts about an agent that operations on volumes need."""
        return Disks(agent.id, agent.facts.gives_volumes, volumes_of(agent.id, agent.converted_to).keys())

    def add_unit(self, unit: Unit) -> None:
        """Add a pod."""
        self.units[unit.name] = unit
        self._units_on.setdefault(unit.agent_id, {})[unit.name] = unit

    def drop_unit(self, name: str) -> Unit | None:
        """Remove and return a pod; None if it is unknown."""
        unit = self.units.pop(name, None)
        if unit is not None:
            self._units_on[unit.agent_id].pop(name, None)
        return unit

    def units_on(self, agent_id: str) -> Collection[Unit]:
        """Return the pods on an agent."""
        return self._units_on.get(agent_id, {}).values()

    def next_number(self, series: str) -> int:
        """Return the next number of a series of ids, from 0."""
        number = self.numbers.get(series, 0)
        self.numbers[series] = number + 1
        return number

    def count(self, name: str) -> None:
        """Increase a counter of the metrics."""
        self.counters[name] = self.counters.get(name, 0) + 1

    def notify(self, event: Json) -> None:
        """Send an event to operators."""
        for stream in list(self.listeners):
            stream.send(event)


def update_uuid(unit_uid: str, task_id: str, what: str) -> uuid.UUID:
    """Return the id of a status update, which is the same in every master."""
    return uuid.uuid5(_TASKS, f"{unit_uid}/{task_id}/{what}")
