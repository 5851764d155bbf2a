"""Defaults of namespaces, nodes, storage, quotas, access control and the rest."""

from __future__ import annotations

import base64

from strato.api.defaults.members import fill, fill_empty
from strato.api.defaults.pod import canonical_list, canonical_resources, default_source
from strato.api.meta import Json

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


_CSI_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
    "volumeLifecycleModes": ["Persistent"],
}


def default_event(event: Json) -> None:
    """Write the members of an event that have no value as null or empty, as a server with Go's types does."""
    event.setdefault("source", {})
    for member in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(member, None)
    for member in ("reportingComponent", "reportingInstance"):
        event.setdefault(member, "")


def default_lease(lease: Json) -> None:
    """Default a Lease."""
    fill(lease, {"spec": {}})


def default_controller_revision(revision: Json) -> None:
    """Write the number of a ControllerRevision also where it is 0, as a server with Go's types does."""
    revision.setdefault("revision", 0)


def default_runtime_class(obj: Json) -> None:
    """Write the overhead of a RuntimeClass in canonical form."""
    overhead = obj.get("overhead") or {}
    if overhead.get("podFixed"):
        overhead["podFixed"] = canonical_list(overhead["podFixed"])


def default_namespace(obj: Json) -> None:
    """Default a namespace: its name as a label, and the finalizer that its controller removes when it is empty."""
    metadata = obj.setdefault("metadata", {})
    name = metadata.get("name")
    if name:
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels["kubernetes.io/metadata.name"] = name
    spec = obj.setdefault("spec", {})
    if "deletionTimestamp" not in metadata and not spec.get("finalizers"):
        spec["finalizers"] = ["kubernetes"]


def default_node(obj: Json) -> None:
    """Default a node: allocatable from capacity, quantities canonical."""
    spec = obj.setdefault("spec", {})
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = obj.get("status")
    if status is None:
        status = obj["status"] = {}
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for member in _NODE_INFO:
        info.setdefault(member, "")
    capacity = status.get("capacity")
    if capacity:
        capacity = status["capacity"] = canonical_list(capacity)
    allocatable = status.get("allocatable")
    if allocatable:
        status["allocatable"] = canonical_list(allocatable)
    elif capacity:
        status["allocatable"] = dict(capacity)


def default_config_secret(obj: Json) -> None:
    """Default a secret: its type, and ``stringData`` moved into ``data``."""
    fill_empty(obj, {"type": "Opaque"})
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.get("data")
        if data is None:
            data = obj["data"] = {}
        for key, text in plain.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_claim(obj: Json) -> None:
    """Default a PersistentVolumeClaim."""
    spec = obj.setdefault("spec", {})
    fill(spec, {"volumeMode": "Filesystem"})
    canonical_resources(spec.get("resources") or {})


def default_persistent_volume(obj: Json) -> None:
    """Default a PersistentVolume."""
    spec = obj.setdefault("spec", {})
    fill_empty(spec, {"persistentVolumeReclaimPolicy": "Retain"})
    fill(spec, {"volumeMode": "Filesystem"})
    if spec.get("capacity"):
        spec["capacity"] = canonical_list(spec["capacity"])
    if spec.get("hostPath") is not None:
        fill(spec["hostPath"], {"type": ""})
    default_source(spec)


def default_limit_range(obj: Json) -> None:
    """Default a LimitRange: containers' ``default`` from ``max``, ``defaultRequest`` from that, then from ``min``."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        for section in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if item.get(section):
                item[section] = canonical_list(item[section])
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        if default:
            item["default"] = default
        if request:
            item["defaultRequest"] = request


def default_quota(obj: Json) -> None:
    """Write a quota's quantities canonically."""
    for part in ("spec", "status"):
        body = obj.get(part)
        for section in ("hard", "used"):
            if body and body.get(section):
                body[section] = canonical_list(body[section])


def default_priority_class(obj: Json) -> None:
    """Default a PriorityClass."""
    fill_empty(obj, {"preemptionPolicy": "PreemptLowerPriority"})
    obj.setdefault("value", 0)


def default_role_binding(obj: Json) -> None:
    """Default the groups of a binding's role and subjects."""
    named = [subject for subject in obj.get("subjects") or () if subject.get("kind") in ("User", "Group")]
    role = obj["roleRef"] = obj.get("roleRef") or {}
    for one in (role, *named):
        fill_empty(one, {"apiGroup": "rbac.authorization.k8s.io"})


def default_storage_class(obj: Json) -> None:
    """Default a StorageClass."""
    fill_empty(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def default_csi_driver(obj: Json) -> None:
    """Default a CSIDriver."""
    fill(obj.setdefault("spec", {}), _CSI_DRIVER)


def default_network_policy(obj: Json) -> None:
    """Default a NetworkPolicy: policy types from the rules, TCP for ports."""
    spec = obj.setdefault("spec", {})
    fill(spec, {"podSelector": {}})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def default_ingress_class(obj: Json) -> None:
    """Default an IngressClass: its parameters are cluster-wide."""
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        fill(parameters, {"scope": "Cluster"})


def default_policy(obj: Json) -> None:
    """Default an admission policy, of either kind."""
    spec = obj.get("spec")
    if spec is not None:
        fill(spec, {"failurePolicy": "Fail"})
        _default_match(spec.get("matchConstraints"))


def default_policy_binding(obj: Json) -> None:
    """Default the binding of an admission policy."""
    _default_match((obj.get("spec") or {}).get("matchResources"))


def _default_match(resources: Json | None) -> None:
    if resources is None:
        return
    fill(resources, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
    for rule in (*(resources.get("resourceRules") or ()), *(resources.get("excludeResourceRules") or ())):
        fill(rule, {"scope": "*"})


def default_webhooks(obj: Json) -> None:
    """Default webhook configurations."""
    for hook in obj.get("webhooks") or ():
        fill(hook, {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10})
        fill(hook, {"namespaceSelector": {}, "objectSelector": {}})
        if obj.get("kind") == "MutatingWebhookConfiguration":
            fill(hook, {"reinvocationPolicy": "Never"})
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            fill(service, {"port": 443})
        for rule in hook.get("rules") or ():
            fill(rule, {"scope": "*"})
