"""What the parts of the master share."""

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
"""Namespace of the ids of status updates: a master that starts again gives an update the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    """How a master behaves; names and defaults are Mesos' flags'."""

    allocation_interval_seconds: float = 1.0
    offer_timeout_seconds: float | None = None
    """After how long an offer that is not answered is rescinded; None never rescinds: a framework may hoard offers."""
    roles: frozenset[str] = frozenset()
    """The only roles there are; empty allows all."""
    root_submissions: bool = True
    filter_gpu_resources: bool = True
    min_allocatable_resources: tuple[str, ...] = ("cpus:0.01", "mem:32")
    fair_sharing_excluded: frozenset[str] = frozenset()
    reregister_seconds: float = 600.0
    """How long a framework has at least to come back after the master itself has started anew."""
    cluster: str = ""
    """Name shown to operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterIdentity:
    """Who the master is: what clients are shown of it."""

    id: str
    hostname: str
    ip: str
    port: int
    started_at: float
    scheme: str = "http"
    """Of the addresses that frameworks are shown."""

    @property
    def pid(self) -> str:
        """Its name as a process of Mesos'."""
        return f"master@{self.ip}:{self.port}"

    def to_info(self) -> Json:
        """Return it as MasterInfo."""
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
    """A pod of ours: a command task, a group of tasks, or an executor with its tasks."""

    name: str
    framework_id: str
    agent_id: str
    role: str
    tasks: list[Task]
    """In the order of its containers; of an executor those that it was ever given and are not forgotten."""
    executor: Executor | None = None
    default_executor: Json | None = None
    """Of a group."""
    old_executor: Json | None = None
    """Info of the executor that was there and has ended."""
    uid: str = ""
    """Of the pod, once it is there."""
    pod_resources: Resources = NOTHING
    """What the pod itself asks for."""
    grace_seconds: float | None = None
    """Of the shortest kill so far."""

    @property
    def is_group(self) -> bool:
        """Whether its tasks were launched together."""
        return self.default_executor is not None


@dataclass(slots=True, eq=False)
class State:
    """All that the master knows, and where it says what is to be done."""

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
    """Operators' event streams."""
    weights: dict[str, float] = field(default_factory=dict)
    quotas: dict[str, Json] = field(default_factory=dict)
    """By role: guarantees and limits, as on the wire."""
    gone_agents: dict[str, float] = field(default_factory=dict)
    """Agents that an operator has marked gone, with the time."""
    schedule: Json = field(default_factory=dict)
    """The maintenance schedule."""
    down_machines: list[Json] = field(default_factory=list)
    conversions: dict[str, tuple[Resources, Resources]] = field(default_factory=dict)
    """By agent that is not there yet, what of it has become what before the master started anew."""
    volumes: dict[str, Volume] = field(default_factory=dict)
    """Persistent volumes of all agents, by name."""
    numbers: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    is_recovering: bool = False
    """Whether agents may still have to be read after a start."""

    def convert(self, framework_id: str, agent: Agent, role: str, old: Resources, new: Resources) -> None:
        """Turn what a framework holds of an agent into something else: reserved, a volume, or neither again."""
        self.allocator.convert_held(FrameworkId(framework_id), AgentId(agent.id), role, old, new)
        self.note_conversion(agent, old, new)

    def note_conversion(self, agent: Agent, old: Resources, new: Resources) -> None:
        """Remember what of an agent has become what."""
        agent.converted_from += old.allocated(None)
        agent.converted_to += new.allocated(None)
        both = agent.converted_from - (agent.converted_from - agent.converted_to)
        agent.converted_from, agent.converted_to = agent.converted_from - both, agent.converted_to - both
        self.outbox.saved_registry = True
        gone, made = volumes_of(agent.id, old), volumes_of(agent.id, new)
        self.set_volumes({**dict.fromkeys(gone), **made})

    def set_volumes(self, changed: Mapping[str, Volume | None]) -> None:
        """Take notice of persistent volumes by name: made, of another size, or destroyed."""
        for name, volume in changed.items():
            if volume is None:
                self.volumes.pop(name, None)
            else:
                self.volumes[name] = volume
            self.outbox.volumes[name] = None

    def disks(self, agent: Agent) -> Disks:
        """Return what operations on volumes have to know of an agent."""
        return Disks(agent.id, agent.facts.gives_volumes, volumes_of(agent.id, agent.converted_to).keys())

    def add_unit(self, unit: Unit) -> None:
        """Know a pod."""
        self.units[unit.name] = unit
        self._units_on.setdefault(unit.agent_id, {})[unit.name] = unit

    def drop_unit(self, name: str) -> Unit | None:
        """Forget a pod and return it, if it was known."""
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
        """Count something for the metrics."""
        self.counters[name] = self.counters.get(name, 0) + 1

    def notify(self, event: Json) -> None:
        """Send an event to operators."""
        for stream in list(self.listeners):
            stream.send(event)


def update_uuid(unit_uid: str, task_id: str, what: str) -> uuid.UUID:
    """Return the id of a status update; the same update has the same id in every master."""
    return uuid.uuid5(_TASKS, f"{unit_uid}/{task_id}/{what}")
