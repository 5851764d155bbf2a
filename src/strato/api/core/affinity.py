"""On which nodes a pod may run, and which it prefers: affinities, tolerations, spread constraints."""

from __future__ import annotations

import msgspec

from strato.api.meta import View
from strato.api.shapes import LabelSelector, LabelSelectorRequirement

NodeSelectorRequirement = LabelSelectorRequirement
"""Same shape; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""


class NodeSelectorTerm(View, frozen=True, kw_only=True):
    """All of its requirements must hold. A term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(View, frozen=True, kw_only=True):
    """Any of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(View, frozen=True, kw_only=True):
    """A node preference; weight in [1, 100]."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(View, frozen=True, kw_only=True):
    """``affinity.nodeAffinity``."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(View, frozen=True, kw_only=True):
    """The pods, by labels and namespaces, beside which a pod has to be (or not) in a topology domain."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(View, frozen=True, kw_only=True):
    """A pod preference; weight in [1, 100]."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(View, frozen=True, kw_only=True):
    """``affinity.podAffinity`` and ``podAntiAffinity``."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True, kw_only=True):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(View, frozen=True, kw_only=True):
    """A taint the pod accepts. An empty key with Exists accepts all; an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(View, frozen=True, kw_only=True):
    """``spec.topologySpreadConstraints[]``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Taint(View, frozen=True, kw_only=True):
    """``node.spec.taints[]``."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None
