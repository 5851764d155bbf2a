"""Views of topology.volcano.sh/v1alpha1 (spec volcano-api 10)."""

from __future__ import annotations

from strato.api.meta import Condition, Object, View
from strato.api.shapes import LabelSelector


class ExactMatch(View, frozen=True, kw_only=True):
    """A name."""

    name: str = ""


class RegexMatch(View, frozen=True, kw_only=True):
    """An RE2 pattern of names."""

    pattern: str = ""


class MemberSelector(View, frozen=True, kw_only=True):
    """Exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class MemberSpec(View, frozen=True, kw_only=True):
    """Nodes or HyperNodes that belong to it."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(View, frozen=True, kw_only=True):
    """``spec``; a lower tier is closer."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[MemberSpec, ...] = ()


class HyperNodeStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(Object, frozen=True, kw_only=True):
    """A network domain."""

    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
