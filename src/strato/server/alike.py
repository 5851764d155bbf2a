"""Objects alike: what was found out about one new object holds for the next that differs in its metadata alone.

The pods of a gang are alike but for their names, and so are jobs that somebody submits by the thousand. Two objects of
one kind and namespace whose specs (and statuses) were sent as the same bytes have the same types, defaults and rules;
admission says which kinds it looks at, and as long as nothing of those was written, it decides the same. What was
stored of the first is then put behind the metadata of the next as it is. The metadata are never skipped.

Where the metadata have the same form as well (`strato.server.metaforms`), only what differs is looked at.

A spec is learned when it is seen for the second time, so that objects of which each is different (by the index in a
variable, say) pay for a look-up only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from strato.admission import Alike
from strato.api import catalog
from strato.server.metaforms import Form, form_of
from strato.server.objects import Json, encode
from strato.server.registry import Served
from strato.server.rest.layouts import STATUS, Tail, tail_of
from strato.server.rest.members import Members, read_members, read_object
from strato.server.rest.state import State
from strato.server.store import Bucket
from strato.server.strategies import strategy_of

_KNOWN_MAX = 512
_SEEN_MAX = 4096
_SPEC_MAX_BYTES = 64 << 10
_FORMS_MAX = 8
"""So many forms are known of one kind and namespace."""
_SENT = (("apiVersion", "kind", "metadata", "spec"), ("apiVersion", "kind", "metadata", "spec", "status"))
"""Members in the order in which clients write them; the stored ones keep it."""

Stamp = tuple[int, ...]
"""Stands for one state of what admission looks at: another one, another stamp."""
Key = tuple[Served, str, bytes, bytes]
"""Kind, namespace, spec and status as they were sent."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How objects of one kind are recognised."""

    served: Served
    alike: Alike
    reads: tuple[Bucket, ...]
    api_version: bytes
    name: bytes
    head: bytes
    """What a stored object begins with, up to its metadata."""
    generation: bytes
    """What of a new object's metadata is about its generation."""

    def stamp(self) -> Stamp:
        """Return the stamp of now: admission looks at what is durable and at what is written."""
        numbers: list[int] = []
        for bucket in self.reads:
            numbers += (bucket.newest, bucket.written)
        return tuple(numbers)


@dataclass(slots=True)
class Known:
    """What was stored of an object."""

    stamp: Stamp
    tail: bytes
    """All behind the metadata; up to the status where that is made for each object."""
    layout: Tail
    """Where in the tail things lie."""
    rest: Json
    """The tail decoded. Read only."""
    first_status: Callable[[Mapping[str, object], str], Json | None] | None = None
    """Makes the status, which is no part of the above: it carries the time of each object."""
    _second: str = ""
    _ending: tuple[bytes, Tail] = (b"", Tail(0, 0, 0, 0))
    """What objects of that second end with."""

    def ending(self, time: str) -> tuple[bytes, Tail]:
        """Return all that is behind the metadata of an object made at a time, and where in it things lie."""
        if self.first_status is None:
            return self.tail, self.layout
        if self._second != time:
            self._second = time
            status = encode(self.first_status(self.rest, time))
            start = len(self.tail) + len(STATUS)
            layout = Tail(self.layout.spec, self.layout.spec_end, start, start + len(status))
            self._ending = (b"".join((self.tail, STATUS, status, b"}")), layout)
        return self._ending


@dataclass(frozen=True, slots=True)
class Lesson:
    """An object that goes the long way, and shall be known afterwards."""

    plan: Plan
    key: Key
    stamp: Stamp
    known: dict[Key, Known]

    def learn(self, body: bytes) -> None:
        """Remember what was stored; nothing when it is more than what was sent and decided."""
        members = read_members(body)
        start = self.plan.head + bytes(members["metadata"])
        layout = tail_of(body)
        if not body.startswith(start) or layout is None:
            return
        tail, rest = body[len(start) :], read_object(body)
        del rest["metadata"]
        first_status = strategy_of(self.plan.served).first_status if "status" in rest else None
        if first_status is not None:
            made = STATUS + bytes(members["status"]) + b"}"
            if not tail.endswith(made):
                return
            tail = tail[: -len(made)]
            del rest["status"]
        if "conditions" in (rest.get("status") or ()):  # those carry the time of this one
            return
        if len(self.known) >= _KNOWN_MAX:
            del self.known[next(iter(self.known))]
        self.known[self.key] = Known(self.stamp, tail, layout, rest, first_status)


@dataclass(frozen=True, slots=True)
class Formed:
    """Objects alike whose metadata have the same form."""

    before: bytes
    """What is sent before the metadata."""
    after: bytes
    """What is sent after them."""
    form: Form
    plan: Plan
    known: Known


class AlikeObjects:
    """The objects that were accepted lately."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._plans: dict[Served, Plan | None] = {}
        self._known: dict[Key, Known] = {}
        self._seen: dict[int, None] = {}
        self._forms: dict[tuple[Served, str], tuple[Formed, ...]] = {}
        self._tried: dict[int, Known | None] = {}
        """What looked like having a form: once (None), or when which was known."""

    def formed(self, served: Served, namespace: str, body: bytes) -> tuple[Formed, re.Match[bytes]] | None:
        """Return the form of a new object and what differs, when both object and metadata are as others were."""
        for formed in self._forms.get((served, namespace), ()):
            if body.startswith(formed.before) and body.endswith(formed.after):
                match = formed.form.match(body, len(formed.before), len(body) - len(formed.after))
                if match is not None:
                    return (formed, match) if formed.plan.stamp() == formed.known.stamp else None
        return None

    def learn_form(self, namespace: str, body: bytes, plan: Plan, known: Known) -> None:
        """Take note of metadata that were accepted; those that look alike for the second time get a form."""
        sent = bytes(read_members(body)["metadata"])
        metadata = read_object(sent)
        look = hash((plan.served, namespace, tuple(metadata), *map(tuple, _texts(metadata)), id(known)))
        if look not in self._tried:
            if len(self._tried) >= _SEEN_MAX:
                self._tried.clear()
            self._tried[look] = None
            return
        if self._tried[look] is known:
            return
        self._tried[look] = known
        form = form_of(sent, namespace, plan.alike.annotations)
        if form is None:
            return
        start = body.index(sent)
        formed = Formed(body[:start], body[start + len(sent) :], form, plan, known)
        if len(self._forms) >= _KNOWN_MAX:
            self._forms.clear()
        place = (plan.served, namespace)
        others = [
            one
            for one in self._forms.get(place, ())
            if one.known.stamp == known.stamp and (one.form != form or one.after != formed.after)
        ]
        self._forms[place] = (formed, *others[: _FORMS_MAX - 1])

    def recognise(self, served: Served, namespace: str, body: bytes) -> tuple[Json, Plan, Known] | Lesson | None:
        """Return the metadata of a new object that is alike another, and what is known of that.

        Otherwise a lesson, when it is worth learning, or None.
        """
        plan = self._plan(served)
        if plan is None:
            return None
        try:
            members = read_members(body)
            if tuple(members) not in _SENT or not _is_of(plan, members):
                return None
            status = bytes(members["status"]) if "status" in members else b""
            key = (served, namespace, bytes(members["spec"]), status)
            stamp = plan.stamp()
            known = self._known.get(key)
            if known is not None and known.stamp == stamp:
                return read_object(members["metadata"]), plan, known
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return Lesson(plan, key, stamp, self._known) if known is not None or self._again(key) else None

    def _again(self, key: Key) -> bool:
        number = hash(key)
        if number in self._seen:
            return len(key[2]) + len(key[3]) <= _SPEC_MAX_BYTES
        if len(self._seen) >= _SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[number] = None
        return False

    def _plan(self, served: Served) -> Plan | None:
        try:
            return self._plans[served]
        except KeyError:
            if len(self._plans) >= _KNOWN_MAX:  # definitions came and went
                self._plans.clear()
            plan = self._plans[served] = self._made(served)
            return plan

    def _made(self, served: Served) -> Plan | None:
        kind = served.kind
        if not (kind is catalog.POD or (served.schema is not None and served.schema.spares_metadata)):
            return None
        alike = self._state.admission.alike(kind)
        if alike is None:
            return None
        version, name = encode(kind.api_version), encode(kind.name)
        head = b'{"apiVersion":' + version + b',"kind":' + name + b',"metadata":'
        generation = b',"generation":1' if strategy_of(served).counts_generations else b""
        return Plan(served, alike, tuple(map(self._state.bucket, alike.reads)), version, name, head, generation)


def _texts(metadata: Json) -> tuple[Json, Json]:
    return metadata.get("labels") or {}, metadata.get("annotations") or {}


def _is_of(plan: Plan, members: Members) -> bool:
    return bytes(members["apiVersion"]) == plan.api_version and bytes(members["kind"]) == plan.name
