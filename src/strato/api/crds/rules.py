"""Rules in CEL that several kinds share, and the class of a rule.

They check the same as the admission webhook (`strato.admission`), with its messages where these are Volcano's, so that
a cluster is safe without the webhook. Only the webhook can check what depends on other objects or on the order of
dependencies (docs/admission.md lists it).

Kubernetes bounds the estimated cost of a rule: 10 million for one, 100 million for a definition. The estimate assumes
the largest object that the schema allows, so lists with costly rules have a ``maxItems``. Those bounds exceed what fits
into an object of etcd's 1.5 MB, or what makes sense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strato.api.crds.schema import Schema

MINOR_VERSION: Final = 30
"""Kubernetes 1.30 is the first that has all that the rules use: quantities, and rules for new values only."""

_KEY: Final = "x-kubernetes-validations"
_INSIDE: Final = ("items", "additionalProperties")


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str = ""
    """Message of one line, shown if there is no ``expression`` or that fails."""
    expression: str = ""
    """CEL expression that makes the message."""
    on_create: bool = False
    """Whether the rule applies to new values only and not to updates (needs Kubernetes 1.30)."""

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON for the definition."""
        body: dict[str, Any] = {"rule": f"oldSelf.hasValue() || ({self.rule})" if self.on_create else self.rule}
        if self.message:
            body["message"] = self.message
        if self.expression:
            body["messageExpression"] = self.expression
        if self.on_create:
            body["optionalOldSelf"] = True
        return body


def add(schema: Schema, *rules: ValidationRule) -> Schema:
    """Add rules to a schema, in place, and return it."""
    schema.setdefault(_KEY, []).extend(rule.to_json() for rule in rules)
    return schema


def all_rules(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of a schema and of the schemas inside it."""
    yield from schema.get(_KEY) or ()
    for inner in (schema.get("properties") or {}).values():
        yield from all_rules(inner)
    for name in _INSIDE:
        if isinstance(schema.get(name), Mapping):
            yield from all_rules(schema[name])


def without_rules(schema: Mapping[str, Any], texts: frozenset[str] | None = None) -> Schema:
    """Return a schema without the rules with these texts; without any rules if None."""
    body = dict(schema)
    rules = body.pop(_KEY, None) or ()
    if kept := [rule for rule in rules if texts is not None and rule["rule"] not in texts]:
        body[_KEY] = kept
    if body.get("properties"):
        body["properties"] = {name: without_rules(inner, texts) for name, inner in body["properties"].items()}
    for name in _INSIDE:
        if isinstance(body.get(name), Mapping):
            body[name] = without_rules(body[name], texts)
    return body


def for_older(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition for a Kubernetes before `MINOR_VERSION`: no rules, the same schemas."""
    versions = [
        {**version, "schema": {"openAPIV3Schema": without_rules(version["schema"]["openAPIV3Schema"])}}
        for version in manifest["spec"]["versions"]
    ]
    return {**manifest, "spec": {**manifest["spec"], "versions": versions}}


def unchanged(members: Sequence[tuple[str, str]], message: str) -> list[ValidationRule]:
    """Return rules that forbid changes of members, given with their empty values in CEL, which equal missing ones."""
    return [
        ValidationRule(
            f"(has(self.{name}) ? self.{name} : {empty}) == (has(oldSelf.{name}) ? oldSelf.{name} : {empty})", message
        )
        for name, empty in members
    ]


TIERS = ValidationRule(
    "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
)
"""Rules of a NetworkTopologySpec (spec volcano-api 16 and 17)."""
