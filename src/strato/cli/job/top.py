"""``strato job top``: the requests of a job's tasks, and their usage where the cluster measures it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from strato.api import quantity
from strato.cli.job.objects import JobObjects
from strato.cli.output import fitted_table
from strato.client.cluster import Cluster, Json
from strato.errors import ApiError
from strato.units import human_bytes

HEADERS = ("Task", "Pods", "Running", "CPU(requested)", "CPU(used)", "Memory(requested)", "Memory(used)")
_ENDED = ("Succeeded", "Failed")

Usage = Mapping[str, tuple[int, int]]
"""Millicores and bytes by pod."""


async def read_usage(cluster: Cluster, namespace: str, job: str) -> Usage | None:
    """Read the usage of a job's pods from metrics.k8s.io; None if the cluster does not measure it."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        body = json.loads(await cluster.raw("GET", path, query={"labelSelector": f"volcano.sh/job-name={job}"}))
    except ApiError:
        return None
    return {item["metadata"]["name"]: _sum(item.get("containers") or (), "usage") for item in body.get("items") or ()}


def render_top(objects: JobObjects, usage: Usage | None) -> str:
    """Lay out one line per task and one for all; pods that have ended ask for nothing."""
    rows: list[tuple[object, ...]] = []
    total = [0] * 6
    for task in objects.job.get("spec", {}).get("tasks", ()):
        name = task.get("name", "")
        pods = objects.pods_of(name)
        live = [pod for pod in pods if pod.get("status", {}).get("phase") not in _ENDED]
        running = sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)
        asked = [_sum(pod["spec"]["containers"], "resources") for pod in live]
        used = [(usage or {}).get(pod["metadata"]["name"], (0, 0)) for pod in live]
        numbers = [len(pods), running, sum(a[0] for a in asked), sum(u[0] for u in used)]
        numbers += [sum(a[1] for a in asked), sum(u[1] for u in used)]
        total = [before + now for before, now in zip(total, numbers, strict=True)]
        rows.append(_row(name, numbers, measured=usage is not None))
    rows.append(_row("all", total, measured=usage is not None))
    return fitted_table(HEADERS, rows)


def _row(name: str, numbers: list[int], *, measured: bool) -> tuple[object, ...]:
    pods, running, cpu, cpu_used, memory, memory_used = numbers
    return (
        name,
        pods,
        running,
        f"{cpu / 1000:g}",
        f"{cpu_used / 1000:g}" if measured else "-",
        human_bytes(memory),
        human_bytes(memory_used) if measured else "-",
    )


def _sum(containers: object, member: str) -> tuple[int, int]:
    cpu = memory = 0
    assert isinstance(containers, list | tuple)
    for container in containers:
        amounts: Json = container.get(member) or {}
        amounts = amounts.get("requests") or {} if member == "resources" else amounts
        cpu += quantity.milli(amounts.get("cpu", "0"))
        memory += quantity.value(amounts.get("memory", "0"))
    return cpu, memory
