"""The garbage collector: deletes objects whose owners are gone.

Watch events maintain an index from owner uid to dependents, so that the cost of a deletion depends on the number of
dependents only. An owner is deleted in one of three ways: in the background (its dependents are deleted after it), in
the foreground (it stays until the dependents that block it are gone), or with orphans (its dependents stay and lose the
reference). When the caches do not show an owner, the collector reads it from the API by kind, name and uid before it
deletes its dependents; and it deletes no object whose owners have changed since the cache was read.

Source: Kubernetes' garbage collection of owner references, as its API documentation describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from strato.api import catalog
from strato.api.forms import FORMS
from strato.api.kinds import Kind
from strato.api.meta import Key, Object, ObjectMeta, OwnerReference
from strato.client.cluster import DeleteOptions, PatchType
from strato.client.informer import Change, Informer
from strato.client.workqueue import WorkQueue, run_workers
from strato.controllers.context import ControllerContext
from strato.controllers.kube.customkinds import CustomKinds
from strato.errors import Conflict, Invalid, NotFound
from strato.lru import LruCache

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

_ABSENT_BYTES: Final = 2 << 20
_IGNORED: Final = frozenset({catalog.EVENT, *FORMS})
"""Kinds that neither own objects nor are owned, and need no watch."""


class Item(NamedTuple):
    """One object of any kind."""

    kind: Kind
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Owners:
    """The owner references of an object, sorted by the state of the owners."""

    present: list[OwnerReference] = field(default_factory=list)
    waiting: list[OwnerReference] = field(default_factory=list)
    """Owners that are being deleted in the foreground and that this object blocks."""
    absent: list[OwnerReference] = field(default_factory=list)


def collectable(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds that can be watched and deleted."""
    return tuple(
        kind
        for kind in kinds
        if kind not in _IGNORED and "watch" in kind.verbs and "delete" in kind.verbs and kind.view is not Object
    )


class GarbageCollector:
    """See the module."""

    name: ClassVar[str] = "kube-garbage-collector"
    workers: ClassVar[int] = 32

    def __init__(self, context: ControllerContext) -> None:
        self._cluster = context.cluster
        self._recorder = context.recorder
        self._queue: WorkQueue[Item] = WorkQueue(context.clock)
        self._dependents: dict[str, dict[Item, bool]] = {}
        """Owner uid → dependents, and whether each blocks the owner's deletion in the foreground."""
        self._deleting: dict[str, Item] = {}
        """Owners that are being deleted and wait for their dependents, by uid."""
        self._absent: LruCache[str, bool] = LruCache(_ABSENT_BYTES, lambda uid, _: len(uid))
        self._caches: dict[Kind, Informer[Any]] = {}
        self._by_name: dict[tuple[str, str], tuple[Kind, Informer[Any]]] = {}
        absent = context.informers.absent  # kinds that are switched off, which a user's definition may add
        for kind in collectable(kind for kind in catalog.BUILTIN + catalog.CUSTOM if kind not in absent):
            cache = self._caches[kind] = context.informers.informer(kind.view)
            self._by_name[kind.api_version, kind.name] = kind, cache
            cache.add_batch_handler(self._handler(kind))
        self._unknown: dict[tuple[str, str], dict[Item, None]] = {}
        """Dependents of owners by kinds that are not served, or not served yet."""
        self._custom = CustomKinds(context.informers, self._begin, self._drop)

    def _begin(self, kinds: Sequence[Kind], cache: Informer[Any]) -> None:
        self._caches[kinds[0]] = cache
        cache.add_batch_handler(self._handler(kinds[0]))
        for kind in kinds:
            self._by_name[kind.api_version, kind.name] = kinds[0], cache
            for item in self._unknown.pop((kind.api_version, kind.name), ()):
                self._queue.add(item)

    def _drop(self, kinds: Sequence[Kind], cache: Informer[Any]) -> None:
        """Forget a kind that is no longer served: its objects are gone, although the watch may not have shown that."""
        del self._caches[kinds[0]]
        for kind in kinds:
            del self._by_name[kind.api_version, kind.name]
        for one in cache.list():
            self._gone(kinds[0], one.metadata)

    async def run(self) -> None:
        """Work until cancelled."""
        await run_workers(self._queue, self._reconcile, self.workers, name=self.name)

    # Events

    def _handler(self, kind: Kind) -> Callable[[Sequence[Change[Any]]], None]:
        def on_changes(changes: Sequence[Change[Any]]) -> None:
            """Handle only changes of owners, begun deletions and deletions, which are few among all changes."""
            old: Object | None
            new: Object | None
            for change in changes:
                old, new = change
                if new is None:
                    self._gone(kind, change.object.metadata)
                    continue
                meta = new.metadata
                before = old.metadata.owner_references if old is not None else None
                after = meta.owner_references
                if after is not before and after != before:
                    item = Item(kind, meta.namespace, meta.name)
                    if before:
                        self._index(item, before, after or ())
                    elif after:
                        self._adopt(item, after, {})
                if meta.deletion_timestamp is not None and _waits(meta):
                    item = self._deleting[meta.uid] = Item(kind, meta.namespace, meta.name)
                    self._queue.add(item)

        return on_changes

    def _index(self, item: Item, before: Iterable[OwnerReference], after: Iterable[OwnerReference]) -> None:
        old = {reference.uid: reference.block_owner_deletion for reference in before}
        new = {reference.uid: reference.block_owner_deletion for reference in after}
        if old != new:
            self._part(item, old.keys() - new.keys())
            self._adopt(item, after, old)

    def _adopt(self, item: Item, owners: Iterable[OwnerReference], before: Container[str]) -> None:
        """Index the owners of an object; queue it if a new owner is not in the caches, and thus may not exist."""
        suspicious = False
        for reference in owners:
            uid = reference.uid
            dependents = self._dependents.get(uid)
            if dependents is None:
                self._dependents[uid] = {item: reference.block_owner_deletion}
            else:
                dependents[item] = reference.block_owner_deletion
            if not self._is_cached(item, reference) and uid not in before:
                suspicious = True
        if suspicious:
            self._queue.add(item)

    def _part(self, item: Item, uids: Iterable[str]) -> None:
        for uid in uids:
            dependents = self._dependents.get(uid)
            if dependents is not None:
                dependents.pop(item, None)
                if not dependents:
                    del self._dependents[uid]
            if (owner := self._deleting.get(uid)) is not None:
                self._queue.add(owner)

    def _gone(self, kind: Kind, meta: ObjectMeta) -> None:
        owners = meta.owner_references
        if owners:
            self._index(Item(kind, meta.namespace, meta.name), owners, ())
        self._deleting.pop(meta.uid, None)
        dependents = self._dependents.get(meta.uid)
        if dependents:
            self._absent.put(meta.uid, True)
            for item in dependents:
                self._queue.add(item)

    # Owners

    def _find(self, item: Item, reference: OwnerReference) -> tuple[Kind | None, Key]:
        known = self._by_name.get((reference.api_version, reference.kind))
        kind = known[0] if known is not None else catalog.find_named(reference.api_version, reference.kind)
        namespace = item.namespace if kind is not None and kind.namespaced else ""
        return kind, Key(namespace, reference.name)

    def _is_cached(self, item: Item, reference: OwnerReference) -> bool:
        known = self._by_name.get((reference.api_version, reference.kind))
        if known is None:
            return False
        kind, cache = known
        owner = cache.get((item.namespace if kind.namespaced else "", reference.name))
        return owner is not None and owner.metadata.uid == reference.uid

    async def _owners(self, item: Item, meta: ObjectMeta) -> Owners:
        """Sort the owners of an object by their state; reads those from the API that the caches do not show."""
        owners = Owners()
        for reference in meta.owner_references or ():
            if reference.uid in self._absent:
                owners.absent.append(reference)
                continue
            owner = await self._read(item, reference)
            if owner is None:
                self._absent.put(reference.uid, True)
                owners.absent.append(reference)
            elif (
                owner.metadata.deletion_timestamp is not None
                and FOREGROUND in (owner.metadata.finalizers or ())
                and reference.block_owner_deletion
            ):
                owners.waiting.append(reference)
            else:
                owners.present.append(reference)
        return owners

    async def _read(self, item: Item, reference: OwnerReference) -> Object | None:
        """Return the owner, None when it does not exist. An unknown kind counts as existing."""
        kind, key = self._find(item, reference)
        if kind is None:
            self._unknown.setdefault((reference.api_version, reference.kind), {})[item] = None
            return Object(metadata=ObjectMeta(uid=reference.uid))
        if kind.namespaced and not key.namespace:
            # a cluster-scoped object cannot have a namespaced owner; the invalid reference must not delete it
            return Object(metadata=ObjectMeta(uid=reference.uid))
        cache = self._caches.get(kind)
        owner = cache.get(key) if cache is not None else None
        if owner is None or owner.metadata.uid != reference.uid:
            try:
                owner = await self._cluster.get(kind.view, key.name, key.namespace)
            except NotFound:
                owner = None
        if owner is not None and owner.metadata.uid == reference.uid:
            return owner
        if cache is not None and any(other.metadata.uid == reference.uid for other in cache.list()):
            text = f"ownerRef {reference.kind} {reference.name} (uid {reference.uid}) does not exist in namespace "
            about = {"apiVersion": item.kind.api_version, "kind": item.kind.name, "metadata": _named(item)}
            self._recorder.event(about, "Warning", "OwnerRefInvalidNamespace", f'{text}"{item.namespace}"')
        return None

    # Work

    async def _reconcile(self, item: Item) -> float | None:
        cached = self._cached(item)
        if cached is None:
            return None
        meta: ObjectMeta = cached.metadata
        if meta.deletion_timestamp is not None:
            await self._process_owner(item, meta)
            return None
        owners = await self._owners(item, meta)
        try:
            await self._process_dependent(item, meta, owners)
        except NotFound:
            return None
        except (Conflict, Invalid):
            return 0.05  # the object has changed, and the watch will show that soon
        return None

    async def _process_dependent(self, item: Item, meta: ObjectMeta, owners: Owners) -> None:
        if owners.present:
            if owners.absent or owners.waiting:
                kept = [msgspec.to_builtins(reference) for reference in owners.present]
                await self._patch_meta(item, meta, {"ownerReferences": kept})
            return
        if not owners.absent and not owners.waiting:
            return
        propagation = "Background"
        if ORPHAN in (meta.finalizers or ()):
            propagation = "Orphan"
        elif (owners.waiting and self._dependents.get(meta.uid)) or FOREGROUND in (meta.finalizers or ()):
            propagation = "Foreground"
        await self._delete(item, meta, propagation)

    async def _delete(self, item: Item, meta: ObjectMeta, propagation: str) -> None:
        """Delete an object, unless its owners have changed since the cache was read.

        Raises:
            Conflict: Its owners have changed, or another object has its name.
            NotFound: It does not exist any more.
        """
        view = item.kind.view
        options = DeleteOptions(uid=meta.uid, resource_version=meta.resource_version, propagation=propagation)
        try:
            await self._cluster.delete(view, item.name, item.namespace, **options)
        except Conflict:
            live = await self._cluster.get(view, item.name, item.namespace)
            if live.metadata.uid != meta.uid or live.metadata.owner_references != meta.owner_references:
                raise
            options["resource_version"] = live.metadata.resource_version
            await self._cluster.delete(view, item.name, item.namespace, **options)

    async def _process_owner(self, item: Item, meta: ObjectMeta) -> None:
        finalizers = meta.finalizers or []
        dependents = self._dependents.get(meta.uid, {})
        if ORPHAN in finalizers:
            for dependent in list(dependents):
                await self._orphan(dependent, meta.uid)
            await self._drop_finalizer(item, meta, ORPHAN)
        elif FOREGROUND in finalizers:
            owners = self._deleting_owners(meta)
            blocking = [d for d, blocks in dependents.items() if blocks and self._uid(d) not in owners]
            for dependent in list(dependents):
                self._queue.add(dependent)
            if not blocking:
                await self._drop_finalizer(item, meta, FOREGROUND)

    def _deleting_owners(self, meta: ObjectMeta) -> set[str]:
        """Return the uids of an object and of all its ancestors that wait for it in their foreground deletion.

        A dependent among them closes a circle of owners that would wait for each other for ever. No order could delete
        such a circle, so its members do not block each other.
        """
        found, todo = {meta.uid}, [meta]
        while todo:
            for reference in todo.pop().owner_references or ():
                owner = self._deleting.get(reference.uid)
                if owner is None or reference.uid in found or not reference.block_owner_deletion:
                    continue
                cached = self._cached(owner)
                if cached is not None and cached.metadata.uid == reference.uid:
                    found.add(reference.uid)
                    todo.append(cached.metadata)
        return found

    def _cached(self, item: Item) -> Object | None:
        cache = self._caches.get(item.kind)
        return cache.get(item.key) if cache is not None else None

    def _uid(self, item: Item) -> str:
        cached = self._cached(item)
        return "" if cached is None else str(cached.metadata.uid)

    async def _orphan(self, dependent: Item, uid: str) -> None:
        cached = self._cached(dependent)
        if cached is None:
            return
        kept = [msgspec.to_builtins(r) for r in cached.metadata.owner_references or () if r.uid != uid]
        with suppress(NotFound):
            await self._patch_meta(dependent, cached.metadata, {"ownerReferences": kept or None})

    async def _drop_finalizer(self, item: Item, meta: ObjectMeta, finalizer: str) -> None:
        kept = [name for name in meta.finalizers or () if name != finalizer]
        with suppress(NotFound):
            await self._patch_meta(item, meta, {"finalizers": kept or None})

    async def _patch_meta(self, item: Item, meta: ObjectMeta, change: dict[str, Any]) -> None:
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **change}}
        await self._cluster.patch(item.kind, item.name, item.namespace, body, patch_type=PatchType.MERGE)


def _waits(meta: ObjectMeta) -> bool:
    """Return whether an object that is being deleted waits for this collector to handle its dependents."""
    finalizers = meta.finalizers or ()
    return FOREGROUND in finalizers or ORPHAN in finalizers


def _named(item: Item) -> dict[str, str]:
    return {"namespace": item.namespace, "name": item.name}
