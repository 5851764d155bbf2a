"""`RecordedState`: the objects of a log's World at an instant, encoded as in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.meta import Json, Object
from strato.clock import format_time
from strato.decoding import UNDECODABLE
from strato.scheduler.cache import kinds
from strato.scheduler.cache.kinds import WorldKind
from strato.scheduler.dryrun.manifests import Located
from strato.scheduler.dryrun.states import Header, Sharding
from strato.sim.recording import entries as e
from strato.sim.recording.frames import BadLog
from strato.sim.recording.log import Log

KIND_NUMBERS: Final = {known.kind: number for number, known in enumerate(kinds.KINDS)}
"""Kind → its number in entries, which is its index in the scheduler's table of kinds."""
_VIEWS: tuple[msgspec.msgpack.Decoder[Any], ...] = tuple(
    msgspec.msgpack.Decoder(known.kind.view) for known in kinds.KINDS
)


def known_kind(number: int) -> WorldKind:
    """Return the kind of an entry.

    Raises:
        BadLog: No kind has that number.
    """
    if not 0 <= number < len(kinds.KINDS):
        raise BadLog(f"the log names kind {number}; this program knows {len(kinds.KINDS)}")
    return kinds.KINDS[number]


def view_of(entry: e.Took | e.SnapshotPart) -> Object:
    """Return the object of an entry.

    Raises:
        BadLog: The body does not fit the kind.
    """
    known = known_kind(entry.kind)
    try:
        view: Object = _VIEWS[entry.kind].decode(entry.body)
    except UNDECODABLE as error:
        raise BadLog(f"the log holds a {known.kind.name} that is none: {error}") from error
    return view


@dataclass(slots=True)
class RecordedState:
    """The state after the entries applied so far.

    Attributes:
        began: The entry with which the recording began.
        at: The instant of the last entry.
        config, base: The configuration at that instant.
        cycle: Number of the last cycle.
        objects: Number of a kind → (namespace, name) → body.
        binding: Key of a pod that a cycle has bound but the API does not show bound → its node.
        leaving: Keys of pods whose eviction the API does not show yet.
    """

    began: e.Began
    at: float = 0.0
    config: str = ""
    base: str = ""
    cycle: int = 0
    objects: dict[int, dict[tuple[str, str], msgspec.Raw]] = field(default_factory=dict)
    binding: dict[str, str] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)

    def apply(self, entry: e.AnyEntry) -> None:
        """Apply an entry.

        Raises:
            BadLog: The entry has an unknown kind or an object without a name.
        """
        match entry:
            case e.Took() | e.SnapshotPart():
                body = _read(entry)
                key = body.metadata.namespace, body.metadata.name
                self.objects.setdefault(entry.kind, {})[key] = entry.body
                self._confirm("/".join(key), is_bound=bool(body.spec.node_name), is_gone=body.is_leaving)
            case e.Dropped():
                self.objects.get(entry.kind, {}).pop((entry.namespace, entry.name), None)
                self._confirm(f"{entry.namespace}/{entry.name}", is_bound=True, is_gone=True)
            case e.Instant():
                self.at = entry.at
            case e.Cycle():
                self.at, self.cycle = entry.at, entry.number
                self.binding.update(entry.binds)
                self.leaving.update(one.pod for one in entry.evictions)
            case e.Unbound():
                self.binding.pop(entry.key, None)
            case e.EvictionRefused():
                self.leaving.discard(entry.key)
            case e.Configured():
                self.config, self.base = entry.text, entry.base
            case e.SnapshotBegan():
                self._restart(entry)
            case e.Began():
                self.began, self.at, self.config, self.base = entry, entry.at, entry.config, entry.base
                if not entry.continues:
                    self.objects.clear()
                    self.binding.clear()
                    self.leaving.clear()
            case _:
                pass

    def _confirm(self, key: str, *, is_bound: bool, is_gone: bool) -> None:
        """Forget a bind or eviction in progress that the pod now shows; other kinds have neither."""
        if is_bound:
            self.binding.pop(key, None)
        if is_gone:
            self.leaving.discard(key)

    def _restart(self, entry: e.SnapshotBegan) -> None:
        """Take configuration, binds and evictions of a snapshot, if it is the first thing read; else they are known."""
        self.at = entry.at
        if any(self.objects.values()):
            return
        self.config, self.base, self.cycle = entry.config, entry.base, entry.cycle
        self.binding = dict(entry.binding)
        self.leaving = {key for key, _, _ in entry.leaving}

    def manifests(self) -> Iterator[Located]:
        """Return the objects as manifests; binds and evictions in progress are shown as done."""
        for number, known in enumerate(kinds.KINDS):
            for (namespace, name), body in self.objects.get(number, {}).items():
                key = f"{namespace}/{name}" if namespace else name
                yield f"log: {known.kind.name} {key}", self._manifest(known, key, body)

    def _manifest(self, known: WorldKind, key: str, body: msgspec.Raw) -> Json:
        found: Json = msgspec.msgpack.decode(body)
        obj: Json = {**found, "apiVersion": known.kind.api_version, "kind": known.kind.name}
        if known.kind.name == "Pod":
            if key in self.binding and not obj.get("spec", {}).get("nodeName"):
                obj["spec"] = {**obj.get("spec", {}), "nodeName": self.binding[key]}
            if key in self.leaving and "deletionTimestamp" not in obj["metadata"]:
                obj["metadata"] = {**obj["metadata"], "deletionTimestamp": format_time(self.at)}
        return obj

    def header(self) -> Header:
        """Return what a dry run needs besides the objects: configuration, instant and sharding."""
        sharding = Sharding(self.began.shard_mode, self.began.shard_name)
        return Header(config=self.config, now=self.at, sharding=sharding)


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Body(msgspec.Struct, gc=False):
    """What `RecordedState` reads of an object: its name, and of a pod whether it is bound, terminating or ended."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None or self.status.phase in ("Succeeded", "Failed")


class _NamedOnly(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_POD = KIND_NUMBERS[catalog.POD]
_BODY = msgspec.msgpack.Decoder(_Body)
_NAMED = msgspec.msgpack.Decoder(_NamedOnly)


def _read(entry: e.Took | e.SnapshotPart) -> _Body:
    known_kind(entry.kind)
    try:
        if entry.kind == _POD:
            return _BODY.decode(entry.body)
        return _Body(_NAMED.decode(entry.body).metadata)
    except UNDECODABLE as error:
        raise BadLog(f"the log holds an object without a name: {error}") from error


def in_order(entries: Iterable[e.AnyEntry]) -> Iterator[e.AnyEntry]:
    """Return entries in the order of time: objects of the first snapshot before the entries written among them.

    Readers that begin at that snapshot need this order. They have the objects of later snapshots, which are left out.
    """
    waiting: list[e.AnyEntry] = []
    number = -1
    for entry in entries:
        match entry:
            case e.Began(continues=False) if number < 0:
                number = 0
                yield entry
            case e.SnapshotBegan() if number < 0:
                number = entry.number
                yield entry
            case e.SnapshotBegan():
                pass
            case e.SnapshotPart():
                if number > 0:
                    yield entry
            case e.SnapshotEnded():
                if entry.number == number:
                    yield entry
                    yield from waiting
                    waiting, number = [], 0
            case _ if number > 0:
                waiting.append(entry)
            case _:
                yield entry
    yield from waiting


def state_at(log: Log, instant: float) -> RecordedState:
    """Return the state at an instant, after all entries of that instant.

    Raises:
        BadLog: The log is damaged.
        UsageError: The log begins after the instant.
    """
    state = RecordedState(log.first())
    began = False
    for entry in in_order(log.entries(log.start_for(instant))):
        at = getattr(entry, "at", None)
        if began and isinstance(entry, e.Instant | e.Cycle | e.Began) and at is not None and at > instant:
            break
        began = True
        state.apply(entry)
    return state
