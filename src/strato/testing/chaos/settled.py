"""Conditions on a cluster that has had time to recover after the last fault: jobs ended, counters right, no orphans.

`unsettled` reads the JSON of all objects and returns the conditions that do not hold yet; the run repeats it until it
returns none or the time is up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.quantity import milli
from strato.server.api import ApiServer
from strato.testing.chaos.invariants import requests_of

Json = dict[str, Any]
_GROUP: Final = "scheduling.k8s.io/group-name"
_ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
_FINAL: Final = frozenset({"Succeeded", "Failed"})
_COUNTED: Final = ("pending", "running", "succeeded", "failed")
_OWNED: Final = (
    catalog.POD,
    catalog.PODGROUP,
    catalog.REPLICASET,
    catalog.JOB,
    catalog.SERVICE,
    catalog.CONFIGMAP,
    catalog.SECRET,
    catalog.NETWORKPOLICY,
    catalog.ENDPOINTSLICE,
)
"""Kinds whose objects controllers create for other objects."""
WORKLOADS: Final = (
    catalog.VCJOB,
    catalog.TFJOB,
    catalog.CRONJOB,
    catalog.DEPLOYMENT,
    catalog.JOB,
    catalog.POD,
)
"""Kinds of objects that users create, and delete in the end."""


class Objects:
    """All objects of a server, as readers get them."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._read: dict[Kind, list[Json]] = {}

    def of(self, kind: Kind) -> list[Json]:
        """Return the objects of a kind, in the order of their names."""
        if kind not in self._read:
            bucket = self._server.store.bucket(kind.resource)
            self._read[kind] = [msgspec.json.decode(bucket.objects[key].body) for key in bucket.keys()]  # noqa: SIM118  # a bucket is no dict
        return self._read[kind]


def unsettled(server: ApiServer) -> list[str]:
    """Return descriptions of conditions that do not hold yet."""
    objects = Objects(server)
    return [
        *_nodes(objects),
        *_jobs(objects),
        *_deployments(objects),
        *_pods(objects),
        *_groups(objects),
        *_queues(objects),
        *_quotas(objects),
        *_orphans(objects),
    ]


def left_over(server: ApiServer) -> list[str]:
    """Return the objects that are left after users have deleted all they created."""
    objects = Objects(server)
    kinds = (*WORKLOADS, catalog.PODGROUP, catalog.REPLICASET)
    found = [f"{kind.name} {_name(one)} is still there" for kind in kinds for one in objects.of(kind)]
    return [*found, *_queues(objects), *_quotas(objects), *_orphans(objects)]


def _name(body: Json) -> str:
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _status(body: Json) -> Json:
    return body.get("status") or {}


def _condition(body: Json, *types: str) -> str:
    conditions = _status(body).get("conditions") or []
    return next((one["type"] for one in conditions if one["type"] in types and one["status"] == "True"), "")


def _nodes(objects: Objects) -> Iterator[str]:
    for node in objects.of(catalog.NODE):
        if not _condition(node, "Ready"):
            yield f"node {_name(node)} is not ready"
        taints = [taint["key"] for taint in node.get("spec", {}).get("taints") or ()]
        if taints:
            yield f"node {_name(node)} has taints: {', '.join(taints)}"


def _waiting_for_ever(objects: Objects) -> set[str]:
    """Return the uids of jobs that can never start again.

    As in Volcano, a job keeps its failed pods even when it is aborted and resumed. If pods of a lost node are created
    again, so many others may have failed that the new ones are fewer than a gang; then the job waits until its user
    deletes it. A restart of a job keeps no pods.
    """
    pods = _by_owner(objects.of(catalog.POD))
    found = set()
    for job in objects.of(catalog.VCJOB):
        uid, status = job["metadata"]["uid"], _status(job)
        phases = [one["status"] for one in status.get("conditions") or ()]
        keeps_failed = "Aborting" in phases or "Restarting" not in phases
        failed = sum(_status(pod).get("phase") == "Failed" for pod in pods[uid])
        replicas = sum(task.get("replicas", 1) for task in job["spec"]["tasks"])
        is_short = replicas - failed < job["spec"].get("minAvailable", replicas)
        if phases[-1:] == ["Pending"] and keeps_failed and is_short:
            found.add(uid)
    return found


def _jobs(objects: Objects) -> Iterator[str]:
    pods, waiting = _by_owner(objects.of(catalog.POD)), _waiting_for_ever(objects)
    for job in objects.of(catalog.VCJOB):
        status = _status(job)
        phase = (status.get("state") or {}).get("phase", "")
        if phase not in _ENDED and job["metadata"]["uid"] not in waiting:
            yield f"job {_name(job)} is {phase or 'without a phase'}"
        have = Counter(_status(pod).get("phase", "Pending").lower() for pod in pods[job["metadata"]["uid"]])
        for name in ("pending", "running"):
            if status.get(name, 0) != have[name]:
                yield f"job {_name(job)} counts {status.get(name, 0)} {name} pods of {have[name]}"
    for job in objects.of(catalog.JOB):
        if not _condition(job, "Complete", "Failed"):
            yield f"batch job {_name(job)} has not ended: {_status(job)}"
        if _status(job).get("active", 0):
            yield f"batch job {_name(job)} counts {_status(job)['active']} active pods"
    for job in objects.of(catalog.TFJOB):
        if not _condition(job, "Succeeded", "Failed"):
            yield f"TFJob {_name(job)} has not ended: {_condition(job, 'Running', 'Restarting', 'Created') or 'new'}"


def _deployments(objects: Objects) -> Iterator[str]:
    pods = _by_owner(objects.of(catalog.POD))
    replica_sets = _by_owner(objects.of(catalog.REPLICASET))
    for deployment in objects.of(catalog.DEPLOYMENT):
        wanted, status = deployment["spec"].get("replicas", 1), _status(deployment)
        counts = {name: status.get(name, 0) for name in ("replicas", "readyReplicas", "availableReplicas")}
        if set(counts.values()) != {wanted}:
            yield f"deployment {_name(deployment)} wants {wanted} pods and counts {counts}"
        sets = replica_sets[deployment["metadata"]["uid"]]
        running = sum(_status(pod).get("phase") == "Running" for one in sets for pod in pods[one["metadata"]["uid"]])
        if running != wanted:
            yield f"deployment {_name(deployment)} wants {wanted} pods and has {running}"


def _pods(objects: Objects) -> Iterator[str]:
    waiting = _waiting_for_ever(objects)
    for pod in objects.of(catalog.POD):
        phase = _status(pod).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            yield f"pod {_name(pod)} is being deleted"
        elif phase == "Pending" and any(one["uid"] in waiting for one in pod["metadata"].get("ownerReferences") or ()):
            continue
        elif phase == "Pending" or (phase == "Running" and _has_end(pod)):
            yield f"pod {_name(pod)} is {phase}"


def _has_end(pod: Json) -> bool:
    return "strato.dev/run-seconds" in (pod["metadata"].get("annotations") or {})


def _groups(objects: Objects) -> Iterator[str]:
    pods: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in objects.of(catalog.POD):
        group = (pod["metadata"].get("annotations") or {}).get(_GROUP)
        if group:
            pods[pod["metadata"]["namespace"], group].append(pod)
    for group in objects.of(catalog.PODGROUP):
        metadata, status = group["metadata"], _status(group)
        members = pods[metadata["namespace"], metadata["name"]]
        have = Counter(_status(pod).get("phase", "Pending").lower() for pod in members)
        for name in ("running", "succeeded", "failed"):
            if status.get(name, 0) != have[name]:
                phase = status.get("phase")
                yield f"group {_name(group)} ({phase}) counts {status.get(name, 0)} {name} of {have[name]}"
        started = have["running"] + have["succeeded"]
        wanted = group["spec"].get("minMember", 1)
        if have["running"] and started < wanted:
            yield f"group {_name(group)} is half-started: {started} of {wanted}"


def _queues(objects: Objects) -> Iterator[str]:
    queue_of = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): group["spec"].get("queue", "default")
        for group in objects.of(catalog.PODGROUP)
    }
    used: Counter[tuple[str, str]] = Counter()
    for pod in objects.of(catalog.POD):
        metadata = pod["metadata"]
        group = (metadata.get("annotations") or {}).get(_GROUP, "")
        name = queue_of.get((metadata["namespace"], group), "default")  # pods without a group count there too
        if pod["spec"].get("nodeName") and _status(pod).get("phase") not in _FINAL:
            for resource, amount in requests_of(pod).items():
                used[name, resource] += amount
    for queue in objects.of(catalog.QUEUE):
        name, status = _name(queue), _status(queue)
        if status.get("state") != "Open":
            yield f"queue {name} is {status.get('state') or 'without a state'}"
        if name == "root":
            continue
        for resource in ("cpu", "memory"):
            counted = milli((status.get("allocated") or {}).get(resource, "0"))
            if counted != used[name, resource]:
                yield f"queue {name} counts {counted / 1000:g} {resource} of {used[name, resource] / 1000:g}"


def _quotas(objects: Objects) -> Iterator[str]:
    for quota in objects.of(catalog.RESOURCEQUOTA):
        namespace = quota["metadata"]["namespace"]
        pods = [
            pod
            for pod in objects.of(catalog.POD)
            if pod["metadata"]["namespace"] == namespace and _status(pod).get("phase") not in _FINAL
        ]
        used = (_status(quota).get("used") or {}).get("pods", "0")
        if str(used) != str(len(pods)):
            yield f"quota {_name(quota)} counts {used} pods of {len(pods)}"


def _orphans(objects: Objects) -> Iterator[str]:
    uids = {
        one["metadata"]["uid"]
        for kind in (*_OWNED, *WORKLOADS, catalog.NODE, catalog.VCCRONJOB)
        for one in objects.of(kind)
    }
    for kind in _OWNED:
        for one in objects.of(kind):
            owners = one["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in uids for owner in owners):
                yield f"{kind.name} {_name(one)} belongs to {owners[0]['kind']} {owners[0]['name']}, which is gone"


def _by_owner(bodies: list[Json]) -> Mapping[str, list[Json]]:
    found: defaultdict[str, list[Json]] = defaultdict(list)
    for body in bodies:
        for owner in body["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                found[owner["uid"]].append(body)
    return found
