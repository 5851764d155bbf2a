"""The audit policy (audit.k8s.io/v1 ``Policy``): the first matching rule decides how much of a request is recorded."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from strato.api import yamltext
from strato.api.wire import User
from strato.errors import UsageError
from strato.server.path import Attributes

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_VERSIONS = ("audit.k8s.io/v1",)


class AuditLevel(IntEnum):
    """How much is recorded."""

    NONE = 0
    METADATA = 1
    """User, action, time and outcome."""
    REQUEST = 2
    """The request's body as well."""


LEVELS = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST,
}
"""The levels. Bodies of answers are never recorded: ``RequestResponse`` counts as ``Request``."""


class _Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[_Resources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class _Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    rules: tuple[_Rule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False
    metadata: dict[str, Any] = {}


class AuditDecision(NamedTuple):
    """How much of a request is recorded."""

    level: AuditLevel
    omitted: frozenset[str]
    """Stages without an event."""


_NOTHING = AuditDecision(AuditLevel.NONE, frozenset())


class AuditPolicy:
    """Decides how much of each request is recorded."""

    def __init__(self, policy: _Policy) -> None:
        common = frozenset(policy.omit_stages)
        self._rules = [(rule, AuditDecision(LEVELS[rule.level], common | {*rule.omit_stages})) for rule in policy.rules]

    def decide(self, user: User | None, asked: Attributes) -> AuditDecision:
        """Return how much of a request is recorded; nothing if no rule matches."""
        for rule, decision in self._rules:
            if _matches(rule, user, asked):
                return decision if decision.level == AuditLevel.NONE else _cut(rule, decision, asked)
        return _NOTHING


_SECRET = frozenset((("", "secrets"), ("authentication.k8s.io", "tokenreviews")))
"""Resources whose bodies are never recorded."""


def _cut(rule: _Rule, decision: AuditDecision, asked: Attributes) -> AuditDecision:
    """Return the decision, without the body if that is or may be a secret.

    ConfigMaps count as secrets unless the rule names them, as people keep passwords in them too.
    """
    is_secret = (asked.group, asked.resource) in _SECRET or asked.subresource == "token"
    if asked.resource == "configmaps" and not any("configmaps" in one.resources for one in rule.resources):
        is_secret = True
    return decision._replace(level=AuditLevel.METADATA) if is_secret else decision


def _matches(rule: _Rule, user: User | None, asked: Attributes) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.user_groups and (user is None or not set(rule.user_groups) & set(user.groups)):
        return False
    if rule.verbs and asked.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return not asked.path and _matches_resource(rule, asked)
    if rule.non_resource_urls:
        return bool(asked.path) and any(_covers(one, asked.path) for one in rule.non_resource_urls)
    return True


def _matches_resource(rule: _Rule, asked: Attributes) -> bool:
    if rule.namespaces and asked.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_names(one, asked) for one in rule.resources)


def _names(listed: _Resources, asked: Attributes) -> bool:
    if listed.group not in (asked.group, "*"):
        return False
    if not listed.resources:
        return True
    if listed.resource_names and asked.name not in listed.resource_names:
        return False
    sub = asked.subresource
    wanted = {"*", f"{asked.resource}/{sub}" if sub else asked.resource, f"{asked.resource}/*"}
    if sub:
        wanted.add(f"*/{sub}")
    return not wanted.isdisjoint(listed.resources)


def _covers(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def load(path: Path) -> AuditPolicy:
    """Read a policy.

    Raises:
        UsageError: It cannot be read, or is not a valid policy; every problem is listed.
    """
    try:
        policy = msgspec.convert(yamltext.load(path.read_bytes()), type=_Policy)
    except OSError as error:
        raise UsageError(f"--audit-policy-file {path}: {error.strerror}") from error
    except (msgspec.ValidationError, yamltext.InvalidYaml) as error:
        raise UsageError(f"--audit-policy-file {path}: no audit policy: {error}") from error
    problems = list(_problems(policy))
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise UsageError(f"--audit-policy-file {path} is invalid ({count})\n{listed}")
    return AuditPolicy(policy)


def _problems(policy: _Policy) -> list[str]:
    found = []
    if policy.api_version not in _VERSIONS or policy.kind != "Policy":
        found.append(f"apiVersion {policy.api_version!r}, kind {policy.kind!r}: write audit.k8s.io/v1 and Policy")
    if not policy.rules:
        found.append("rules: empty; nothing would be recorded")
    found += _stage_problems("omitStages", policy.omit_stages)
    for index, rule in enumerate(policy.rules):
        place = f"rules[{index}]"
        if rule.level not in LEVELS:
            found.append(f"{place}.level = {rule.level!r}: supported values are {', '.join(LEVELS)}")
        found += _stage_problems(f"{place}.omitStages", rule.omit_stages)
        if rule.non_resource_urls and (rule.resources or rule.namespaces):
            found.append(f"{place}.nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs")
        for url in rule.non_resource_urls:
            if url != "*" and not url.startswith("/"):
                found.append(f"{place}.nonResourceURLs {url!r}: non-resource URL rules must begin with a '/' character")
            if "*" in url[:-1]:
                found.append(f"{place}.nonResourceURLs {url!r}: wildcards '*' must be the final character of the rule")
        for listed in rule.resources:
            if "/" in listed.group:
                found.append(f"{place}.resources.group = {listed.group!r}: a group is named without its version")
            if listed.resource_names and not listed.resources:
                found.append(f"{place}.resources.resourceNames: needs at least one resource")
    return found


def _stage_problems(place: str, stages: tuple[str, ...]) -> list[str]:
    return [f"{place} {one!r}: allowed stages are {', '.join(STAGES)}" for one in stages if one not in STAGES]
