"""RBAC: whether a user may do something, by Role, ClusterRole and their bindings.

Bindings and roles are compiled per user into rules by namespace when first asked, and kept until the reader's
revision changes; answers are kept too, so that a repeated question costs one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User

MASTERS = "system:masters"
"""Members may do everything, whatever the objects say."""
_MAX_ANSWERS = 50_000

Question = tuple[str, str, str, str, str, str, str]


class Reader(Protocol):
    """Plain reads of RBAC objects."""

    @property
    def rbac_revision(self) -> int:
        """Changes whenever a role or binding changes."""
        ...

    def list(self, kind: Kind, namespace: str) -> Sequence[Mapping[str, Any]]:
        """Return all objects of a kind; an empty namespace means all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``PolicyRule``, ready to be asked."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: tuple[str, ...]

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
        """Whether the rule covers a path that is no resource; a trailing ``*`` covers what follows."""
        if verb not in self.verbs and "*" not in self.verbs:
            return False
        return any(path == one or (one.endswith("*") and path.startswith(one[:-1])) for one in self.paths)


def compile_rule(rule: Mapping[str, Any]) -> Rule:
    """Compile a ``PolicyRule``."""
    return Rule(
        frozenset(rule.get("verbs") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("resources") or ()),
        frozenset(rule.get("resourceNames") or ()),
        tuple(rule.get("nonResourceURLs") or ()),
    )


class Authorizer:
    """Answers for all users; only ever on one thread."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._revision: int | None = None
        self._users: dict[User, dict[str, list[Rule]]] = {}
        self._answers: dict[User, dict[Question, bool]] = {}
        self._named: dict[User, bool] = {}
        """Whether any rule of a user is about single objects; otherwise an answer holds for every name."""

    def allows(
        self,
        user: User,
        verb: str,
        group: str = "",
        resource: str = "",
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        path: str = "",
    ) -> bool:
        """Return whether the user may; with ``path`` the request is not about a resource.

        Args:
            user: Who asks, with all groups.
            verb: ``get``, ``list``, … or, with a path, the lower-case HTTP method.
            group: API group.
            resource: Plural name.
            subresource: ``log``, ``status``, …
            namespace: Empty for all namespaces and for cluster-scoped resources.
            name: The object's name, empty for collections.
            path: A path such as ``/metrics``.
        """
        if MASTERS in user.groups:
            return True
        self._keep_up()
        answers = self._answers.get(user)
        if answers is None or len(answers) > _MAX_ANSWERS:
            answers = self._answers[user] = {}
        if name and not self._minds_names(user):
            name = ""
        question = (verb, group, resource, subresource, namespace, name, path)
        known = answers.get(question)
        if known is None:
            known = answers[question] = self._decide(user, question)
        return known

    @property
    def revision(self) -> int:
        """Grows with every change of a role or a binding."""
        return self._reader.rbac_revision

    def minds_names(self, user: User) -> bool:
        """Return whether any rule of a user is about single objects; otherwise answers hold for every name."""
        if MASTERS in user.groups:
            return False
        self._keep_up()
        return self._minds_names(user)

    def _keep_up(self) -> None:
        """Forget what was found out from roles and bindings that have changed."""
        if self._revision != self._reader.rbac_revision:
            self._revision = self._reader.rbac_revision
            self._users.clear()
            self._answers.clear()
            self._named.clear()

    def _minds_names(self, user: User) -> bool:
        known = self._named.get(user)
        if known is None:
            self.rules(user, "")
            known = any(rule.names for rules in self._users[user].values() for rule in rules)
            self._named[user] = known
        return known

    def rules(self, user: User, namespace: str) -> list[Rule]:
        """Return the rules that hold for a user in a namespace (cluster-wide ones included)."""
        compiled = self._users.get(user)
        if compiled is None:
            compiled = self._users[user] = self._compile(user)
        everywhere = compiled.get("", [])
        return everywhere + compiled.get(namespace, []) if namespace else everywhere

    def _decide(self, user: User, question: Question) -> bool:
        verb, group, resource, subresource, namespace, name, path = question
        rules = self.rules(user, namespace)
        if path:
            return any(rule.allows_path(verb, path) for rule in rules)
        full = f"{resource}/{subresource}" if subresource else resource
        return any(rule.allows(verb, group, full, name) for rule in rules)

    def _compile(self, user: User) -> dict[str, list[Rule]]:
        read = self._reader.list
        cluster_roles = {one["metadata"]["name"]: one for one in read(catalog.CLUSTERROLE, "")}
        by_namespace: dict[str, list[Rule]] = {}
        for binding in read(catalog.CLUSTERROLEBINDING, ""):
            if _names(binding, user, ""):
                role = cluster_roles.get(binding["roleRef"]["name"])
                by_namespace.setdefault("", []).extend(_rules(role, cluster_roles))
        roles: dict[tuple[str, str], Mapping[str, Any]] | None = None
        for binding in read(catalog.ROLEBINDING, ""):
            namespace = binding["metadata"]["namespace"]
            if not _names(binding, user, namespace):
                continue
            reference = binding["roleRef"]
            if reference.get("kind") == "ClusterRole":
                role = cluster_roles.get(reference["name"])
            else:
                if roles is None:
                    roles = {(o["metadata"]["namespace"], o["metadata"]["name"]): o for o in read(catalog.ROLE, "")}
                role = roles.get((namespace, reference["name"]))
            by_namespace.setdefault(namespace, []).extend(_rules(role, cluster_roles))
        return by_namespace


def _names(binding: Mapping[str, Any], user: User, namespace: str) -> bool:
    """Whether one of the binding's subjects is the user."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        account_namespace = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{account_namespace}:{name}":
            return True
    return False


def _rules(
    role: Mapping[str, Any] | None, cluster_roles: Mapping[str, Mapping[str, Any]], above: tuple[str, ...] = ()
) -> Iterator[Rule]:
    """Yield a role's rules; an aggregated one is the union of the roles its selectors match (circles are cut)."""
    if role is None or role["metadata"]["name"] in above:
        return
    yield from map(compile_rule, role.get("rules") or ())
    path = (*above, role["metadata"]["name"])
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        wanted = (selector.get("matchLabels") or {}).items()
        for other in cluster_roles.values():
            if wanted and wanted <= (other["metadata"].get("labels") or {}).items():
                yield from _rules(other, cluster_roles, path)
