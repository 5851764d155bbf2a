"""The columns of workloads: deployments, sets, jobs, and of services and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strato.clock import parse_time
from strato.server.tables.columns import (
    NONE,
    UNKNOWN,
    Obj,
    TableFormat,
    age,
    condition,
    containers,
    name,
    part,
    plain,
    selector,
    since,
    table_format,
)
from strato.units import human_duration


def _int(obj: Obj, *path: str) -> int:
    return int(part(obj, *path) or 0)


def _template(obj: Obj) -> list[str]:
    return containers(part(obj, "spec", "template") or {})


def _selector(obj: Obj) -> str:
    return selector(part(obj, "spec", "selector"))


def _deployment(obj: Obj, now: float) -> list[Any]:
    ready = f"{_int(obj, 'status', 'readyReplicas')}/{_int(obj, 'spec', 'replicas')}"
    updated, available = _int(obj, "status", "updatedReplicas"), _int(obj, "status", "availableReplicas")
    return [name(obj), ready, updated, available, age(obj, now), *_template(obj), _selector(obj)]


def _replica_set(obj: Obj, now: float) -> list[Any]:
    counts = [_int(obj, "spec", "replicas"), _int(obj, "status", "replicas"), _int(obj, "status", "readyReplicas")]
    return [name(obj), *counts, age(obj, now), *_template(obj), _selector(obj)]


def _stateful_set(obj: Obj, now: float) -> list[Any]:
    ready = f"{_int(obj, 'status', 'readyReplicas')}/{_int(obj, 'spec', 'replicas')}"
    return [name(obj), ready, age(obj, now), *_template(obj)]


def _daemon_set(obj: Obj, now: float) -> list[Any]:
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [_int(obj, "status", field) for field in fields]
    nodes = selector(part(obj, "spec", "template", "spec", "nodeSelector"))
    return [name(obj), *counts, nodes, age(obj, now), *_template(obj), _selector(obj)]


def _job(obj: Obj, now: float) -> list[Any]:
    completions, parallelism = part(obj, "spec", "completions"), _int(obj, "spec", "parallelism")
    done = _int(obj, "status", "succeeded")
    if completions is not None:
        progress = f"{done}/{completions}"
    elif parallelism > 1:
        progress = f"{done}/1 of {parallelism}"
    else:
        progress = f"{done}/1"
    return [name(obj), _job_status(obj), progress, _duration(obj, now), age(obj, now), *_template(obj), _selector(obj)]


def _job_status(obj: Obj) -> str:
    for type_, text in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        found = condition(obj, type_)
        if found is not None and found.get("status") == "True":
            return text
    return "Terminating" if part(obj, "metadata", "deletionTimestamp") else "Running"


def _duration(obj: Obj, now: float) -> str:
    started, ended = part(obj, "status", "startTime"), part(obj, "status", "completionTime")
    if not started:
        return ""
    return human_duration((parse_time(ended) if ended else now) - parse_time(started))


def _cron_job(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    last = part(obj, "status", "lastScheduleTime")
    return [
        name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(part(obj, "status", "active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(part(obj, "spec", "jobTemplate", "spec", "template") or {}),
        selector(part(obj, "spec", "jobTemplate", "spec", "selector")),
    ]


def _service(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    type_ = spec.get("type") or "ClusterIP"
    addresses = spec.get("clusterIPs") or ()
    cluster_ip = addresses[0] if addresses else spec.get("clusterIP") or NONE
    return [
        name(obj),
        type_,
        cluster_ip,
        _external(obj, type_),
        _ports(spec),
        age(obj, now),
        selector(spec.get("selector")),
    ]


def _external(obj: Obj, type_: str) -> str:
    own = ",".join(part(obj, "spec", "externalIPs") or ())
    if type_ == "ExternalName":
        return str(part(obj, "spec", "externalName") or "")
    if type_ == "LoadBalancer":
        given = part(obj, "status", "loadBalancer", "ingress") or ()
        texts = [one.get("ip") or one.get("hostname") or "" for one in given]
        return ",".join([*filter(None, texts), *filter(None, [own])]) or "<pending>"
    return own or NONE


def _ports(spec: Obj) -> str:
    texts = []
    for one in spec.get("ports") or ():
        node_port = f":{one['nodePort']}" if one.get("nodePort") else ""
        texts.append(f"{one.get('port')}{node_port}/{one.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _disruption_budget(obj: Obj, now: float) -> list[Any]:
    least, most = part(obj, "spec", "minAvailable"), part(obj, "spec", "maxUnavailable")
    shown = ["N/A" if value is None else str(value) for value in (least, most)]
    return [name(obj), *shown, _int(obj, "status", "disruptionsAllowed"), age(obj, now)]


def _autoscaler(obj: Obj, now: float) -> list[Any]:
    target: Obj = part(obj, "spec", "scaleTargetRef") or {}
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(obj),
        str(part(obj, "spec", "minReplicas") or "<unset>"),
        _int(obj, "spec", "maxReplicas"),
        _int(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _targets(obj: Obj) -> str:
    """Return the current and target values of at most two metrics of an autoscaler."""
    wanted, found = part(obj, "spec", "metrics") or (), part(obj, "status", "currentMetrics") or ()
    texts = []
    for metric in wanted:
        member = next(
            (name for name in ("resource", "containerResource", "pods", "object", "external") if metric.get(name)), ""
        )
        source: Obj = metric.get(member) or {}
        title = source.get("name") or part(source, "metric", "name")
        same = (one[member] for one in found if one.get(member, {}).get("name") == source.get("name"))
        now: Obj = (next(same, None) or {}).get("current") or {}
        target: Obj = source.get("target") or {}
        percent = target.get("averageUtilization")
        if percent is not None:
            used = now.get("averageUtilization")
            texts.append(f"{title}: {UNKNOWN if used is None else f'{used}%'}/{percent}%")
        else:
            amount = target.get("averageValue") or target.get("value")
            texts.append(f"{title}: {now.get('averageValue') or UNKNOWN}/{amount}")
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more if texts else NONE


_TEMPLATE = "*Containers|*Images|*Selector"
FORMATS: Mapping[str, TableFormat] = {
    "deployments.apps": table_format(f"Name|Ready|Up-to-date|Available|Age|{_TEMPLATE}", _deployment),
    "replicasets.apps": table_format(f"Name|#Desired|#Current|#Ready|Age|{_TEMPLATE}", _replica_set),
    "replicationcontrollers": table_format(f"Name|#Desired|#Current|#Ready|Age|{_TEMPLATE}", _replica_set),
    "statefulsets.apps": table_format("Name|Ready|Age|*Containers|*Images", _stateful_set),
    "daemonsets.apps": table_format(
        f"Name|#Desired|#Current|#Ready|#Up-to-date|#Available|Node Selector|Age|{_TEMPLATE}", _daemon_set
    ),
    "jobs.batch": table_format(f"Name|Status|Completions|Duration|Age|{_TEMPLATE}", _job),
    "cronjobs.batch": table_format(f"Name|Schedule|Timezone|?Suspend|#Active|Last Schedule|Age|{_TEMPLATE}", _cron_job),
    "services": table_format("Name|Type|Cluster-IP|External-IP|Port(s)|Age|*Selector", _service),
    "poddisruptionbudgets.policy": table_format(
        "Name|Min Available|Max Unavailable|#Allowed Disruptions|Age", _disruption_budget
    ),
    "scales.autoscaling": table_format(
        "Name|#Desired|#Available|Age", plain(("spec", "replicas"), ("status", "replicas"))
    ),
    "horizontalpodautoscalers.autoscaling": table_format(
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", _autoscaler
    ),
}
"""By ``plural.group``."""
