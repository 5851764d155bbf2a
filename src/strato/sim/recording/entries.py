"""The entries of a log, as they are on disk.

An entry is an array in msgpack whose first element is its tag. Of objects, entries hold the fields that the scheduler
reads (`strato.scheduler.cache.kinds`) and that differ from their default. Instants are seconds since the epoch; an
entry without an instant belongs to the last `Instant` before it.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 1
"""Version of the entries; logs of another version are refused."""

SCHEDULER, CLUSTER = "scheduler", "cluster"
"""Origin of a log: a scheduler, which records every cycle; or an observer of its cluster, who sees results only."""


class LogEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the entries."""


class Began(LogEntry, frozen=True, tag="began", gc=False):
    """A scheduler has started with an empty World, or the log goes on in a further file.

    Attributes:
        format: `FORMAT`.
        origin: `SCHEDULER` or `CLUSTER`.
        continues: Whether the World is that at the end of the file before.
        at: The instant.
        anonymised: Whether names are hashed.
        strato: Version of the program that wrote the log.
        names, default_queue, shard_mode, shard_name, agent_shard, flow_loaded, config, base, rng: As in
            `strato.scheduler.cache.journal.Beginning`; ``rng`` is None if it was not recorded.
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


class Instant(LogEntry, frozen=True, tag="i", gc=False):
    """The instant of the entries that follow."""

    at: float


class Took(LogEntry, frozen=True, tag="t", gc=False):
    """The World took a new or changed object; ``kind`` is its number in `strato.sim.recording.state.KIND_NUMBERS`."""

    kind: int
    body: msgspec.Raw


class Dropped(LogEntry, frozen=True, tag="d", gc=False):
    """The World dropped an object."""

    kind: int
    namespace: str
    name: str


class Unbound(LogEntry, frozen=True, tag="unbound", gc=False):
    """The bind of a pod failed, so that it is pending again."""

    key: str


class Held(LogEntry, frozen=True, tag="held", gc=False):
    """A pod is left out of decisions until it is `Released`."""

    key: str


class Released(LogEntry, frozen=True, tag="released", gc=False):
    """A pod that was `Held` takes part in decisions again."""

    key: str


class EvictionRefused(LogEntry, frozen=True, tag="refused", gc=False):
    """The eviction of a victim was refused or is not needed; the victim stays."""

    key: str
    uid: str
    at: float


class Reopened(LogEntry, frozen=True, tag="reopened", gc=False):
    """A cycle became due although no object changed."""


class FlowLoaded(LogEntry, frozen=True, tag="flow", gc=False):
    """The kernels of the action flow have been loaded."""


class Measured(LogEntry, frozen=True, tag="measured", gc=False):
    """The usage of nodes was read: node → percent of CPU by window, percent of memory by window, and when."""

    interval_seconds: float
    nodes: dict[str, tuple[dict[str, float], dict[str, float], float]]


class Repaired(LogEntry, frozen=True, tag="repaired", gc=False):
    """The scheduler's self-audit found wrong sums and corrected them; a replay may decide differently just before."""


class Replied(LogEntry, frozen=True, tag="reply", gc=False):
    """The reply to a question that the next cycle asks; see `strato.scheduler.cache.replies`."""

    where: str
    digest: bytes
    text: str
    problem: str
    seconds: float


class Configured(LogEntry, frozen=True, tag="config", gc=False):
    """The scheduler's configuration was replaced."""

    text: str
    base: str


class Evicted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One eviction of a cycle, as in `strato.scheduler.model.plan.Eviction`."""

    pod: str
    beneficiary: str = ""
    action: str = ""
    reason: str = ""
    moves_to: str = ""


class Cycle(LogEntry, frozen=True, tag="c", gc=False):
    """The decisions of a cycle on the World of all entries before.

    Attributes:
        number: Number of the cycle in the log, from 1.
        at: The instant for which the cycle decided.
        binds: Keys of pods with their nodes.
        evictions: See `Evicted`.
        phases: Keys of pod groups whose phase the cycle changed, with the new phase.
        admitted: Keys of pods whose queue-admission gate the cycle removes.
        promised: Keys of pipelined pods, which get a place once victims are gone, with their nodes.
    """

    number: int
    at: float
    binds: tuple[tuple[str, str], ...] = ()
    evictions: tuple[Evicted, ...] = ()
    phases: tuple[tuple[str, str], ...] = ()
    admitted: tuple[str, ...] = ()
    promised: tuple[tuple[str, str], ...] = ()


class SnapshotBegan(LogEntry, frozen=True, tag="s", gc=False):
    """A snapshot of the World begins: its objects follow as `SnapshotPart`, mixed with entries of later changes.

    Attributes:
        number: Number of the snapshot in the log, from 1.
        at: The instant of the snapshot.
        cycle: Number of the last cycle before it.
        config, base: The configuration at that instant.
        binding: Keys of pods that are bound by a cycle but not yet in the API, with their nodes.
        leaving: Pods whose eviction the API does not show yet: key, uid, key of the beneficiary.
        held: Keys of pods that are left out of decisions.
    """

    number: int
    at: float
    cycle: int
    config: str
    base: str
    binding: tuple[tuple[str, str], ...]
    leaving: tuple[tuple[str, str, str], ...]
    held: tuple[str, ...]


class SnapshotPart(LogEntry, frozen=True, tag="p", gc=False):
    """An object of the snapshot that began last."""

    kind: int
    body: msgspec.Raw


class SnapshotEnded(LogEntry, frozen=True, tag="e", gc=False):
    """All objects of the snapshot have been written."""

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
"""Encode an entry or a part of one."""
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[AnyEntry])


def pack(entries: list[bytes]) -> bytes:
    """Return encoded entries as one array of msgpack."""
    return b"\xdd" + len(entries).to_bytes(4, "big") + b"".join(entries)


def unpack(body: bytes) -> list[AnyEntry]:
    """Decode the entries that `pack` has joined.

    Raises:
        *UNDECODABLE: The bytes are no array of entries.
    """
    found: list[AnyEntry] = _DECODER.decode(body)
    return found
