"""The plan of a chaos run as data: the cluster's setting, users' steps, and faults with their times.

A plan is drawn from one seed and can be written as JSON, so that a run can be repeated, sent to others, and minimised
by leaving out steps and faults. Each fault has its own seed, so leaving one out does not change the others.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Any, Final

import msgspec

FAULTY_SECONDS: Final = 200.0
"""Time of faults and users' steps; afterwards everything heals."""
FIRST_SECONDS: Final = 5.0
"""Time of the first fault, when the cluster has started."""


class FaultKind(StrEnum):
    """Effect of a fault on its component; see `PlannedFault` for the meaning of the numbers."""

    ERRORS = "errors"
    """Requests are answered 409, 429, 500, 503 or 504; some 5xx although they are carried out."""
    LOST = "lost answers"
    """Requests are carried out and the connection breaks before the answer."""
    SLOW = "slow"
    """Requests and answers take long."""
    PARTITION = "partition"
    """No data reaches the API server or comes from it; requests end by their timeout."""
    REFUSED = "refused"
    """Connections to the API server are refused, and existing ones break."""
    LATE_WATCHES = "late watches"
    """Each watch delivers changes with its own delay, so that kinds get out of step."""
    BROKEN_WATCHES = "broken watches"
    """Watches break at an event, which is lost; some clients have to list again (410)."""
    REPEATED_EVENTS = "repeated events"
    """Watches deliver events twice."""
    CRASH = "crash"
    """The component's process is killed after a number of event-loop callbacks, and restarted later."""
    PAUSE = "pause"
    """The component's process is paused, as by SIGSTOP or while its machine is migrated."""
    CLOCK = "clock"
    """The component's clock jumps."""
    DISK_FULL = "disk full"
    """The server's disk takes no writes."""
    NODE_DEATH = "node death"
    """A machine loses power, and gets it back later."""


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault."""

    at: float
    """Seconds after the cluster has started."""
    kind: FaultKind
    part: str
    """Name of the affected component; for NODE_DEATH of the node."""
    seconds: float = 0.0
    """How long it lasts; for CRASH, time until the restart."""
    amount: float = 0.0
    """For errors, lost answers, broken and repeated watches: fraction of requests or events. For delays: largest delay
    in seconds. For CRASH: callbacks until then. For CLOCK: seconds by which it jumps.
    """
    seed: int = 0
    """Seed of the fault's own choices."""

    def __str__(self) -> str:
        length = f" for {self.seconds:.1f} s" if self.seconds else ""
        amount = f" ({self.amount:g})" if self.amount else ""
        return f"{self.kind} of {self.part}{length}{amount}"


class UserRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a user, who repeats it until the API has confirmed it."""

    at: float
    """Seconds after the cluster has started."""
    verb: str
    """``create``, ``delete``, ``patch``; ``abort`` and ``resume`` a job; ``drain`` a node, which evicts its pods."""
    manifest: dict[str, Any]
    """The object to create; for other verbs its identity, for ``patch`` with the changed fields."""

    def __str__(self) -> str:
        metadata = self.manifest["metadata"]
        return f"{self.verb} {self.manifest['kind']} {metadata['name']}"


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The components and nodes of the cluster."""

    is_embedded: bool = False
    """Whether controllers, scheduler and nodes share a process that dies with the server, as under ``strato up``;
    otherwise each has its own and is answered after the commit."""
    schedulers: int = 1
    """Number of schedulers; a single one needs no lease."""
    is_elected: bool = True
    """Whether several schedulers compete for a lease. Otherwise all decide at the same time, as after a mistake in
    their deployment, until everything heals; then only the first one goes on.
    """
    nodes: dict[str, int] = {}
    """Number of nodes by the name of the process that runs them."""
    node_cpus: int = 8
    is_audited: bool = True
    """Whether the scheduler audits its cache against the API at intervals, as in production."""
    is_recorded: bool = False
    """Whether schedulers record their decisions, which a replay must reproduce."""
    config: str = ""
    """The scheduler's configuration; empty is the embedded cluster's."""


class ChaosPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The plan of one run."""

    seed: int
    setting: Setting
    steps: list[UserRequest] = []
    faults: list[PlannedFault] = []


def to_json(plan: ChaosPlan) -> bytes:
    """Write a plan for a file."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1)


def from_json(text: bytes) -> ChaosPlan:
    """Read a plan that `to_json` wrote.

    Raises:
        msgspec.DecodeError: The text is no plan.
    """
    return msgspec.json.decode(text, type=ChaosPlan)


def parts_of(setting: Setting) -> list[str]:
    """Return the names of a cluster's processes, except the server and users."""
    if setting.is_embedded:
        return ["components"]
    schedulers = [f"scheduler-{number}" for number in range(setting.schedulers)]
    return ["controllers", *schedulers, *setting.nodes]


def node_names(setting: Setting) -> list[str]:
    """Return the names of all nodes."""
    return [f"{group}-{number}" for group, count in setting.nodes.items() for number in range(count)]


def draw_setting(random: Random, seed: int = 0) -> Setting:
    """Draw the setting of a cluster."""
    is_embedded = random.random() < 0.3
    return Setting(
        is_embedded=is_embedded,
        schedulers=1 if is_embedded else random.choice((1, 2)),
        nodes={"rack-a": random.randint(1, 3), "rack-b": random.randint(1, 3)},
        node_cpus=random.choice((4, 8)),
        is_audited=random.random() < 0.5,
        is_elected=Random(f"{seed}/election").random() < 0.6,
        is_recorded=Random(f"{seed}/recording").random() < 0.25,
    )


_RATIOS: Final = {
    FaultKind.ERRORS: (0.05, 0.4),
    FaultKind.LOST: (0.05, 0.4),
    FaultKind.BROKEN_WATCHES: (0.02, 0.3),
    FaultKind.REPEATED_EVENTS: (0.05, 0.5),
}
_DELAYS: Final = {FaultKind.SLOW: (0.05, 4.0), FaultKind.LATE_WATCHES: (0.1, 15.0)}
_OF_THE_SERVER: Final = (FaultKind.CRASH, FaultKind.DISK_FULL, FaultKind.CLOCK)


def draw_faults(random: Random, setting: Setting) -> list[PlannedFault]:
    """Draw the faults of a run, in order of time."""
    parts = [*parts_of(setting), "server", "users", *node_names(setting)]
    count = random.choice((random.randint(2, 10), random.randint(8, 25), random.randint(20, 60)))
    faults = [_draw_fault(random, random.choice(parts), setting) for _ in range(count)]
    return sorted(faults, key=lambda fault: fault.at)


def _draw_fault(random: Random, part: str, setting: Setting) -> PlannedFault:
    at = random.uniform(FIRST_SECONDS, FAULTY_SECONDS - 10.0)
    kind = _draw_kind(random, part, setting)
    seconds, amount = random.choice((random.uniform(1, 10), random.uniform(10, 80))), 0.0
    if kind in _RATIOS:
        amount = random.uniform(*_RATIOS[kind])
    elif kind in _DELAYS:
        low, high = _DELAYS[kind]
        amount = low * (high / low) ** random.random()
    elif kind is FaultKind.CRASH:
        seconds, amount = random.uniform(0.1, 20), float(random.choice((0, random.randint(0, 300))))
    elif kind is FaultKind.CLOCK:
        seconds, amount = 0.0, random.choice((-1, 1)) * random.choice((2.0, 45.0, 3600.0))
    seconds = min(seconds, FAULTY_SECONDS - at)
    return PlannedFault(
        at=round(at, 3),
        kind=kind,
        part=part,
        seconds=round(seconds, 3),
        amount=round(amount, 3),
        seed=random.getrandbits(32),
    )


def _draw_kind(random: Random, part: str, setting: Setting) -> FaultKind:
    if part == "server":
        return random.choice(_OF_THE_SERVER)
    if part == "users":
        return random.choice((FaultKind.ERRORS, FaultKind.LOST, FaultKind.SLOW, FaultKind.REFUSED))
    if part in node_names(setting):
        return FaultKind.NODE_DEATH
    others = (FaultKind.DISK_FULL, FaultKind.NODE_DEATH)
    return random.choice([kind for kind in FaultKind if kind not in others])
