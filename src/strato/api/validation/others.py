"""Rules of services, configuration, storage, leases, access control and priorities."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import chain
from typing import Any

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import InvalidQuantity, parse
from strato.api.status import (
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_one_of,
    not_supported,
    required,
    too_long,
)
from strato.api.validation.addresses import external_address_problems, read_range
from strato.api.validation.metadata import immutable, validate_labels
from strato.api.validation.persistentvolumes import ACCESS_MODES
from strato.api.validation.selectors import label_selector_problems
from strato.errors import Cause

CONFIG_MAX_BYTES = 1024 * 1024
_FIXED_ONCE = {"podCIDR": "spec.podCIDRs", "providerID": "spec.providerID"}
"""Member of a node's spec that can be set once → the field that the cause names."""
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def validate_node(obj: Json) -> list[Cause]:
    """Check taints and amounts of a node."""
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        place = f"metadata.taints[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        causes += [invalid_value(f"{place}.key", key, text) for text in names.check_qualified_name(key)]
        value = taint.get("value") or ""
        causes += [invalid_value(f"{place}.value", value, text) for text in names.check_label_value(value)]
        if effect not in _TAINT_EFFECTS:
            causes.append(not_one_of(f"{place}.effect", effect, _TAINT_EFFECTS))
        if (key, effect) in seen:
            causes.append(duplicate(place, taint))
        seen.add((key, effect))
    for section in ("capacity", "allocatable"):
        for name, amount in ((obj.get("status") or {}).get(section) or {}).items():
            _check_amount(amount, f"status.{section}.{name}", causes)
    return causes


def validate_node_update(obj: Json, old: Json) -> list[Cause]:
    """Check a node; its pod network and provider may be set once."""
    causes = validate_node(obj)
    new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    for member in _FIXED_ONCE:
        if old_spec.get(member) and new_spec.get(member) != old_spec[member]:
            causes.append(
                forbidden_field(
                    _FIXED_ONCE[member], "node updates may not change " + member + ' except from "" to valid'
                )
            )
    return causes


def _check_amount(amount: Any, field: str, causes: list[Cause]) -> None:
    try:
        if parse(amount).nanos < 0:
            causes.append(invalid_value(field, amount, "must be greater than or equal to 0"))
    except InvalidQuantity as err:
        causes.append(invalid_value(field, amount, str(err)))


_RANGES = "LoadBalancerSourceRanges"
"""Written in this way in messages."""


def validate_service(obj: Json, old_spec: Json | None = None) -> list[Cause]:
    """Check type, ports, addresses and selector of a service; what its old spec has, too, is not new."""
    spec, old_spec = obj.get("spec") or {}, old_spec or {}
    kept_addresses, kept_ranges = old_spec.get("externalIPs") or (), old_spec.get("loadBalancerSourceRanges") or ()
    causes: list[Cause] = []
    kind = spec.get("type") or ""
    ports = spec.get("ports") or ()
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        causes.append(required("spec.externalName"))
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        place = f"spec.ports[{index}]"
        name, number, protocol = port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""
        if not name and len(ports) > 1:
            causes.append(required(f"{place}.name"))
        elif name:
            causes += [invalid_value(f"{place}.name", name, text) for text in names.check_label(name)]
            if name in seen_names:
                causes.append(duplicate(f"{place}.name", name))
            seen_names.add(name)
        causes += [invalid_value(f"{place}.port", number, text) for text in names.check_port_number(number)]
        if protocol not in ("TCP", "UDP", "SCTP"):
            causes.append(not_supported(f"{place}.protocol", protocol, ("SCTP", "TCP", "UDP")))
        target = port.get("targetPort")
        if isinstance(target, int):
            causes += [invalid_value(f"{place}.targetPort", target, text) for text in names.check_port_number(target)]
        elif isinstance(target, str):
            causes += [invalid_value(f"{place}.targetPort", target, text) for text in names.check_port_name(target)]
        if (protocol, number) in seen_ports:
            causes.append(duplicate(place, {"port": number, "protocol": protocol}))
        seen_ports.add((protocol, number))
    if spec.get("selector"):
        validate_labels(spec["selector"], "spec.selector", causes)
    for index, text in enumerate(spec.get("externalIPs") or ()):
        if text not in kept_addresses:
            causes += external_address_problems(text, f"spec.externalIPs[{index}]")
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if ranges and kind != "LoadBalancer":
        causes.append(forbidden_field(f"spec.{_RANGES}", "may only be used when `type` is 'LoadBalancer'"))
    for index, text in enumerate(ranges):
        _, problem = read_range(text.strip())
        if problem and text not in kept_ranges:
            causes.append(invalid_value(f"spec.{_RANGES}[{index}]", text.strip(), problem))
    if kind not in _SERVICE_TYPES:
        causes.append(not_supported("spec.type", kind, _SERVICE_TYPES))
    if spec.get("sessionAffinity") not in ("None", "ClientIP"):
        causes.append(not_supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None")))
    address = spec.get("clusterIP")
    if address and not headless:
        causes += [invalid_value("spec.clusterIPs[0]", address, text) for text in names.check_ip(address)]
    return causes


def validate_service_update(obj: Json, old: Json) -> list[Cause]:
    """Check a service; its address may not change while it has one."""
    new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    causes = validate_service(obj, old_spec)
    kept = old_spec.get("clusterIP")
    if (
        kept
        and "ExternalName" not in (old_spec.get("type"), new_spec.get("type"))
        and new_spec.get("clusterIP") != kept
    ):
        given = [new_spec["clusterIP"]] if new_spec.get("clusterIP") else None
        causes.append(invalid_value("spec.clusterIPs[0]", given, "may not change once set"))
    return causes


def validate_config_map(obj: Json) -> list[Cause]:
    """Check keys and size of a ConfigMap."""
    causes: list[Cause] = []
    size = 0
    plain, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key, value in plain.items():
        causes += [invalid_value(f"data[{key}]", key, text) for text in names.check_config_key(key)]
        if key in binary:
            causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value.encode())
    for key, value in binary.items():
        causes += [invalid_value(f"binaryData[{key}]", key, text) for text in names.check_config_key(key)]
        size += _size_of(value, f"binaryData[{key}]", causes)
    if size > CONFIG_MAX_BYTES:
        causes.append(too_long("", CONFIG_MAX_BYTES))
    return causes


def validate_config_map_update(obj: Json, old: Json) -> list[Cause]:
    """Check a ConfigMap; an immutable one stays."""
    causes = validate_config_map(obj)
    if old.get("immutable"):
        if not obj.get("immutable"):
            causes.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        causes += [
            forbidden_field(member, "field is immutable when `immutable` is set")
            for member in ("data", "binaryData")
            if (obj.get(member) or {}) != (old.get(member) or {})
        ]
    return causes


def validate_secret(obj: Json) -> list[Cause]:
    """Check keys, values and size of a secret."""
    causes: list[Cause] = []
    size = 0
    for key, value in (obj.get("data") or {}).items():
        causes += [invalid_value(f"data[{key}]", key, text) for text in names.check_config_key(key)]
        size += _size_of(value, f"data[{key}]", causes)
    if size > CONFIG_MAX_BYTES:
        causes.append(too_long("data", CONFIG_MAX_BYTES))
    return causes


def _size_of(value: str | None, field: str, causes: list[Cause]) -> int:
    """Return how many bytes base64 data is."""
    try:
        return len(base64.b64decode(value or "", validate=True))
    except (binascii.Error, ValueError):
        causes.append(invalid_value(field, "<redacted>", "illegal base64 data"))
        return 0


def validate_secret_update(obj: Json, old: Json) -> list[Cause]:
    """Check a secret; its type may not change, and nothing of an immutable one."""
    causes = validate_secret(obj)
    if obj.get("type") != old.get("type"):
        causes.append(immutable("type", obj.get("type")))
    if old.get("immutable") and (not obj.get("immutable") or (obj.get("data") or {}) != (old.get("data") or {})):
        causes.append(forbidden_field("data", "field is immutable when `immutable` is set"))
    return causes


def validate_claim(obj: Json) -> list[Cause]:
    """Check access modes and size of a claim."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    modes = spec.get("accessModes") or ()
    if not modes:
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    causes += [not_supported("spec.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        causes.append(required("spec.resources[storage]"))
    else:
        try:
            if parse(amount).nanos <= 0:
                causes.append(invalid_value("spec.resources[storage]", amount, "must be greater than zero"))
        except InvalidQuantity as err:
            causes.append(invalid_value("spec.resources[storage]", amount, str(err)))
    if name := spec.get("storageClassName"):
        causes += invalid_values("spec.storageClassName", name, names.check_subdomain(name))
    return causes


def validate_claim_update(obj: Json, old: Json) -> list[Cause]:
    """Check a claim; only a bound one may ask for another size, not for less than it has."""
    causes = validate_claim(obj)
    new_spec, old_spec, status = (part or {} for part in (obj.get("spec"), old.get("spec"), old.get("status")))
    free = {"volumeAttributesClassName"} if old_spec.get("volumeName") else {"volumeAttributesClassName", "volumeName"}
    if old_spec.get("storageClassName") is None:
        free.add("storageClassName")  # a claim without a class may get one later
    is_bound = status.get("phase") == "Bound"
    if _fixed_of_claim(new_spec, free, is_bound) != _fixed_of_claim(old_spec, free, is_bound):
        causes.append(
            forbidden_field(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                "claims",
            )
        )
    size = _storage((new_spec.get("resources") or {}).get("requests"))
    if size < _storage((old_spec.get("resources") or {}).get("requests")) and size <= _storage(status.get("capacity")):
        causes.append(forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity"))
    if new_spec.get("volumeMode") != old_spec.get("volumeMode"):
        causes.append(immutable("volumeMode", new_spec.get("volumeMode")))
    return causes


def _fixed_of_claim(spec: Json, free: set[str], is_bound: bool) -> Json:
    """Return what of a claim's spec may not change."""
    resources = spec.get("resources") or {}
    requests = resources.get("requests") or {}
    if is_bound:
        requests = {name: amount for name, amount in requests.items() if name != "storage"}
    fixed = {name: value for name, value in spec.items() if name not in free}
    return {**fixed, "resources": {**resources, "requests": requests}}


def _storage(amounts: Json | None) -> int:
    """Return an amount of storage in billionths of a byte; none is 0."""
    return parse((amounts or {}).get("storage") or "0").nanos


def validate_event(obj: Json) -> list[Cause]:
    """Check an event; one with an ``eventTime`` needs further members, and may be about an object of any namespace."""
    about = (obj.get("involvedObject") or {}).get("namespace") or ""
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    elsewhere = [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
    if not obj.get("eventTime"):
        return elsewhere if about != namespace and (about or namespace != "default") else []
    causes = [] if about or namespace in ("default", "kube-system") else elsewhere
    for member, most in _EVENT_LENGTHS.items():
        value = obj.get(member) or ""
        if not value and member != "message":
            causes.append(required(member))
        if len(value) > most:
            causes.append(invalid_value(member, "", f"can have at most {most} characters"))
    component = obj.get("reportingComponent") or ""
    problems = names.check_qualified_name(component) if component else []
    return [*causes, *(invalid_value("reportingComponent", component, text) for text in problems)]


_EVENT_LENGTHS = {"reportingComponent": 317, "reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
"""Member of an event → its longest text; 317 is the longest qualified name."""


def validate_lease(obj: Json) -> list[Cause]:
    """Check the numbers of a lease."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes


def validate_role(obj: Json) -> list[Cause]:
    """Check the rules of a role."""
    causes: list[Cause] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        place = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{place}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid_value(f"{place}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        if rule.get("apiGroups") is None or not rule["apiGroups"]:
            causes.append(required(f"{place}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{place}.resources", "resource rules must supply at least one resource"))
    return causes


def validate_role_binding(obj: Json) -> list[Cause]:
    """Check role and subjects of a binding."""
    causes: list[Cause] = []
    role = obj.get("roleRef") or {}
    kinds = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    group = "rbac.authorization.k8s.io"
    if role.get("apiGroup") != group:
        causes.append(not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (group,)))
    if role.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", role.get("kind") or "", kinds))
    name = role.get("name")
    causes += [invalid_value("roleRef.name", name, text) for text in names.check_path_segment(name or "")]
    if not name:
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        place = f"subjects[{index}]"
        if not subject.get("name"):
            causes.append(required(f"{place}.name"))
        kind, given = subject.get("kind") or "", subject.get("apiGroup") or ""
        if kind not in _SUBJECT_KINDS:
            causes.append(not_supported(f"{place}.kind", kind, _SUBJECT_KINDS))
            continue
        wanted = "" if kind == "ServiceAccount" else group
        if kind == "ServiceAccount" and (name := subject.get("name")):
            causes += [invalid_value(f"{place}.name", name, text) for text in names.check_subdomain(name)]
        if given != wanted:
            causes.append(not_supported(f"{place}.apiGroup", given, (wanted,)))
        if kind == "ServiceAccount" and not subject.get("namespace") and obj.get("kind") == "ClusterRoleBinding":
            causes.append(required(f"{place}.namespace"))
    return causes


_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def validate_role_binding_update(obj: Json, old: Json) -> list[Cause]:
    """Check a binding; its role may not change."""
    causes = validate_role_binding(obj)
    if obj.get("roleRef") != old.get("roleRef"):
        causes.append(invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef"))
    return causes


def validate_quota(obj: Json) -> list[Cause]:
    """Check names and amounts of a quota."""
    causes: list[Cause] = []
    for name, amount in ((obj.get("spec") or {}).get("hard") or {}).items():
        causes += [invalid_value(f"spec.hard[{name}]", name, text) for text in names.check_qualified_name(name)]
        _check_amount(amount, f"spec.hard[{name}]", causes)
    return causes


def validate_priority_class(obj: Json) -> list[Cause]:
    """Check a priority class."""
    causes: list[Cause] = []
    name, value = (obj.get("metadata") or {}).get("name") or "", obj.get("value") or 0
    if name.startswith("system-"):
        if {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}.get(name) != value:
            causes.append(
                forbidden_field(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    f"error: {name} is not a known system priority class",
                )
            )
    elif value > 1_000_000_000:
        causes.append(forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000"))
    policy = obj.get("preemptionPolicy")
    if policy not in (None, "Never", "PreemptLowerPriority"):
        causes.append(not_supported("preemptionPolicy", policy, ("Never", "PreemptLowerPriority")))
    return causes


def validate_priority_class_update(obj: Json, old: Json) -> list[Cause]:
    """Refuse changes of members that pods have copied already."""
    causes: list[Cause] = []
    if (obj.get("value") or 0) != (old.get("value") or 0):
        causes.append(forbidden_field("value", "may not be changed in an update."))
    if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.append(immutable("preemptionPolicy", obj.get("preemptionPolicy")))
    return causes


def validate_budget(obj: Json) -> list[Cause]:
    """Check a disruption budget: one bound, not both; a number or a percentage."""
    spec = obj.get("spec") or {}
    selected = label_selector_problems(spec.get("selector") or {}, "spec.selector")
    if spec.get("minAvailable") is None or spec.get("maxUnavailable") is None:
        shares = (_share_problems(spec.get(name), name) for name in ("minAvailable", "maxUnavailable"))
        return [*chain.from_iterable(shares), *selected]
    shown = {
        "MinAvailable": spec["minAvailable"],
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec["maxUnavailable"],
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
    return [invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"), *selected]


def _share_problems(value: int | str | None, name: str) -> list[Cause]:
    field = f"spec.{name}"
    if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
        return [invalid_value(field, value, _PERCENTAGE_MESSAGE)]
    if isinstance(value, int) and value < 0:
        return [invalid_value(field, value, "must be greater than or equal to 0")]
    if isinstance(value, str) and int(value[:-1]) > 100:
        return [invalid_value(field, value, "must not be greater than 100%")]
    return []


_PERCENTAGE = re.compile(r"[0-9]+%")
_PERCENTAGE_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
