"""The control group limits of a pod and its containers, from their requests and limits. Pure.

The group of a pod has its pod-level resources, or else the sums of its containers'; a sum of limits only if every
container has that limit. A container without a limit of its own gets the pod's.

Source: Kubernetes' ``pkg/kubelet/cm``, ``ResourceConfigForPod``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from strato.api import quantity
from strato.api.core import Container, PodSpec
from strato.api.pods import effective_requests, qos_class
from strato.api.quantity import Quantity
from strato.node.sandbox.cgroups import Limits

PROCESSES: Final = max(4096, 512 * (os.cpu_count() or 1))
"""Most processes and threads of a pod, and of each of its containers."""


def container_limits(spec: PodSpec, container: Container) -> Limits:
    """Return the limits of a container of a pod."""
    requests = container.resources.requests
    whole = spec.resources.limits if spec.resources is not None else {}
    limits = {**{name: whole[name] for name in ("cpu", "memory") if name in whole}, **container.resources.limits}
    return Limits(
        cpu_millicores=quantity.milli(limits.get("cpu", 0)),
        cpu_request_millicores=quantity.milli(requests.get("cpu", container.resources.limits.get("cpu", 0))),
        memory_bytes=quantity.value(limits.get("memory", 0)),
        processes=PROCESSES,
    )


def inherits(spec: PodSpec, container: Container) -> bool:
    """Return whether a limit of a container is the pod's."""
    return spec.resources is not None and bool(
        {"cpu", "memory"} & (spec.resources.limits.keys() - container.resources.limits.keys())
    )


def pod_limits(spec: PodSpec) -> Limits:
    """Return the limits of a pod as a whole."""
    requests, limits = effective_requests(spec), _limits(spec)
    best_effort = qos_class(spec) == "BestEffort"
    return Limits(
        cpu_millicores=_milli(limits, "cpu"),
        cpu_request_millicores=0 if best_effort else _milli(requests, "cpu"),
        memory_bytes=limits["memory"].value if "memory" in limits else 0,
        processes=PROCESSES,
        is_pod=True,
    )


def _limits(spec: PodSpec) -> dict[str, Quantity]:
    """Return the limits in a pod's spec as a whole: its own, else the sums of those that every container has."""
    whole = spec.resources.limits if spec.resources is not None else {}

    def by_limit(one: Container) -> Container:
        return replace(one, resources=replace(one.resources, requests=one.resources.limits))

    everyone = (*spec.containers, *spec.init_containers)
    declared = {
        name for name in ("cpu", "memory") if name in whole or all(name in one.resources.limits for one in everyone)
    }
    sums = effective_requests(
        replace(
            spec,
            containers=tuple(map(by_limit, spec.containers)),
            init_containers=tuple(map(by_limit, spec.init_containers)),
            resources=replace(spec.resources, requests=whole) if spec.resources is not None else None,
        )
    )
    return {name: sums[name] for name in declared if name in sums}


def _milli(amounts: Mapping[str, Quantity], name: str) -> int:
    return amounts[name].milli_value if name in amounts else 0
