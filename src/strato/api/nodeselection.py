"""Which nodes a pod may run on: taints, node selectors and node affinity, by Kubernetes' rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from strato.api.core import Node, NodeSelectorTerm, PodSpec, Taint, Toleration
from strato.api.shapes import LabelSelectorRequirement

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that is equivalent to a cordon (``spec.unschedulable``)."""
HARD_EFFECTS = ("NoSchedule", "NoExecute")
"""Effects that keep pods away."""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any toleration accepts a taint (Kubernetes' ToleratesTaint)."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator in ("", "Equal") and toleration.key and toleration.value == taint.value:
            return True
    return False


def matches_node(spec: PodSpec, node: Node) -> bool:
    """Whether a node matches a pod's node selector and required node affinity."""
    labels = node.metadata.labels or {}
    for key, value in spec.node_selector.items():
        if labels.get(key) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return any(matches_term(term, node) for term in affinity.required.node_selector_terms)


def matches_term(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all requirements of a term hold; a term without any holds for no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels or {}
    if not all(requirement_holds(r, labels.get(r.key)) for r in term.match_expressions):
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(requirement_holds(r, fields.get(r.key)) for r in term.match_fields)


def requirement_holds(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    """Return whether a label's value (None when absent) meets a node selector requirement."""
    operator, values = requirement.operator, requirement.values
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(values) == 1:
        try:
            left, right = int(value), int(values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False
