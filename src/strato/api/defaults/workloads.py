"""Defaults of workloads: apps/v1, batch/v1, replication controllers."""

from __future__ import annotations

from strato.api.defaults.members import fill, fill_empty
from strato.api.defaults.others import default_claim
from strato.api.defaults.pod import default_template_spec
from strato.api.meta import Json


def _template(spec: Json) -> None:
    template = spec.get("template")
    if template is None:
        template = spec["template"] = {}
    default_template_spec(template)


def _rolling(strategy: Json, bounds: Json) -> None:
    fill_empty(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(strategy, {"rollingUpdate": bounds})


def default_deployment(obj: Json) -> None:
    """Default a Deployment."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    fill(spec, {"replicas": 1, "strategy": {}})
    _rolling(spec["strategy"], {"maxUnavailable": "25%", "maxSurge": "25%"})
    fill(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})


def default_replica_set(obj: Json) -> None:
    """Default a ReplicaSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    fill(spec, {"replicas": 1})


def default_replication_controller(obj: Json) -> None:
    """Default a ReplicationController: the selector and labels come from the template."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill_empty(spec, {"selector": dict(labels)})
        fill_empty(obj.setdefault("metadata", {}), {"labels": dict(labels)})
    fill(spec, {"replicas": 1})


def default_stateful_set(obj: Json) -> None:
    """Default a StatefulSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    fill(spec, {"replicas": 1, "serviceName": ""})
    fill_empty(spec, {"podManagementPolicy": "OrderedReady"})
    fill(spec, {"updateStrategy": {}})
    _rolling(spec["updateStrategy"], {"partition": 0})
    kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    fill(spec, {"revisionHistoryLimit": 10, "persistentVolumeClaimRetentionPolicy": kept})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)
        claim.setdefault("status", {"phase": "Pending"})


def default_daemon_set(obj: Json) -> None:
    """Default a DaemonSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    fill(spec, {"updateStrategy": {}})
    _rolling(spec["updateStrategy"], {"maxUnavailable": 1, "maxSurge": 0})
    fill(spec, {"revisionHistoryLimit": 10})


def default_job(obj: Json) -> None:
    """Default a Kubernetes Job: one without labels gets those of its pods."""
    spec = obj.setdefault("spec", {})
    _job_spec(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and spec.get("selector"):  # with its selector, a new one gets them from `select_own_pods`
        fill_empty(obj["metadata"], {"labels": dict(labels)})


def _job_spec(spec: Json) -> None:
    _template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    # per-index limits make the overall one unlimited
    fill(spec, {"parallelism": 1, "backoffLimit": 6 if spec.get("backoffLimitPerIndex") is None else 2147483647})
    fill_empty(spec, {"completionMode": "NonIndexed"})
    failing = spec.get("podFailurePolicy")
    replacement = "Failed" if failing else "TerminatingOrFailed"
    fill(spec, {"suspend": False, "manualSelector": False, "podReplacementPolicy": replacement})
    for rule in (failing or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill_empty(pattern, {"status": "True"})


def select_own_pods(job: Json) -> None:
    """Set the selector of a new Job and the labels of its template, from the job's uid; in place.

    A Job without labels gets those of its pods. With ``manualSelector`` the user sets selector and labels of the pods.
    """
    metadata, spec = job["metadata"], job["spec"]
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    if not spec.get("manualSelector"):
        name, uid = metadata["name"], metadata["uid"]
        for prefix in ("batch.kubernetes.io/", ""):
            labels[f"{prefix}controller-uid"], labels[f"{prefix}job-name"] = uid, name
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    fill_empty(metadata, {"labels": dict(labels)})


def default_cron_job(obj: Json) -> None:
    """Default a Kubernetes CronJob; the embedded job template only gets its pod template's defaults."""
    spec = obj.setdefault("spec", {})
    fill_empty(spec, {"concurrencyPolicy": "Allow"})
    fill(spec, {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    _template(template.setdefault("spec", {}))
