"""ResourceQuotas at writes: what goes over one is refused, what is let in is charged to its status at once.

The check and the charge are one step with the write that follows, so that no two writes get the same room. A
namespace without quotas costs one look at an empty table. Pods are charged on ``status.used``, which the quota
controller counts anew when pods end; other objects are counted here, from what is stored. An update is charged only
what it adds: services may change their type, claims may grow, pods may move into another scope. What it gives back
the quota controller finds out.

Source: the admission plug-in ResourceQuota of Kubernetes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import Pod, ResourceQuota
from strato.api.core.config import ResourceQuotaSpec
from strato.api.kinds import Kind
from strato.api.quantity import NANO, InvalidQuantity, Quantity, parse
from strato.api.quotas import counted_kind, counts_ones, counts_pod, object_usage, pods_usage, unnamed_resources
from strato.api.status import forbidden
from strato.api.usage import Usage, pod_usage
from strato.server.objects import Json, encode
from strato.server.rest.state import State, object_key

_ZERO = Quantity(0)


def charge(state: State, kind: Kind, namespace: str, obj: Json, *, dry_run: bool, old: Json | None = None) -> None:
    """Charge a new object to the quotas of its namespace; with ``old``, what it now uses more than that did.

    Raises:
        Forbidden: It goes over one of them; nothing is charged.
    """
    if not kind.namespaced or kind is catalog.RESOURCEQUOTA or not are_any(state):
        return
    if old is not None and not _may_use_more(kind, obj, old):
        return
    due = [
        (name, quota, used)
        for name, quota in _quotas(state, namespace)
        if (used := _used_with(state, kind, namespace, obj, old, name, quota))
    ]
    if dry_run:
        return
    for name, quota, used in due:
        status = quota.get("status") or {}
        quota["status"] = {
            **status,
            "hard": status.get("hard") or (quota.get("spec") or {}).get("hard") or {},
            "used": {**(status.get("used") or {}), **{key: str(amount) for key, amount in used.items()}},
        }
        quota["metadata"]["resourceVersion"] = str(state.store.next_revision())
        key = object_key(catalog.RESOURCEQUOTA, namespace, name)
        state.store.write(catalog.RESOURCEQUOTA.resource, key, encode(quota))


def _may_use_more(kind: Kind, obj: Json, old: Json) -> bool:
    """Whether an update is looked at: of pods only one that moves them between the scopes of terminating and not."""
    if kind is catalog.POD:
        before, after = (one["spec"].get("activeDeadlineSeconds") is None for one in (old, obj))
        return before != after
    return kind in (catalog.SERVICE, catalog.PERSISTENTVOLUMECLAIM)


def are_any(state: State) -> bool:
    """Return whether there is any quota at all."""
    bucket = state.bucket(catalog.RESOURCEQUOTA)
    return bool(bucket.objects or bucket.pending)


def _keys(state: State, kind: Kind, namespace: str) -> list[str]:
    return state.bucket(kind).newest_keys(f"{namespace}/")


def _quotas(state: State, namespace: str) -> list[tuple[str, Json]]:
    names = sorted(key.partition("/")[2] for key in _keys(state, catalog.RESOURCEQUOTA, namespace))
    found = ((name, state.latest(catalog.RESOURCEQUOTA, namespace, name)) for name in names)
    return [(name, quota) for name, quota in found if quota and not quota["metadata"].get("deletionTimestamp")]


def _used_with(state: State, kind: Kind, namespace: str, obj: Json, old: Json | None, name: str, body: Json) -> Usage:
    """Return what will be used of each resource that the object counts for; empty when the quota is not about it."""
    quota = msgspec.convert(body, ResourceQuota)
    spec = quota.spec
    before: Usage = {}
    if kind is catalog.POD:
        pod = msgspec.convert(obj, Pod)
        if not counts_pod(spec, pod):
            return {}
        if text := unnamed_resources(spec, pod):
            raise forbidden(kind, obj["metadata"]["name"], f"failed quota: {name}: {text}")
        usage = pod_usage(pod.spec)
        if old is not None:
            before = pods_usage(spec, [msgspec.convert(old, Pod)])
    elif spec.scopes or spec.scope_selector is not None:
        return {}  # scopes are of pods
    else:
        usage = object_usage(kind, obj)
        if old is not None:
            before = object_usage(kind, old)
    asked = {key: amount - before.get(key, _ZERO) for key, amount in usage.items() if key in spec.hard}
    if old is not None:
        asked = {key: amount for key, amount in asked.items() if amount.nanos > 0}
    if not asked:
        return {}
    used = _used(state, kind, namespace, quota, asked)
    hard = {key: _amount(spec.hard[key]) for key in asked}
    over = sorted(key for key, amount in asked.items() if amount.nanos > 0 and used[key] + amount > hard[key])
    if over:
        shown = ", ".join(
            f"{word}: {','.join(f'{key}={amounts[key]}' for key in over)}"
            for word, amounts in (("requested", asked), ("used", used), ("limited", hard))
        )
        raise forbidden(kind, obj["metadata"]["name"], f"exceeded quota: {name}, {shown}")
    return {key: used[key] + amount for key, amount in asked.items()}


def _used(state: State, kind: Kind, namespace: str, quota: ResourceQuota, asked: Usage) -> Usage:
    """Return what is used of each resource before the object comes."""
    if kind is catalog.POD:
        if all(key in quota.status.used for key in asked):
            return {key: _amount(quota.status.used[key]) for key in asked}
        counted = _pods(state, namespace, quota.spec)  # a new quota, which nobody has counted yet
        return {key: counted.get(key, _ZERO) for key in asked}
    keys = _keys(state, kind, namespace)
    used = {key: Quantity(NANO * len(keys)) for key in asked if counts_ones(key)}
    if len(used) < len(asked):
        bodies = [state.latest(kind, namespace, key.partition("/")[2]) for key in keys]
        usages = [object_usage(kind, body) for body in bodies if body is not None]
        for key in asked:
            if counted_kind(key) is kind and not counts_ones(key):
                used[key] = sum((usage.get(key, _ZERO) for usage in usages), _ZERO)
    return {key: used.get(key, _ZERO) for key in asked}


def _pods(state: State, namespace: str, spec: ResourceQuotaSpec) -> Usage:
    found = (
        state.latest(catalog.POD, namespace, key.partition("/")[2]) for key in _keys(state, catalog.POD, namespace)
    )
    return pods_usage(spec, (msgspec.convert(body, Pod) for body in found if body is not None))


def _amount(given: Any) -> Quantity:
    try:
        return parse(given)
    except InvalidQuantity:
        return _ZERO
