"""The training operator's pure rules, asked of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import Pod, Service
from strato.api.frameworks import BY_KIND, JobShape, is_ours
from strato.api.kubeflow import TFJob, TrainingCondition
from strato.api.validation import trainingjobs
from strato.clock import format_time
from strato.controllers.training import gang, labels, limits, replicas
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.conditions import Conditions
from strato.controllers.training.plan import plan
from strato.controllers.training.record import TrainingRecord

Json = dict[str, Any]
NOW = 1_767_225_600.0
TENSORFLOW = BY_KIND[catalog.TFJOB]
PYTORCH = BY_KIND[catalog.PYTORCHJOB]
_REASONS = {
    "FieldValueInvalid": "Invalid",
    "FieldValueRequired": "Required",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotSupported": "NotSupported",
}


def _job(*, workers: int = 1, policy: str = "Never", status: Json | None = None, **run_policy: Any) -> TFJob:
    worker = {"replicas": workers, "restartPolicy": policy}
    body = {
        "metadata": {"name": "job", "namespace": "default", "uid": "u"},
        "spec": {"runPolicy": run_policy, "tfReplicaSpecs": {"Worker": worker}},
        "status": status or {},
    }
    return msgspec.convert(body, TFJob)


def _pod(given: Json, index: int) -> Pod:
    container = {"name": "tensorflow", "restartCount": given.get("restartCount", 0)}
    body = {
        "metadata": {
            "name": given.get("name", f"job-worker-{index}"),
            "uid": f"u-{index}",
            "labels": {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: str(index)},
            **({"deletionTimestamp": format_time(NOW)} if given.get("terminating") else {}),
        },
        "status": {"phase": given["phase"], "containerStatuses": [container]},
    }
    return msgspec.convert(body, Pod)


def _record(job: TFJob, pods: list[Pod], services: list[Service] | None = None) -> TrainingRecord:
    return TrainingRecord(
        framework=TENSORFLOW,
        judge=ADAPTERS[TENSORFLOW.kind].judge,
        job=job,
        shape=JobShape.of(TENSORFLOW, job),
        pods=pods,
        terminating=frozenset(),
        services=services or [],
        group=None,
        gang=None,
        now=NOW,
    )


def _clean_up(case: Json) -> None:
    """What goes when a job is in some state. One without a condition is taken as suspended: it is not finished."""
    given, asserted = case["given"], case["expect"]["asserted"]
    state = given["job"].get("conditionTrue")
    status: Json = {}
    if state in ("Succeeded", "Failed"):
        status = {"conditions": [{"type": state, "status": "True"}], "completionTime": format_time(NOW)}
    job = _job(
        workers=len(given["pods"]),
        cleanPodPolicy=given["job"]["cleanPodPolicy"],
        suspend=not status,
        status=status,
    )
    pods = [_pod(one, index) for index, one in enumerate(given["pods"])]
    services = [msgspec.convert({"metadata": {"name": name}}, Service) for name in given.get("services", [])]
    planned = plan(_record(job, pods, services))
    gone = {one.metadata.name for one in planned.delete_pods}
    left = [one.metadata.name for one in pods if one.metadata.name not in gone]
    if "podsPreserved" in asserted:
        assert (not gone) == asserted["podsPreserved"]
        return
    assert left == asserted["podsRemaining"]
    gone = {one.metadata.name for one in planned.delete_services}
    assert [name for name in given["services"] if name not in gone] == asserted["servicesRemaining"]


def _backoff(case: Json) -> None:
    job = _job(
        workers=len(case["given"]["pods"]),
        policy=case["given"]["job"]["restartPolicy"],
        backoffLimit=case["given"]["job"]["backoffLimit"],
    )
    pods = [_pod(one, index) for index, one in enumerate(case["given"]["pods"])]
    shape = JobShape.of(TENSORFLOW, job)
    assert limits.is_past_backoff(shape, pods, job.status) == case["expect"]["asserted"]["pastBackoffLimit"]


def _deadline(case: Json) -> None:
    given = case["given"]["job"]
    started = given["startedSecondsAgo"]
    job = _job(
        activeDeadlineSeconds=given["activeDeadlineSeconds"],
        status={"startTime": format_time(NOW - started)} if started is not None else {},
    )
    left = limits.seconds_to_deadline(job, NOW)
    assert (left is not None and left <= 0) == case["expect"]["asserted"]["pastDeadline"]


def _managed_by(case: Json) -> None:
    assert is_ours(case["given"]["job"]["managedBy"]) == case["expect"]["asserted"]["reconciledByUs"]


def _name(case: Json) -> None:
    given = case["given"]["job"]
    made = TENSORFLOW.object_name(given["jobName"], given["replicaType"], given["index"])
    assert made == case["expect"]["asserted"]["name"]


def _counts(case: Json) -> None:
    given = case["given"]["job"]
    pods = [{"phase": phase.title()} for phase in ("failed", "succeeded") for _ in range(given[phase])]
    pods += [{"phase": "Running"} for _ in range(given["active"])]
    pods += [{"phase": "Running", "terminating": True} for _ in range(given.get("runningTerminating", 0))]
    slots = {index: [_pod(one, index)] for index, one in enumerate(pods)}
    counted = replicas.counted(slots, ())
    made = {"failed": counted.failed, "succeeded": counted.succeeded, "active": counted.active}
    assert made == case["expect"]["asserted"]


def _schedulers(case: Json) -> None:
    given = case["given"]["job"]
    named = given["schedulerNames"].items()
    roles = {name: {"template": {"spec": {"schedulerName": scheduler}}} for name, scheduler in named}
    job = msgspec.convert({"metadata": {"name": "job"}, "spec": {"tfReplicaSpecs": roles}}, TFJob)
    warned = gang.names_other_scheduler(JobShape.of(TENSORFLOW, job), given["gangScheduler"])
    assert warned == case["expect"]["asserted"]["warn"]


def _slots(case: Json) -> None:
    given = case["given"]["job"]
    job = _job(workers=given["replicas"])
    pods = [_pod({"phase": "Running"}, int(index)) for index in given["replicaIndexLabels"]]
    slots = replicas.slots_of(pods, JobShape.of(TENSORFLOW, job), "Worker")
    assert max(*slots, given["replicas"] - 1) + 1 == case["expect"]["asserted"]["slots"]


def _conditions(case: Json) -> None:
    given = case["given"]["job"]
    conditions = Conditions((), format_time(NOW))
    for earlier in given["after"]:
        conditions.set(earlier, "True", f"Job {earlier}", "")
    conditions.set(given["set"], given["status"], given["reason"], "")
    made = [f"{one.type}:{one.status}" for one in conditions.to_tuple()]
    assert made == case["expect"]["asserted"]["conditions"]


def _exit_codes(case: Json) -> None:
    assert replicas.is_retryable(case["given"]["job"]["exitCode"]) == case["expect"]["asserted"]["retryable"]


def _ttl(case: Json) -> None:
    given, asserted = case["given"]["job"], case["expect"]["asserted"]
    ago = given["completedSecondsAgo"]
    job = _job(ttlSecondsAfterFinished=given["ttlSecondsAfterFinished"])
    status = msgspec.structs.replace(
        job.status,
        conditions=(TrainingCondition(type=given["conditionTrue"], status="True"),),
        completion_time=format_time(NOW - ago) if ago is not None else None,
    )
    try:
        left = limits.seconds_to_removal(job, status, NOW)
    except limits.MissingCompletionTime:
        assert asserted["error"]
        return
    assert not asserted["error"]
    if asserted["requeueAfter"] == "positive":
        assert left is not None
        assert left > 0
    else:
        assert (-1 if left is None else left) == asserted["requeueAfter"]


_RULES: dict[str, Callable[[Json], None]] = {
    "common-backoff-clean": _clean_up,
    "common-backoff": _backoff,
    "common-deadline": _deadline,
    "common-delete": _clean_up,
    "common-managed-by": _managed_by,
    "common-name": _name,
    "common-replica-status": _counts,
    "common-scheduler": _schedulers,
    "common-slices": _slots,
    "conditions": _conditions,
    "exit-codes": _exit_codes,
    "ttl-requeue": _ttl,
}


def check_rule(table: str, case: Json) -> None:
    """Check a case of a pure rule."""
    _RULES[table](case)


def check_defaults(case: Json) -> None:
    """Check the defaults of an elastic PyTorchJob."""
    given, asserted = case["given"]["job"], case["expect"]["asserted"]
    spec: Json = {"pytorchReplicaSpecs": {"Worker": {"replicas": given.get("workerReplicas", 1)}}}
    spec |= {name: given[name] for name in ("elasticPolicy", "nprocPerNode") if given.get(name) is not None}
    job = msgspec.convert({"metadata": {"name": "job"}, "spec": spec}, PYTORCH.kind.view)
    shape = JobShape.of(PYTORCH, job)  # type: ignore[arg-type] # a training job's view
    if "nprocPerNode" in asserted:
        assert (shape.nproc_per_node or None) == asserted["nprocPerNode"]
    if "minReplicas" in asserted:
        assert shape.bounds == (asserted["minReplicas"], asserted["maxReplicas"])


def check_admission(case: Json) -> None:
    """Check which fields of a job are refused, and how."""
    framework = next(one for one in BY_KIND.values() if one.kind.name == case["kind"].split("/")[0])
    given = case["given"]["job"]
    old = None
    if "oldManagedBy" in given:
        old = {"spec": {"runPolicy": {"managedBy": given["oldManagedBy"]}}}
    causes = trainingjobs.validate(framework, _written(framework.replica_map, framework.container, given), old)
    made = [[_REASONS[cause.reason], cause.field] for cause in causes]
    assert made == case["expect"]["asserted"]["errors"]


def _written(replica_map: str, container: str, given: Json) -> Json:
    def template(one: Json) -> Json:
        named = [{**c, "name": container if c.get("name") == "DEFAULT" else c.get("name")} for c in one["containers"]]
        return {"spec": {"containers": named}}

    replicas = given.get("replicas")
    spec: Json = {name: given[name] for name in ("elasticPolicy", "nprocPerNode") if name in given}
    if replicas is not None:
        spec[replica_map] = {
            role: {
                **({"replicas": one["replicas"]} if one.get("replicas") is not None else {}),
                "template": template(one),
            }
            for role, one in replicas.items()
        }
    if given.get("managedBy") is not None:
        spec["runPolicy"] = {"managedBy": given["managedBy"]}
    return {"metadata": {"name": given["name"]}, "spec": spec}
