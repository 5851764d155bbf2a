"""How objects count in ResourceQuotas: which pods a quota's scopes include, and what each object uses.

Pure; the server uses it before it stores an object, the quota controller when it counts. Source: v1 ResourceQuota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from strato.api import catalog
from strato.api.core import Pod
from strato.api.core.config import ResourceQuotaSpec, ScopeRequirement
from strato.api.kinds import Kind
from strato.api.pods import effective_spec, qos_class
from strato.api.quantity import NANO, Quantity, parse
from strato.api.usage import Usage, add, pod_usage

_PLAIN_COUNTS: Final = {
    "configmaps": catalog.CONFIGMAP,
    "persistentvolumeclaims": catalog.PERSISTENTVOLUMECLAIM,
    "replicationcontrollers": catalog.REPLICATIONCONTROLLER,
    "resourcequotas": catalog.RESOURCEQUOTA,
    "secrets": catalog.SECRET,
    "services": catalog.SERVICE,
}
_BY_RESOURCE: Final = {kind.resource: kind for kind in (*catalog.BUILTIN, *catalog.CUSTOM) if kind.namespaced}
_NAMES: Final = {kind: name for name, kind in _PLAIN_COUNTS.items()}
_ONE: Final = Quantity(NANO)
_OF_CONTAINERS: Final = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
"""Resources that every container has to specify if a quota limits them."""
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"


def counts_pod(spec: ResourceQuotaSpec, pod: Pod) -> bool:
    """Return whether a quota's scopes include a pod; False for pods that have ended."""
    if pod.is_finished:
        return False
    wanted = [ScopeRequirement(scope_name=name, operator="Exists") for name in spec.scopes]
    wanted += spec.scope_selector.match_expressions if spec.scope_selector is not None else ()
    return all(_in_scope(requirement, pod) for requirement in wanted)


def _in_scope(requirement: ScopeRequirement, pod: Pod) -> bool:
    name = requirement.scope_name
    if name in ("Terminating", "NotTerminating"):
        return (pod.spec.active_deadline_seconds is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (qos_class(pod.spec) == "BestEffort") == (name == "BestEffort")
    if name == "PriorityClass":
        value = pod.spec.priority_class_name
        holds = {
            "In": value in requirement.values,
            "NotIn": value not in requirement.values,
            "Exists": bool(value),
            "DoesNotExist": not value,
        }
        return holds.get(requirement.operator, False)
    return False


def pods_usage(spec: ResourceQuotaSpec, pods: Iterable[Pod]) -> Usage:
    """Return the total use of the pods that a quota includes."""
    total: Usage = {}
    for pod in pods:
        if counts_pod(spec, pod):
            add(total, pod_usage(effective_spec(pod)))
    return total


def counted_kind(name: str) -> Kind | None:
    """Return the kind that a quota's key counts (``services``, ``count/jobs.batch``); None for keys about pods."""
    if name.startswith("count/"):
        kind = _BY_RESOURCE.get(name.removeprefix("count/"))
        return None if kind is catalog.POD else kind
    if name == "requests.storage" or _OF_CLASS in name:
        return catalog.PERSISTENTVOLUMECLAIM
    return _PLAIN_COUNTS.get(name, catalog.SERVICE if name.startswith("services.") else None)


def counts_ones(name: str) -> bool:
    """Whether a key of `counted_kind` counts each object as one, so that the number of objects suffices."""
    return name.startswith("count/") or name in _PLAIN_COUNTS


def object_usage(kind: Kind, obj: Mapping[str, Any]) -> Usage:
    """Return the use of an object other than a pod."""
    usage: Usage = {f"count/{kind.resource}": _ONE}
    if kind in _NAMES:
        usage[_NAMES[kind]] = _ONE
    spec = obj.get("spec") or {}
    if kind is catalog.PERSISTENTVOLUMECLAIM:
        storage = parse(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
        usage["requests.storage"] = storage
        if spec.get("storageClassName"):
            usage[f"{spec['storageClassName']}{_OF_CLASS}requests.storage"] = storage
            usage[f"{spec['storageClassName']}{_OF_CLASS}persistentvolumeclaims"] = _ONE
    elif kind is catalog.SERVICE and spec.get("type") in ("LoadBalancer", "NodePort"):
        usage["services.nodeports"] = _ONE * len(spec.get("ports") or ())
        if spec["type"] == "LoadBalancer":
            usage["services.loadbalancers"] = _ONE
    return usage


def unnamed_resources(spec: ResourceQuotaSpec, pod: Pod) -> str:
    """Return Kubernetes' message about resources that a pod's containers must specify because of the quota, or ""."""
    missing = []
    for name in _OF_CONTAINERS:
        if name not in spec.hard:
            continue
        section, _, resource = name.rpartition(".")
        nameless = [
            container.name
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            if resource not in container.resources.limits
            and (section == "limits" or resource not in container.resources.requests)
        ]
        if nameless:
            missing.append(f"{name} for: {','.join(nameless)}")
    return f"must specify {'; '.join(missing)}" if missing else ""
