"""A cache of accepted objects, by which later ones with an equal spec skip the steps whose inputs are the same.

The pods of a gang differ in their names, and so do jobs submitted by the thousand. Two objects of one kind and
namespace that were sent with the same bytes for their spec (and status) get the same types, defaults and rules.
Admission declares which kinds it reads; as long as none of these was written, it decides the same. So what was stored
behind the metadata of the first is right for the next (`Accepted`). If the metadata differ in a few values only
(`strato.server.rest.metadatatemplate`), they are matched against a template and not decoded.

A spec is cached when it is seen for the second time, so that objects that all differ (by the index in a variable, say)
cost one look-up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from strato.admission import Dependencies
from strato.api import catalog
from strato.api.wire import Request
from strato.decoding import UNDECODABLE
from strato.lru import LruCache
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.metadatatemplate import MetadataTemplate, metadata_template
from strato.server.rest.state import State
from strato.server.rest.stored import STATUS, Members, read_members, read_object, split, text_of
from strato.server.schema import typed
from strato.server.store import Bucket
from strato.server.strategies import strategy_of

_KINDS_MAX = 512
_SPEC_MAX_BYTES = 64 << 10
_MAX_BYTES = 8 << 20
"""Bound of the cached specs, and of the templates."""
_NUMBERS_BYTES = 1 << 20
_TEMPLATES_MAX = 8
"""Most templates of one kind and namespace."""
_SENT = (("apiVersion", "kind", "metadata", "spec"), ("apiVersion", "kind", "metadata", "spec", "status"))
"""Members in the order in which clients write them; the stored ones keep it."""
_metadata_is_clean = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

Stamp = tuple[int, ...]
"""Generations of all that admission reads; it changes with every write of those kinds."""
Key = tuple[Served, str, bytes, bytes]
"""Kind, namespace, spec and status as they were sent."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs to the creation of objects of one kind, besides the request."""

    served: Served
    admission: Dependencies
    reads: tuple[Bucket, ...]
    absent: tuple[Bucket, ...]
    """Those of ``reads`` in which nothing may be."""
    api_version: bytes
    name: bytes
    head: bytes
    """What a stored object begins with, up to its metadata."""
    generation: bytes
    """What of a new object's metadata is about its generation."""

    def stamp(self) -> Stamp:
        """Return the present stamp, of durable and of uncommitted writes: admission reads both."""
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


class Cached(msgspec.Struct, frozen=True, gc=False):
    """A hit: what need not be computed for an object that was sent."""

    accepted: Accepted
    metadata: Json
    """Decoded; of metadata that fit a template name and namespace only."""
    begin: bytes = b""
    """Metadata that fit a template, as they are stored, but for the server's own members."""
    shape: int = 0
    """Hash of what the metadata have in common with others of one template."""


class Miss(msgspec.Struct, frozen=True, gc=False):
    """A miss: the object passes all steps, and is cached under this key afterwards."""

    inputs: Inputs
    key: Key
    stamp: Stamp
    """The stamp under which admission decides."""


class _TemplateEntry(msgspec.Struct, frozen=True, gc=False):
    """A template of metadata, with the accepted spec that it belongs to."""

    before: bytes
    """What is sent before the metadata."""
    after: bytes
    """What is sent after them."""
    template: MetadataTemplate
    accepted: Accepted


@dataclass(slots=True)
class CreateCache:
    """The objects accepted lately."""

    state: State
    _inputs: dict[Served, Inputs | None] = field(default_factory=dict)
    _accepted: LruCache[Key, Accepted] = field(default_factory=lambda: LruCache(_MAX_BYTES, _accepted_size))
    _seen_once: LruCache[int, bool] = field(default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100))
    """Hashes of the keys of objects that were created once."""
    _templates: LruCache[tuple[Served, str], tuple[_TemplateEntry, ...]] = field(
        default_factory=lambda: LruCache(_MAX_BYTES, _templates_size)
    )
    _tried: LruCache[int, tuple[Accepted | None]] = field(
        default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100)
    )
    """Shapes of metadata seen once (None), or the accepted spec for which a template was tried."""

    def look_up(self, request: Request, target: ResourcePath, served: Served) -> Cached | Miss | None:
        """Look up an object that is sent without options.

        Without a hit it passes all steps, and is put into the cache afterwards (`fill`), unless the answer is None.
        """
        body, namespace = request.body, target.namespace
        inputs = self._inputs_of(served)
        if inputs is None or not all(says_nothing(request.user) for says_nothing in inputs.admission.users):
            return None
        for text in self._templates.get((served, namespace)) or ():
            if body.startswith(text.before) and body.endswith(text.after):
                match = text.template.match(body, len(text.before), len(body) - len(text.after))
                if match is not None:
                    cached = _from_template(text, namespace, match)
                    if cached is not None:
                        return cached
                    break
        sent = self._sent(inputs, served, namespace, body)
        if sent is None:
            return None
        miss, raw = sent
        accepted = self._accepted.get(miss.key)
        if accepted is None or accepted.stamp != miss.stamp:
            return miss
        try:
            metadata = read_object(raw)
        except UNDECODABLE:
            return None
        if not _metadata_is_clean(metadata):
            return None
        obj = {**accepted.rest, "metadata": metadata}
        admission_request = storing.admission_request(request, target, served.kind, "CREATE", obj, None)
        for fits in accepted.inputs.admission.fits:
            if not fits(admission_request):
                return None
        texts = (metadata.get("labels") or {}, metadata.get("annotations") or {})
        shape = hash((served, namespace, tuple(metadata), *map(tuple, texts), id(accepted)))
        return Cached(accepted, metadata, b"", shape)

    def fill(self, miss: Miss, stored: bytes) -> None:
        """Cache what was stored of an object, unless it depends on more than the key and the stamp."""
        inputs, key = miss.inputs, miss.key
        if key not in self._accepted and not self._is_second(key):
            return
        if any(bucket.objects or bucket.pending for bucket in inputs.absent):
            return
        parts = split(stored)
        if parts is None or not parts.start.startswith(inputs.head):
            return
        rest = read_object(stored)
        if inputs.admission.annotations & (rest.pop("metadata").get("annotations") or {}).keys():
            return  # what was filled in may be theirs
        first_status = strategy_of(inputs.served).first_status if "status" in rest else None
        if first_status is not None:
            del rest["status"]
        if "conditions" in (rest.get("status") or ()):  # those carry the time of this one
            return
        self._accepted.put(key, Accepted(inputs, miss.stamp, rest, first_status, parts.members))

    def fill_template(self, namespace: str, body: bytes, known: Cached) -> None:
        """Note the shape of accepted metadata; at its second time a template is made of them."""
        accepted, shape = known.accepted, known.shape
        tried = self._tried.get(shape)
        if tried is not None and tried[0] is accepted:
            return
        self._tried.put(shape, (None if tried is None else accepted,))
        if tried is None:
            return
        sent = bytes(read_members(body)["metadata"])
        template = metadata_template(sent, namespace, accepted.inputs.admission.annotations)
        if template is None:
            return
        start = body.index(sent)
        text = _TemplateEntry(body[:start], body[start + len(sent) :], template, accepted)
        template_key = (accepted.inputs.served, namespace)
        others = [
            one
            for one in self._templates.get(template_key) or ()
            if one.accepted.stamp == accepted.stamp and (one.template != template or one.after != text.after)
        ]
        self._templates.put(template_key, (text, *others[: _TEMPLATES_MAX - 1]))

    def _sent(self, inputs: Inputs, served: Served, namespace: str, body: bytes) -> tuple[Miss, msgspec.Raw] | None:
        """Return an object's key and its metadata; None when its members are not in the usual order."""
        try:
            members = read_members(body)
        except UNDECODABLE:
            return None
        if tuple(members) not in _SENT:
            return None
        if bytes(members["apiVersion"]) != inputs.api_version or bytes(members["kind"]) != inputs.name:
            return None
        status = bytes(members["status"]) if "status" in members else b""
        key = (served, namespace, bytes(members["spec"]), status)
        return Miss(inputs, key, inputs.stamp()), members["metadata"]

    def _is_second(self, key: Key) -> bool:
        """Whether an object with this key was seen before."""
        number = hash(key)
        if number in self._seen_once:
            return len(key[2]) + len(key[3]) <= _SPEC_MAX_BYTES
        self._seen_once.put(number, True)
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


def _templates_size(_: object, texts: tuple[_TemplateEntry, ...]) -> int:
    return sum(len(text.before) + len(text.after) + 8 * len(text.template.accepts.pattern) for text in texts)


def _from_template(text: _TemplateEntry, namespace: str, match: re.Match[bytes]) -> Cached | None:
    accepted, name = text.accepted, match["name"].decode()
    if accepted.stamp != accepted.inputs.stamp():
        return None
    for fits in accepted.inputs.admission.by_name:
        if not fits(name, accepted.rest):
            return None
    return Cached(accepted, {"name": name, "namespace": namespace}, text.template.begin(match))


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
    return Inputs(
        served,
        admission,
        tuple(state.store.bucket(read.resource) for read in (*admission.reads, *admission.absent)),
        tuple(state.store.bucket(one.resource) for one in admission.absent),
        version,
        name,
        head,
        generation,
    )
