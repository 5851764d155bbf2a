"""Rules of pod specs, for pods and templates. On the hot path of every pod: plain dict code."""

from __future__ import annotations

from strato.api import names
from strato.api.meta import Json
from strato.api.status import duplicate, forbidden_field, invalid_value, not_one_of, not_supported, required
from strato.api.validation.containers import (
    RESTART_POLICIES,
    PodContext,
    validate_amounts,
    validate_ephemeral_containers,
    validate_init_container,
    validate_main_container,
)
from strato.api.validation.metadata import validate_annotations, validate_labels
from strato.api.validation.poddns import validate_dns, validate_host_aliases
from strato.api.validation.security import validate_pod_security, validate_seccomp_annotations
from strato.api.validation.selectors import expression_problems
from strato.api.validation.volumes import validate_volumes
from strato.errors import Cause

DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
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
        validate_seccomp_annotations(metadata["annotations"], f"{field}.annotations", causes)
    spec = template.get("spec") or {}
    validate_pod_spec(spec, f"{field}.spec", causes)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_field(f"{field}.spec.ephemeralContainers", text))
    return causes


def validate_pod_spec(spec: Json, field: str, causes: list[Cause]) -> None:
    """Check a pod spec after defaulting; appends to ``causes``."""
    get = spec.get
    volumes = get("volumes")
    volume_names = validate_volumes(volumes, f"{field}.volumes", causes) if volumes else frozenset[str]()
    containers, init_containers = get("containers"), get("initContainers")
    seen: set[str] = set()
    claims = frozenset([claim.get("name") for claim in get("resourceClaims") or ()])
    host_users = get("hostUsers") is not False
    policy, grace = get("restartPolicy") or "", get("terminationGracePeriodSeconds") or 0
    pod = PodContext(volume_names, claims, bool(get("hostNetwork")), host_users, policy, grace)
    if containers:
        for index, container in enumerate(containers):
            validate_main_container(container, f"{field}.containers[{index}]", seen, pod, causes)
    else:
        causes.append(required(f"{field}.containers"))
    if init_containers:
        for index, container in enumerate(init_containers):
            validate_init_container(container, f"{field}.initContainers[{index}]", seen, pod, causes)
    if get("ephemeralContainers"):
        validate_ephemeral_containers(spec, field, seen, pod, causes)
    policy = get("restartPolicy")
    if policy not in RESTART_POLICIES:
        causes.append(not_one_of(f"{field}.restartPolicy", policy, RESTART_POLICIES))
    policy = get("dnsPolicy")
    if policy not in DNS_POLICIES:
        causes.append(not_one_of(f"{field}.dnsPolicy", policy, DNS_POLICIES))
    if get("dnsConfig") is not None or policy == "None":
        validate_dns(spec, f"{field}.dnsConfig", causes)
    if get("hostAliases"):
        validate_host_aliases(spec["hostAliases"], f"{field}.hostAliases", causes)
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


def validate_toleration(toleration: Json, field: str, causes: list[Cause]) -> None:
    """Add the problems of a toleration."""
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


HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
"""Members of affinities: what must be, and what is wished for."""


def _validate_affinity(affinity: Json, field: str, causes: list[Cause]) -> None:
    node = affinity.get("nodeAffinity")
    if node:
        required_terms = node.get(HARD)
        place = f"{field}.nodeAffinity.{HARD}.nodeSelectorTerms"
        if required_terms is not None and not required_terms.get("nodeSelectorTerms"):
            causes.append(required(place, "must have at least one node selector term"))
        for index, term in enumerate((required_terms or {}).get("nodeSelectorTerms") or ()):
            _validate_node_term(term, f"{place}[{index}]", causes, hard=True)
        _validate_weights(node.get(SOFT), f"{field}.nodeAffinity.{SOFT}", causes)
        for index, weighted in enumerate(node.get(SOFT) or ()):
            place = f"{field}.nodeAffinity.{SOFT}[{index}].preference"
            _validate_node_term(weighted.get("preference") or {}, place, causes, hard=False)
    for member in ("podAffinity", "podAntiAffinity"):
        body = affinity.get(member)
        if not body:
            continue
        for index, term in enumerate(body.get(HARD) or ()):
            _validate_pod_term(term, f"{field}.{member}.{HARD}[{index}]", causes)
        _validate_weights(body.get(SOFT), f"{field}.{member}.{SOFT}", causes)
        for index, weighted in enumerate(body.get(SOFT) or ()):
            place = f"{field}.{member}.{SOFT}[{index}].podAffinityTerm"
            _validate_pod_term(weighted.get("podAffinityTerm") or {}, place, causes)


def _validate_node_term(term: Json, field: str, causes: list[Cause], *, hard: bool) -> None:
    """Check expressions over nodes' labels; checks that values are valid labels only in required terms (``hard``)."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        place = f"{field}.matchExpressions[{index}]"
        causes += expression_problems(expression, place, compares=True, checks_values=hard)


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
