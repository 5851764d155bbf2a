"""Operations that convert an agent's resources: the resources they consume and produce; pure.

Later operations of the same ACCEPT may use the results of RESERVE, UNRESERVE, CREATE and DESTROY, but not those of
GROW_VOLUME and SHRINK_VOLUME, which are in the next offer. CREATE_DISK and DESTROY_DISK need resource providers, which
no agent has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from strato.api.meta import Json
from strato.errors import InvalidInput
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.quantities import to_millis
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resources import ResourceKind, Resources
from strato.interop.mesos.resourcetext import to_text
from strato.interop.mesos.roles import is_subrole

RESIZES = frozenset(("GROW_VOLUME", "SHRINK_VOLUME"))
CONVERSIONS = frozenset(("RESERVE", "UNRESERVE", "CREATE", "DESTROY", "CREATE_DISK", "DESTROY_DISK", *RESIZES))
_OF_VOLUMES = ("persistence", "volume")
"""Fields that CREATE adds to a disk, and DESTROY removes."""
Outcome = tuple[Resources, Resources]
"""The resources that an operation consumes, and those that it produces."""


@dataclass(frozen=True, slots=True)
class Disks:
    """Facts about an agent that operations on volumes need."""

    agent_id: str = ""
    gives_volumes: bool = True
    """Whether tasks there can mount persistent volumes."""
    volumes: Collection[str] = frozenset()
    """Names of the agent's persistent volumes."""


class _Refused(Exception):
    """An operation cannot be carried out; the message is for the framework or operator."""


def converted(operation: Json, available: Resources, role: str | None, disks: Disks) -> Outcome | str:
    """Return the resources that an operation consumes and produces, or why it cannot be carried out.

    Args:
        operation: One of `CONVERSIONS`.
        available: The resources that it may consume.
        role: The offer's role, to which the resources are allocated; None for an operator.
        disks: The agent's volumes.
    """
    kind = operation["type"]
    body: Json = operation.get(kind.lower(), {})
    try:
        old, new = _OUTCOMES[kind](kind, body, role, disks)
    except _Refused as refusal:
        return str(refusal)
    if not available.contains(old):
        return (
            f"Invalid {kind} operation: {to_text(available.allocated(None))} does not contain "
            f"{to_text(old.allocated(None))}"
        )
    return old, new


# -- reservations and volumes ------------------------------------------------------------------------------------------


def _given(kind: str, body: Json, role: str | None, field: str) -> Resources:
    try:
        given = from_json(body.get(field, ())).allocated(role)
    except InvalidInput as error:
        raise _Refused("; ".join(f"{item.where}: {item.message}" for item in error.problems)) from error
    if not given:
        raise _Refused(f"{kind} names no resources")
    return given


def _reserve(kind: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    del disks
    given = _given(kind, body, role, "resources")
    for one, _ in given:
        if not one.reservations or not one.reservations[-1].dynamic:
            raise _Refused(f"Resource {one.name} to reserve has no dynamic reservation")
        if role is not None and not (one.role == role or is_subrole(one.role, role)):
            raise _Refused(f"Resource {one.name} is to be reserved for role '{one.role}', but the offer's is '{role}'")
        if one.is_persistent_volume:
            raise _Refused(f"A persistent volume {to_text(given.allocated(None))} must already be reserved")
    return given.pop_reservation(), given


def _unreserve(kind: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    del disks
    given = _given(kind, body, role, "resources")
    for one, _ in given:
        if not one.reservations or not one.reservations[-1].dynamic:
            raise _Refused(f"Resource {one.name} is not dynamically reserved")
        if one.is_persistent_volume:
            raise _Refused("A dynamically reserved persistent volume cannot be unreserved; destroy it first")
    return given, given.pop_reservation()


def _create(kind: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    given = _given(kind, body, role, "volumes")
    seen = set(disks.volumes)
    for one, _ in given:
        _check_volume(one, "Invalid DiskInfo: ")
        persistence_id = one.disk.persistence_id if one.disk is not None else None
        name = volume_name(disks.agent_id, one.role, persistence_id or "")
        if name in seen:
            raise _Refused(f"Persistence ID '{persistence_id}' is not unique")
        seen.add(name)
    if not disks.gives_volumes:
        text = to_text(given.allocated(None))
        raise _Refused(f"Volume {text} cannot be created: pods on this agent's node see no persistent volumes")
    return given.map(_plain), given


def _destroy(kind: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    del disks
    given = _given(kind, body, role, "volumes")
    for one, _ in given:
        if not one.is_persistent_volume:
            raise _Refused(f"Not a persistent volume: Resource {one.name} has no 'persistence'")
    return given, given.map(_plain)


def _check_volume(kind: ResourceKind, prefix: str) -> None:
    if kind.disk is None or not kind.is_persistent_volume:
        raise _Refused(f"Resource {kind.name} is no persistent volume: 'persistence' is not set in DiskInfo")
    if kind.revocable:
        raise _Refused(f"{prefix}Persistent volumes cannot be created from revocable resources")
    if not kind.reservations:
        raise _Refused(f"{prefix}Persistent volumes cannot be created from unreserved resources")
    volume: Json | None = json.loads(kind.disk.text).get("volume")
    if volume is None:
        raise _Refused(f"{prefix}Expecting 'volume' to be set for persistent volume")
    if volume.get("host_path"):
        raise _Refused(f"{prefix}Expecting 'host_path' to be unset for persistent volume")
    if volume.get("mode") == "RO":
        raise _Refused(f"{prefix}Read-only persistent volume not supported")


def _plain(kind: ResourceKind) -> ResourceKind:
    """Return the kind of the disk without its volume."""
    disk = kind.disk
    if disk is None:
        return kind
    fields = {name: value for name, value in json.loads(disk.text).items() if name not in _OF_VOLUMES}
    if not fields:
        return replace(kind, disk=None, shared=False)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return replace(kind, disk=replace(disk, persistence_id=None, text=text), shared=False)


# -- sizes of volumes --------------------------------------------------------------------------------------------------


def _one(body: Json, field: str, path: str, role: str | None) -> tuple[ResourceKind, int] | None:
    """Return a scalar resource that an operation names; None if its amount is 0."""
    try:
        given = from_json([body.get(field, {})]).allocated(role)
    except InvalidInput as error:
        why = "; ".join(item.message for item in error.problems)
        raise _Refused(f"Invalid resource in the '{path}' field: {why}") from error
    found = next(iter(given), None)
    if found is None:
        return None
    kind, amount = found
    if not isinstance(amount, int):
        raise _Refused(f"Invalid resource in the '{path}' field: {kind.name} is no scalar")
    return kind, amount


def _volume(body: Json, path: str, verb: str, role: str | None) -> ResourceKind:
    """Return the volume whose size is to change."""
    found = _one(body, "volume", f"{path}.volume", role)
    if found is None:
        raise _Refused(f"Invalid resource in the '{path}.volume' field: its size is 0")
    kind, _ = found
    if kind.provider_id is not None:
        raise _Refused(f"{verb} a volume from a resource provider is not supported")
    _check_volume(kind, f"Invalid persistent volume in the '{path}.volume' field: ")
    if kind.shared:
        raise _Refused(f"{verb} a shared persistent volume is not supported")
    return kind


def _check_resizable(kind: ResourceKind, disks: Disks, done: str) -> None:
    if not disks.gives_volumes:
        text = to_text(Resources({kind: 1}).allocated(None))
        raise _Refused(f"Volume {text} cannot be {done} on an agent without RESIZE_VOLUME capability")


def _grow(_: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    addition = _one(body, "addition", "GrowVolume.addition", role)
    if addition is None:
        raise _Refused("The size of 'GrowVolume.addition' field must be greater than zero")
    kind = _volume(body, "GrowVolume", "Growing", role)
    volume, more = Resources({kind: 1}), Resources.of([addition])
    if len(volume.map(_plain) + more) != 1:
        raise _Refused("Incompatible resources in the 'GrowVolume.volume' and 'GrowVolume.addition' fields")
    _check_resizable(kind, disks, "grown")
    grown = replace(kind, whole_millis=(kind.whole_millis or 0) + addition[1])
    return volume + more, Resources({grown: 1})


def _shrink(_: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    try:
        less = to_millis(body.get("subtract", {}).get("value", 0))
    except ValueError as error:
        raise _Refused(f"Value of 'ShrinkVolume.subtract' {error}") from error
    if not less:
        raise _Refused("Value of 'ShrinkVolume.subtract' must be greater than zero")
    kind = _volume(body, "ShrinkVolume", "Shrinking", role)
    size = kind.whole_millis or 0
    if size <= less:
        raise _Refused("Value of 'ShrinkVolume.subtract' must be smaller than the size of 'ShrinkVolume.volume'")
    if kind.disk is not None and kind.disk.source_type == "MOUNT":
        raise _Refused("Shrinking a volume on a MOUNT disk is not supported")
    _check_resizable(kind, disks, "shrunk")
    shrunk = Resources({replace(kind, whole_millis=size - less): 1})
    rest = Resources.of([(replace(_plain(kind), whole_millis=None), less)])
    return Resources({kind: 1}), shrunk + rest


def _of_provider(_: str, body: Json, role: str | None, disks: Disks) -> Outcome:
    del disks
    source = _one(body, "source", "source", role)
    if source is None or source[0].provider_id is None:
        raise _Refused("'source' is not managed by a resource provider")
    raise _Refused(f"Resource provider {source[0].provider_id} is not known: no agent has any")


_OUTCOMES: dict[str, Callable[[str, Json, str | None, Disks], Outcome]] = {
    "RESERVE": _reserve,
    "UNRESERVE": _unreserve,
    "CREATE": _create,
    "DESTROY": _destroy,
    "GROW_VOLUME": _grow,
    "SHRINK_VOLUME": _shrink,
    "CREATE_DISK": _of_provider,
    "DESTROY_DISK": _of_provider,
}
