"""Defaults of what makes pods: apps/v1, batch/v1, replication controllers."""

from __future__ import annotations

from typing import Any

from strato.api.defaults.others import default_claim
from strato.api.defaults.pod import default_template_spec

Json = dict[str, Any]


def _absent(obj: Json, name: str, value: object) -> None:
    """Set a member that is absent or null."""
    if obj.get(name) is None:
        obj[name] = value


def _template(spec: Json) -> None:
    template = spec.get("template")
    if template is None:
        template = spec["template"] = {}
    default_template_spec(template)


def default_deployment(obj: Json) -> None:
    """Default a Deployment."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    _absent(spec, "replicas", 1)
    _absent(spec, "strategy", {})
    strategy = spec["strategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _absent(strategy, "rollingUpdate", {})
        _absent(strategy["rollingUpdate"], "maxUnavailable", "25%")
        _absent(strategy["rollingUpdate"], "maxSurge", "25%")
    _absent(spec, "revisionHistoryLimit", 10)
    _absent(spec, "progressDeadlineSeconds", 600)


def default_replica_set(obj: Json) -> None:
    """Default a ReplicaSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    _absent(spec, "replicas", 1)


def default_replication_controller(obj: Json) -> None:
    """Default a ReplicationController: the selector and labels come from the template."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    _absent(spec, "replicas", 1)


def default_stateful_set(obj: Json) -> None:
    """Default a StatefulSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    _absent(spec, "replicas", 1)
    _absent(spec, "serviceName", "")
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    _absent(spec, "updateStrategy", {})
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _absent(strategy, "rollingUpdate", {})
        _absent(strategy["rollingUpdate"], "partition", 0)
    _absent(spec, "revisionHistoryLimit", 10)
    _absent(spec, "persistentVolumeClaimRetentionPolicy", {})
    _absent(spec["persistentVolumeClaimRetentionPolicy"], "whenDeleted", "Retain")
    _absent(spec["persistentVolumeClaimRetentionPolicy"], "whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)
        claim.setdefault("status", {"phase": "Pending"})


def default_daemon_set(obj: Json) -> None:
    """Default a DaemonSet."""
    spec = obj.setdefault("spec", {})
    _template(spec)
    _absent(spec, "updateStrategy", {})
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _absent(strategy, "rollingUpdate", {})
        _absent(strategy["rollingUpdate"], "maxUnavailable", 1)
        _absent(strategy["rollingUpdate"], "maxSurge", 0)
    _absent(spec, "revisionHistoryLimit", 10)


def default_job(obj: Json) -> None:
    """Default a Kubernetes Job."""
    _job_spec(obj.setdefault("spec", {}))


def _job_spec(spec: Json) -> None:
    _template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    _absent(spec, "parallelism", 1)
    if spec.get("backoffLimit") is None:
        # Per-index limits make the overall one unlimited.
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else 2147483647
    if not spec.get("completionMode"):
        spec["completionMode"] = "NonIndexed"
    _absent(spec, "suspend", False)
    _absent(spec, "manualSelector", False)
    failing = spec.get("podFailurePolicy")
    _absent(spec, "podReplacementPolicy", "Failed" if failing else "TerminatingOrFailed")
    for rule in (failing or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def select_own_pods(job: Json) -> None:
    """Make the selector of a new Job that has its uid, and the labels it selects by; in place.

    A Job without labels gets those of its pods. One with ``manualSelector`` knows what it does.
    """
    metadata, spec = job["metadata"], job["spec"]
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    if not spec.get("manualSelector"):
        name, uid = metadata["name"], metadata["uid"]
        for prefix in ("batch.kubernetes.io/", ""):
            labels[f"{prefix}controller-uid"], labels[f"{prefix}job-name"] = uid, name
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def default_cron_job(obj: Json) -> None:
    """Default a Kubernetes CronJob; the embedded job template only gets its pod template's defaults."""
    spec = obj.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    _absent(spec, "suspend", False)
    _absent(spec, "successfulJobsHistoryLimit", 3)
    _absent(spec, "failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if template:
        template.setdefault("metadata", {})
        job = template.get("spec")
        if job:
            _template(job)
