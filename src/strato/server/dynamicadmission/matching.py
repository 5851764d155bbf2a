"""Match writes against the rules and selectors of a webhook or policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.selectors import Selector, from_label_selector
from strato.api.shapes import LabelSelector

Json = dict[str, Any]
_EXEMPT_GROUPS = frozenset(("admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"))
"""The kinds that configure admission are exempt, so that a user can repair a mistake in them; so are reviews."""


def is_exempt(kind: Kind) -> bool:
    """Whether webhooks and policies never apply to a kind."""
    return kind.group in _EXEMPT_GROUPS


@dataclass(frozen=True, slots=True)
class RuleWithOperations:
    """A ``RuleWithOperations``; ``*`` matches everything."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resources and subresources."""
    scope: str
    names: frozenset[str]
    """Names of objects; empty matches all."""

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> RuleWithOperations:
        """Return a rule from its JSON."""
        parts = [text.partition("/") for text in written.get("resources") or ()]
        return cls(
            frozenset(written.get("operations") or ()),
            frozenset(written.get("apiGroups") or ()),
            frozenset(written.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in parts),
            written.get("scope") or "*",
            frozenset(written.get("resourceNames") or ()),
        )

    def covers(self, kind: Kind, operation: str, subresource: str) -> bool:
        """Whether the rule matches an operation on a kind, whatever the object's namespace and name."""
        namespaced = kind.namespaced
        return (
            _holds(self.operations, operation)
            and _holds(self.groups, kind.group)
            and _holds(self.versions, kind.version)
            and (self.scope == "*" or (self.scope == "Namespaced") is namespaced)
            and any(
                resource in ("*", kind.plural) and below in ("*", subresource) for resource, below in self.resources
            )
        )


def _holds(items: frozenset[str], wanted: str) -> bool:
    return "*" in items or wanted in items


@dataclass(frozen=True, slots=True)
class Scope:
    """The rules and selectors of a webhook, policy or binding: its ``MatchResources``."""

    rules: tuple[RuleWithOperations, ...]
    takes_all: bool
    """Whether an absence of rules matches everything, as in a binding; in a webhook it matches nothing."""
    excluded: tuple[RuleWithOperations, ...]
    is_exact: bool
    """Whether a rule matches only the versions it names (``matchPolicy: Exact``)."""
    namespaces: Selector
    objects: Selector

    @classmethod
    def of(cls, written: Mapping[str, Any], rules: str = "resourceRules") -> Scope:
        """Return a scope from its JSON.

        Raises:
            InvalidSelector: A selector is invalid.
        """
        return cls(
            tuple(map(RuleWithOperations.of, written.get(rules) or ())),
            rules == "resourceRules" and not written.get(rules),
            tuple(map(RuleWithOperations.of, written.get("excludeResourceRules") or ())),
            written.get("matchPolicy") == "Exact",
            _selector(written.get("namespaceSelector")),
            _selector(written.get("objectSelector")),
        )

    def covered(
        self, kind: Kind, operation: str, subresource: str, others: Iterable[Kind], name: str | None = None
    ) -> Kind | None:
        """Return the kind as which the rules match an operation: the kind itself if possible, else an equivalent.

        Args:
            kind: The written kind.
            operation: The operation.
            subresource: The subresource, empty for the object itself.
            others: The other versions of the kind.
            name: The object's name; None is any name.
        """
        kinds = (kind,) if self.is_exact else (kind, *others)
        if name is not None and any(
            _applies(rule, one, operation, subresource, name) for rule in self.excluded for one in kinds
        ):
            return None
        if self.takes_all:
            return kind
        for one in kinds:
            if any(_applies(rule, one, operation, subresource, name) for rule in self.rules):
                return one
        return None

    def selects(self, request: AdmissionRequest, namespace: Json | None) -> bool:
        """Whether the selectors match the object (new or old) and its stored namespace."""
        return self._selects_namespace(request, namespace) and (
            self.objects.is_empty
            or any(self.objects.matches(_labels(one)) for one in (request.object, request.old_object) if one)
        )

    def _selects_namespace(self, request: AdmissionRequest, namespace: Json | None) -> bool:
        if self.namespaces.is_empty:
            return True
        if request.kind is catalog.NAMESPACE:
            is_sent = request.object is not None and not request.subresource
            return self.namespaces.matches(_labels(request.object if is_sent else request.old_object or namespace))
        return not request.namespace or self.namespaces.matches(_labels(namespace))


def _applies(rule: RuleWithOperations, kind: Kind, operation: str, subresource: str, name: str | None) -> bool:
    named = name is None or not rule.names or name in rule.names
    return named and rule.covers(kind, operation, subresource)


def _selector(written: Any) -> Selector:
    return from_label_selector(msgspec.convert(written or {}, LabelSelector))


def _labels(obj: Json | None) -> Mapping[str, str]:
    metadata = (obj or {}).get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
