"""Adopt objects that a workload's selector matches and no owner controls, and release those it no longer matches.

Source: the ownership rules of Kubernetes' controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from strato.api.kinds import Kind
from strato.api.meta import Object, ObjectMeta
from strato.api.selectors import Selector, from_label_selector, from_labels
from strato.api.shapes import LabelSelector
from strato.client.cluster import Cluster, PatchType
from strato.client.informer import Informer
from strato.controllers.owners import controller_reference
from strato.errors import Conflict, Invalid, NotFound

V = TypeVar("V", bound=Object)
_ORPHANS = "orphans"
_WITHOUT_FINALIZERS: Final = "$deleteFromPrimitiveList/finalizers"


def index_orphans(informer: Informer[V]) -> None:
    """Index the objects without a controlling owner by namespace; the index is built when it is first read."""
    informer.add_index(_ORPHANS, _orphaned_in)


def _orphaned_in(one: Object) -> tuple[str, ...]:
    """Return the namespace of an object without a controlling owner, as its index entry.

    It runs on every change, so it looks at the first owner first, which mostly is the controlling one.
    """
    owners = one.metadata.owner_references
    managed = owners and (owners[0].controller or one.metadata.controller is not None)
    return () if managed else (one.metadata.namespace,)


def orphans(informer: Informer[V], namespace: str) -> Iterable[V]:
    """Return the objects of a namespace that no owner controls."""
    return informer.index(_ORPHANS, namespace)


def selector_of(owner: Any) -> Selector:
    """Return the selector of a workload; a ReplicationController's is a map of labels, the others' a LabelSelector."""
    selector = owner.spec.selector
    return (
        from_label_selector(selector)
        if selector is None or isinstance(selector, LabelSelector)
        else (from_labels(selector))
    )


def plan_ownership(owner: ObjectMeta, matcher: Selector, among: Iterable[V]) -> tuple[list[V], list[V]]:
    """Return which objects an owner has to adopt and which to release; neither includes objects being deleted."""
    adopt: list[V] = []
    release: list[V] = []
    for one in among:
        holder, meta = one.metadata.controller, one.metadata
        if meta.deletion_timestamp is not None or meta.namespace != owner.namespace:
            continue
        if holder is None and matcher.matches(meta.labels):
            adopt.append(one)
        elif holder is not None and holder.uid == owner.uid and not matcher.matches(meta.labels):
            release.append(one)
    return adopt, release


async def adopt_all(
    cluster: Cluster, kind: Kind, owner: ObjectMeta, orphaned: Iterable[V], finalizers: Sequence[str] = ()
) -> list[V]:
    """Make an owner the controlling owner of objects.

    Returns the objects as written, without those that are gone or that another owner has adopted first.

    Args:
        cluster: Reads the owner and patches the objects.
        kind: The owner's kind.
        owner: The owner.
        orphaned: The objects.
        finalizers: Finalizers that the objects get together with the reference.
    """
    waiting = list(orphaned)
    if waiting:  # the cache may be stale: an owner that was deleted, or deleted and created again, must not adopt
        fresh = await cluster.get(kind.view, owner.name, owner.namespace)
        if fresh.metadata.uid != owner.uid or fresh.metadata.deletion_timestamp is not None:
            return []
    reference = controller_reference(kind.api_version, kind.name, owner)
    more = {"finalizers": list(finalizers)} if finalizers else {}
    return [taken for one in waiting if (taken := await _refer(cluster, one, reference, more)) is not None]


async def release_all(cluster: Cluster, owner: ObjectMeta, held: Iterable[V], finalizers: Sequence[str] = ()) -> None:
    """Take an owner's reference and finalizers off objects that it no longer selects."""
    less = {_WITHOUT_FINALIZERS: list(finalizers)} if finalizers else {}
    for one in held:
        await _refer(cluster, one, {"$patch": "delete", "uid": owner.uid}, less)


async def strip(cluster: Cluster, one: V, finalizers: Sequence[str]) -> V | None:
    """Remove finalizers from an object; returns the object as written, None when it no longer exists."""
    meta = one.metadata
    body = {"metadata": {"uid": meta.uid, _WITHOUT_FINALIZERS: list(finalizers)}}
    try:
        return await cluster.patch(type(one), meta.name, meta.namespace, body, patch_type=PatchType.STRATEGIC)
    except (NotFound, Conflict):
        return None  # deleted, or another object has its name now


async def _refer(cluster: Cluster, one: V, reference: dict[str, Any], more: Mapping[str, Any]) -> V | None:
    meta = one.metadata
    body = {"metadata": {"uid": meta.uid, "ownerReferences": [reference], **more}}
    try:
        return await cluster.patch(type(one), meta.name, meta.namespace, body, patch_type=PatchType.STRATEGIC)
    except (NotFound, Conflict, Invalid):
        return None
