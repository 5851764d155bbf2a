"""The columns of nodes, namespaces, events, volumes, RBAC and the other built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strato.api.quantity import NANO, parse
from strato.server.tables.columns import (
    NONE,
    UNKNOWN,
    Obj,
    TableFormat,
    age,
    condition,
    containers,
    joined,
    name,
    pairs,
    part,
    plain,
    selector,
    since,
    table_format,
)
from strato.units import human_duration

_ROLE_PREFIX = "node-role.kubernetes.io/"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _node(obj: Obj, now: float) -> list[Any]:
    ready = condition(obj, "Ready")
    state = ready.get("status") if ready is not None else "Unknown"
    status = {"True": "Ready", "False": "NotReady"}.get(str(state), "NotReady" if ready is not None else "Unknown")
    if part(obj, "spec", "unschedulable"):
        status += ",SchedulingDisabled"
    info: Obj = part(obj, "status", "nodeInfo") or {}
    return [
        name(obj),
        status,
        _node_roles(obj),
        age(obj, now),
        info.get("kubeletVersion") or "",
        _node_address(obj, "InternalIP"),
        _node_address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_roles(obj: Obj) -> str:
    labels: Obj = part(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {labels["kubernetes.io/role"]} if labels.get("kubernetes.io/role") else set()
    return ",".join(sorted(filter(None, roles))) or NONE


def _node_address(obj: Obj, type_: str) -> str:
    found = [one.get("address") for one in part(obj, "status", "addresses") or () if one.get("type") == type_]
    return str(found[0]) if found else NONE


def _event(obj: Obj, now: float) -> list[Any]:
    series: Obj = obj.get("series") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    reference: Obj = obj.get("involvedObject") or obj.get("regarding") or {}
    target = str(reference.get("kind", "")).lower()
    if reference.get("name"):
        target += f"/{reference['name']}"
    source: Obj = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    count = series.get("count") or obj.get("count") or 1
    return [
        since(last, now),
        obj.get("type") or "",
        obj.get("reason") or "",
        target,
        reference.get("fieldPath") or "",
        ", ".join(filter(None, (component, source.get("host")))),
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        name(obj),
    ]


def _endpoints(obj: Obj, now: float) -> list[Any]:
    texts = []
    for subset in obj.get("subsets") or ():
        ports = [one.get("port") for one in subset.get("ports") or ()]
        for address in subset.get("addresses") or ():
            texts += [f"{address.get('ip')}:{port}" for port in ports] or [str(address.get("ip"))]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return [name(obj), shown or NONE, age(obj, now)]


def _endpoint_slice(obj: Obj, now: float) -> list[Any]:
    ports = [str(one.get("port") or one.get("name") or "") for one in obj.get("ports") or ()]
    addresses = [address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()]
    shown = [_shortened(ports, "<unset>"), _shortened(addresses, "<unset>")]
    return [name(obj), obj.get("addressType") or "", *shown, age(obj, now)]


def _shortened(values: list[str], empty: str) -> str:
    more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
    return ",".join(values[:3]) + more or empty


def _volume(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    claim: Obj = spec.get("claimRef") or {}
    return [
        name(obj),
        part(spec, "capacity", "storage") or "",
        _access(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        part(obj, "status", "reason") or "",
        age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        (part(obj, "status", "capacity", "storage") or "") if bound else "",
        _access(part(obj, "status", "accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _access(modes: list[str] | None) -> str:
    return ",".join(dict.fromkeys(_MODES.get(mode, mode) for mode in modes or ()))


def _phase(obj: Obj) -> str:
    if part(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(part(obj, "status", "phase") or "")


def _storage_class(obj: Obj, now: float) -> list[Any]:
    annotations: Obj = part(obj, "metadata", "annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        name(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _priority_class(obj: Obj, now: float) -> list[Any]:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def _binding(obj: Obj, now: float) -> list[Any]:
    role: Obj = obj.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in obj.get("subjects") or ():
        text = (
            f"{one.get('namespace', '')}/{one.get('name')}" if one.get("kind") == "ServiceAccount" else one.get("name")
        )
        subjects.setdefault(one.get("kind", ""), []).append(str(text))
    accounts = [", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name(obj), f"{role.get('kind')}/{role.get('name')}", age(obj, now), *accounts]


def _role(obj: Obj, now: float) -> list[Any]:
    del now  # roles show the creation time itself
    return [name(obj), part(obj, "metadata", "creationTimestamp") or UNKNOWN]


def _ingress(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    given = part(obj, "status", "loadBalancer", "ingress") or ()
    address = ",".join(one.get("ip") or one.get("hostname") or "" for one in given)
    ports = "80, 443" if spec.get("tls") else "80"
    shown = _shortened(hosts, "*")
    return [name(obj), spec.get("ingressClassName") or NONE, shown, address, ports, age(obj, now)]


def _quota(obj: Obj, now: float) -> list[Any]:
    hard: Obj = part(obj, "status", "hard") or {}
    used: Obj = part(obj, "status", "used") or {}
    texts = [(key, f"{key}: {used.get(key, '0')}/{value}") for key, value in sorted(hard.items())]
    limits = ", ".join(text for key, text in texts if key.startswith("limits."))
    return [name(obj), ", ".join(text for key, text in texts if not key.startswith("limits.")), limits, age(obj, now)]


def _webhooks(obj: Obj, now: float) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def _flow_schema(obj: Obj, now: float) -> list[Any]:
    conditions = part(obj, "status", "conditions") or ()
    dangling = next((one.get("status") for one in conditions if one.get("type") == "Dangling"), None) or "?"
    return [
        name(obj),
        part(obj, "spec", "priorityLevelConfiguration", "name") or "",
        part(obj, "spec", "matchingPrecedence") or 0,
        part(obj, "spec", "distinguisherMethod", "type") or NONE,
        age(obj, now),
        dangling,
    ]


def _priority_level(obj: Obj, now: float) -> list[Any]:
    kind = part(obj, "spec", "type")
    place = ("spec", "exempt" if kind == "Exempt" else "limited")
    queuing: Obj = part(obj, *place, "limitResponse", "queuing") or {}
    cells = [NONE if (value := queuing.get(member)) is None else str(value) for member in _QUEUING]
    return [name(obj), kind or "", str(part(obj, *place, "nominalConcurrencyShares") or 0), *cells, age(obj, now)]


_QUEUING = ("queues", "handSize", "queueLengthLimit")


def _config_map(obj: Obj, now: float) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _secret(obj: Obj, now: float) -> list[Any]:
    return [name(obj), obj.get("type") or "Opaque", len(obj.get("data") or ()), age(obj, now)]


def _definition(obj: Obj, now: float) -> list[Any]:
    del now  # shows the time itself, as in Kubernetes
    return [name(obj), part(obj, "metadata", "creationTimestamp") or UNKNOWN]


def _network_policy(obj: Obj, now: float) -> list[Any]:
    return [name(obj), selector(part(obj, "spec", "podSelector")), age(obj, now)]


def _ingress_class(obj: Obj, now: float) -> list[Any]:
    controller, parameters, text = part(obj, "spec", "controller") or "", part(obj, "spec", "parameters"), NONE
    if parameters:
        group = parameters.get("apiGroup")
        text = f"{parameters.get('kind', '')}{f'.{group}' if group else ''}/{parameters.get('name', '')}"
    return [name(obj), controller, text, age(obj, now)]


def _ip_address(obj: Obj, now: float) -> list[Any]:
    parent: Obj = part(obj, "spec", "parentRef") or {}
    group = parent.get("group")
    resource = f"{parent.get('resource', '')}{f'.{group}' if group else ''}".lower()
    shown = "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name", ""))))
    return [name(obj), shown or NONE]


def _service_cidr(obj: Obj, now: float) -> list[Any]:
    return [name(obj), ",".join(part(obj, "spec", "cidrs") or ()), age(obj, now)]


def _csi_driver(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    audiences = [request.get("audience", "") for request in spec.get("tokenRequests") or ()]
    return [
        name(obj),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        joined(audiences, "<unset>"),
        bool(spec.get("requiresRepublish")),
        joined(spec.get("volumeLifecycleModes"), "Persistent"),
        age(obj, now),
    ]


def _csi_node(obj: Obj, now: float) -> list[Any]:
    return [name(obj), len(part(obj, "spec", "drivers") or ()), age(obj, now)]


def _pod_template(obj: Obj, now: float) -> list[Any]:
    del now  # as in Kubernetes: no age
    template: Obj = obj.get("template") or {}
    return [name(obj), *containers(template), pairs(part(template, "metadata", "labels"))]


def _certificate_request(obj: Obj, now: float) -> list[Any]:
    spec: Obj = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    shown = [one.get("type") for one in part(obj, "status", "conditions") or ()]
    shown = [type_ for type_ in ("Approved", "Denied") if type_ in shown] + (["Failed"] if "Failed" in shown else [])
    shown = (shown or ["Pending"]) + (["Issued"] if part(obj, "status", "certificate") else [])
    lasts = NONE if seconds is None else human_duration(seconds)
    return [name(obj), age(obj, now), spec.get("signerName"), spec.get("username"), lasts, ",".join(map(str, shown))]


def _used(obj: Obj, now: float) -> list[Any]:
    del now
    parts = [one.get("usage") or {} for one in obj.get("containers") or (obj,)]
    cpu, memory = (sum(parse(one.get(name) or "0").nanos for one in parts) for name in ("cpu", "memory"))
    return [name(obj), f"{cpu * 1000 // NANO}m", f"{memory // NANO >> 20}Mi", obj.get("window")]


def _controller_revision(obj: Obj, now: float) -> list[Any]:
    owners = part(obj, "metadata", "ownerReferences") or ()
    controller = next((owner for owner in owners if owner.get("controller")), None)
    text = NONE
    if controller is not None:
        group = str(controller.get("apiVersion", "")).rpartition("/")[0]
        text = f"{controller.get('kind', '').lower()}{f'.{group}' if group else ''}/{controller.get('name', '')}"
    return [name(obj), text, obj.get("revision") or 0, age(obj, now)]


_ROLES = "Name|@Created At"
_BINDINGS = "Name|Role|Age|*Users|*Groups|*ServiceAccounts"
FORMATS: Mapping[str, TableFormat] = {
    "nodes": table_format(
        "Name|Status|Roles|Age|Version|*Internal-IP|*External-IP|*OS-Image|*Kernel-Version|*Container-Runtime", _node
    ),
    "namespaces": table_format("Name|Status|Age", plain(("status", "phase"))),
    "events": table_format("Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name", _event),
    "events.events.k8s.io": table_format(
        "Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name", _event
    ),
    "configmaps": table_format("Name|Data|Age", _config_map),
    "secrets": table_format("Name|Type|Data|Age", _secret),
    "serviceaccounts": table_format("Name|Age", plain()),
    "endpoints": table_format("Name|Endpoints|Age", _endpoints),
    "endpointslices.discovery.k8s.io": table_format("Name|AddressType|Ports|Endpoints|Age", _endpoint_slice),
    "persistentvolumes": table_format(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|"
        "*VolumeMode",
        _volume,
    ),
    "persistentvolumeclaims": table_format(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|*VolumeMode", _claim
    ),
    "storageclasses.storage.k8s.io": table_format(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age", _storage_class
    ),
    "csidrivers.storage.k8s.io": table_format(
        "Name|?AttachRequired|?PodInfoOnMount|?StorageCapacity|TokenRequests|?RequiresRepublish|Modes|Age", _csi_driver
    ),
    "csinodes.storage.k8s.io": table_format("Name|#Drivers|Age", _csi_node),
    "podtemplates": table_format("Name|Containers|Images|Pod Labels", _pod_template),
    "controllerrevisions.apps": table_format("Name|Controller|Revision|Age", _controller_revision),
    "certificatesigningrequests.certificates.k8s.io": table_format(
        "Name|Age|SignerName|Requestor|RequestedDuration|Condition", _certificate_request
    ),
    "nodes.metrics.k8s.io": table_format("Name|CPU|Memory|Window", _used),
    "pods.metrics.k8s.io": table_format("Name|CPU|Memory|Window", _used),
    "leases.coordination.k8s.io": table_format("Name|Holder|Age", plain(("spec", "holderIdentity"))),
    "priorityclasses.scheduling.k8s.io": table_format(
        "Name|#Value|?Global-Default|Age|PreemptionPolicy", _priority_class
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": table_format(
        "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL", _flow_schema
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": table_format(
        "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age", _priority_level
    ),
    "resourcequotas": table_format("Name|Request|Limit|Age", _quota),
    "limitranges": table_format("Name|@Created At", _role),
    "roles.rbac.authorization.k8s.io": table_format(_ROLES, _role),
    "clusterroles.rbac.authorization.k8s.io": table_format(_ROLES, _role),
    "rolebindings.rbac.authorization.k8s.io": table_format(_BINDINGS, _binding),
    "clusterrolebindings.rbac.authorization.k8s.io": table_format(_BINDINGS, _binding),
    "customresourcedefinitions.apiextensions.k8s.io": table_format("Name|@Created At", _definition),
    "ingresses.networking.k8s.io": table_format("Name|Class|Hosts|Address|Ports|Age", _ingress),
    "ingressclasses.networking.k8s.io": table_format("Name|Controller|Parameters|Age", _ingress_class),
    "ipaddresses.networking.k8s.io": table_format("Name|ParentRef", _ip_address),
    "servicecidrs.networking.k8s.io": table_format("Name|CIDRs|Age", _service_cidr),
    "networkpolicies.networking.k8s.io": table_format("Name|Pod-Selector|Age", _network_policy),
    "runtimeclasses.node.k8s.io": table_format("Name|Handler|Age", plain(("handler",))),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": table_format("Name|#Webhooks|Age", _webhooks),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": table_format("Name|#Webhooks|Age", _webhooks),
}
"""By ``plural.group``."""
