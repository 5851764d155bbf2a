"""Roles and bindings, indexed by subject, so that a user's rules are found without reading all bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.selectors import InvalidSelector, Selector, from_label_selector
from strato.api.shapes import LabelSelector
from strato.api.wire import User
from strato.server.snapshot import Change
from strato.server.store import Store

KINDS = (catalog.ROLE, catalog.ROLEBINDING, catalog.CLUSTERROLE, catalog.CLUSTERROLEBINDING)
_Json = Mapping[str, Any]
_Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class PolicyRule(msgspec.Struct, frozen=True, eq=False):
    """One ``PolicyRule``, compiled."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: tuple[str, ...]
    written: _Json
    """The rule as the role has it."""

    def allows(self, verb: str, group: str, resource: str, name: str) -> bool:
        """Whether the rule covers a resource request; ``resource`` carries its subresource (``pods/log``)."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        if group not in self.groups and "*" not in self.groups:
            return False
        if resource not in self.resources and "*" not in self.resources:
            _, slash, subresource = resource.partition("/")
            if not slash or f"*/{subresource}" not in self.resources:
                return False
        return not self.names or name in self.names

    def allows_path(self, verb: str, path: str) -> bool:
        """Whether the rule covers a non-resource path; a trailing ``*`` covers all paths with that prefix."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        return any(path == one or (one.endswith("*") and path.startswith(one.rstrip("*"))) for one in self.paths)


def compile_rule(rule: _Json) -> PolicyRule:
    """Compile a ``PolicyRule``."""
    return PolicyRule(
        frozenset(rule.get("verbs") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("resources") or ()),
        frozenset(rule.get("resourceNames") or ()),
        tuple(rule.get("nonResourceURLs") or ()),
        rule,
    )


class _ClusterRole(NamedTuple):
    rules: tuple[PolicyRule, ...]
    labels: Mapping[str, str]
    selectors: tuple[Selector, ...]
    """Selectors of the roles that it aggregates."""


class _Subject(NamedTuple):
    user: str
    """User name, also that of a service account; empty for a group."""
    group: str
    text: str


class _Binding(NamedTuple):
    key: _Key
    role_kind: str
    role_name: str
    subjects: tuple[_Subject, ...]


class Grant(NamedTuple):
    """A binding of a user to a role."""

    namespace: str
    """The namespace where it applies; empty if in the whole cluster."""
    source: str
    """Kubernetes' description of the binding."""
    rules: Sequence[PolicyRule] | None
    """The role's rules; None if there is no such role."""
    role: str
    """The role's name in errors."""


class RbacPolicy:
    """All roles and bindings; updated one object at a time."""

    def __init__(self) -> None:
        self.revision = 0
        """Grows with every change."""
        self._roles: dict[_Key, tuple[PolicyRule, ...]] = {}
        self._cluster_roles: dict[str, _ClusterRole] = {}
        self._bindings: dict[_Key, _Binding] = {}
        self._by_user: dict[str, set[_Key]] = {}
        self._by_group: dict[str, set[_Key]] = {}
        self._effective: dict[str, tuple[PolicyRule, ...]] = {}
        """Rules of cluster roles, with those of roles that they aggregate."""

    @classmethod
    def of(cls, objects: Iterable[_Json]) -> RbacPolicy:
        """Return the policy of the given roles and bindings."""
        policy = cls()
        by_name = {kind.name: kind for kind in KINDS}
        for obj in objects:
            metadata = obj["metadata"]
            policy.put(by_name[obj["kind"]], metadata.get("namespace", ""), metadata["name"], obj)
        return policy

    @classmethod
    def of_store(cls, store: Store) -> RbacPolicy:
        """Return the policy of a store's objects; it follows the store's published changes."""
        policy = cls()
        for kind in KINDS:
            bucket = store.bucket(kind.resource)
            for key, row in bucket.objects.items():
                policy.take(kind, key, row.body)
            store.on_publish(kind.resource, policy.follower(kind))
        return policy

    def put(self, kind: Kind, namespace: str, name: str, obj: _Json | None) -> None:
        """Update the policy with an object's new state; None if it was deleted."""
        self.revision += 1
        key = (namespace, name)
        if kind in (catalog.ROLEBINDING, catalog.CLUSTERROLEBINDING):
            self._unbind(self._bindings.pop(key, None))
            if obj is not None:
                self._bind(_binding_of(key, obj))
        elif kind is catalog.ROLE:
            self._roles.pop(key, None)
            if obj is not None:
                self._roles[key] = tuple(map(compile_rule, obj.get("rules") or ()))
        else:
            self._effective.clear()
            self._cluster_roles.pop(name, None)
            if obj is not None:
                self._cluster_roles[name] = _cluster_role_of(obj)

    def follower(self, kind: Kind) -> Callable[[str, Change], None]:
        """Return a subscriber for the published changes of a kind."""
        return lambda _resource, change: self.take(kind, change.key, change.body)

    def take(self, kind: Kind, key: str, body: bytes | None) -> None:
        """Update the policy with an object's stored bytes; None if it was deleted."""
        namespace, _, name = key.rpartition("/")
        self.put(kind, namespace, name, None if body is None else msgspec.json.decode(body))

    def _bind(self, binding: _Binding) -> None:
        self._bindings[binding.key] = binding
        for subject in binding.subjects:
            table, name = (self._by_group, subject.group) if subject.group else (self._by_user, subject.user)
            table.setdefault(name, set()).add(binding.key)

    def _unbind(self, binding: _Binding | None) -> None:
        for subject in binding.subjects if binding is not None else ():
            table, name = (self._by_group, subject.group) if subject.group else (self._by_user, subject.user)
            keys = table.get(name)
            if keys is not None and binding is not None:
                keys.discard(binding.key)
                if not keys:
                    del table[name]

    def grants(self, user: User) -> Iterator[Grant]:
        """Yield a user's grants, those of ClusterRoleBindings first."""
        keys = set(self._by_user.get(user.name, ()))
        for group in user.groups:
            keys |= self._by_group.get(group, set())
        for key in sorted(keys):
            binding = self._bindings[key]
            namespace = key[0]
            rules = self.rules_of(binding.role_kind, binding.role_name, namespace)
            yield Grant(namespace, _described(binding, user), rules, _role_text(binding))

    def rules_of(self, kind: str, name: str, namespace: str) -> Sequence[PolicyRule] | None:
        """Return the rules of the role that a binding in a namespace (empty for the cluster) names.

        None if there is no such role. An aggregated role has the rules of all roles that its selectors match.
        """
        if kind == "ClusterRole":
            known = self._effective.get(name)
            if known is None and name in self._cluster_roles:
                known = self._effective[name] = tuple(self._aggregated(name))
            return known
        return self._roles.get((namespace, name)) if kind == "Role" and namespace else None

    def _aggregated(self, name: str) -> Iterator[PolicyRule]:
        """Yield the rules of a cluster role and of those it aggregates; cycles of aggregation are cut."""
        todo, seen = [name], {name}
        while todo:
            role = self._cluster_roles[todo.pop()]
            yield from role.rules
            for selector in role.selectors:
                for other, found in self._cluster_roles.items():
                    if other not in seen and selector.matches(found.labels):
                        seen.add(other)
                        todo.append(other)


def _cluster_role_of(obj: _Json) -> _ClusterRole:
    selectors = []
    for selector in (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        try:
            selectors.append(from_label_selector(msgspec.convert(selector, LabelSelector)))
        except (msgspec.ValidationError, InvalidSelector):
            continue  # an invalid selector matches nothing
    rules = tuple(map(compile_rule, obj.get("rules") or ()))
    return _ClusterRole(rules, obj["metadata"].get("labels") or {}, tuple(selectors))


def _binding_of(key: _Key, obj: _Json) -> _Binding:
    role = obj["roleRef"]
    subjects = [one for subject in obj.get("subjects") or () if (one := _subject_of(subject, key[0])) is not None]
    return _Binding(key, role.get("kind") or "", role.get("name") or "", tuple(subjects))


def _subject_of(subject: _Json, namespace: str) -> _Subject | None:
    """Return the user or group of a binding's subject; None if its kind or namespace is unknown."""
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind == "User":
        return _Subject(name, "", f'User "{name}"')
    if kind == "Group":
        return _Subject("", name, f'Group "{name}"')
    subject_namespace = subject.get("namespace") or namespace
    if kind == "ServiceAccount" and subject_namespace:
        return _Subject(
            f"system:serviceaccount:{subject_namespace}:{name}", "", f'ServiceAccount "{name}/{subject_namespace}"'
        )
    return None


def _described(binding: _Binding, user: User) -> str:
    namespace, name = binding.key
    text = next(one.text for one in binding.subjects if one.user == user.name or one.group in user.groups)
    kind, full = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    return f'{kind} "{full}" of {binding.role_kind} "{binding.role_name}" to {text}'


def _role_text(binding: _Binding) -> str:
    return f'{binding.role_kind.lower()}.rbac.authorization.k8s.io "{binding.role_name}" not found'
