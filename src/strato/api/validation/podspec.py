"""Rules of pod specs, for pods and templates. On the hot path of every pod: plain dict code."""

from __future__ import annotations

from typing import Any

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import NANO, InvalidQuantity, parse
from strato.api.status import duplicate, field_not_found, forbidden_field, invalid_value, not_supported, required
from strato.api.validation.metadata import validate_annotations, validate_labels
from strato.api.validation.mounts import validate_mounts
from strato.api.validation.security import validate_container_security, validate_pod_security
from strato.api.validation.volumes import validate_volumes
from strato.errors import Cause
from strato.lru import memoised

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_OPERATORS = ("", "Equal", "Exists", "Lt", "Gt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_template(template: Json, field: str) -> list[Cause]:
    """Check a pod template (``{metadata, spec}``) after defaulting."""
    causes: list[Cause] = []
    metadata = template.get("metadata") or {}
    if metadata.get("labels"):
        validate_labels(metadata["labels"], f"{field}.labels", causes)
    if metadata.get("annotations"):
        validate_annotations(metadata["annotations"], f"{field}.annotations", causes)
    validate_pod_spec(template.get("spec") or {}, f"{field}.spec", causes)
    return causes


def validate_pod_spec(spec: Json, field: str, causes: list[Cause]) -> None:
    """Check a pod spec after defaulting; appends to ``causes``."""
    get = spec.get
    volumes = get("volumes")
    volume_names = validate_volumes(volumes, f"{field}.volumes", causes) if volumes else frozenset[str]()
    containers, init_containers = get("containers"), get("initContainers")
    seen: set[str] = set()
    claims = {claim.get("name") for claim in get("resourceClaims") or ()}
    host_network, host_users = bool(get("hostNetwork")), get("hostUsers") is not False
    if containers:
        for index, container in enumerate(containers):
            _validate_container(
                container, f"{field}.containers[{index}]", seen, volume_names, claims, host_network, host_users, causes
            )
    else:
        causes.append(required(f"{field}.containers"))
    if init_containers:
        for index, container in enumerate(init_containers):
            place = f"{field}.initContainers[{index}]"
            _validate_container(container, place, seen, volume_names, claims, host_network, host_users, causes)
            policy = container.get("restartPolicy")
            if policy is not None and policy not in RESTART_POLICIES:
                causes.append(not_supported(f"{place}.restartPolicy", policy, RESTART_POLICIES))
    policy = get("restartPolicy")
    if policy not in RESTART_POLICIES:
        causes.append(
            not_supported(f"{field}.restartPolicy", policy, RESTART_POLICIES)
            if policy
            else required(f"{field}.restartPolicy")
        )
    policy = get("dnsPolicy")
    if policy not in DNS_POLICIES:
        causes.append(
            not_supported(f"{field}.dnsPolicy", policy, DNS_POLICIES) if policy else required(f"{field}.dnsPolicy")
        )
    if get("nodeSelector"):
        validate_labels(spec["nodeSelector"], f"{field}.nodeSelector", causes)
    deadline = get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        causes.append(
            invalid_value(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    for member in ("serviceAccountName", "nodeName", "priorityClassName", "schedulerName"):
        value = get(member)
        if value and not names.is_label(value):
            causes += [invalid_value(f"{field}.{member}", value, text) for text in names.check_subdomain(value)]
    for member in ("hostname", "subdomain"):
        value = get(member)
        if value and not names.is_label(value):
            causes += [invalid_value(f"{field}.{member}", value, text) for text in names.check_label(value)]
    tolerations = get("tolerations")
    if tolerations:
        for index, toleration in enumerate(tolerations):
            validate_toleration(toleration, f"{field}.tolerations[{index}]", causes)
    gates = get("schedulingGates")
    if gates:
        _validate_gates(gates, f"{field}.schedulingGates", causes)
    if get("overhead"):
        validate_amounts(spec["overhead"], f"{field}.overhead", causes)
    if get("topologySpreadConstraints"):
        _validate_spread(spec["topologySpreadConstraints"], f"{field}.topologySpreadConstraints", causes)
    if get("affinity"):
        _validate_affinity(spec["affinity"], f"{field}.affinity", causes)
    if get("securityContext") or host_users is False or get("shareProcessNamespace"):
        validate_pod_security(spec, field, causes)


def _validate_container(
    container: Json,
    field: str,
    seen: set[str],
    volumes: frozenset[str],
    claims: set[Any],
    host_network: bool,
    host_users: bool,
    causes: list[Cause],
) -> None:
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
        _validate_ports(container["ports"], f"{field}.ports", host_network, causes)
    if get("env"):
        _validate_env(container["env"], f"{field}.env", causes)
    if get("envFrom"):
        _validate_env_from(container["envFrom"], f"{field}.envFrom", causes)
    mounts = get("volumeMounts")
    if mounts:
        privileged = bool((get("securityContext") or {}).get("privileged"))
        validate_mounts(mounts, f"{field}.volumeMounts", volumes, causes, privileged=privileged)
    resources = get("resources")
    if resources:
        validate_resources(resources, f"{field}.resources", causes, claims)
    policy = get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        causes.append(
            not_supported(f"{field}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
            if policy
            else required(f"{field}.terminationMessagePolicy")
        )
    policy = get("imagePullPolicy")
    if policy not in PULL_POLICIES:
        causes.append(
            not_supported(f"{field}.imagePullPolicy", policy, PULL_POLICIES)
            if policy
            else required(f"{field}.imagePullPolicy")
        )
    if get("securityContext"):
        validate_container_security(container["securityContext"], f"{field}.securityContext", host_users, causes)
    for member in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = get(member)
        if probe:
            _validate_probe(probe, f"{field}.{member}", causes, single=member != "readinessProbe")


def _validate_probe(probe: Json, field: str, causes: list[Cause], *, single: bool) -> None:
    handlers = [name for name in ("exec", "httpGet", "tcpSocket", "grpc") if probe.get(name) is not None]
    if not handlers:
        causes.append(required(field, "must specify a handler type"))
    causes.extend(
        forbidden_field(f"{field}.{name}", "may not specify more than 1 handler type") for name in handlers[1:]
    )
    for member in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        value = probe.get(member) or 0
        if value < 0:
            causes.append(invalid_value(f"{field}.{member}", value, "must be greater than or equal to 0"))
    if single and (probe.get("successThreshold") or 1) != 1:
        causes.append(invalid_value(f"{field}.successThreshold", probe["successThreshold"], "must be 1"))


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
            causes.append(
                not_supported(f"{place}.protocol", protocol, PROTOCOLS) if protocol else required(f"{place}.protocol")
            )


def _validate_env(variables: list[Json], field: str, causes: list[Cause]) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            causes.append(required(f"{field}[{index}].name"))
        elif not names.is_env_name(name):
            causes += [invalid_value(f"{field}[{index}].name", name, text) for text in names.check_env_name(name)]
        source = variable.get("valueFrom")
        if source is None:
            continue
        place = f"{field}[{index}].valueFrom"
        given = [key for key in ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef") if source.get(key)]
        if not given:
            known = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            causes.append(invalid_value(place, "", f"must specify one of: {known}"))
        elif variable.get("value"):
            causes.append(invalid_value(place, "", "may not be specified when `value` is not empty"))
        elif len(given) > 1:
            causes.append(invalid_value(place, "", "may not have more than one field specified at a time"))
        for key in ("configMapKeyRef", "secretKeyRef"):
            if key in given and not source[key].get("key"):
                causes.append(required(f"{place}.{key}.key"))


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


def validate_resources(resources: Json, field: str, causes: list[Cause], claims: set[Any]) -> None:
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
            if not _is_fine(name, amount, place, causes) and (limit is not None or "/" not in name):
                continue
            if amount != limit and (limit is not None or "/" in name):
                _compare(name, amount, limit, place, causes)
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in claims:
            causes.append(field_not_found(f"{field}.claims[{index}]", claim.get("name") or ""))


def _compare(name: str, amount: Any, limit: Any, field: str, causes: list[Cause]) -> None:
    overcommit = name in NATIVE
    if limit is None:
        limits = field.removesuffix(".requests") + ".limits"
        causes.append(required(limits, "Limit must be set for non overcommitable resources"))
        return
    try:
        wanted, capped = parse(amount), parse(limit)
    except InvalidQuantity:
        return  # named already
    if not overcommit and wanted.nanos != capped.nanos:
        causes.append(invalid_value(field, wanted.canonical, f"must be equal to {name} limit of {capped.canonical}"))
    elif wanted.nanos > capped.nanos:
        causes.append(
            invalid_value(field, wanted.canonical, f"must be less than or equal to {name} limit of {capped.canonical}")
        )


def validate_amounts(amounts: Json, field: str, causes: list[Cause]) -> None:
    """Add what is wrong with names and amounts of resources."""
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
    """Return what is wrong with an amount, and with one of what only comes whole; "" is nothing."""
    try:
        nanos = parse(amount).nanos
    except InvalidQuantity as err:
        return str(err), str(err)
    if nanos < 0:
        return "must be greater than or equal to 0", "must be greater than or equal to 0"
    return "", "must be an integer" if nanos % NANO else ""


def _is_fine(name: str, amount: Any, field: str, causes: list[Cause]) -> bool:
    complaint = _amount_complaints(amount)["/" in name]
    if complaint:
        causes.append(invalid_value(f"{field}[{name}]", amount, complaint))
    return not complaint


def validate_toleration(toleration: Json, field: str, causes: list[Cause]) -> None:
    """Add what is wrong with a toleration."""
    key, operator, effect = toleration.get("key"), toleration.get("operator") or "", toleration.get("effect")
    if key and not names.is_qualified_name(key):
        causes += [invalid_value(f"{field}.key", key, text) for text in names.check_qualified_name(key)]
    if not key and operator != "Exists":
        causes.append(
            invalid_value(
                f"{field}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(
            invalid_value(f"{field}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set")
        )
    if operator == "Exists" and toleration.get("value"):
        causes.append(
            invalid_value(f"{field}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
        )
    if operator not in _OPERATORS:
        causes.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        causes.append(not_supported(f"{field}.effect", effect, _EFFECTS))


def _validate_gates(gates: list[Json], field: str, causes: list[Cause]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        causes += [invalid_value(f"{field}[{index}]", name, text) for text in names.check_qualified_name(name)]
        if name in seen:
            causes.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)


def _validate_spread(constraints: list[Json], field: str, causes: list[Cause]) -> None:
    for index, constraint in enumerate(constraints):
        place = f"{field}[{index}]"
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            causes.append(invalid_value(f"{place}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            causes.append(required(f"{place}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.append(
                not_supported(f"{place}.whenUnsatisfiable", action or "", ("DoNotSchedule", "ScheduleAnyway"))
            )


_HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def _validate_affinity(affinity: Json, field: str, causes: list[Cause]) -> None:
    node = affinity.get("nodeAffinity")
    if node:
        required_terms = node.get(_HARD)
        place = f"{field}.nodeAffinity.{_HARD}.nodeSelectorTerms"
        if required_terms is not None and not required_terms.get("nodeSelectorTerms"):
            causes.append(required(place, "must have at least one node selector term"))
        for index, term in enumerate((required_terms or {}).get("nodeSelectorTerms") or ()):
            _validate_node_term(term, f"{place}[{index}]", causes, hard=True)
        _validate_weights(node.get(_SOFT), f"{field}.nodeAffinity.{_SOFT}", causes)
        for index, weighted in enumerate(node.get(_SOFT) or ()):
            place = f"{field}.nodeAffinity.{_SOFT}[{index}].preference"
            _validate_node_term(weighted.get("preference") or {}, place, causes, hard=False)
    for member in ("podAffinity", "podAntiAffinity"):
        body = affinity.get(member)
        if not body:
            continue
        for index, term in enumerate(body.get(_HARD) or ()):
            _validate_pod_term(term, f"{field}.{member}.{_HARD}[{index}]", causes)
        _validate_weights(body.get(_SOFT), f"{field}.{member}.{_SOFT}", causes)
        for index, weighted in enumerate(body.get(_SOFT) or ()):
            place = f"{field}.{member}.{_SOFT}[{index}].podAffinityTerm"
            _validate_pod_term(weighted.get("podAffinityTerm") or {}, place, causes)


def _validate_node_term(term: Json, field: str, causes: list[Cause], *, hard: bool) -> None:
    """Check expressions over nodes' labels; values that no label has only where they keep the pod from all nodes."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        place, operator = f"{field}.matchExpressions[{index}]", expression.get("operator") or ""
        values, key = expression.get("values") or (), expression.get("key") or ""
        if operator in ("In", "NotIn"):
            if not values:
                causes.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_field(f"{place}.values", text))
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{place}.values", text))
        else:
            causes.append(invalid_value(f"{place}.operator", operator, "not a valid selector operator"))
        causes += [invalid_value(f"{place}.key", key, text) for text in names.check_qualified_name(key)]
        if hard:
            causes += [
                invalid_value(f"{place}.values[{at}]", value, text)
                for at, value in enumerate(values)
                for text in names.check_label_value(value)
            ]


def _validate_weights(terms: list[Json] | None, field: str, causes: list[Cause]) -> None:
    for index, term in enumerate(terms or ()):
        weight = term.get("weight") or 0
        if not 1 <= weight <= 100:
            causes.append(invalid_value(f"{field}[{index}].weight", weight, "must be in the range 1-100"))


def _validate_pod_term(term: Json, field: str, causes: list[Cause]) -> None:
    key = term.get("topologyKey")
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
        key = ""
    if not names.is_qualified_name(key):
        causes += [invalid_value(f"{field}.topologyKey", key, text) for text in names.check_qualified_name(key)]
