"""Rules in CEL that several kinds share, and the shape of a rule.

They say what the admission webhook says (`strato.admission`), in its words where it has a text of Volcano's, so that a
cluster is safe without the webhook. What they cannot see stays the webhook's: other objects, and the order that
dependencies make (docs/admission.md lists it).

A rule costs an estimate that Kubernetes bounds: 10 million for one, 100 million for a definition. The estimate counts
the largest object that the schema allows, which is why lists with costly rules have a ``maxItems``; the bounds are
beyond what fits into an object of etcd's 1.5 MB, or beyond what can be meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from strato.api.crds.schema import Schema

MINOR_VERSION: Final = 30
"""Kubernetes 1.30 is the first that knows all that the rules use: amounts, and rules for new values only."""

_KEY: Final = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str = ""
    """One line. Shown when there is no ``expression``, or when that fails."""
    expression: str = ""
    """CEL that makes the message."""
    on_create: bool = False
    """Whether it holds for new values only; the rule is then not asked on updates (needs Kubernetes 1.30)."""

    def to_json(self) -> dict[str, Any]:
        """Return it as the definition has it."""
        body: dict[str, Any] = {"rule": f"oldSelf.hasValue() || ({self.rule})" if self.on_create else self.rule}
        if self.message:
            body["message"] = self.message
        if self.expression:
            body["messageExpression"] = self.expression
        if self.on_create:
            body["optionalOldSelf"] = True
        return body


def add(schema: Schema, *rules: Rule) -> Schema:
    """Add rules to a schema, in place, and return it."""
    schema.setdefault(_KEY, []).extend(rule.to_json() for rule in rules)
    return schema


def without_rules(manifest: Any) -> Any:
    """Return a copy of a definition without rules, for a Kubernetes before `MINOR_VERSION`; it keeps the schema."""
    if isinstance(manifest, dict):
        return {key: without_rules(value) for key, value in manifest.items() if key != _KEY}
    if isinstance(manifest, list):
        return [without_rules(item) for item in manifest]
    return manifest


def unchanged(members: Sequence[tuple[str, str]], message: str) -> list[Rule]:
    """Return transition rules: each member may not change; absent is equal to the empty value given in CEL."""
    return [
        Rule(
            f"(has(self.{name}) ? self.{name} : {empty}) == (has(oldSelf.{name}) ? oldSelf.{name} : {empty})",
            message,
        )
        for name, empty in members
    ]


TIERS = Rule(
    "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
)
"""Of a NetworkTopologySpec (spec volcano-api 16 and 17)."""
