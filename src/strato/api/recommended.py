"""Requests and limits of containers that follow a vertical autoscaler's recommendation. Pure.

Source: the vertical pod autoscaler's admission controller (spec utilisation 6.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from strato.api.autoscaling import ScaleTarget
from strato.api.core import ResourceRequirements
from strato.api.meta import Key, OwnerReference
from strato.api.quantity import NANO, Format, InvalidQuantity, Quantity, parse
from strato.api.shapes import EMPTY, ResourceList
from strato.api.verticalautoscaling import ContainerPolicy

_UNITS: Final = {"cpu": (NANO // 1000, Format.DECIMAL_SI), "memory": (NANO, Format.BINARY_SI)}
"""Resource → its unit in nanos, and the format in which it is written."""
_SCHEDULED: Final = re.compile(r"-\d+$")
"""The suffix that a CronJob appends to its name for its Jobs."""

OwnerOf = Callable[[Key], OwnerReference | None]
"""Returns the controlling owner of a ReplicaSet."""


class Followed(NamedTuple):
    """The resources of one container that follows a recommendation."""

    requests: dict[str, str]
    limits: dict[str, str]
    """New limits, only of resources that had one and whose limits the policy controls."""
    notes: tuple[str, ...]
    """Texts about changes of the recommendation: ``cpu capped to maxAllowed``."""


def follow(
    resources: ResourceRequirements,
    target: Mapping[str, str],
    policy: ContainerPolicy,
    *,
    least: ResourceList = EMPTY,
    most: ResourceList = EMPTY,
) -> Followed:
    """Return the resources of a container that follows its target; limits change in proportion to their requests.

    Args:
        resources: The container's resources in its spec.
        target: The recommended amounts.
        policy: The bounds, and whether limits change too.
        least: ``min`` for containers of a LimitRange.
        most: Its ``max``, which the container's limits must not exceed.
    """
    both = policy.controlled_values != "RequestsOnly"
    requests, limits, notes = {}, {}, []
    for name in _UNITS:
        amount = nanos_of(target, name)
        if not amount:
            continue
        limit, request = nanos_of(resources.limits, name), nanos_of(resources.requests, name)
        ceiling = nanos_of(most, name)
        bounds = [
            (max, nanos_of(least, name), "to fit Min in container LimitRange"),
            (min, _scaled(ceiling, request, limit) if limit else 0, "to fit Max in container LimitRange"),
            (max, nanos_of(policy.min_allowed, name), "to minAllowed"),
            (min, nanos_of(policy.max_allowed, name), "to maxAllowed"),
            (min, 0 if both else limit, "to container limit"),
        ]
        for choose, bound, words in bounds:
            if bound and choose(amount, bound) != amount:
                amount = bound
                notes.append(f"{name} capped {words}")
        requests[name] = _text(name, amount)
        if limit and both:
            limits[name] = _text(name, _scaled(limit, amount, request))
    return Followed(requests, limits, tuple(notes))


def scale(target: Mapping[str, str], name: str, part: int, whole: int) -> dict[str, str]:
    """Return a target in which one resource is multiplied by a fraction."""
    amount = nanos_of(target, name)
    return {**target, **({name: _text(name, amount * part // whole)} if amount else {})}


def nanos_of(amounts: Mapping[str, Any], name: str) -> int:
    """Return an amount in billionths; 0 if it is missing or no quantity."""
    try:
        return parse(amounts[name]).nanos if name in amounts else 0
    except InvalidQuantity:
        return 0


def _scaled(amount: int, part: int, whole: int) -> int:
    """Return ``amount`` in proportion of ``part`` to ``whole``; without a proportion, ``part`` or else ``amount``."""
    return amount * part // whole if part and whole else part or amount


def _text(name: str, nanos: int) -> str:
    unit, form = _UNITS[name]
    return str(Quantity(nanos // unit * unit, form))


def managers(namespace: str, owner: OwnerReference, owner_of: OwnerOf) -> Iterator[OwnerReference]:
    """Yield the controlling owner of a pod, and that owner's own controlling owner."""
    yield owner
    if owner.kind == "ReplicaSet":
        manager = owner_of(Key(namespace, owner.name))
        if manager is not None:
            yield manager
    elif owner.kind == "Job" and _SCHEDULED.search(owner.name):
        yield msgspec.structs.replace(owner, kind="CronJob", name=_SCHEDULED.sub("", owner.name))


def is_target(target: ScaleTarget, manager: OwnerReference) -> bool:
    """Whether a target reference means that owner, in any API version."""
    if (target.kind, target.name) != (manager.kind, manager.name):
        return False
    return not target.api_version or _group(target.api_version) == _group(manager.api_version)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
