"""What a pod asks for in effect, and its quality-of-service class (spec volcano-scheduler-core 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.core.container import Container
from strato.api.core.pod import PodSpec, PodStatus
from strato.api.quantity import Quantity, parse
from strato.api.shapes import ResourceList

POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
"""Resources that pod-level requests may set; huge pages (by prefix) too."""


def effective_requests(spec: PodSpec, status: PodStatus | None = None) -> dict[str, Quantity]:
    """Return the exact amounts a scheduler must find for a pod.

    The sum of the containers, or, where larger, what an init container needs together with the sidecars started
    before it; pod-level requests win over both; overhead comes on top.

    Args:
        spec: The pod's spec, as defaulted by an API server (requests default to limits there).
        status: When given, containers being resized count with the larger of wanted and allocated.

    Raises:
        InvalidQuantity: A request is no quantity (an API server lets none pass).
    """
    nanos = _effective_nanos(spec, status)
    return {name: Quantity(amount, parse(_sample(spec, name)).format) for name, amount in nanos.items()}


def request_units(spec: PodSpec, status: PodStatus | None = None) -> dict[str, int]:
    """Return effective requests as integers: cpu in thousandths, everything else in whole units, rounded up."""
    return {
        name: -(-amount // (1_000_000 if name == "cpu" else 1_000_000_000))
        for name, amount in _effective_nanos(spec, status).items()
    }


def _effective_nanos(spec: PodSpec, status: PodStatus | None) -> dict[str, int]:
    allocated = _allocated(status) if status is not None else {}
    containers = spec.containers
    if len(containers) == 1 and not spec.init_containers and not allocated:
        total = _nanos(containers[0].resources.requests)
    else:
        total = {}
        for container in containers:
            _add(total, _container_nanos(container, allocated))
        if spec.init_containers:
            total = _with_init(total, spec.init_containers, allocated)
    if spec.resources is not None:
        for name, amount in _nanos(spec.resources.requests).items():
            if name in POD_LEVEL_RESOURCES or name.startswith("hugepages-"):
                total[name] = amount
    if spec.overhead:
        _add(total, _nanos(spec.overhead))
    return total


def _with_init(
    total: dict[str, int], init_containers: tuple[Container, ...], allocated: Mapping[str, dict[str, int]]
) -> dict[str, int]:
    """Fold init containers in: plain ones run alone beside earlier sidecars, sidecars stay for good."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        own = _container_nanos(container, allocated)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            alone = dict(sidecars)
            _add(alone, own)
            _raise_to(peak, alone)
    _raise_to(total, peak)
    return total


def _container_nanos(container: Container, allocated: Mapping[str, dict[str, int]]) -> dict[str, int]:
    own = _nanos(container.resources.requests)
    held = allocated.get(container.name)
    if held is not None:
        _raise_to(own, held)
    return own


def _allocated(status: PodStatus) -> dict[str, dict[str, int]]:
    """Return what running containers hold already, by container."""
    held: dict[str, dict[str, int]] = {}
    for entry in (*status.container_statuses, *status.init_container_statuses):
        if entry.allocated_resources or entry.resources is not None:
            amounts = _nanos(entry.allocated_resources)
            if entry.resources is not None:
                _raise_to(amounts, _nanos(entry.resources.requests))
            held[entry.name] = amounts
    return held


def _nanos(resources: ResourceList) -> dict[str, int]:
    return {name: parse(amount).nanos for name, amount in resources.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0) or name not in total:
            total[name] = amount


def _sample(spec: PodSpec, name: str) -> str | int | float:
    """Return some written amount of the resource, whose format the sum keeps."""
    for container in (*spec.containers, *spec.init_containers):
        if name in container.resources.requests:
            return container.resources.requests[name]
    if spec.resources is not None and name in spec.resources.requests:
        return spec.resources.requests[name]
    return spec.overhead.get(name, "0")


def qos_class(spec: PodSpec) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    any_set, guaranteed = False, True
    for container in (*spec.containers, *spec.init_containers):
        for name in ("cpu", "memory"):
            request, limit = container.resources.requests.get(name), container.resources.limits.get(name)
            wanted = parse(request).nanos if request is not None else 0
            capped = parse(limit).nanos if limit is not None else 0
            any_set = any_set or wanted > 0 or capped > 0
            guaranteed = guaranteed and capped > 0 and wanted in (0, capped)
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
