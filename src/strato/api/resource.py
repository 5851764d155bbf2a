"""Views of resource.k8s.io/v1 (dynamic resource allocation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from strato.api.core.affinity import NodeSelector
from strato.api.meta import Object, ObjectMeta, View
from strato.api.shapes import EMPTY


class CELDeviceSelector(View, frozen=True, kw_only=True):
    """An expression over ``device``."""

    expression: str = ""


class DeviceSelector(View, frozen=True, kw_only=True):
    """One selector."""

    cel: CELDeviceSelector | None = None


class DeviceClassSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()
    """Parameters for drivers, passed on untouched."""
    extended_resource_name: str = ""


class DeviceClass(Object, frozen=True, kw_only=True):
    """A class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceToleration(View, frozen=True, kw_only=True):
    """A taint of devices that a request tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class CapacityRequirements(View, frozen=True, kw_only=True):
    """Capacity wanted of each device."""

    requests: Mapping[str, str | int | float] = EMPTY


class ExactDeviceRequest(View, frozen=True, kw_only=True):
    """``exactly``."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    capacity: CapacityRequirements | None = None
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceSubRequest(View, frozen=True, kw_only=True):
    """One of ``firstAvailable``."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceRequest(View, frozen=True, kw_only=True):
    """One named request."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(View, frozen=True, kw_only=True):
    """Requests whose devices must agree in an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""


class DeviceClaim(View, frozen=True, kw_only=True):
    """``devices``."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()
    """Parameters for drivers, passed on untouched."""


class ResourceClaimSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    devices: DeviceClaim = DeviceClaim()


class DeviceAllocation(View, frozen=True, kw_only=True):
    """One allocated device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


class DeviceAllocationResult(View, frozen=True, kw_only=True):
    """All allocated devices."""

    results: tuple[DeviceAllocation, ...] = ()


class AllocationResult(View, frozen=True, kw_only=True):
    """``status.allocation``."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class ClaimConsumer(View, frozen=True, kw_only=True):
    """A pod that may use the claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(View, frozen=True, kw_only=True):
    """``status``."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(Object, frozen=True, kw_only=True):
    """A claim for devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(View, frozen=True, kw_only=True):
    """A claim to be made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True, kw_only=True):
    """A template of claims."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ResourcePool(View, frozen=True, kw_only=True):
    """The pool a slice belongs to."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class DeviceAttribute(View, frozen=True, kw_only=True):
    """One attribute: exactly one member is set."""

    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None


class DeviceCapacity(View, frozen=True, kw_only=True):
    """One capacity."""

    value: str | int | float = "0"


class DeviceTaint(View, frozen=True, kw_only=True):
    """A reason not to use a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Counter(View, frozen=True, kw_only=True):
    """An amount several devices share."""

    value: str | int | float = "0"


class CounterSet(View, frozen=True, kw_only=True):
    """Counters of a pool, by name."""

    name: str = ""
    counters: Mapping[str, Counter] = EMPTY


class CounterUse(View, frozen=True, kw_only=True):
    """What a device takes from a counter set while it is in use."""

    counter_set: str = ""
    counters: Mapping[str, Counter] = EMPTY


class Device(View, frozen=True, kw_only=True):
    """A device on offer."""

    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = EMPTY
    capacity: Mapping[str, DeviceCapacity] = EMPTY
    consumes_counters: tuple[CounterUse, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    node_name: str = ""
    """Node of the device, in slices with ``perDeviceNodeSelection``; the next two members are for these slices too."""
    all_nodes: bool = False
    node_selector: NodeSelector | None = None


class ResourceSliceSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    all_nodes: bool = False
    node_selector: NodeSelector | None = None
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True, kw_only=True):
    """Devices that a driver offers."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
