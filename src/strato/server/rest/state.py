"""`State`, which all verbs share: the store, the registry, the clock, admission; and reads of whole objects."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from strato.admission import AdmissionReader, AdmissionRequest, Dependencies
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import not_found
from strato.api.wire import User
from strato.clock import Clock
from strato.errors import Cause, Forbidden
from strato.server.dynamicadmission.service import DynamicAdmission
from strato.server.flowcontrol.control import FlowControl
from strato.server.flowcontrol.dispatch import counting_timer
from strato.server.preparation import Json
from strato.server.registry import Registry
from strato.server.rest.fieldmanagers import FieldManagers
from strato.server.rest.rights import AllRights, Authorizer, WriteRights
from strato.server.rest.stored import RecentObjects
from strato.server.store import Bucket, Store
from strato.server.versions import Unconverted, VersionedBucket
from strato.server.webhookclient import WebhookClient

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class Admission(Protocol):
    """Mutates and validates writes (`strato.admission.Chain`), with the state as its reader."""

    def mutate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Change the request's object, in place."""

    def validate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Raise if the request is refused."""

    def has_rules(self, kind: Kind, operation: str) -> bool:
        """Return whether any rule applies to an operation on a kind."""

    def has_rules_for(self, user: User | None, kind: Kind, operation: str) -> bool:
        """Return whether any of these rules applies to this user's writes."""

    def dependencies(self, kind: Kind) -> Dependencies | None:
        """Return what the rules for new objects of a kind read beside the spec; None if a rule does not declare it."""


class AdmitAll:
    """Admits everything as it is."""

    def mutate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Change nothing."""

    def validate(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Refuse nothing."""

    def has_rules(self, kind: Kind, operation: str) -> bool:
        """Return False: there are no rules."""
        return False

    def has_rules_for(self, user: User | None, kind: Kind, operation: str) -> bool:
        """Return False: there are no rules."""
        return False

    def dependencies(self, kind: Kind) -> Dependencies:
        """Return no dependencies: there are no rules."""
        return Dependencies()


class ServiceAllocation(Protocol):
    """Gives services their addresses and node ports (`strato.server.services`)."""

    def allocate(self, obj: Json, old: Json | None, *, dry_run: bool) -> None:
        """Set a service's addresses and node ports, in place; raise if it asks for ones that it cannot have."""


async def _no_webhooks(missing: Unconverted) -> None:
    """Do nothing; replaced by `strato.server.conversion`."""
    raise missing


class _Buckets(dict[Kind, "Bucket | VersionedBucket"]):
    """Buckets by kind."""

    def __init__(self, store: Store, registry: Registry) -> None:
        super().__init__()
        self._store, self._registry = store, registry

    def __missing__(self, kind: Kind) -> Bucket | VersionedBucket:
        bucket: Bucket | VersionedBucket = self._store.bucket(kind.resource)
        served = self._registry.find(kind.group, kind.version, kind.plural)
        if served is not None and served.versions is not None and isinstance(bucket, Bucket):
            bucket = VersionedBucket(bucket, served.versions, kind.api_version)
        self[kind] = bucket
        return bucket


class State:
    """Store, registry, clock, generator and admission, with plain reads (`strato.admission.AdmissionReader`)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        registry: Registry,
        admission: Admission,
        flows: FlowControl | None = None,
        *,
        memoises: bool = True,
    ) -> None:
        self.memoises = memoises
        """Whether steps whose inputs are known are skipped; if not, every write runs all steps."""
        self.flows = flows or FlowControl(store, counting_timer())
        self.store, self.clock, self.rng, self.registry, self.admission = store, clock, rng, registry, admission
        self.recent = RecentObjects()
        self.field_managers = FieldManagers(registry)
        self.authorizer: Authorizer | None = None
        """Checks rights that a request needs in addition to that of its verb; None allows all."""
        self.rights: WriteRights = AllRights()
        """Checks the content of writes against users' rights."""
        self.webhooks = WebhookClient(self)
        """Calls admission and conversion webhooks."""
        self.convert: Callable[[Unconverted], Awaitable[None]] = _no_webhooks
        """Has objects converted by the webhook of their definition."""
        self._buckets = _Buckets(store, registry)
        self.services: ServiceAllocation | None = None
        """Gives services their addresses; with None they get none."""
        self.bucket: Callable[[Kind], Bucket | VersionedBucket] = self._buckets.__getitem__
        """Returns the bucket of a kind; versions share the stored objects. A look-up in C, as each write makes ten."""
        self.dynamic = DynamicAdmission(self, self.webhooks, rng)
        """Admission webhooks and policies that users configure."""

    def definition_changed(self) -> None:
        """Forget how objects are converted, because a definition has changed."""
        self._buckets.clear()

    def write(self, kind: Kind, key: str, body: bytes | None, tombstone: bytes | None = None) -> None:
        """Write an object as `Store.write` does, converted to its definition's storage version."""
        bucket = self._buckets[kind]
        if isinstance(bucket, VersionedBucket):
            body = None if body is None else bucket.stored(body)
        self.store.write(kind.resource, key, body, tombstone)

    def definitions(self, group: object) -> Iterator[Json]:
        """Yield the newest state of the definitions of a group."""
        bucket = self.bucket(catalog.CUSTOMRESOURCEDEFINITION)
        for key in bucket.newest_keys():
            body = bucket.latest(key) if key.partition(".")[2] == group else None
            if body is not None:
                yield _decode(body)

    def latest(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return the newest state of an object, durable or not, decoded."""
        body = self.bucket(kind).latest(object_key(kind, namespace, name))
        return None if body is None else _decode(body)

    def require(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return the newest state of an object.

        Raises:
            NotFound: There is no such object.
        """
        found = self.latest(kind, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object or None (for admission)."""
        return self.latest(kind, namespace, name)

    def list(self, kind: Kind, namespace: str = "") -> Sequence[Json]:
        """Return all objects of a kind (for admission and authorisation)."""
        return list(self.iterate(kind, namespace)) if self.bucket(kind).objects else ()

    def iterate(self, kind: Kind, namespace: str = "") -> Iterator[Json]:
        """Yield all durable objects of a kind in key order."""
        bucket = self.bucket(kind)
        for key in bucket.keys(f"{namespace}/" if namespace else ""):
            row = bucket.durable(key)
            if row is not None:
                yield _decode(row.body)

    def revision_of(self, kind: Kind) -> int:
        """Return a number that grows whenever objects of the kind change."""
        events = self.bucket(kind).events
        return events[-1].revision if events else 0

    def check_namespace_open(self, kind: Kind, namespace: str, name: str) -> None:
        """Check that objects can be created in a namespace.

        Raises:
            NotFound: There is no such namespace.
            Forbidden: It is terminating.
        """
        if not kind.namespaced:
            return
        body = self.bucket(catalog.NAMESPACE).latest(namespace)
        if body is None:
            raise not_found(catalog.NAMESPACE, namespace)
        if b'"deletionTimestamp"' not in body:
            return
        found = _decode(body)
        if found["metadata"].get("deletionTimestamp"):
            raise Forbidden(
                f'{kind.resource} "{name}" is forbidden: unable to create new content in namespace {namespace} '
                "because it is being terminated",
                causes=[
                    Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
                ],
                details={"name": name, "kind": kind.plural, **({"group": kind.group} if kind.group else {})},
            )


def object_key(kind: Kind, namespace: str, name: str) -> str:
    """Return the store's key of an object."""
    return f"{namespace}/{name}" if kind.namespaced else name
