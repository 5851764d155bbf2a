"""`Devices`: devices that drivers offer, claims for them, and allocations (dynamic resource allocation).

Keeps the state, and an index for the allocator: the devices of a class that match a request, by node. Has no cost while
there are no resource claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strato.api import cel
from strato.api.core import NodeSelector
from strato.api.meta import Object
from strato.api.resource import Device, DeviceClass, DeviceSelector, DeviceToleration, ResourceClaim, ResourceSlice
from strato.lru import memoised
from strato.scheduler.claims.reservations import Reservations
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodelabels import NodeLabels


class DeviceId(NamedTuple):
    """Identity of a device."""

    driver: str
    pool: str
    device: str


class Offered(NamedTuple):
    """A device and where it may be used."""

    id: DeviceId
    device: Device
    node: str
    """Name of the one node that has it; empty for devices that several nodes reach."""
    everywhere: bool
    """Whether all nodes reach it."""
    nodes: NodeSelector | None
    """Selects the nodes that reach it, if these are neither one nor all; else None."""


class UsedResourceClaim(NamedTuple):
    """One entry of a pod's resource claims."""

    name: str
    key: str
    """``namespace/name`` of the claim; empty while a claim made from a template is not there yet."""
    made: bool
    """Whether the claim is made from a template."""


def resource_claims_of(task: Task) -> list[UsedResourceClaim]:
    """Return the resource claims a pod uses, in order; entries whose template makes no claim are left out."""
    statuses = {s.name: s.resource_claim_name for s in task.pod.status.resource_claim_statuses}
    out = []
    for entry in task.pod.spec.resource_claims:
        if entry.resource_claim_name:
            out.append(UsedResourceClaim(entry.name, f"{task.namespace}/{entry.resource_claim_name}", False))
        elif entry.name not in statuses:
            out.append(UsedResourceClaim(entry.name, "", True))
        elif statuses[entry.name]:
            out.append(UsedResourceClaim(entry.name, f"{task.namespace}/{statuses[entry.name]}", True))
    return out


class Devices:
    """Resource claims, slices and device classes, with the devices in use.

    Attributes:
        claims: ResourceClaims by ``namespace/name``.
        slices: ResourceSlices by name.
        classes: DeviceClasses by name.
        reservations: The tasks' reservations; shared with `strato.scheduler.claims.volumes.Volumes`.
    """

    def __init__(self, reservations: Reservations, labels: NodeLabels) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.reservations = reservations
        self._labels = labels
        self._allocated: dict[DeviceId, int] = {}
        self._offers: list[Offered] | None = None
        self._matching: dict[Any, dict[str, list[Offered]]] = {}
        self._by_id: dict[DeviceId, Offered] = {}

    # -- state ---------------------------------------------------------------------------------------------------------

    def put(self, view: Object) -> bool:
        """Take an object of a kind kept here; return whether anything that decisions read may have changed."""
        meta = view.metadata
        if isinstance(view, ResourceClaim):
            key = f"{meta.namespace}/{meta.name}"
            old = self.claims.get(key)
            if old is not None:
                self._count(old, -1)
            self.claims[key] = view
            self._count(view, 1)
            return old is None or old.status != view.status or old.spec != view.spec
        if isinstance(view, ResourceSlice):
            changed = self.slices.get(meta.name) != view
            self.slices[meta.name] = view
        else:
            assert isinstance(view, DeviceClass)
            changed = self.classes.get(meta.name) != view
            self.classes[meta.name] = view
        self._forget_offers()
        return changed

    def remove(self, view: type[Object], key: str) -> None:
        """Forget an object by name or ``namespace/name``."""
        if view is ResourceClaim:
            old = self.claims.pop(key, None)
            if old is not None:
                self._count(old, -1)
            return
        table: dict[str, Any] = self.slices if view is ResourceSlice else self.classes
        table.pop(key, None)
        self._forget_offers()

    def _count(self, claim: ResourceClaim, by: int) -> None:
        for device in _allocated_to(claim):
            left = self._allocated.get(device, 0) + by
            if left > 0:
                self._allocated[device] = left
            else:
                self._allocated.pop(device, None)

    def repair(self) -> bool:
        """Recount which devices the claims have; return whether the count was wrong."""
        before, self._allocated = self._allocated, {}
        for claim in self.claims.values():
            self._count(claim, 1)
        return before != self._allocated

    def _forget_offers(self) -> None:
        self._offers = None
        self._matching.clear()

    # -- devices in use ------------------------------------------------------------------------------------------------

    def in_use(self) -> set[DeviceId]:
        """Return the devices that are allocated, in the API or by valid reservations."""
        used = set(self._allocated)
        for _, reservation in self.reservations.standing():
            for allocation in reservation.devices.values():
                used.update(
                    DeviceId(r["driver"], r["pool"], r["device"])
                    for r in allocation["devices"]["results"]
                    if not r.get("adminAccess")
                )
        return used

    def pending_allocations(self) -> dict[str, tuple[int, Mapping[str, Any]]]:
        """Return row and allocation of claims that valid reservations allocate, by claim key."""
        return {
            key: (reservation.row, allocation)
            for _, reservation in self.reservations.standing()
            for key, allocation in reservation.devices.items()
        }

    # -- devices offered -----------------------------------------------------------------------------------------------

    def offers(self) -> list[Offered]:
        """Return every device of every complete pool, of its newest generation."""
        if self._offers is None:
            self._offers = list(self._collect())
            self._by_id = {offer.id: offer for offer in self._offers}
        return self._offers

    def offer(self, device: DeviceId) -> Offered | None:
        """Return a device by its identity."""
        self.offers()
        return self._by_id.get(device)

    def _collect(self) -> Iterator[Offered]:
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for found in self.slices.values():
            pools.setdefault((found.spec.driver, found.spec.pool.name), []).append(found)
        for (driver, pool), slices in sorted(pools.items()):
            newest = max(found.spec.pool.generation for found in slices)
            slices = [found for found in slices if found.spec.pool.generation == newest]
            if len(slices) != slices[0].spec.pool.resource_slice_count:
                continue  # the driver is still publishing this pool; a part of it could hide that a device has moved
            for found in sorted(slices, key=lambda s: s.metadata.name):
                for device in found.spec.devices:
                    yield self._offer(found, DeviceId(driver, pool, device.name), device)

    def _offer(self, found: ResourceSlice, identity: DeviceId, device: Device) -> Offered:
        place = device if found.spec.per_device_node_selection else found.spec
        return Offered(identity, device, place.node_name, place.all_nodes, place.node_selector)

    def reaches(self, offer: Offered, row: int) -> bool:
        """Whether the node of a row reaches a device that does not belong to a single node."""
        return offer.everywhere or (offer.nodes is not None and bool(self._labels.selected(offer.nodes)[row]))

    def counters(self, driver: str, pool: str) -> dict[tuple[str, str], int]:
        """Return the shared counters of a pool, in billionths, by set and name."""
        return {
            (shared.name, name): cel.quantity(counter.value).nanos
            for found in self.slices.values()
            if found.spec.driver == driver and found.spec.pool.name == pool
            for shared in found.spec.shared_counters
            for name, counter in shared.counters.items()
        }

    def matching(
        self, class_name: str, selectors: Sequence[DeviceSelector], tolerations: Sequence[DeviceToleration]
    ) -> Mapping[str, list[Offered]]:
        """Return the devices that satisfy a class and a request, by node; under the empty name those of several."""
        key = (class_name, tuple(s.cel.expression for s in selectors if s.cel is not None), tuple(tolerations))
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) > 1024:
                self._matching.clear()
            found = self._matching[key] = self._match(class_name, selectors, tolerations)
        return found

    def _match(
        self, class_name: str, selectors: Sequence[DeviceSelector], tolerations: Sequence[DeviceToleration]
    ) -> dict[str, list[Offered]]:
        chosen = self.classes.get(class_name)
        if chosen is None:
            return {}
        wanted = [s.cel.expression for s in (*chosen.spec.selectors, *selectors) if s.cel is not None]
        out: dict[str, list[Offered]] = {}
        for offer in self.offers():
            if all(_holds(text, offer) for text in wanted) and _tolerated(offer.device, tolerations):
                out.setdefault(offer.node, []).append(offer)
        return out


def _allocated_to(claim: ResourceClaim) -> list[DeviceId]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return [DeviceId(r.driver, r.pool, r.device) for r in results if not r.admin_access]


def _tolerated(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    """Whether a request tolerates all NoSchedule and NoExecute taints of a device."""
    for taint in device.taints:
        if taint.effect not in ("NoSchedule", "NoExecute"):
            continue
        if not any(
            t.effect in ("", taint.effect)
            and t.key in ("", taint.key)
            and (t.operator == "Exists" or (bool(t.key) and t.value == taint.value))
            for t in tolerations
        ):
            return False
    return True


@memoised(16 << 20, longest=10 << 10)  # the longest that the API takes
def _compiled(text: str) -> cel.Program | None:
    """Compile a selector; None when our CEL does not support it, and then it matches nothing."""
    try:
        return cel.compile_expression(text)
    except cel.UnsupportedExpression:
        return None


def _holds(text: str, offer: Offered) -> bool:
    program = _compiled(text)
    if program is None:
        return False
    try:
        return program({"device": described(offer)}) is True
    except (cel.EvaluationError, cel.CostExceeded):
        return False


class _ByDomain(dict[str, Any]):
    """Attributes by domain; an unknown domain has no attributes, rather than being an error, as in Kubernetes."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}

    def __contains__(self, key: object) -> bool:
        return True


def described(offer: Offered) -> dict[str, Any]:
    """Return a device as CEL selectors read it: driver, attributes and capacity, each by domain and name."""
    attributes, capacity = _ByDomain(), _ByDomain()
    driver = offer.id.driver
    for name, attribute in offer.device.attributes.items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = value_of(attribute)
    for name, amount in offer.device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[short] = cel.quantity(amount.value)
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": False}


def value_of(attribute: Any) -> Any:
    """Return the value of an attribute, which has exactly one type."""
    if attribute.version is not None:
        return cel.semver(attribute.version)
    if attribute.string is not None:
        return attribute.string
    return attribute.int_ if attribute.int_ is not None else attribute.bool_


def attribute_of(offer: Offered, name: str) -> Any:
    """Return a device's attribute by its qualified name; None without one. The driver's own domain may be left out."""
    domain, _, short = name.rpartition("/")
    for key in (name, short) if domain == offer.id.driver else (name,):
        if key in offer.device.attributes:
            return value_of(offer.device.attributes[key])
    return None
