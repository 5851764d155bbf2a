"""Custom objects in the version a request asks for, as their definition has it now.

Objects are stored in the storage version of the time they were written, under the schema of that time. Whoever reads
them gets what the definition says today: defaults that came later are filled in, fields that went are left out, and
the version is the one asked for. Stored bytes change only when an object is written. A `VersionedBucket` stands in for
the bucket of a resource, so that reads, writes and watches need not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.lru import LruCache
from strato.server.schema.structural import StructuralSchema
from strato.server.snapshot import Change, Row, Snapshot
from strato.server.store import Bucket

AT_ONCE = 500
"""Objects that are converted in one call of a webhook."""
_KEPT_BYTES = 32 << 20
"""What the objects last shown in a version other than that they are stored in may weigh, of one definition."""
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SHOWN_METADATA = ("labels", "annotations")
"""Of the metadata, what a webhook may change."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class Unconverted(Exception):
    """A webhook has to convert objects before a request can go on; it begins anew then."""

    def __init__(self, versions: Versions, version: str, objects: Sequence[Json]) -> None:
        super().__init__(version)
        self.versions, self.version, self.objects = versions, version, objects


class _Head(msgspec.Struct, gc=False):
    class Metadata(msgspec.Struct, gc=False):
        resourceVersion: str = "0"

    apiVersion: str
    metadata: Metadata


_read_head = msgspec.json.Decoder(_Head).decode


_Kept = LruCache[tuple[bytes, str], bytes]


def _kept() -> _Kept:
    return LruCache(_KEPT_BYTES, lambda key, shown: len(key[0]) + len(shown))


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """The versions of one definition."""

    storage: str
    """``group/version`` that objects are stored in."""
    schemas: Mapping[str, StructuralSchema]
    """By ``group/version``, of those that are not served too."""
    changed: int
    """Revision of the last change of the definition: objects written later need nothing but their version. 0: it
    was never changed."""
    webhook: Mapping[str, Any] | None = None
    """Converts between versions, with ``clientConfig`` and ``conversionReviewVersions``; None: they differ in nothing
    but their schemas."""
    _shown: _Kept = field(default_factory=_kept)
    """What was made of stored objects lately: many watchers read the same, and a write compares by identity."""
    _converted_lately: _Kept = field(default_factory=_kept)
    """What the webhook made of objects (`_essence`) lately."""

    @classmethod
    def of(cls, crd: Mapping[str, Any]) -> Versions | None:
        """Return the versions of a stored definition; None when all objects are stored as they are served."""
        spec, metadata = crd["spec"], crd["metadata"]
        is_changed = metadata.get("generation", 1) > 1
        if len(spec["versions"]) == 1 and not is_changed:
            return None
        return cls(
            storage=next(f"{spec['group']}/{one['name']}" for one in spec["versions"] if one.get("storage")),
            schemas={
                f"{spec['group']}/{one['name']}": StructuralSchema(
                    (one.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
                )
                for one in spec["versions"]
            },
            changed=int(metadata["resourceVersion"]) if is_changed else 0,
            # objects go with their definition, whether the webhook still answers or not
            webhook=None if metadata.get("deletionTimestamp") else _webhook(spec.get("conversion") or {}),
        )

    def shown(self, body: bytes, version: str) -> bytes:
        """Return a stored object in a version; the very same bytes where that changes nothing."""
        shown = self._shown.get((body, version))
        if shown is None:
            shown = self._shown.put((body, version), self._converted(body, version))
        return shown

    def stored(self, body: bytes) -> bytes:
        """Return an object that was written as it is stored.

        Raises:
            Unconverted: A webhook has to make it.
        """
        return self._converted(body, self.storage)

    def keep(self, original: Json, version: str, converted: Json) -> None:
        """Keep what the webhook made of an object."""
        self.schemas[version].prune(converted)
        self._converted_lately.put((_essence(original), version), _essence(converted))

    def _converted(self, body: bytes, version: str) -> bytes:
        head = _read_head(body)
        if head.apiVersion == version and int(head.metadata.resourceVersion) > self.changed:
            return body
        obj: dict[str, Any] = _decode(body)
        before = self.schemas.get(head.apiVersion)
        if before is not None:
            before.prune(obj)
            before.default(obj)
        if head.apiVersion != version and self.webhook is not None:
            obj = self._by_webhook(obj, version)
        elif head.apiVersion != version:
            obj["apiVersion"] = version
            self.schemas[version].prune(obj)
        made = _encode(obj)
        return body if made == body else made

    def _by_webhook(self, obj: Json, version: str) -> Json:
        """Return what the webhook made of an object, with the object's own metadata but for labels and annotations."""
        known = self._converted_lately.get((_essence(obj), version))
        if known is None:
            raise Unconverted(self, version, [obj])
        made: Json = _decode(known)
        metadata = {name: value for name, value in obj["metadata"].items() if name not in _SHOWN_METADATA}
        made["metadata"] = {**metadata, **made["metadata"]}
        return made


def _webhook(conversion: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return conversion.get("webhook") if conversion.get("strategy") == "Webhook" else None


def _essence(obj: Json) -> bytes:
    """Return what the conversion of an object depends on."""
    metadata = {name: obj["metadata"][name] for name in _SHOWN_METADATA if obj["metadata"].get(name)}
    return _encode({**obj, "metadata": metadata})


class VersionedBucket:
    """The objects of a custom resource in one version: what readers and writers ask of a `Bucket`."""

    def __init__(self, bucket: Bucket, versions: Versions, version: str) -> None:
        self._bucket, self._versions, self._version = bucket, versions, version
        self.objects, self.pending, self.events = bucket.objects, bucket.pending, bucket.events
        """As they are stored: for their keys and their number."""
        self.keys, self.newest_keys, self.span = bucket.keys, bucket.newest_keys, bucket.span

    def shown(self, body: bytes) -> bytes:
        """Return a stored object in this version."""
        return self._versions.shown(body, self._version)

    @property
    def is_converted(self) -> bool:
        """Whether a webhook has to make objects of this version of stored ones, or the other way around."""
        return self._versions.webhook is not None

    def stored(self, body: bytes) -> bytes:
        """Return an object of this version as it is stored."""
        return self._versions.stored(body)

    def all_shown(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return stored objects in this version.

        Raises:
            Unconverted: All of them that a webhook has to make.
        """
        shown: list[bytes] = []
        missing: list[Json] = []
        for body in bodies:
            try:
                shown.append(self.shown(body))
            except Unconverted as error:
                missing += error.objects
        if missing:
            raise Unconverted(self._versions, self._version, missing)
        return shown

    def latest(self, key: str) -> bytes | None:
        """Return the newest state of an object, durable or not."""
        body = self._bucket.latest(key)
        return None if body is None else self.shown(body)

    def durable(self, key: str) -> Row | None:
        """Return what readers see of an object."""
        row = self._bucket.durable(key)
        return None if row is None else Row(self.shown(row.body), row.revision)

    def snapshot(self, published: int, revision: int = 0) -> VersionedSnapshot:
        """Return the objects as they were at a revision, as `Bucket.snapshot` does."""
        return VersionedSnapshot(self._bucket.snapshot(published, revision), self)

    def events_after(self, revision: int) -> Sequence[Change]:
        """Return the kept events newer than ``revision``, as `Bucket.events_after` does."""
        return [self.changed(event) for event in self._bucket.events_after(revision)]

    def changed(self, event: Change) -> Change:
        """Return a change in this version."""
        bodies = (event.body, event.previous, event.tombstone)
        shown = iter(self.all_shown([one for one in bodies if one is not None]))
        body, previous, tombstone = (one if one is None else next(shown) for one in bodies)
        return Change(event.resource, event.key, event.revision, body, previous, tombstone)


class VersionedSnapshot:
    """A `Snapshot` in one version."""

    def __init__(self, snapshot: Snapshot, bucket: VersionedBucket) -> None:
        self._snapshot, self._bucket = snapshot, bucket
        self.keys, self.count = snapshot.keys, snapshot.count

    def items(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate keys and bodies, as `Snapshot.items` does."""
        items = self._snapshot.items(prefix, after)
        while portion := list(islice(items, AT_ONCE)):
            yield from zip(
                (key for key, _ in portion), self._bucket.all_shown([body for _, body in portion]), strict=True
            )
