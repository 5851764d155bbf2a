"""What a log holds: the entries, as they are on disk.

An entry is an array in msgpack, whose first part says which it is. Objects are what the scheduler reads of them
(`strato.scheduler.cache.kinds`), without the fields that have their default. Instants are seconds since the epoch; an
entry without one belongs to the last `Instant` before it.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 1
"""Of this module; a log of another one is refused."""

SCHEDULER, CLUSTER = "scheduler", "cluster"
"""Who wrote a log: a scheduler, with every cycle; or somebody who followed its cluster, with what could be seen."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the entries."""


class Began(Entry, frozen=True, tag="began", gc=False):
    """A scheduler starts with an empty world; or a file goes on where the one before ended.

    Attributes:
        format: `FORMAT`.
        origin: `SCHEDULER` or `CLUSTER`.
        continues: Whether the world is that of the file before.
        at: When.
        anonymised: Whether names are hashed.
        strato: Version of the program.
        names, default_queue, shard_mode, shard_name, agent_shard, flow_loaded, config, base, rng: As in
            `strato.scheduler.cache.journal.Beginning`; ``rng`` is None where nobody could know it.
    """

    format: int
    origin: str
    continues: bool
    at: float
    anonymised: bool
    strato: str
    names: tuple[str, ...]
    default_queue: str
    shard_mode: str
    shard_name: str
    agent_shard: str
    flow_loaded: bool
    config: str
    base: str
    rng: tuple[int, tuple[int, ...], float | None] | None = None


class Instant(Entry, frozen=True, tag="i", gc=False):
    """What follows happens now."""

    at: float


class Took(Entry, frozen=True, tag="t", gc=False):
    """An object is as it is here from now on. ``kind`` is a place in `KIND_NAMES`."""

    kind: int
    body: msgspec.Raw


class Dropped(Entry, frozen=True, tag="d", gc=False):
    """An object is gone."""

    kind: int
    namespace: str
    name: str


class Unbound(Entry, frozen=True, tag="unbound", gc=False):
    """A bind did not come about."""

    key: str


class Held(Entry, frozen=True, tag="held", gc=False):
    """A pod is left out of decisions for a while."""

    key: str


class Released(Entry, frozen=True, tag="released", gc=False):
    """… and no longer."""

    key: str


class EvictionRefused(Entry, frozen=True, tag="refused", gc=False):
    """A victim stays."""

    key: str
    uid: str
    at: float


class Reopened(Entry, frozen=True, tag="reopened", gc=False):
    """Decisions are made anew although no object changed."""


class FlowLoaded(Entry, frozen=True, tag="flow", gc=False):
    """The action flow has its kernels."""


class Measured(Entry, frozen=True, tag="measured", gc=False):
    """What nodes use: CPU and memory in percent by window, and when that was read."""

    interval_seconds: float
    nodes: dict[str, tuple[dict[str, float], dict[str, float], float]]


class Repaired(Entry, frozen=True, tag="repaired", gc=False):
    """The self-audit found wrong sums and computed them anew: what was decided just before may not be repeatable."""


class Replied(Entry, frozen=True, tag="reply", gc=False):
    """What came of a question that the next cycle asked; see `strato.scheduler.cache.replies`."""

    where: str
    digest: bytes
    text: str
    problem: str
    seconds: float


class Configured(Entry, frozen=True, tag="config", gc=False):
    """Another configuration is in force."""

    text: str
    base: str


class Evicted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One eviction of a cycle, as in `strato.scheduler.model.plan.Eviction`."""

    pod: str
    beneficiary: str = ""
    action: str = ""
    reason: str = ""
    moves_to: str = ""


class Cycle(Entry, frozen=True, tag="c", gc=False):
    """What was decided on everything before.

    Attributes:
        number: Counts the cycles of a log, from 1.
        at: The instant it was decided for.
        binds: Pod and node.
        evictions: See `Evicted`.
        phases: PodGroups whose phase it changed, and to what.
        admitted: Pods whose queue-admission gate it takes away.
        promised: Pods that were promised a place, and where.
    """

    number: int
    at: float
    binds: tuple[tuple[str, str], ...] = ()
    evictions: tuple[Evicted, ...] = ()
    phases: tuple[tuple[str, str], ...] = ()
    admitted: tuple[str, ...] = ()
    promised: tuple[tuple[str, str], ...] = ()


class SnapshotBegan(Entry, frozen=True, tag="s", gc=False):
    """Everything that is known now follows, between other entries, which come after it in time.

    Attributes:
        number: Counts the snapshots of a log, from 1.
        at: When.
        cycle: Number of the last cycle before.
        config, base: The configuration in force.
        binding: Pods whose bind is under way, and where to.
        leaving: Pods that are being evicted: key, uid, beneficiary.
        held: Pods that are left out of decisions.
    """

    number: int
    at: float
    cycle: int
    config: str
    base: str
    binding: tuple[tuple[str, str], ...]
    leaving: tuple[tuple[str, str, str], ...]
    held: tuple[str, ...]


class SnapshotPart(Entry, frozen=True, tag="p", gc=False):
    """One object of the snapshot that began last."""

    kind: int
    body: msgspec.Raw


class SnapshotEnded(Entry, frozen=True, tag="e", gc=False):
    """Nothing of the snapshot is missing."""

    number: int


AnyEntry = (
    Began
    | Instant
    | Took
    | Dropped
    | Unbound
    | Held
    | Released
    | EvictionRefused
    | Reopened
    | FlowLoaded
    | Measured
    | Repaired
    | Replied
    | Configured
    | Cycle
    | SnapshotBegan
    | SnapshotPart
    | SnapshotEnded
)
"""Any entry."""

encode = msgspec.msgpack.Encoder().encode
"""Write an entry, or what is in one."""
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[AnyEntry])


def pack(entries: list[bytes]) -> bytes:
    """Return entries, each written already, as one array of msgpack."""
    return b"\xdd" + len(entries).to_bytes(4, "big") + b"".join(entries)


def unpack(body: bytes) -> list[AnyEntry]:
    """Read what `pack` wrote.

    Raises:
        *UNDECODABLE: It holds something else.
    """
    found: list[AnyEntry] = _DECODER.decode(body)
    return found
