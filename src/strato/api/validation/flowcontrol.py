"""Rules of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from collections.abc import Iterator

from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value, not_one_of, not_supported, required
from strato.errors import Cause

_MOST_PRECEDENCE = 10_000
_MOST_QUEUES = 10_000_000
_SUBJECTS = ("Group", "ServiceAccount", "User")
_MEMBERS = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}


def validate_flow_schema(obj: Json) -> list[Cause]:
    """Check a FlowSchema."""
    return list(_schema_problems(obj))


def validate_priority_level(obj: Json) -> list[Cause]:
    """Check a PriorityLevelConfiguration."""
    return list(_level_problems(obj))


def _schema_problems(obj: Json) -> Iterator[Cause]:
    name, spec = (obj.get("metadata") or {}).get("name"), obj.get("spec") or {}
    precedence, place = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid_value(place, precedence, "must be a positive value")
    if precedence > _MOST_PRECEDENCE:
        yield invalid_value(place, precedence, f"must not be greater than {_MOST_PRECEDENCE}")
    if precedence == 1 and name != "exempt":
        yield invalid_value(place, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        yield not_supported("spec.distinguisherMethod.type", method, ("ByNamespace", "ByUser"))
    if not (spec.get("priorityLevelConfiguration") or {}).get("name"):
        yield required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    for index, rules in enumerate(spec.get("rules") or ()):
        yield from _rules_problems(rules or {}, f"spec.rules[{index}]")


def _rules_problems(rules: Json, place: str) -> Iterator[Cause]:
    subjects = rules.get("subjects") or ()
    if not subjects:
        yield required(f"{place}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject_problems(subject or {}, f"{place}.subjects[{index}]")
    resource_rules, other_rules = rules.get("resourceRules") or (), rules.get("nonResourceRules") or ()
    if not resource_rules and not other_rules:
        yield required(place, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, rule in enumerate(resource_rules):
        at = f"{place}.resourceRules[{index}]"
        yield from _named_problems(rule or {}, ("verbs", "apiGroups", "resources"), at)
        if not (rule or {}).get("namespaces") and not (rule or {}).get("clusterScope"):
            yield required(
                f"{at}.namespaces", "resource rules that are not cluster scoped must supply at least one namespace"
            )
    for index, rule in enumerate(other_rules):
        yield from _named_problems(rule or {}, ("verbs", "nonResourceURLs"), f"{place}.nonResourceRules[{index}]")


def _named_problems(rule: Json, members: tuple[str, ...], place: str) -> Iterator[Cause]:
    for member in members:
        if not rule.get(member):
            yield required(f"{place}.{member}", f"{member} must contain at least one value")
        elif "*" in rule[member] and len(rule[member]) > 1:
            yield invalid_value(
                f"{place}.{member}", rule[member], f"if '*' is present, must not specify other {member}"
            )


def _subject_problems(subject: Json, place: str) -> Iterator[Cause]:
    kind = subject.get("kind")
    if kind not in _SUBJECTS:
        yield not_supported(f"{place}.kind", kind, _SUBJECTS)
        return
    for other, member in _MEMBERS.items():
        if other != kind:
            if subject.get(member) is not None:
                text = f"{member} is forbidden when subject kind is not '{other}'"
                yield forbidden_field(f"{place}.{member}", text)
        elif subject.get(member) is None:
            yield required(f"{place}.{member}", f"{member} is required when subject kind is '{other}'")
        elif not subject[member].get("name"):
            yield required(f"{place}.{member}.name")


def _level_problems(obj: Json) -> Iterator[Cause]:
    name, spec = (obj.get("metadata") or {}).get("name"), obj.get("spec") or {}
    kind = spec.get("type")
    if (name == "exempt") is not (kind == "Exempt"):
        yield invalid_value("spec.type", kind or "", "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if spec.get("limited") is not None:
            yield forbidden_field("spec.limited", "must be nil if the type is not Limited")
    elif kind == "Limited":
        if spec.get("exempt") is not None:
            yield forbidden_field("spec.exempt", "must be nil if the type is Limited")
        if spec.get("limited") is None:
            yield required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited_problems(spec["limited"])
    else:
        yield not_one_of("spec.type", kind, ("Exempt", "Limited"))


def _limited_problems(limited: Json) -> Iterator[Cause]:
    shares, lendable = limited.get("nominalConcurrencyShares") or 0, limited.get("lendablePercent") or 0
    if shares < 0:
        yield invalid_value("spec.limited.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= lendable <= 100:
        yield invalid_value("spec.limited.lendablePercent", lendable, "must be between 0 and 100, inclusive")
    response, place = limited.get("limitResponse") or {}, "spec.limited.limitResponse"
    kind, queuing = response.get("type"), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            yield forbidden_field(f"{place}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue":
        if queuing is None:
            yield required(f"{place}.queuing", "must not be empty if limited.limitResponse.type is Limited")
        else:
            yield from _queuing_problems(queuing, f"{place}.queuing")
    else:
        yield not_one_of(f"{place}.type", kind, ("Queue", "Reject"))


def _queuing_problems(queuing: Json, place: str) -> Iterator[Cause]:
    for member in ("queueLengthLimit", "queues", "handSize"):
        if queuing.get(member, 0) <= 0:
            yield invalid_value(f"{place}.{member}", queuing.get(member, 0), "must be positive")
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    if queues > _MOST_QUEUES:
        yield invalid_value(f"{place}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if 0 < queues < hand:
        yield invalid_value(f"{place}.handSize", hand, f"should not be greater than queues ({queues})")
