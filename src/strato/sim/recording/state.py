"""The objects a log knows at an instant, as they are on disk; what time travel and snapshots start from."""

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
"""How entries name kinds: by their place in the scheduler's table."""
_VIEWS: tuple[msgspec.msgpack.Decoder[Any], ...] = tuple(
    msgspec.msgpack.Decoder(known.kind.view) for known in kinds.KINDS
)


def known_kind(number: int) -> WorldKind:
    """Return the kind of an entry.

    Raises:
        BadLog: There is none of that number.
    """
    if not 0 <= number < len(kinds.KINDS):
        raise BadLog(f"the log names kind {number}; this program knows {len(kinds.KINDS)}")
    return kinds.KINDS[number]


def view_of(entry: e.Took | e.SnapshotPart) -> Object:
    """Return the object of an entry.

    Raises:
        BadLog: It does not fit its kind.
    """
    known = known_kind(entry.kind)
    try:
        view: Object = _VIEWS[entry.kind].decode(entry.body)
    except UNDECODABLE as error:
        raise BadLog(f"the log holds a {known.kind.name} that is none: {error}") from error
    return view


@dataclass(slots=True)
class State:
    """What is known, entry by entry.

    Attributes:
        began: How the recording began.
        at: The instant of the last entry.
        config, base: The configuration in force.
        cycle: The last cycle.
        objects: Bodies by kind, then namespace and name.
        binding: Pods whose bind is under way, and where to.
        leaving: Pods that are being evicted.
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
        """Take an entry.

        Raises:
            BadLog: It makes no sense.
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
        """Note that an object shows what was under way for the pod of that key; other kinds have no such fields."""
        if is_bound:
            self.binding.pop(key, None)
        if is_gone:
            self.leaving.discard(key)

    def _restart(self, entry: e.SnapshotBegan) -> None:
        """Take what a snapshot says of itself, when nothing is known that it could differ from."""
        self.at = entry.at
        if any(self.objects.values()):
            return
        self.config, self.base, self.cycle = entry.config, entry.base, entry.cycle
        self.binding = dict(entry.binding)
        self.leaving = {key for key, _, _ in entry.leaving}

    def manifests(self) -> Iterator[Located]:
        """Return the objects as manifests, with binds and evictions that were under way as if they had come about."""
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
        """Return what a dry run of the state depends on besides its objects."""
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
    """What is looked at of any object; whether a pod is bound, leaves or has ended."""

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
    """Return entries with the parts of the first snapshot before all that came while it was written.

    For who begins to read at that snapshot. The parts of later ones are left out: they say nothing new.
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


def state_at(log: Log, instant: float) -> State:
    """Return what was known at an instant, with everything that happened then.

    Raises:
        BadLog: The log is damaged.
        UsageError: The log begins later.
    """
    state = State(log.first())
    began = False
    for entry in in_order(log.entries(log.start_for(instant))):
        at = getattr(entry, "at", None)
        if began and isinstance(entry, e.Instant | e.Cycle | e.Began) and at is not None and at > instant:
            break
        began = True
        state.apply(entry)
    return state
