"""Views of rbac.authorization.k8s.io/v1."""

from __future__ import annotations

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import LabelSelector


class PolicyRule(View, frozen=True, kw_only=True):
    """One permission."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class AggregationRule(View, frozen=True, kw_only=True):
    """Which cluster roles are added up."""

    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class RoleRef(View, frozen=True, kw_only=True):
    """The role that a binding grants."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(View, frozen=True, kw_only=True):
    """To whom a role is granted: User, Group or ServiceAccount."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class Role(Object, frozen=True, kw_only=True):
    """Permissions in a namespace."""

    rules: tuple[PolicyRule, ...] = ()


class ClusterRole(Object, frozen=True, kw_only=True):
    """Permissions in the cluster."""

    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


class RoleBinding(Object, frozen=True, kw_only=True):
    """Grants a role in a namespace."""

    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()


class ClusterRoleBinding(Object, frozen=True, kw_only=True):
    """Grants a cluster role everywhere."""

    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()
