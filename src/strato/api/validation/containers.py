"""Rules of main, init and ephemeral containers. On the hot path of every pod: plain dict code."""

from __future__ import annotations

from typing import Any, NamedTuple

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import NANO, InvalidQuantity, parse
from strato.api.status import (
    duplicate,
    field_not_found,
    forbidden_field,
    invalid_value,
    not_one_of,
    not_supported,
    required,
)
from strato.api.validation.downward import VARIABLE_FIELDS, check_field
from strato.api.validation.handlers import forbid_handlers, validate_handlers
from strato.api.validation.mounts import validate_mounts
from strato.api.validation.security import validate_container_security
from strato.errors import Cause
from strato.lru import memoised

RESTART_POLICIES = ("Always", "OnFailure", "Never")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE_PREFIX = "kubernetes.io/"
"""Part of the names of resources in Kubernetes' own domain, such as ``kubernetes.io/batch-cpu``."""
RESIZABLE = ("cpu", "memory")
"""Resources of a container that may change while it runs."""
RESIZE_POLICIES = ("NotRequired", "RestartContainer")


class PodContext(NamedTuple):
    """The properties of a pod that the rules of its containers need."""

    volumes: frozenset[str]
    claims: frozenset[Any]
    host_network: bool
    host_users: bool
    restart_policy: str
    grace_seconds: int


def validate_main_container(container: Json, field: str, seen: set[str], pod: PodContext, causes: list[Cause]) -> None:
    """Add the problems of a main container, with those that all containers can have."""
    validate_container(container, field, seen, pod, causes)
    validate_handlers(container, field, pod.grace_seconds, causes)


def validate_container(container: Json, field: str, seen: set[str], pod: PodContext, causes: list[Cause]) -> None:
    """Add the problems of a container of any kind, after defaulting, and add its name to ``seen``."""
    get = container.get
    name = get("name")
    if not name:
        causes.append(required(f"{field}.name"))
    elif name in seen:
        causes.append(duplicate(f"{field}.name", name))
    else:
        seen.add(name)
        if not names.is_label(name):
            causes += [invalid_value(f"{field}.name", name, text) for text in names.check_label(name)]
    image = get("image")
    if not image:
        causes.append(required(f"{field}.image"))
    elif image != image.strip():
        causes.append(invalid_value(f"{field}.image", image, "must not have leading or trailing whitespace"))
    if get("ports"):
        _validate_ports(container["ports"], f"{field}.ports", pod.host_network, causes)
    if get("env"):
        _validate_env(container["env"], f"{field}.env", causes)
    if get("envFrom"):
        _validate_env_from(container["envFrom"], f"{field}.envFrom", causes)
    mounts = get("volumeMounts")
    if mounts:
        privileged = bool((get("securityContext") or {}).get("privileged"))
        validate_mounts(mounts, f"{field}.volumeMounts", pod.volumes, causes, privileged=privileged)
    resources = get("resources")
    if resources:
        _validate_resources(resources, f"{field}.resources", causes, pod.claims)
    if get("resizePolicy"):
        _validate_resize_policy(container["resizePolicy"], f"{field}.resizePolicy", pod.restart_policy, causes)
    policy = get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        causes.append(not_one_of(f"{field}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError")))
    policy = get("imagePullPolicy")
    if policy not in PULL_POLICIES:
        causes.append(not_one_of(f"{field}.imagePullPolicy", policy, PULL_POLICIES))
    if get("securityContext"):
        validate_container_security(container["securityContext"], f"{field}.securityContext", pod.host_users, causes)


def validate_init_container(container: Json, field: str, seen: set[str], pod: PodContext, causes: list[Cause]) -> None:
    """Add the problems of an init container, with those that all containers can have."""
    validate_container(container, field, seen, pod, causes)
    policy = container.get("restartPolicy")
    if policy == "Always":
        validate_handlers(container, field, pod.grace_seconds, causes)
    else:
        forbid_handlers(container, field, causes)
    if policy is not None and policy not in RESTART_POLICIES:
        causes.append(not_supported(f"{field}.restartPolicy", policy, RESTART_POLICIES))
    for index, one in enumerate((container.get("resizePolicy") or ()) if policy != "Always" else ()):
        if one.get("restartPolicy") == "RestartContainer":
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            causes.append(invalid_value(f"{field}.resizePolicy[{index}].restartPolicy", "RestartContainer", text))


def validate_ephemeral_containers(spec: Json, field: str, seen: set[str], pod: PodContext, causes: list[Cause]) -> None:
    """Add the problems of a pod's ephemeral containers; ``seen`` has the names of its other containers."""
    others = frozenset(seen)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        place = f"{field}.ephemeralContainers[{index}]"
        validate_container(container, place, seen, pod, causes)
        target = container.get("targetContainerName")
        if target and target not in others:
            causes.append(field_not_found(f"{place}.targetContainerName", target))
        forbidden = [f"{place}.{member}" for member in _NOT_EPHEMERAL if container.get(member)]
        forbidden += [
            f"{place}.volumeMounts[{number}].{member}"
            for number, mount in enumerate(container.get("volumeMounts") or ())
            for member in ("subPath", "subPathExpr")
            if mount.get(member)
        ]
        causes += [forbidden_field(member, "cannot be set for an Ephemeral Container") for member in forbidden]


_NOT_EPHEMERAL = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
"""Members that ephemeral containers may not have, because a pod's work must not depend on them."""


def _validate_resize_policy(policies: list[Json], field: str, restart_policy: str, causes: list[Cause]) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            causes.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
        for value, known in ((name, RESIZABLE), (restart, RESIZE_POLICIES)):
            if value not in known:
                causes.append(not_supported(field, value, known) if value else required(field))
        if restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            causes.append(invalid_value(field, restart, text))


def _validate_ports(ports: list[Json], field: str, host_network: bool, causes: list[Cause]) -> None:
    used: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{field}[{index}]"
        name = port.get("name")
        if name:
            complaints = names.check_port_name(name)
            causes += [invalid_value(f"{place}.name", name, text) for text in complaints]
            if not complaints and name in used:
                causes.append(duplicate(f"{place}.name", name))
            used.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            causes.append(required(f"{place}.containerPort"))
        else:
            causes += [
                invalid_value(f"{place}.containerPort", number, text) for text in names.check_port_number(number)
            ]
        host = port.get("hostPort") or 0
        if host:
            causes += [invalid_value(f"{place}.hostPort", host, text) for text in names.check_port_number(host)]
            if host_network and host != number:
                causes.append(
                    invalid_value(f"{place}.hostPort", host, "must match `containerPort` when `hostNetwork` is true")
                )
        protocol = port.get("protocol")
        if protocol not in PROTOCOLS:
            causes.append(not_one_of(f"{place}.protocol", protocol, PROTOCOLS))


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
"""Where a variable's value may come from."""


def _validate_env(variables: list[Json], field: str, causes: list[Cause]) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            causes.append(required(f"{field}[{index}].name"))
        elif not names.is_env_name(name):
            causes += [invalid_value(f"{field}[{index}].name", name, text) for text in names.check_env_name(name)]
        source = variable.get("valueFrom")
        if source is not None:
            _validate_source(source, f"{field}[{index}].valueFrom", causes, has_value=bool(variable.get("value")))


def _validate_source(source: Json, field: str, causes: list[Cause], *, has_value: bool) -> None:
    given = [key for key in _SOURCES if source.get(key) is not None]
    if "fieldRef" in given:
        check_field(source["fieldRef"], VARIABLE_FIELDS, f"{field}.fieldRef", causes)
    if "resourceFieldRef" in given and not source["resourceFieldRef"].get("resource"):
        causes.append(required(f"{field}.resourceFieldRef.resource"))
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in given:
            name = source[key].get("name") or ""
            causes += [invalid_value(f"{field}.{key}.name", name, text) for text in names.check_subdomain(name)]
            if not source[key].get("key"):
                causes.append(required(f"{field}.{key}.key"))
    if not given:
        known = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.append(invalid_value(field, "", f"must specify one of: {known}"))
    elif has_value:
        causes.append(invalid_value(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        causes.append(invalid_value(field, "", "may not have more than one field specified at a time"))


def _validate_env_from(sources: list[Json], field: str, causes: list[Cause]) -> None:
    for index, source in enumerate(sources):
        given = [key for key in ("configMapRef", "secretRef") if source.get(key)]
        if not given:
            causes.append(invalid_value(f"{field}[{index}]", "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            causes.append(
                invalid_value(f"{field}[{index}]", "", "may not have more than one field specified at a time")
            )
        causes += [required(f"{field}[{index}].{key}.name") for key in given if not source[key].get("name")]


def _validate_resources(resources: Json, field: str, causes: list[Cause], claims: frozenset[Any]) -> None:
    """Check quantities, and that requests do not exceed limits."""
    requests, limits = resources.get("requests"), resources.get("limits")
    if limits:
        validate_amounts(limits, f"{field}.limits", causes)
    if requests:
        place = f"{field}.requests"
        for name, amount in requests.items():
            limit = limits.get(name) if limits else None
            if name not in NATIVE and not _is_fine_name(name, place, causes):
                continue
            if not _is_fine(name, amount, place, causes) and (limit is not None or not _is_extended(name)):
                continue
            if amount != limit and (limit is not None or _is_extended(name)):
                _compare(name, amount, limit, place, causes)
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            causes.append(field_not_found(f"{field}.claims[{index}]", claim.get("name") or ""))


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one; only Kubernetes' own may be fractional and overcommitted."""
    return "/" in name and _NATIVE_PREFIX not in name


def _compare(name: str, amount: Any, limit: Any, field: str, causes: list[Cause]) -> None:
    overcommit = name in NATIVE or _NATIVE_PREFIX in name
    if limit is None:
        limits = field.removesuffix(".requests") + ".limits"
        causes.append(required(limits, "Limit must be set for non overcommitable resources"))
        return
    try:
        wanted, capped = parse(amount), parse(limit)
    except InvalidQuantity:
        return  # reported already
    if not overcommit and wanted.nanos != capped.nanos:
        causes.append(invalid_value(field, wanted.canonical, f"must be equal to {name} limit of {capped.canonical}"))
    elif wanted.nanos > capped.nanos:
        causes.append(
            invalid_value(field, wanted.canonical, f"must be less than or equal to {name} limit of {capped.canonical}")
        )


def validate_amounts(amounts: Json, field: str, causes: list[Cause]) -> None:
    """Add the problems of names and amounts of resources."""
    for name, amount in amounts.items():
        if name in NATIVE or _is_fine_name(name, field, causes):
            _is_fine(name, amount, field, causes)


def _is_fine_name(name: str, field: str, causes: list[Cause]) -> bool:
    before = len(causes)
    place = f"{field}[{name}]"
    if not names.is_qualified_name(name):
        causes += [invalid_value(place, name, text) for text in names.check_qualified_name(name)]
    elif "/" not in name and not name.startswith("hugepages-"):
        causes.append(invalid_value(place, name, "must be a standard resource type or fully qualified"))
        causes.append(invalid_value(place, name, "must be a standard resource for containers"))
    return len(causes) == before


@memoised(2 << 20)
def _amount_complaints(amount: str | float) -> tuple[str, str]:
    """Return the problem of an amount, and its problem if the resource must be whole; each "" if there is none."""
    try:
        nanos = parse(amount).nanos
    except InvalidQuantity as err:
        return str(err), str(err)
    if nanos < 0:
        return "must be greater than or equal to 0", "must be greater than or equal to 0"
    return "", "must be an integer" if nanos % NANO else ""


def _is_fine(name: str, amount: Any, field: str, causes: list[Cause]) -> bool:
    complaint = _amount_complaints(amount)[_is_extended(name)]
    if complaint:
        causes.append(invalid_value(f"{field}[{name}]", amount, complaint))
    return not complaint
