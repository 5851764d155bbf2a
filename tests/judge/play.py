"""Lets the same things happen to the jobs of one side, and takes down what the side makes of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from strato.api import catalog
from strato.api.kinds import Kind
from strato.client import kubeconfig
from strato.client.cluster import Binding, Cluster
from strato.client.http import HttpCluster
from strato.clock import SystemClock, format_time, parse_time
from strato.errors import ApiError, NotFound
from tests.judge.cases import NAME, Case, Step
from tests.judge.sides import Side

Json = dict[str, Any]
SEEN: Final[tuple[Kind, ...]] = (
    catalog.POD,
    catalog.SERVICE,
    catalog.PODGROUP,
    catalog.CONFIGMAP,
    catalog.SECRET,
    catalog.JOB,
    catalog.ROLE,
    catalog.ROLEBINDING,
    catalog.SERVICEACCOUNT,
    catalog.HORIZONTALPODAUTOSCALER,
    catalog.EVENT,
)
"""Kinds that are compared, beside the job itself."""
_NOT_OURS: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_NODE: Final = "node"
_TERMINATING_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 2.5
_LONGEST_SECONDS: Final = 60.0

Snapshot = dict[str, Json]
"""Objects by kind and name."""
Record = dict[str, list[Snapshot]]
"""By case, one snapshot after each step; the first is of the job when it has just been made."""


def record(side: Side, cases: Sequence[Case]) -> Record:
    """Run all cases side by side, each in a namespace of its own, and return what was seen."""
    return asyncio.run(_record(side, cases))


async def _record(side: Side, cases: Sequence[Case]) -> Record:
    cluster = HttpCluster(kubeconfig.load([side.kubeconfig]), SystemClock())
    try:
        for name, value in (("high", 1000),):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await cluster.create(catalog.PRIORITYCLASS, {**body, "value": value})
        await cluster.create(catalog.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
        for case in cases:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.id}}
            await cluster.create(catalog.NAMESPACE, body)
            await cluster.create(case.kind, case.job, case.id)
        seen: Record = {case.id: [] for case in cases}
        for number in range(1 + max(len(case.steps) for case in cases)):
            now = [case for case in cases if len(case.steps) >= number]
            waits = 0.0
            for case in now if number else ():
                step = case.steps[number - 1]
                await _take(cluster, case, step)
                waits = max(waits, step.after_seconds)
            await asyncio.sleep(waits)
            await _settle(cluster, now)
            for case in now:
                seen[case.id].append(await snapshot(cluster, case))
        return seen
    finally:
        await cluster.close()


async def _take(cluster: Cluster, case: Case, step: Step) -> None:
    if step.patch is not None:
        await cluster.patch(case.kind, NAME, case.id, {"spec": step.patch})
    for beginning, what in step.pods.items():
        page = await cluster.list(catalog.POD, case.id)
        for pod in page.items:
            name = pod["metadata"]["name"]
            going = "deletionTimestamp" in pod["metadata"]
            over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if name.startswith(f"{NAME}-{beginning}") and not going and not over:
                await become(cluster, pod, what)


async def become(cluster: Cluster, pod: Json, what: str) -> None:
    """Write what a kubelet would write of a pod."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if what == "gone":
        await cluster.delete(catalog.POD, name, namespace)
        return
    if not pod["spec"].get("nodeName"):
        await cluster.bind_all([Binding(namespace, name, _NODE)])
    word, _, number = what.partition(":")
    now = format_time(SystemClock().now())
    ran: Json = {"running": {"startedAt": now}}
    status: Json = {"phase": word, "startTime": now}
    if word == "restarts":
        status["phase"] = "Running"
    elif word == "Evicted":
        status |= {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}
    elif word in ("Succeeded", "Failed"):
        ended = {"exitCode": int(number or 0), "finishedAt": now, "startedAt": now, "reason": "Ended"}
        ran = {"terminated": ended}
    ready = status["phase"] == "Running"
    status["conditions"] = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
    if word != "Evicted":
        status["containerStatuses"] = [
            {
                "name": one["name"],
                "image": "none",
                "imageID": "",
                "ready": ready,
                "restartCount": int(number) if word == "restarts" and at == 0 else 0,
                "state": ran,
            }
            for at, one in enumerate(pod["spec"]["containers"])
        ]
    await cluster.patch(catalog.POD, name, namespace, {"status": status}, subresource="status")


async def _settle(cluster: Cluster, cases: Iterable[Case]) -> None:
    """Wait until nothing has been written for a while; let in every group of pods that waits, as a scheduler would."""
    clock, names = SystemClock(), {case.id for case in cases}
    kinds = dict.fromkeys(case.kind for case in cases)
    before: Any = None
    began = since = clock.monotonic()
    while (now := clock.monotonic()) < since + _QUIET_SECONDS:
        if now > began + _LONGEST_SECONDS:
            return  # somebody writes for ever; what is there is compared
        await asyncio.sleep(0.3)
        await _let_in(cluster, names)
        await _take_away(cluster, names)
        versions = set()
        for kind in (*SEEN[:-1], *kinds):
            page = await cluster.list(kind)
            for one in page.items:
                if one["metadata"].get("namespace") in names:
                    meta = one["metadata"]
                    versions.add((kind, meta["uid"], meta["resourceVersion"]))
        if versions != before:
            before, since = versions, clock.monotonic()


async def _let_in(cluster: Cluster, names: set[str]) -> None:
    page = await cluster.list(catalog.PODGROUP)
    for group in page.items:
        meta = group["metadata"]
        if meta["namespace"] in names and (group.get("status") or {}).get("phase") in (None, "", "Pending"):
            with contextlib.suppress(NotFound):  # its job may have ended meanwhile
                body = {"status": {"phase": "Inqueue"}}
                await cluster.patch(catalog.PODGROUP, meta["name"], meta["namespace"], body)


async def _take_away(cluster: Cluster, names: set[str]) -> None:
    """Remove pods that have been terminating for a while, as a kubelet does when their containers have ended."""
    now = SystemClock().now()
    page = await cluster.list(catalog.POD)
    for pod in page.items:
        meta = pod["metadata"]
        if meta["namespace"] in names and "deletionTimestamp" in meta:
            began = parse_time(meta["deletionTimestamp"]) - meta.get("deletionGracePeriodSeconds", 0)
            if now - began > _TERMINATING_SECONDS:
                with contextlib.suppress(NotFound):
                    await cluster.delete(catalog.POD, meta["name"], meta["namespace"], grace_period_seconds=0)


async def snapshot(cluster: Cluster, case: Case) -> Snapshot:
    """Return all that is in a case's namespace."""
    found: Snapshot = {}
    for kind in (*SEEN, case.kind):
        try:
            page = await cluster.list(kind, case.id)
        except ApiError as error:
            found[f"{kind.name}/?"] = {"error": str(error)}
            continue
        for one in page.items:
            name = one["metadata"]["name"]
            if (kind.name, name) not in _NOT_OURS:
                found[f"{kind.name}/{name}"] = one
    return found
