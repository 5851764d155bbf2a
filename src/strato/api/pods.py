"""Effective requests of a pod, its host ports, and its quality-of-service class (spec volcano-scheduler-core 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_

from msgspec.structs import replace

from strato.api.core.container import Container, ContainerStatus, ResourceRequirements
from strato.api.core.pod import Pod, PodSpec, PodStatus
from strato.api.quantity import Quantity, parse
from strato.api.shapes import ResourceList

HostPort = tuple[str, str, int]
"""Address of the host, protocol, number."""
_EVERY_ADDRESS = "0.0.0.0"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod, which its node has created from a file."""
POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
"""Resources that pod-level requests may set, besides huge pages (recognised by prefix)."""


def effective_spec(pod: Pod) -> PodSpec:
    """Return a pod's spec with the resources that count: the most of wanted, allocated and actual ones.

    Wanted resources do not count if the node has reported the resize as infeasible. For a pod that was never changed
    (its generation is 1, or not set) the result is its spec itself.
    """
    spec, status = pod.spec, pod.status
    if pod.metadata.generation < 2 or not (status.container_statuses or status.init_container_statuses):
        return spec
    pending = status.condition("PodResizePending")
    is_infeasible = pending is not None and pending.reason == "Infeasible"
    held = {entry.name: entry for entry in (*status.init_container_statuses, *status.container_statuses)}

    def most(asked: ResourceRequirements, entry: ContainerStatus | PodStatus | None) -> ResourceRequirements:
        if entry is None or entry.resources is None:
            return asked
        wanted = ResourceRequirements() if is_infeasible else asked
        requests = _largest(wanted.requests, entry.resources.requests, entry.allocated_resources)
        limits = _largest(wanted.limits, entry.resources.limits)
        same = requests == asked.requests and limits == asked.limits
        return asked if same else replace(asked, requests=requests, limits=limits)

    def effective(container: Container, *, stays: bool) -> Container:
        found = most(container.resources, held.get(container.name) if stays else None)
        return container if found is container.resources else replace(container, resources=found)

    containers = tuple([effective(container, stays=True) for container in spec.containers])
    inits = tuple([effective(one, stays=one.restart_policy == "Always") for one in spec.init_containers])
    whole = None if spec.resources is None else most(spec.resources, status)
    before = (*spec.containers, *spec.init_containers, spec.resources)
    same = all(map(is_, (*containers, *inits, whole), before))
    return spec if same else replace(spec, containers=containers, init_containers=inits, resources=whole)


def _largest(*lists: ResourceList) -> dict[str, str | int | float]:
    largest: dict[str, str | int | float] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            known = largest.get(name)
            if known is None or (known != amount and parse(known) < parse(amount)):
                largest[name] = amount
    return largest


def effective_requests(spec: PodSpec) -> dict[str, Quantity]:
    """Return the exact amounts a scheduler must find for a pod.

    These are the sum of the containers or, if larger, the requests of an init container together with the sidecars
    started before it; pod-level requests override both; the overhead is added. Defaulting must have set requests that
    were missing to the limits.

    Raises:
        InvalidQuantity: A request is no quantity, which an API server does not admit.
    """
    nanos = _effective_nanos(spec)
    return {name: Quantity(amount, parse(_sample(spec, name)).format) for name, amount in nanos.items()}


def _effective_nanos(spec: PodSpec) -> dict[str, int]:
    containers = spec.containers
    if len(containers) == 1 and not spec.init_containers:
        total = _nanos(containers[0].resources.requests)
    else:
        total = {}
        for container in containers:
            _add(total, _nanos(container.resources.requests))
        if spec.init_containers:
            total = _with_init(total, spec.init_containers)
    if spec.resources is not None:
        for name, amount in _nanos(spec.resources.requests).items():
            if name in POD_LEVEL_RESOURCES or name.startswith("hugepages-"):
                total[name] = amount
    if spec.overhead:
        _add(total, _nanos(spec.overhead))
    return total


def _with_init(total: dict[str, int], init_containers: tuple[Container, ...]) -> dict[str, int]:
    """Add init containers to the total: ordinary ones run with earlier sidecars only, sidecars run all the time."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        own = _nanos(container.resources.requests)
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
    """Return one written amount of the resource, whose format the sum gets."""
    for container in (*spec.containers, *spec.init_containers):
        if name in container.resources.requests:
            return container.resources.requests[name]
    if spec.resources is not None and name in spec.resources.requests:
        return spec.resources.requests[name]
    return spec.overhead.get(name, "0")


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return every host port that a pod uses while it runs, as ``(ip, protocol, port)``.

    Those of sidecars are included. In the host's network all ports of containers are host ports.
    """
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        (port.host_ip or _EVERY_ADDRESS, port.protocol or "TCP", number)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )


def host_ports_clash(wanted: Iterable[HostPort], held: Iterable[HostPort]) -> bool:
    """Return whether a wanted host port conflicts with a held one; the address ``0.0.0.0`` conflicts with all."""
    taken = tuple(held)
    return any(
        (protocol, number) == (other_protocol, other_number) and (ip == other_ip or _EVERY_ADDRESS in (ip, other_ip))
        for ip, protocol, number in wanted
        for other_ip, other_protocol, other_number in taken
    )


def qos_class(spec: PodSpec) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory of the pod as a whole, else of all containers."""
    any_set, guaranteed = False, True
    whole = spec.resources
    if whole is not None and (whole.requests or whole.limits):
        members = [whole]
    else:
        members = [container.resources for container in (*spec.containers, *spec.init_containers)]
    for resources in members:
        for name in ("cpu", "memory"):
            request, limit = resources.requests.get(name), resources.limits.get(name)
            wanted = parse(request).nanos if request is not None else 0
            capped = parse(limit).nanos if limit is not None else 0
            any_set = any_set or wanted > 0 or capped > 0
            guaranteed = guaranteed and capped > 0 and wanted in (0, capped)
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
