"""What was found out about new objects, for those after them that are alike.

The pods of a gang are alike but for their names, and so are jobs that somebody submits by the thousand. Two objects of
one kind and namespace that were sent with the same bytes for their spec (and status) have the same types, defaults and
rules; admission says which kinds it reads, and as long as nothing of those was written, it decides the same. So what
was stored behind the metadata of the first is right for the next (`Accepted`). Where the metadata, too, differ in a few
words only (`strato.server.rest.metadatatext`), nothing else of them is looked at.

A spec is kept when it is seen for the second time, so that objects of which each is different (by the index in a
variable, say) pay for a look-up only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from strato.admission import Dependencies
from strato.api import catalog
from strato.api.wire import Request
from strato.lru import LruCache
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.metadatatext import MetadataTemplate, metadata_template
from strato.server.rest.state import State
from strato.server.rest.stored import STATUS, Members, read_members, read_object, split, text_of
from strato.server.schema import typed
from strato.server.store import Bucket
from strato.server.strategies import strategy_of

_KINDS_MAX = 512
_SPEC_MAX_BYTES = 64 << 10
_MAX_BYTES = 8 << 20
"""So much is kept of specs, and of templates."""
_NUMBERS_BYTES = 1 << 20
_TEMPLATES_MAX = 8
"""So many templates are kept of one kind and namespace."""
_SENT = (("apiVersion", "kind", "metadata", "spec"), ("apiVersion", "kind", "metadata", "spec", "status"))
"""Members in the order in which clients write them; the stored ones keep it."""
_metadata_is_clean = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

Stamp = tuple[int, ...]
"""Stands for one state of what admission reads: another one, another stamp."""
Key = tuple[Served, str, bytes, bytes]
"""Kind, namespace, spec and status as they were sent."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What decides about new objects of one kind besides what is sent."""

    served: Served
    admission: Dependencies
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
class Accepted:
    """What was stored of an object besides its metadata."""

    inputs: Inputs
    stamp: Stamp
    rest: Json
    """Decoded, without the status where that is made for each object. Read only."""
    first_status: Callable[[Mapping[str, object], str], Json | None] | None
    """Makes the status, which carries the time of each object."""
    members: Members
    _time: str = ""
    _text: bytes = b""

    def at(self, time: str) -> tuple[Members, bytes]:
        """Return the members of an object made at a time, and their text."""
        if self._time != time:
            self._time = time
            if self.first_status is not None:
                self.members = {**self.members, STATUS: encode(self.first_status(self.rest, time))}
            self._text = text_of(self.members)
        return self.members, self._text


class Recalled(msgspec.Struct, frozen=True, gc=False):
    """What is known of an object that was sent."""

    accepted: Accepted
    metadata: Json
    """Decoded; of metadata that fit a template name and namespace only."""
    begin: bytes = b""
    """Metadata that fit a template, as they are stored, but for the server's own members."""
    look: int = 0
    """Stands for what the metadata have in common with others of one template."""


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """An object that is looked at as a whole, and what it shall be known by afterwards."""

    inputs: Inputs
    key: Key
    stamp: Stamp
    """Under which it is decided."""


class _Text(msgspec.Struct, frozen=True, gc=False):
    """Objects alike whose metadata fit one template."""

    before: bytes
    """What is sent before the metadata."""
    after: bytes
    """What is sent after them."""
    template: MetadataTemplate
    accepted: Accepted


@dataclass(slots=True)
class CreateMemo:
    """The objects that were accepted lately."""

    state: State
    _inputs: dict[Served, Inputs | None] = field(default_factory=dict)
    _accepted: LruCache[Key, Accepted] = field(default_factory=lambda: LruCache(_MAX_BYTES, _accepted_size))
    _seen: LruCache[int, bool] = field(default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100))
    """Hashes of the keys of objects that were created once."""
    _texts: LruCache[tuple[Served, str], tuple[_Text, ...]] = field(
        default_factory=lambda: LruCache(_MAX_BYTES, _texts_size)
    )
    _tried: LruCache[int, tuple[Accepted | None]] = field(
        default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100)
    )
    """What looked like having a template: once (None), or when which was accepted."""

    def recall(self, request: Request, target: ResourcePath, served: Served) -> Recalled | Unknown | None:
        """Return what is known of an object that is sent without options.

        Otherwise it has to be looked at as a whole, and what is stored then is worth keeping (`learn`) or not (None).
        """
        body, namespace = request.body, target.namespace
        for text in self._texts.get((served, namespace)) or ():
            if body.startswith(text.before) and body.endswith(text.after):
                match = text.template.match(body, len(text.before), len(body) - len(text.after))
                if match is not None:
                    recalled = _with_text(text, namespace, match)
                    if recalled is not None:
                        return recalled
                    break
        sent = self._sent(served, namespace, body)
        if sent is None:
            return None
        unknown, raw = sent
        accepted = self._accepted.get(unknown.key)
        if accepted is None or accepted.stamp != unknown.stamp:
            return unknown
        try:
            metadata = read_object(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not _metadata_is_clean(metadata):
            return None
        obj = {**accepted.rest, "metadata": metadata}
        question = storing.question(request, target, served.kind, "CREATE", obj, None)
        for fits in accepted.inputs.admission.fits:
            if not fits(question):
                return None
        texts = (metadata.get("labels") or {}, metadata.get("annotations") or {})
        look = hash((served, namespace, tuple(metadata), *map(tuple, texts), id(accepted)))
        return Recalled(accepted, metadata, b"", look)

    def learn(self, unknown: Unknown, stored: bytes) -> None:
        """Keep what was stored of an object; nothing when it is more than what was sent and decided."""
        inputs, key = unknown.inputs, unknown.key
        if key not in self._accepted and not self._again(key):
            return
        parts = split(stored)
        if parts is None or not parts.start.startswith(inputs.head):
            return
        rest = read_object(stored)
        del rest["metadata"]
        first_status = strategy_of(inputs.served).first_status if "status" in rest else None
        if first_status is not None:
            del rest["status"]
        if "conditions" in (rest.get("status") or ()):  # those carry the time of this one
            return
        self._accepted.put(key, Accepted(inputs, unknown.stamp, rest, first_status, parts.members))

    def learn_text(self, namespace: str, body: bytes, known: Recalled) -> None:
        """Take note of metadata that were accepted; those that look alike for the second time get a template."""
        accepted, look = known.accepted, known.look
        tried = self._tried.get(look)
        self._tried.put(look, (None if tried is None else accepted,))
        if tried is None or tried[0] is accepted:
            return
        sent = bytes(read_members(body)["metadata"])
        template = metadata_template(sent, namespace, accepted.inputs.admission.annotations)
        if template is None:
            return
        start = body.index(sent)
        text = _Text(body[:start], body[start + len(sent) :], template, accepted)
        place = (accepted.inputs.served, namespace)
        others = [
            one
            for one in self._texts.get(place) or ()
            if one.accepted.stamp == accepted.stamp and (one.template != template or one.after != text.after)
        ]
        self._texts.put(place, (text, *others[: _TEMPLATES_MAX - 1]))

    def _sent(self, served: Served, namespace: str, body: bytes) -> tuple[Unknown, msgspec.Raw] | None:
        """Return what an object is known by, and its metadata; None where it is not written as clients write."""
        inputs = self._inputs_of(served)
        if inputs is None:
            return None
        try:
            members = read_members(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if tuple(members) not in _SENT:
            return None
        if bytes(members["apiVersion"]) != inputs.api_version or bytes(members["kind"]) != inputs.name:
            return None
        status = bytes(members["status"]) if "status" in members else b""
        key = (served, namespace, bytes(members["spec"]), status)
        return Unknown(inputs, key, inputs.stamp()), members["metadata"]

    def _again(self, key: Key) -> bool:
        """Whether such an object was seen before."""
        number = hash(key)
        if number in self._seen:
            return len(key[2]) + len(key[3]) <= _SPEC_MAX_BYTES
        self._seen.put(number, True)
        return False

    def _inputs_of(self, served: Served) -> Inputs | None:
        try:
            return self._inputs[served]
        except KeyError:
            if len(self._inputs) >= _KINDS_MAX:  # definitions came and went
                self._inputs.clear()
            inputs = self._inputs[served] = _inputs_of(self.state, served)
            return inputs


def _accepted_size(key: Key, accepted: Accepted) -> int:
    """Return about how many bytes are kept of a spec: as sent, as stored and decoded."""
    sent = len(key[2]) + len(key[3])
    return sent + 4 * sum(map(len, accepted.members.values()))


def _texts_size(_: object, texts: tuple[_Text, ...]) -> int:
    return sum(len(text.before) + len(text.after) + 8 * len(text.template.accepts.pattern) for text in texts)


def _with_text(text: _Text, namespace: str, match: re.Match[bytes]) -> Recalled | None:
    accepted, name = text.accepted, match["name"].decode()
    if accepted.stamp != accepted.inputs.stamp():
        return None
    for fits in accepted.inputs.admission.by_name:
        if not fits(name, accepted.rest):
            return None
    return Recalled(accepted, {"name": name, "namespace": namespace}, text.template.begin(match))


def _inputs_of(state: State, served: Served) -> Inputs | None:
    kind = served.kind
    if not (kind is catalog.POD or (served.schema is not None and served.schema.spares_metadata)):
        return None
    admission = state.admission.dependencies(kind)
    if admission is None:
        return None
    version, name = encode(kind.api_version), encode(kind.name)
    head = b'{"apiVersion":' + version + b',"kind":' + name + b',"metadata":'
    generation = b',"generation":1' if strategy_of(served).counts_generations else b""
    return Inputs(served, admission, tuple(map(state.bucket, admission.reads)), version, name, head, generation)
