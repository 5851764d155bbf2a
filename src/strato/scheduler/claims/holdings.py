"""The claimed devices that queues hold, in the units of their capability and status (core 9.5, plugins 6.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from strato.api.quantity import InvalidQuantity, value
from strato.api.resource import ResourceClaim
from strato.scheduler.claims.devices import Devices, resource_claims_of
from strato.scheduler.claims.reservations import Reservations
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.tasks import ALLOCATED_SET

PREFIX = "deviceclass/"

Amounts = Counter[str]
"""Devices by ``deviceclass/<class>``, capacity by ``<dimension>.deviceclass/<class>``."""


def amounts_of(claim: ResourceClaim) -> Amounts:
    """Return what a claim asks for by exact requests for a number of devices; other requests count nothing."""
    out: Amounts = Counter()
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if exact is None or exact.allocation_mode == "All":
            continue
        count = exact.count or 1
        out[PREFIX + exact.device_class_name] += count
        for dimension, text in exact.capacity.requests.items() if exact.capacity is not None else ():
            try:
                out[f"{dimension}.{PREFIX}{exact.device_class_name}"] += count * value(text)
            except InvalidQuantity:
                continue
    return out


def claims_by_queue(devices: Devices, reservations: Reservations, tasks: Mapping[str, Task]) -> dict[str, set[str]]:
    """Return by queue the keys of the claims that its placed pods use; O(claims)."""
    out: dict[str, set[str]] = {}
    if not devices.claims:
        return out

    def note(task: Task | None, keys: set[str]) -> None:
        if task is not None and task.job is not None and task.status in ALLOCATED_SET:
            out.setdefault(task.job.queue_name, set()).update(keys)

    for key, claim in devices.claims.items():
        for user in claim.status.reserved_for:
            if user.resource == "pods":
                note(tasks.get(f"{claim.metadata.namespace}/{user.name}"), {key})
    for task, reservation in reservations.standing():
        if reservation.claims:
            note(task, {used.key for used in resource_claims_of(task) if used.key})
    return out


def amounts_in(devices: Devices, keys: set[str]) -> dict[str, str]:
    """Return the sum of what claims ask for, each counted once, as quantities for a status."""
    out: Amounts = Counter()
    for key in keys:
        claim = devices.claims.get(key)
        if claim is not None:
            out += amounts_of(claim)
    return {name: str(amount) for name, amount in sorted(out.items()) if amount}
