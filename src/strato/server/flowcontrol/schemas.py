"""Find the flow of a request by FlowSchemas, matched as in Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from strato.api.wire import User
from strato.server.path import parse_path, verb_of

_ACCOUNT = "system:serviceaccount:"


class _Base(msgspec.Struct, rename="camel", frozen=True):
    """A part of a FlowSchema, with its camel-case names."""


class _Named(_Base, frozen=True):
    name: str = ""
    namespace: str = ""


class _Subject(_Base, frozen=True):
    kind: str = ""
    user: _Named | None = None
    group: _Named | None = None
    service_account: _Named | None = None

    def is_user(self, user: User) -> bool:
        """Tell whether the subject includes the user."""
        if self.user is not None:
            return self.user.name in ("*", user.name)
        if self.group is not None:
            return self.group.name == "*" or self.group.name in user.groups
        if self.service_account is not None:
            start = f"{_ACCOUNT}{self.service_account.namespace}:"
            return user.name.startswith(start) and self.service_account.name in ("*", user.name[len(start) :])
        return False


class _ResourceRule(_Base, frozen=True):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    cluster_scope: bool = False

    def is_everything(self) -> bool:
        """Tell whether the rule matches every resource request."""
        return (
            self.cluster_scope
            and all("*" in some for some in (self.verbs, self.api_groups, self.resources))
            and ("*" in self.namespaces)
        )

    def matches(self, asked: _Asked) -> bool:
        """Tell whether the rule matches a resource request."""
        return (
            _has(self.verbs, asked.verb)
            and _has(self.api_groups, asked.group)
            and _has(self.resources, asked.resource)
            and (_has(self.namespaces, asked.namespace) if asked.namespace else self.cluster_scope)
        )


class _NonResourceRule(_Base, frozen=True):
    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def is_everything(self) -> bool:
        """Tell whether the rule matches every non-resource request."""
        return "*" in self.verbs and "*" in self.non_resource_urls

    def matches(self, asked: _Asked) -> bool:
        """Tell whether the rule matches a non-resource request."""
        return _has(self.verbs, asked.verb) and any(
            url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in self.non_resource_urls
        )


class _Rules(_Base, frozen=True):
    subjects: tuple[_Subject, ...] = ()
    resource_rules: tuple[_ResourceRule, ...] = ()
    non_resource_rules: tuple[_NonResourceRule, ...] = ()


class _Typed(_Base, frozen=True):
    type: str = ""


class _Spec(_Base, frozen=True):
    priority_level_configuration: _Named = _Named()
    matching_precedence: int = 1000
    distinguisher_method: _Typed | None = None
    rules: tuple[_Rules, ...] = ()


class _Meta(_Base, frozen=True):
    name: str
    uid: str = ""


class _FlowSchema(_Base, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


class _Asked(NamedTuple):
    """The attributes of a request that rules match."""

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    namespace: str = ""


class Schema(NamedTuple):
    """A FlowSchema."""

    precedence: int
    name: str
    uid: str
    level: str
    distinguisher: str
    rules: tuple[_Rules, ...]


class Match(NamedTuple):
    """The schema of a request, and its flow within that."""

    schema: Schema
    distinguisher: str
    """The flow distinguisher: a user's name, a namespace, or empty."""


_Rule = _ResourceRule | _NonResourceRule
_Candidate = tuple[Schema, tuple[_Rule, ...]]


def read_schemas(objects: Iterable[Any]) -> list[Schema]:
    """Return FlowSchemas in order of precedence, without those that cannot be decoded."""
    found = []
    for obj in objects:
        try:
            read = msgspec.convert(obj, _FlowSchema)
        except msgspec.ValidationError:
            continue
        spec, method = read.spec, read.spec.distinguisher_method
        by = method.type if method is not None else ""
        level = spec.priority_level_configuration.name
        found.append(Schema(spec.matching_precedence, read.metadata.name, read.metadata.uid, level, by, spec.rules))
    return sorted(found, key=lambda schema: (schema.precedence, schema.name))


class Candidates:
    """The FlowSchemas that can match a user's requests, in order, up to the first that matches all of them."""

    def __init__(self, schemas: Iterable[Schema], user: User) -> None:
        self.user = user
        self._resource: list[_Candidate] = []
        self._other: list[_Candidate] = []
        for schema in schemas:
            rules = [rules for rules in schema.rules if any(one.is_user(user) for one in rules.subjects)]
            self._add(self._resource, schema, tuple(rule for one in rules for rule in one.resource_rules))
            self._add(self._other, schema, tuple(rule for one in rules for rule in one.non_resource_rules))
        self.sole_resource, self.sole_other = self._sole(self._resource), self._sole(self._other)
        """The one match of all resource requests of the user, and of all others; None if it depends on the request."""

    @staticmethod
    def _add(candidates: list[_Candidate], schema: Schema, rules: tuple[_Rule, ...]) -> None:
        if candidates and any(rule.is_everything() for rule in candidates[-1][1]):
            return
        if rules:
            candidates.append((schema, rules))

    def _sole(self, candidates: list[_Candidate]) -> Match | None:
        if candidates:
            schema, rules = candidates[0]
            if schema.distinguisher != "ByNamespace" and any(rule.is_everything() for rule in rules):
                return self._match(schema, "")
        return None

    def _match(self, schema: Schema, namespace: str) -> Match:
        by = {"ByUser": self.user.name, "ByNamespace": namespace}
        return Match(schema, by.get(schema.distinguisher, ""))

    def find(self, method: str, path: str, is_watch: bool) -> Match | None:
        """Return the match of a request; None if no schema matches."""
        target = parse_path(path) if path.startswith("/api") else None
        if target is None:
            asked, candidates = _Asked(method.lower(), path), self._other
        else:
            verb = verb_of(method, bool(target.name), is_watch and not target.name)
            resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
            asked, candidates = _Asked(verb, path, target.group, resource, target.namespace), self._resource
        for schema, rules in candidates:
            if any(rule.matches(asked) for rule in rules):
                return self._match(schema, asked.namespace)
        return None


def _has(some: tuple[str, ...], one: str) -> bool:
    return "*" in some or one in some
