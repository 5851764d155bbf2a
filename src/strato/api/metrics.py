"""Views of metrics.k8s.io/v1beta1, and the simulated use of containers on hollow nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from strato.api.cpudemand import Demand, read_quietly
from strato.api.meta import Json, Object, View
from strato.api.quantity import NANO, InvalidQuantity, parse, value
from strato.api.shapes import EMPTY
from strato.clock import parse_time

USAGE_RATIO: Final = "strato.dev/usage-ratio"
"""Pod annotation: the use of its containers on a hollow node as a multiple of their requests (a number ≥ 0)."""
WINDOW_SECONDS: Final = 15.0


class ContainerMetrics(View, frozen=True, kw_only=True):
    """The use of a container."""

    name: str = ""
    usage: Mapping[str, str] = EMPTY


class PodMetrics(Object, frozen=True, kw_only=True):
    """The use of the containers of a pod."""

    timestamp: str = ""
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()


class NodeMetrics(Object, frozen=True, kw_only=True):
    """The use of a node."""

    timestamp: str = ""
    window: str = ""
    usage: Mapping[str, str] = EMPTY


def amounts(usage: Mapping[str, str | int | float]) -> tuple[float, float] | None:
    """Return cores and bytes; None if they cannot be read, which means not measured rather than zero."""
    try:
        return parse(usage.get("cpu", "0")).nanos / NANO, float(value(usage.get("memory", "0")))
    except InvalidQuantity:
        return None


class Used(NamedTuple):
    """A measured use of CPU and memory."""

    cpu_nanocores: int = 0
    memory_bytes: int = 0
    window_seconds: float = WINDOW_SECONDS
    """Time over which the CPU use is averaged."""

    def __add__(self, other: tuple[Any, ...]) -> Used:
        """Return the sum of two uses, over the longer of the windows."""
        return Used(self[0] + other[0], self[1] + other[1], max(self[2], other[2]))

    def quantities(self) -> dict[str, str]:
        """Return the amounts as Kubernetes writes them."""
        return {"cpu": f"{self.cpu_nanocores}n", "memory": f"{self.memory_bytes >> 10}Ki"}


def running_containers(pod: Json) -> list[str]:
    """Return the names of a pod's running containers."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return [one["name"] for one in statuses if (one.get("state") or {}).get("running") is not None]


def hollow_usage(pod: Json, now: float) -> dict[str, Used]:
    """Return the use of a pod's running containers on a hollow node: their requests times `USAGE_RATIO`.

    If the pod has a CPU demand (`strato.api.cpudemand`), the CPU use is that, and at most the limit.
    """
    try:
        ratio = float((pod["metadata"].get("annotations") or {}).get(USAGE_RATIO, 1.0))
    except ValueError:
        ratio = 1.0
    ratio = ratio if math.isfinite(ratio) and ratio >= 0 else 1.0
    requests = {
        container["name"]: (container.get("resources") or {}).get("requests") or {}
        for container in pod["spec"].get("containers") or ()
    }
    demand = read_quietly(pod["metadata"].get("annotations"), pod["metadata"].get("name", ""))
    return {
        name: Used(
            int(_nanos(requests.get(name, {}).get("cpu")) * ratio)
            if demand is None
            else _wanted_nanos(demand, pod, name, now),
            int(_nanos(requests.get(name, {}).get("memory")) / NANO * ratio),
        )
        for name in running_containers(pod)
    }


def _wanted_nanos(demand: Demand, pod: Json, name: str, now: float) -> int:
    limit = next(
        (
            ((container.get("resources") or {}).get("limits") or {}).get("cpu")
            for container in pod["spec"].get("containers") or ()
            if container["name"] == name
        ),
        None,
    )
    started = next(
        (one["state"]["running"].get("startedAt") for one in pod["status"]["containerStatuses"] if one["name"] == name),
        None,
    )
    at = now if demand.follows_clock or not started else max(0.0, now - parse_time(started))
    wanted = int(demand.cores_at(at) * NANO)
    return wanted if limit is None else min(wanted, _nanos(limit))


def _nanos(amount: Any) -> int:
    try:
        return parse(amount).nanos if amount is not None else 0
    except InvalidQuantity:
        return 0
