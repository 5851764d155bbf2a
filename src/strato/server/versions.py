"""Show custom objects in the version that a request asks for, under their definition's current schema.

An object is stored in the version that was the storage version when it was written, and under the schema of that time.
When it is read, defaults that were added to the schema since are filled in, removed fields are left out, and it is
converted to the version of the request. Stored bytes change only when the object is written. A `VersionedBucket`
stands in for the resource's `Bucket`, so that the verbs need not know of versions.
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
"""Most objects that are converted in one call of a webhook."""
_KEPT_BYTES = 32 << 20
"""Size of a definition's caches of converted objects, each."""
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SHOWN_METADATA = ("labels", "annotations")
"""The members of metadata that a webhook may change."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class Unconverted(Exception):
    """A webhook has to convert objects first; `strato.server.conversion` has that done and repeats the action."""

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
    """The storage version, as ``group/version``."""
    schemas: Mapping[str, StructuralSchema]
    """Schemas by ``group/version``, also of versions that are not served."""
    changed: int
    """Revision of the last change of the definition; objects written later fit its schema. 0 if it was never
    changed."""
    webhook: Mapping[str, Any] | None = None
    """The conversion webhook (``clientConfig``, ``conversionReviewVersions``); None if versions differ only in
    schema."""
    _shown: _Kept = field(default_factory=_kept)
    """Stored objects as recently shown. Many watchers read the same object, and the write path compares bodies by
    identity."""
    _converted_lately: _Kept = field(default_factory=_kept)
    """Results of the webhook, by `_essence` and version."""

    @classmethod
    def of(cls, crd: Mapping[str, Any]) -> Versions | None:
        """Return the versions of a stored definition; None if every object is stored as it is served."""
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
            # of a terminating definition the objects are deleted even if the webhook no longer answers
            webhook=None if metadata.get("deletionTimestamp") else _webhook(spec.get("conversion") or {}),
        )

    def shown(self, body: bytes, version: str) -> bytes:
        """Return a stored object in a version; the identical bytes object if nothing changes."""
        shown = self._shown.get((body, version))
        if shown is None:
            shown = self._shown.put((body, version), self._converted(body, version))
        return shown

    def stored(self, body: bytes) -> bytes:
        """Return an object that a client has written in the form to store.

        Raises:
            Unconverted: The webhook has to convert it first.
        """
        return self._converted(body, self.storage)

    def keep(self, original: Json, version: str, converted: Json) -> None:
        """Cache the webhook's result for an object."""
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
        """Return the webhook's cached result; of its metadata only labels and annotations are used.

        Raises:
            Unconverted: The result is not cached.
        """
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
    """Return the parts of an object that its conversion depends on: all but most of the metadata."""
    metadata = {name: obj["metadata"][name] for name in _SHOWN_METADATA if obj["metadata"].get(name)}
    return _encode({**obj, "metadata": metadata})


class VersionedBucket:
    """The objects of a custom resource in one version, with the methods of `Bucket` that the verbs use."""

    def __init__(self, bucket: Bucket, versions: Versions, version: str) -> None:
        self._bucket, self._versions, self._version = bucket, versions, version
        self.objects, self.pending, self.events = bucket.objects, bucket.pending, bucket.events
        """As stored; callers use only their keys and number."""
        self.keys, self.newest_keys, self.count = bucket.keys, bucket.newest_keys, bucket.count

    def shown(self, body: bytes) -> bytes:
        """Return a stored object in this version."""
        return self._versions.shown(body, self._version)

    @property
    def is_converted(self) -> bool:
        """Whether a webhook converts between this version and the stored one."""
        return self._versions.webhook is not None

    def stored(self, body: bytes) -> bytes:
        """Return an object of this version in the form to store."""
        return self._versions.stored(body)

    def all_shown(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return stored objects in this version.

        Raises:
            Unconverted: The webhook has to convert some first; the error has all of them.
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
        """Return the durable state of an object, which readers see."""
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
