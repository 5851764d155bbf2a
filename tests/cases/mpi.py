"""The cases of MPI jobs, whose worlds are written in a short form of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from strato.api import catalog, mpioperator
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.frameworks import BY_KIND, JobShape
from strato.api.kinds import Kind
from strato.api.kubeflow import TrainingJob
from strato.api.validation import mpijobs
from strato.clock import format_time
from strato.controllers.training import labels
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.mpi import group, hosts, ssh
from strato.controllers.training.plan import plan as generic_plan
from strato.controllers.training.record import Gang, TrainingPlan, TrainingRecord
from strato.controllers.trainingoptions import PodOptions

Json = dict[str, Any]
NOW = 1_767_225_600.0
_REASONS = {"FieldValueInvalid": "Invalid", "FieldValueRequired": "Required", "FieldValueNotSupported": "NotSupported"}
_KINDS = {"MPIJob/v1": catalog.MPIJOB_V1, "MPIJob/v2beta1": catalog.MPIJOB}


def check(table: str, case: Json) -> None:
    """Check one case."""
    kind = _KINDS[case["kind"]]
    _TABLES[table](kind, case["given"], case["expect"]["asserted"])


def _shape(kind: Kind, spec: Json, **metadata: Any) -> tuple[TrainingJob, JobShape]:
    if kind is catalog.MPIJOB:
        spec = mpioperator.with_defaults(spec)
    body = {"metadata": {"name": "job", "namespace": "default", "uid": "u", **metadata}, "spec": spec}
    job: TrainingJob = msgspec.convert(body, kind.view)  # type: ignore[assignment] # a training job's view
    return job, JobShape.of(BY_KIND[kind], job)


def _replica(given: Json | None, **more: Any) -> Json:
    given = given or {}
    container = {"name": "c", "image": "i", "resources": {"requests": given.get("requests") or {}}}
    spec = {"containers": [container], "priorityClassName": given.get("priorityClassName") or ""}
    return {"replicas": given.get("replicas", 1), "template": {"spec": spec}, **more}


def _gpu_launcher(kind: Kind, given: Json, asserted: Json) -> None:
    launcher = _replica(None)
    launcher["template"]["spec"]["containers"][0]["resources"] = {"limits": given["job"]["launcherLimits"]}
    _, shape = _shape(kind, {"mpiReplicaSpecs": {"Launcher": launcher}})
    assert hosts.runs_ranks(shape) == asserted["gpuLauncher"]


def _pod(given: Json, name: str, **marks: str) -> Pod:
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": marks,
            "creationTimestamp": format_time(NOW - given.get("createdSecondsAgo", 0)),
        },
        "status": {name: given[name] for name in ("phase", "reason", "message") if name in given},
    }
    return msgspec.convert(body, Pod)


def _pods(shape: JobShape, given: list[Json]) -> tuple[list[Pod], list[Pod]]:
    """Return the launchers and the workers."""
    found: dict[str, list[Pod]] = {"launcher": [], "worker": []}
    for one in given:
        role, index = one["role"], one.get("index", 0)
        number = len(found["launcher"]) if role == "launcher" else index
        marks = {labels.REPLICA_TYPE: role} | ({labels.REPLICA_INDEX: str(index)} if role == "worker" else {})
        found[role].append(_pod(one, f"{shape.name}-{role}-{number}", **marks))
    return found["launcher"], found["worker"]


def _counts(planned: TrainingPlan, job: TrainingJob) -> Json:
    status = planned.status or job.status
    counts: Json = msgspec.to_builtins(status.replica_statuses)
    return {role: {name: n for name, n in one.items() if name != "succeededIndexes"} for role, one in counts.items()}


def _status_v1(kind: Kind, given: Json, asserted: Json) -> None:
    workers = [one for one in given["pods"] if one["role"] == "worker"]
    roles = {"Launcher": _replica(None)} | ({"Worker": _replica({"replicas": len(workers)})} if workers else {})
    job, shape = _shape(kind, {"mpiReplicaSpecs": roles})
    launchers, others = _pods(shape, given["pods"])
    planned = generic_plan(_record(kind, job, shape, [*launchers, *others]))
    assert _counts(planned, job) == asserted["replicaStatuses"]


def _record(kind: Kind, job: TrainingJob, shape: JobShape, pods: list[Pod], **more: Any) -> TrainingRecord:
    adapter = ADAPTERS[kind]
    return TrainingRecord(
        framework=adapter.framework,
        judge=adapter.judge,
        job=job,
        shape=shape,
        pods=pods,
        terminating=frozenset(),
        services=(),
        group=None,
        gang=Gang(scheduler="volcano", priority_of=lambda name: 0) if more.pop("gang", False) else None,
        now=NOW,
        companions_of=adapter.companions_of(PodOptions()),
        **more,
    )


def _defaults(kind: Kind, given: Json, asserted: Json) -> None:
    spec: Json = {name: value for name, value in given["job"].items() if name not in ("launcher", "worker")}
    roles = {role: given["job"][role.lower()] for role in ("Launcher", "Worker") if role.lower() in given["job"]}
    made = mpioperator.with_defaults(spec | ({"mpiReplicaSpecs": roles} if roles else {}))
    for name, wanted in asserted.items():
        if name in ("launcher", "worker"):
            found = made["mpiReplicaSpecs"][name.title()]
            assert {member: found[member] for member in wanted} == wanted
        elif name == "cleanPodPolicy":
            assert made["runPolicy"][name] == wanted
        else:
            assert made[name] == wanted


def _discovery(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    pods = [_pod(one, one["name"]) for one in given.get("pods", ())]
    roles = {"Launcher": _replica(None), "Worker": _replica({"replicas": max(1, len(pods))})}
    spec = {"mpiReplicaSpecs": roles, "runLauncherAsWorker": bool(job.get("runLauncherAsWorker"))}
    _, shape = _shape(kind, spec, name=job["name"], namespace=job["namespace"])
    assert hosts.discovery_by_name(shape, pods, job.get("clusterDomain") or "") == asserted["discoverHosts"]


def _hostfile(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    roles = {"Launcher": _replica(None)}
    if job["workerReplicas"] is not None:
        roles["Worker"] = _replica({"replicas": job["workerReplicas"]})
    spec = {name: job[name] for name in ("mpiImplementation", "slotsPerWorker", "runLauncherAsWorker")}
    _, shape = _shape(kind, {**spec, "mpiReplicaSpecs": roles}, name=job["name"], namespace=job["namespace"])
    made = ssh.companions(shape, (), PodOptions(cluster_domain=job["clusterDomain"]))
    config = next(one.body for one in made if one.kind is catalog.CONFIGMAP)
    assert config["metadata"]["name"] == asserted["configMapName"]
    assert config["metadata"]["labels"] == asserted["labels"]
    assert config["data"]["hostfile"] == asserted["hostfile"]


def _group(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    roles = {role: _replica(job[role.lower()]) for role in ("Launcher", "Worker") if job.get(role.lower())}
    policy = job.get("schedulingPolicy")
    spec = {"mpiReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": policy} if policy else {}}
    read, shape = _shape(kind, spec, annotations=job.get("annotations"))
    classes = {one["metadata"]["name"]: one["value"] for one in given.get("priorityClasses", ())}
    made = msgspec.to_builtins(group.desired(shape, read, None, lambda name: classes.get(name, 0)))
    assert {name: made.get(name, "") for name in asserted["volcano"]} == asserted["volcano"]


def _least(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    policy = {"minAvailable": job["minAvailable"]} if job.get("minAvailable") is not None else {}
    roles = {"Launcher": _replica(None), "Worker": _replica({"replicas": job["workers"]})}
    read, shape = _shape(kind, {"mpiReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": policy}})
    assert group.desired(shape, read, None, lambda name: 0).min_member == asserted["minMember"]


def _priority(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    roles = {role: _replica({"priorityClassName": job.get(role.lower())}) for role in ("Launcher", "Worker")}
    policy = {"priorityClass": job.get("schedulingPolicy.priorityClass") or ""}
    read, shape = _shape(kind, {"mpiReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": policy}})
    made = group.desired(shape, read, None, lambda name: 0)
    assert made.priority_class_name == asserted["priorityClassName"]


def _status_v2(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    roles = {"Launcher": _replica(None), "Worker": _replica({"replicas": job["workers"]})}
    spec: Json = {"mpiReplicaSpecs": roles, "runPolicy": {"suspend": job.get("suspend", False)}}
    read, shape = _shape(kind, spec, name=job["name"])
    launchers, workers = _pods(shape, given.get("pods", []))
    launcher = None
    if launchers or "launcherJob" in job:
        said = job.get("launcherJob", {})
        conditions = [
            {"type": one, "status": "True", "reason": said.get("reason", ""), "message": said.get("message", "")}
            for one in said.get("conditions", ())
        ]
        counts = {name: said[name] for name in ("failed", "succeeded", "active") if name in said}
        body = {"metadata": {"name": f"{shape.name}-launcher"}, "status": {"conditions": conditions, **counts}}
        launcher = msgspec.convert(body, Job)
    planned = ADAPTERS[kind].plan(_record(kind, read, shape, workers, launcher=launcher, launcher_pods=launchers))
    status = planned.status or read.status
    named = ("type", "status", "reason", "message")
    if "conditions" in asserted:
        assert [{name: getattr(one, name) for name in named} for one in status.conditions] == asserted["conditions"]
    assert _counts(planned, read) == asserted["replicaStatuses"]
    if "startTimeSet" in asserted:
        assert (status.start_time is not None) == asserted["startTimeSet"]
    if "completionTimeSet" in asserted:
        assert (status.completion_time is not None) == asserted["completionTimeSet"]
    if "workerPods" in asserted:
        assert len(planned.create_pods) == asserted["workerPods"]
    if "created" in asserted:
        made = [f"{one.kind.name}/{one.body['metadata']['name']}" for one in planned.companions]
        if planned.launch is not None:
            suspended = " (suspend true)" if "suspended" in planned.launch.value else ""
            made.append(f"Job/{shape.name}-launcher{suspended}")
        assert made == asserted["created"]


def _validation(kind: Kind, given: Json, asserted: Json) -> None:
    job = given["job"]
    top = ("slotsPerWorker", "sshAuthMountPath", "mpiImplementation")
    limits = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "managedBy")
    spec: Json = {name: job[name] for name in top if name in job}
    spec["runPolicy"] = {name: job[name] for name in limits if name in job}
    roles = {
        role: {
            **{name: job[role.lower()][name] for name in ("replicas", "restartPolicy") if name in job[role.lower()]},
            "template": {"spec": {"containers": [{"name": "c"}] * job[role.lower()].get("containers", 0)}},
        }
        for role in ("Launcher", "Worker")
        if job.get(role.lower()) is not None
    }
    if roles:
        spec["mpiReplicaSpecs"] = roles
    causes = mpijobs.validate(job.get("name", ""), spec)
    assert [[_REASONS[cause.reason], cause.field] for cause in causes] == asserted["errors"]


_TABLES: dict[str, Callable[[Kind, Json, Json], None]] = {
    "mpi-v1-gpu-launcher": _gpu_launcher,
    "mpi-v1-status": _status_v1,
    "mpi-v2-defaults": _defaults,
    "mpi-v2-discover-hosts": _discovery,
    "mpi-v2-hostfile": _hostfile,
    "mpi-v2-min-available": _least,
    "mpi-v2-podgroup": _group,
    "mpi-v2-priority-class": _priority,
    "mpi-v2-status": _status_v2,
    "mpi-v2-validation": _validation,
}
