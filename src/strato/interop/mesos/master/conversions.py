"""RESERVE, UNRESERVE, CREATE and DESTROY: what they make of which resources; pure."""

from __future__ import annotations

import json
from dataclasses import replace

from strato.api.meta import Json
from strato.errors import InvalidInput
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resources import Kind, Resources
from strato.interop.mesos.resourcetext import to_text
from strato.interop.mesos.roles import is_subrole

CONVERSIONS = frozenset(("RESERVE", "UNRESERVE", "CREATE", "DESTROY"))
_OF_VOLUMES = ("persistence", "volume")
"""What CREATE adds to a disk, and DESTROY takes away."""


def converted(operation: Json, available: Resources, role: str | None) -> tuple[Resources, Resources] | str:
    """Return what an operation takes and what it makes of it, or why it cannot be done.

    Args:
        operation: RESERVE, UNRESERVE, CREATE or DESTROY.
        available: What it may take.
        role: Whose offer it is, to which the resources are allocated; None for an operator.
    """
    kind = operation["type"]
    body: Json = operation.get(kind.lower(), {})
    try:
        given = from_json(body.get("volumes" if kind in ("CREATE", "DESTROY") else "resources", ())).allocated(role)
    except InvalidInput as error:
        return "; ".join(f"{item.where}: {item.message}" for item in error.problems)
    if not given:
        return f"{kind} names no resources"
    wrong = _problem(kind, given, role)
    if wrong is not None:
        return wrong
    old, new = _OUTCOMES[kind](given)
    if not available.contains(old):
        return (
            f"Invalid {kind} operation: {to_text(old.allocated(None))} is not in {to_text(available.allocated(None))}"
        )
    return old, new


def _problem(kind: str, given: Resources, role: str | None) -> str | None:
    for one, _ in given:
        if kind == "RESERVE" and (not one.reservations or not one.reservations[-1].dynamic):
            return f"Resource {one.name} to reserve has no dynamic reservation"
        if kind == "RESERVE" and role is not None and not (one.role == role or is_subrole(one.role, role)):
            return f"Resource {one.name} is to be reserved for role '{one.role}', but the offer's role is '{role}'"
        if kind == "UNRESERVE" and (not one.reservations or not one.reservations[-1].dynamic):
            return f"Resource {one.name} is not dynamically reserved"
        if kind == "UNRESERVE" and one.is_persistent_volume:
            return "A dynamically reserved persistent volume cannot be unreserved; destroy it first"
        if kind in ("CREATE", "DESTROY") and not one.is_persistent_volume:
            return f"Resource {one.name} is no persistent volume"
        if kind == "CREATE" and not one.reservations:
            return "Persistent volumes cannot be created from unreserved resources"
    return None


def _reserve(given: Resources) -> tuple[Resources, Resources]:
    return given.pop_reservation(), given


def _unreserve(given: Resources) -> tuple[Resources, Resources]:
    return given, given.pop_reservation()


def _create(given: Resources) -> tuple[Resources, Resources]:
    return given.map(_plain), given


def _destroy(given: Resources) -> tuple[Resources, Resources]:
    return given, given.map(_plain)


def _plain(kind: Kind) -> Kind:
    """Return the disk that a volume is made of."""
    disk = kind.disk
    if disk is None:
        return kind
    fields = {name: value for name, value in json.loads(disk.text).items() if name not in _OF_VOLUMES}
    if not fields:
        return replace(kind, disk=None, shared=False)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return replace(kind, disk=replace(disk, persistence_id=None, text=text), shared=False)


_OUTCOMES = {"RESERVE": _reserve, "UNRESERVE": _unreserve, "CREATE": _create, "DESTROY": _destroy}
