"""ResourceQuotas: refuse writes that exceed a quota, and charge accepted ones to the quota's status.

Nothing yields between check, charge and write, so that no two writes get the same remainder of a quota. A namespace
without quotas costs one look-up in an empty table. Pods are charged to ``status.used``, which the quota controller
counts anew when pods end; other objects are counted here, from the store. An update is charged only for additional use:
services may change their type, claims may grow, pods may be resized or move into another scope. If an update reduces
use, the quota controller corrects the status.

Source: the admission plug-in ResourceQuota of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import Pod, ResourceQuota
from strato.api.kinds import Kind
from strato.api.pods import effective_spec
from strato.api.quantity import NANO, InvalidQuantity, Quantity, parse
from strato.api.quotas import counts_ones, counts_pod, object_usage, pods_usage, unnamed_resources
from strato.api.status import forbidden
from strato.api.usage import Usage, pod_usage
from strato.server.flowcontrol.dispatch import Steps
from strato.server.preparation import Json, encode
from strato.server.rest.largewrites import Changed
from strato.server.rest.slicedreads import are_many, read_in_slices
from strato.server.rest.state import State, object_key

_ZERO = Quantity(0)
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_read_pod = msgspec.json.Decoder(Pod).decode


Due = Sequence[tuple[str, Json, Usage]]
"""Names of quotas, the quotas, and the usage to write into each."""


def looks_at_many(state: State, kind: Kind, namespace: str) -> bool:
    """Tell whether the creation of an object of this kind counts many objects for a quota."""
    if not kind.namespaced or not are_any(state) or not are_many(state, kind, namespace):
        return False
    quotas = [quota for _, quota in _quotas(state, namespace)]
    if kind is not catalog.POD:
        return bool(quotas)
    return any(_hard(quota).keys() - ((quota.get("status") or {}).get("used") or {}).keys() for quota in quotas)


def _hard(quota: Json) -> Json:
    hard: Json = (quota.get("spec") or {}).get("hard") or {}
    return hard


def due(state: State, kind: Kind, namespace: str, obj: Json, old: Json | None = None) -> Steps[Due]:
    """Return the charges for a new object; with ``old``, for its additional use.

    Raises:
        Forbidden: It exceeds a quota.
    """
    if not kind.namespaced or kind is catalog.RESOURCEQUOTA or not are_any(state):
        return ()
    if old is not None and not _may_use_more(kind, obj, old):
        return ()
    counted: dict[str, Usage] = {}
    for name, quota in _quotas(state, namespace):
        if asked := _asked(kind, obj, old, name, quota):
            counted[name] = yield from _used(state, kind, namespace, msgspec.convert(quota, ResourceQuota), asked)
    found = []
    for name, quota in _quotas(state, namespace):  # read again, as the loop may have served other writes
        if asked := _asked(kind, obj, old, name, quota):
            if name not in counted:
                raise Changed
            charged = _charged(msgspec.convert(quota, ResourceQuota), kind, asked)
            used = _allowed(kind, obj, name, quota, asked, charged or counted[name])
            found.append((name, quota, used))
    return found


def charge(state: State, namespace: str, due: Due) -> None:
    """Write the charges into the status of the quotas."""
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
    """Whether an update can increase use; for pods a resize, or a move into scope Terminating or NotTerminating."""
    if kind is catalog.POD:
        before, after = (_counted_of_pod(one["spec"]) for one in (old, obj))
        return before != after
    return kind in (catalog.SERVICE, catalog.PERSISTENTVOLUMECLAIM)


def _counted_of_pod(spec: Json) -> tuple[Any, ...]:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    resources = [container.get("resources") for container in containers]
    return spec.get("activeDeadlineSeconds") is None, spec.get("resources"), resources


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


def _asked(kind: Kind, obj: Json, old: Json | None, name: str, body: Json) -> Usage:
    """Return the usage that the object adds to a quota; empty if the quota does not cover it."""
    quota = msgspec.convert(body, ResourceQuota)
    spec = quota.spec
    before: Usage = {}
    if kind is catalog.POD:
        pod = msgspec.convert(obj, Pod)
        if not counts_pod(spec, pod):
            return {}
        if text := unnamed_resources(spec, pod):
            raise forbidden(kind, obj["metadata"]["name"], f"failed quota: {name}: {text}")
        usage = pod_usage(effective_spec(pod))
        if old is not None:
            before = pods_usage(spec, [msgspec.convert(old, Pod)])
    elif spec.scopes or spec.scope_selector is not None:
        return {}  # scopes select pods only
    else:
        usage = object_usage(kind, obj)
        if old is not None:
            before = object_usage(kind, old)
    asked = {key: amount - before.get(key, _ZERO) for key, amount in usage.items() if key in spec.hard}
    if old is not None:
        asked = {key: amount for key, amount in asked.items() if amount.nanos > 0}
    return asked


def _allowed(kind: Kind, obj: Json, name: str, quota: Json, asked: Usage, used: Usage) -> Usage:
    """Return the usage of a quota including the object.

    Raises:
        Forbidden: It exceeds the quota.
    """
    hard = {key: _amount(_hard(quota)[key]) for key in asked}
    over = sorted(key for key, amount in asked.items() if amount.nanos > 0 and used[key] + amount > hard[key])
    if over:
        shown = ", ".join(
            f"{word}: {','.join(f'{key}={amounts[key]}' for key in over)}"
            for word, amounts in (("requested", asked), ("used", used), ("limited", hard))
        )
        raise forbidden(kind, obj["metadata"]["name"], f"exceeded quota: {name}, {shown}")
    return {key: used[key] + amount for key, amount in asked.items()}


def _charged(quota: ResourceQuota, kind: Kind, asked: Usage) -> Usage:
    """Return the pods' usage in the quota's status; empty if a resource is missing there."""
    used = quota.status.used
    return {key: _amount(used[key]) for key in asked} if kind is catalog.POD and used.keys() >= asked.keys() else {}


def _used(state: State, kind: Kind, namespace: str, quota: ResourceQuota, asked: Usage) -> Steps[Usage]:
    """Return the current usage of each resource, without the object."""
    if charged := _charged(quota, kind, asked):
        return charged
    names = list(asked)
    if kind is catalog.POD:  # a new quota, not counted by the controller yet

        def read(body: bytes) -> tuple[int, ...]:
            usage = pods_usage(quota.spec, [_read_pod(body)])
            return tuple(usage.get(name, _ZERO).nanos for name in names)

    else:
        keys = _keys(state, kind, namespace)
        if all(counts_ones(name) for name in names):
            return {name: Quantity(NANO * len(keys)) for name in names}

        def read(body: bytes) -> tuple[int, ...]:
            usage = object_usage(kind, _decode(body))
            return tuple(usage.get(name, _ZERO).nanos for name in names)

    found = yield from read_in_slices(state, kind, namespace, read)
    return {
        name: Quantity(sum(amounts[at] for amounts in found.values()), asked[name].format)
        for at, name in enumerate(names)
    }


def _amount(given: Any) -> Quantity:
    try:
        return parse(given)
    except InvalidQuantity:
        return _ZERO
