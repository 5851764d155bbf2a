"""A cache of accepted objects; a creation with an equal spec skips the steps whose inputs are the same.

The pods of a gang differ in their names only, and so do jobs submitted by the thousand. For two objects of one kind and
namespace whose spec (and status) has the same bytes, type checks, defaults and validation give the same result.
Admission declares the kinds it reads; as long as none of these is written, it decides the same. So the members that
were stored after the metadata of the first object are right for the second (`Accepted`). If its metadata differ in a
few values only, they are matched against a template instead of decoded (`strato.server.rest.metadatatemplate`).

A spec is cached when it is seen for the second time, so that objects that all differ (by the index in a variable, say)
cost one look-up and no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from strato.admission import Dependencies
from strato.api import catalog
from strato.api.validation import reads_metadata
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
"""Size of the cache of specs, and of that of templates."""
_NUMBERS_BYTES = 1 << 20
_TEMPLATES_MAX = 8
"""Most templates of one kind and namespace."""
_SENT = (("apiVersion", "kind", "metadata", "spec"), ("apiVersion", "kind", "metadata", "spec", "status"))
"""Members in the order in which clients write them; the stored ones keep it."""
_metadata_is_clean = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

Stamp = tuple[int, ...]
"""Revisions of the kinds that admission reads; a stamp changes with every write of these kinds."""
Key = tuple[Served, str, bytes, bytes]
"""Kind and namespace, and the bytes of spec and status as the client sent them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs, beside the request, to the creation of objects of one kind."""

    served: Served
    admission: Dependencies
    reads: tuple[Bucket, ...]
    absent: tuple[Bucket, ...]
    """Buckets among ``reads`` that must be empty, because their objects select new objects by metadata."""
    api_version: bytes
    name: bytes
    head: bytes
    """The beginning of a stored object, up to its metadata."""
    generation: bytes
    """The text of the generation in a new object's metadata; empty if the kind counts none."""

    def stamp(self) -> Stamp:
        """Return the current stamp. It counts durable and uncommitted writes, as admission reads both."""
        numbers: list[int] = []
        for bucket in self.reads:
            numbers += (bucket.newest, bucket.written)
        return tuple(numbers)


@dataclass(slots=True)
class Accepted:
    """The stored members of an accepted object, except its metadata."""

    inputs: Inputs
    stamp: Stamp
    rest: Json
    """The decoded members, without the status if ``first_status`` makes it. Must not be changed."""
    first_status: Callable[[Mapping[str, object], str], Json | None] | None
    """Makes an initial status that has the object's creation time; None if the kind has no such status."""
    members: Members
    _time: str = ""
    _text: bytes = b""

    def at(self, time: str) -> tuple[Members, bytes]:
        """Return the members of an object created at a time, and their text."""
        if self._time != time:
            self._time = time
            if self.first_status is not None:
                self.members = {**self.members, STATUS: encode(self.first_status(self.rest, time))}
            self._text = text_of(self.members)
        return self.members, self._text


class Cached(msgspec.Struct, frozen=True, gc=False):
    """A hit: the results for a new object that need not be computed again."""

    accepted: Accepted
    metadata: Json
    """The decoded metadata; if they match a template, name and namespace only."""
    begin: bytes = b""
    """The text to store of metadata that match a template, up to the server's own members; otherwise empty."""
    shape: int = 0
    """Hash of the parts that metadata of one template have in common: kind, namespace, spec, keys."""


class Miss(msgspec.Struct, frozen=True, gc=False):
    """A miss: the object goes through all steps, and is cached under this key afterwards."""

    inputs: Inputs
    key: Key
    stamp: Stamp
    """The stamp when the look-up was made."""


class _TemplateEntry(msgspec.Struct, frozen=True, gc=False):
    """A template of metadata, and the spec with which it was accepted."""

    before: bytes
    """The bytes of the body before the metadata."""
    after: bytes
    """The bytes of the body after the metadata."""
    template: MetadataTemplate
    accepted: Accepted


@dataclass(slots=True)
class CreateCache:
    """The cached specs and metadata templates of recently accepted objects."""

    state: State
    _inputs: dict[Served, Inputs | None] = field(default_factory=dict)
    _accepted: LruCache[Key, Accepted] = field(default_factory=lambda: LruCache(_MAX_BYTES, _accepted_size))
    _seen_once: LruCache[int, bool] = field(default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100))
    """Hashes of keys that were seen once."""
    _templates: LruCache[tuple[Served, str], tuple[_TemplateEntry, ...]] = field(
        default_factory=lambda: LruCache(_MAX_BYTES, _templates_size)
    )
    _tried: LruCache[int, tuple[Accepted | None]] = field(
        default_factory=lambda: LruCache(_NUMBERS_BYTES, lambda *_: 100)
    )
    """By shape of metadata: None after it was seen once, then the spec for which making a template was tried."""

    def look_up(self, request: Request, target: ResourcePath, served: Served) -> Cached | Miss | None:
        """Look up an object that is created without options.

        After a `Miss` the caller runs all steps and then calls `fill`; None means that the object cannot be cached.
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
        """Cache the stored members of an object, unless they depend on more than the key and the stamp."""
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
            return  # admission may have filled in members because of these annotations
        first_status = strategy_of(inputs.served).first_status if "status" in rest else None
        if first_status is not None:
            del rest["status"]
        if "conditions" in (rest.get("status") or ()):  # conditions hold the creation time of this object
            return
        self._accepted.put(key, Accepted(inputs, miss.stamp, rest, first_status, parts.members))

    def fill_template(self, namespace: str, body: bytes, known: Cached) -> None:
        """Note the shape of accepted metadata; when it is seen for the second time, make a template of them."""
        accepted, shape = known.accepted, known.shape
        tried = self._tried.get(shape)
        if tried is not None and tried[0] is accepted:
            return
        if reads_metadata(accepted.inputs.served.kind, {**accepted.rest, "metadata": known.metadata}):
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
        """Return an object's key and the text of its metadata; None unless its members are in the usual order."""
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
        """Whether a key was seen before and is small enough to cache."""
        number = hash(key)
        if number in self._seen_once:
            return len(key[2]) + len(key[3]) <= _SPEC_MAX_BYTES
        self._seen_once.put(number, True)
        return False

    def _inputs_of(self, served: Served) -> Inputs | None:
        try:
            return self._inputs[served]
        except KeyError:
            if len(self._inputs) >= _KINDS_MAX:  # entries of kinds whose definitions are gone
                self._inputs.clear()
            inputs = self._inputs[served] = _inputs_of(self.state, served)
            return inputs


def _accepted_size(key: Key, accepted: Accepted) -> int:
    """Return the approximate size of a cache entry: the spec as sent, as stored, and decoded."""
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
