"""Tasks and machines for cost models and the graph manager: plain data and a few columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from strato.errors import Problem
from strato.mincost.arrays import Int64s
from strato.mincost.network import NetworkError


class TaskType(IntEnum):
    """How a task treats its neighbours (Whare-Map's animals)."""

    SHEEP = 0
    RABBIT = 1
    DEVIL = 2
    TURTLE = 3


@dataclass(frozen=True, slots=True)
class Vector:
    """Amounts of a machine's resources, in the units of the wire protocol."""

    cpu: int = 0
    """Millicores."""
    ram: int = 0
    ephemeral: int = 0
    net_rx: int = 0
    net_tx: int = 0
    disk_bw: int = 0

    def __add__(self, other: Vector) -> Vector:
        return Vector(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def __sub__(self, other: Vector) -> Vector:
        return Vector(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def fits(self, room: Vector) -> bool:
        """Tell whether no dimension exceeds the room there is."""
        return all(a <= b for a, b in zip(self.values(), room.values(), strict=True))

    def values(self) -> tuple[int, ...]:
        """Return the amounts in order."""
        return (self.cpu, self.ram, self.ephemeral, self.net_rx, self.net_tx, self.disk_bw)


@dataclass(frozen=True, slots=True)
class Selector:
    """One condition on labels: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt`` or ``Lt``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet the condition."""
        value = labels.get(self.key)
        if self.operator in {"Exists", "DoesNotExist"}:
            return (value is not None) == (self.operator == "Exists")
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        try:
            have, limit = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return have > limit if self.operator == "Gt" else have < limit


@dataclass(frozen=True, slots=True)
class Taint:
    """A machine's mark that tasks must tolerate; effects as in Kubernetes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a task tolerates; an empty effect means every effect, an empty key every key."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether the taint is tolerated."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        return self.key == taint.key and (self.operator == "Exists" or self.value == taint.value)


@dataclass(frozen=True, slots=True)
class Preferred:
    """A weighted preference for machines whose labels meet all conditions."""

    weight: int
    selectors: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """A condition on neighbours: a task of one of the namespaces (none: of any) whose labels meet all selectors."""

    selectors: tuple[Selector, ...]
    namespaces: tuple[str, ...] = ()

    def matches(self, task: Task) -> bool:
        """Tell whether a task meets the condition."""
        if self.namespaces and task.namespace not in self.namespaces:
            return False
        return all(s.matches(task.labels) for s in self.selectors)


@dataclass(frozen=True, slots=True)
class Liking:
    """A weighted preference for neighbours; a negative weight avoids them."""

    weight: int
    beside: Beside


@dataclass(slots=True)
class Task:
    """A unit of work. The graph manager sets `machine` and the times."""

    id: int
    job: str
    binary: str = ""
    request: Vector = Vector()
    priority: int = 0
    type: TaskType = TaskType.SHEEP
    labels: Mapping[str, str] = field(default_factory=dict)
    selectors: tuple[Selector, ...] = ()
    preferred: tuple[Preferred, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    one_of: tuple[tuple[Selector, ...], ...] = ()
    """Terms about the machine's labels, one of which must hold whole (required node affinity); none: no rule."""
    near: tuple[Beside, ...] = ()
    """Each must be met by some task on the machine (required affinity)."""
    apart: tuple[Beside, ...] = ()
    """None may be met by a task on the machine (required anti-affinity)."""
    likes: tuple[Liking, ...] = ()
    """Preferred affinity and anti-affinity."""
    namespace: str = ""
    inputs: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Input blocks: size in bytes and the machines that hold it."""
    disk: str = ""
    """Kind of disk asked for (``ssd``, ``hdd``), for the `placement` model."""
    owner: str = ""
    gang_minimum: int = 0
    """Tasks of the job that must run together; 0: any number."""
    submitted: float = 0.0
    machine: str | None = None
    started: float = 0.0
    waiting_since: float = 0.0
    waited: float = 0.0
    """Seconds unscheduled in earlier waits."""
    ran: float = 0.0
    """Seconds run in earlier runs."""

    def waiting_seconds(self, now: float) -> float:
        """Seconds unscheduled in total."""
        return self.waited + (max(0.0, now - self.waiting_since) if self.machine is None else 0.0)

    def run_seconds(self, now: float) -> float:
        """Seconds run in total."""
        return self.ran + (max(0.0, now - self.started) if self.machine is not None else 0.0)


@dataclass(slots=True)
class Machine:
    """A machine; its processing units (PUs) are kept together as `slots`."""

    id: str
    slots: int = 1
    capacity: Vector = Vector()
    rack: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    avoids: frozenset[str] = frozenset()
    """Owners whose tasks should preferably go elsewhere."""
    kind: str = ""
    """Hardware class, for models that learn per class."""
    used: Vector = Vector()
    """Requests of the tasks on it, of other schedulers' too."""
    others: int = 0
    """Tasks of other schedulers."""
    tasks: dict[int, Task] = field(default_factory=dict)

    @property
    def available(self) -> Vector:
        """Capacity less what is used."""
        return self.capacity - self.used

    @property
    def free(self) -> int:
        """Slots without a task."""
        return max(0, self.slots - self.others - len(self.tasks))


class FlowWorld:
    """All tasks and machines. Machines have stable indices; a removed one leaves None.

    Attributes:
        preemption: Whether running tasks take part in rounds; decides what capacities arcs have.
    """

    def __init__(self, *, preemption: bool = False) -> None:
        self.preemption = preemption
        self.tasks: dict[int, Task] = {}
        self.machines: list[Machine | None] = []
        self.machine_index: dict[str, int] = {}
        self._classes: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []

    def present(self) -> list[tuple[int, Machine]]:
        """List machines with their indices."""
        return [(i, m) for i, m in enumerate(self.machines) if m is not None]

    def class_target(self, key: Hashable) -> int:
        """Return the arc target that stands for an equivalence class: negative, stable for its key."""
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = len(self._keys)
            self._keys.append(key)
        return -1 - known

    def class_key(self, target: int) -> Hashable:
        """Return the key of a class target."""
        return self._keys[-1 - target]

    @property
    def class_count(self) -> int:
        """How many classes have a target."""
        return len(self._keys)

    def capacity_of(self, machine: Machine) -> int:
        """Slots an arc into the machine may use: all with preemption, the free ones without."""
        return max(0, machine.slots - machine.others) if self.preemption else machine.free

    def job_tasks(self, job: str) -> list[Task]:
        """List the tasks of a job."""
        return [task for task in self.tasks.values() if task.job == job]

    def add_machine(self, machine: Machine) -> int:
        """Add a machine and return its index.

        Raises:
            NetworkError: A machine of that name is there already.
        """
        if machine.id in self.machine_index:
            raise NetworkError([Problem(f"machine {machine.id!r}", "exists already; remove it first")])
        if machine.slots < 0:
            raise NetworkError([Problem(f"machine {machine.id!r}", f"slots {machine.slots} is negative")])
        self.machines.append(replace(machine, tasks={}))
        self.machine_index[machine.id] = len(self.machines) - 1
        return len(self.machines) - 1

    def machine(self, name: str) -> Machine:
        """Return a machine.

        Raises:
            NetworkError: There is none of that name.
        """
        index = self.machine_index.get(name)
        found = self.machines[index] if index is not None else None
        if found is None:
            raise NetworkError([Problem(f"machine {name!r}", "is unknown; it was never added or is removed")])
        return found


def columns(machines: Sequence[Machine], attribute: str) -> Int64s:
    """Collect one dimension of available room as a column."""
    return np.array([getattr(m.available, attribute) for m in machines], np.int64)
