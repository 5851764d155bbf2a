"""Prevent privilege escalation: a user can write or bind only roles whose rights the user has in the same scope.

The rules are those of Kubernetes: exempt are users with the verb ``escalate`` on the role, or ``bind`` on the role that
a binding names, and members of ``system:masters``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.status import forbidden, not_found
from strato.api.wire import User
from strato.errors import ApiError
from strato.server.auth.policy import PolicyRule, compile_rule
from strato.server.auth.text import quoted

ROLES = (catalog.ROLE, catalog.CLUSTERROLE)
BINDINGS = (catalog.ROLEBINDING, catalog.CLUSTERROLEBINDING)
_NEEDS_ALL = "must have cluster-admin privileges to use the aggregationRule"
_ALL = tuple(
    map(
        compile_rule,
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}),
    )
)
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
"""Members of metadata that the garbage collector writes, and those that every write changes."""
_ANY: dict[str | None, None] = {None: None}
MAX_COMPARED = 50_000
"""Most comparisons, some 20 ms; a role that needs more is refused as too large."""
_TOO_MANY = (
    "the rules combine too many verbs, groups, resources and names to be compared with what you hold; "
    "write less into one role"
)
_Json = Mapping[str, Any]


class Atom(NamedTuple):
    """A single right: one verb on one resource (perhaps of one name), or on one path."""

    verb: str
    group: str
    resource: str
    name: str | None
    path: str


class TooManyRights(Exception):
    """Rules have more combinations than `MAX_COMPARED`."""


def atoms(rule: PolicyRule) -> Iterator[Atom]:
    """Yield the single rights that a rule grants; another rule covers each of them either wholly or not at all."""
    verbs, groups, resources, names = (
        dict.fromkeys(rule.written.get(member) or ()) for member in ("verbs", "apiGroups", "resources", "resourceNames")
    )
    yield from starmap(
        partial(Atom, path=""), ((v, g, r, n) for g in groups for r in resources for v in verbs for n in names or _ANY)
    )
    for path in dict.fromkeys(rule.paths):
        for verb in verbs:
            yield Atom(verb, "", "", None, path)


def covers(rule: PolicyRule, atom: Atom) -> bool:
    """Return whether a rule grants an atom; only the same wildcard grants a wildcard in the atom."""
    if not _has(rule.verbs, atom.verb):
        return False
    if atom.path:
        return any(
            one == atom.path or (one.endswith("*") and atom.path.startswith(one.rstrip("*"))) for one in rule.paths
        )
    if rule.names and atom.name not in rule.names:
        return False
    return _has(rule.groups, atom.group) and _has_resource(rule, atom.resource)


def missing(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[str]:
    """Return the rights in ``wanted`` that ``held`` lacks, in Kubernetes' form; empty if there are none.

    Raises:
        TooManyRights: There are too many combinations to compare.
    """
    verbs: dict[tuple[str, str, str | None], list[str]] = {}
    texts: set[str] = set()
    compared = 0
    for want in wanted:
        if any(_covers_all(rule, want) for rule in held):
            continue
        near = [rule for rule in held if _touches(rule, want)]
        for atom in atoms(want):
            compared += 1 + len(near)
            if compared > MAX_COMPARED:
                raise TooManyRights
            if any(covers(rule, atom) for rule in near):
                continue
            if atom.path:
                texts.add(f"{{NonResourceURLs:{quoted([atom.path])}, Verbs:{quoted([atom.verb])}}}")
            else:
                verbs.setdefault((atom.group, atom.resource, atom.name), []).append(atom.verb)
    for (group, resource, name), some in verbs.items():
        named = f", ResourceNames:{quoted([name])}" if name is not None else ""
        texts.add(f"{{APIGroups:{quoted([group])}, Resources:{quoted([resource])}{named}, Verbs:{quoted(some)}}}")
    return sorted(texts)


def _has(granted: frozenset[str], wanted: str) -> bool:
    return wanted in granted or "*" in granted


def _has_resource(rule: PolicyRule, resource: str) -> bool:
    if _has(rule.resources, resource):
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in rule.resources


def _covers_all(rule: PolicyRule, want: PolicyRule) -> bool:
    """Whether one rule grants all rights of another, which is about resources."""
    return (
        not want.paths
        and ("*" in rule.verbs or want.verbs <= rule.verbs)
        and ("*" in rule.groups or want.groups <= rule.groups)
        and ("*" in rule.resources or want.resources <= rule.resources)
        and (not rule.names or (bool(want.names) and want.names <= rule.names))
    )


def _touches(rule: PolicyRule, want: PolicyRule) -> bool:
    """Whether a rule may grant some right of another."""
    if "*" not in rule.verbs and rule.verbs.isdisjoint(want.verbs):
        return False
    return bool(rule.paths and want.paths) or "*" in rule.groups or not rule.groups.isdisjoint(want.groups)


class Escalation:
    """Checks writes of roles and bindings.

    Args:
        may: Whether a user has the right to (verb, resource, namespace, name) in RBAC's API group.
        held: Returns the rules that a user has in a namespace.
        role: Returns the rules of a role by kind, name and the binding's namespace; None if there is no such role.
    """

    def __init__(
        self,
        may: Callable[[User, str, str, str, str], bool],
        held: Callable[[User, str], Sequence[PolicyRule]],
        role: Callable[[str, str, str], Sequence[PolicyRule] | None],
    ) -> None:
        self._may, self._held, self._role = may, held, role

    def check_role(self, user: User, plural: str, namespace: str, asked: str, obj: _Json, old: _Json | None) -> None:
        """Check that a role grants only rights that the user has.

        Args:
            user: The writer.
            plural: ``roles`` or ``clusterroles``.
            namespace: The role's namespace.
            asked: The name in the request; empty for a creation.
            obj: The new role.
            old: The stored role; None for a creation.

        Raises:
            Forbidden: It grants more.
        """
        if (old is not None and _only_collected(obj, old)) or self._may(user, "escalate", plural, namespace, asked):
            return
        self._confirm(user, plural, namespace, obj, [compile_rule(rule) for rule in obj.get("rules") or ()])
        aggregates = _aggregates(obj) or (old is not None and _aggregates(old))
        if aggregates and missing(self._held(user, namespace), _ALL):
            raise _refused(plural, obj, _NEEDS_ALL)

    def check_binding(self, user: User, plural: str, namespace: str, obj: _Json, old: _Json | None) -> None:
        """Check that a binding is of a role whose rights the user has.

        Raises:
            Forbidden: The role grants more.
            NotFound: There is no such role, and the user has no right to bind it.
        """
        role = obj.get("roleRef") or {}
        kind, name = role.get("kind") or "", role.get("name") or ""
        if old is not None and _only_collected(obj, old):
            return
        resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
        if resource is None:
            return  # validation will refuse the binding
        if self._may(user, "bind", resource, namespace, name):
            return
        rules = self._role(kind, name, namespace)
        if rules is None:
            raise not_found(catalog.CLUSTERROLE if kind == "ClusterRole" else catalog.ROLE, name)
        self._confirm(user, plural, namespace, obj, rules)

    def _confirm(self, user: User, plural: str, namespace: str, obj: _Json, rules: Sequence[PolicyRule]) -> None:
        try:
            lacking = missing(self._held(user, namespace), rules)
        except TooManyRights:
            raise _refused(plural, obj, _TOO_MANY) from None
        if lacking:
            raise _refused(
                plural,
                obj,
                f"user {quoted(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not "
                "currently held:\n" + "\n".join(lacking),
            )


def _refused(plural: str, obj: _Json, text: str) -> ApiError:
    kind = next(one for one in (*ROLES, *BINDINGS) if one.plural == plural)
    return forbidden(kind, obj["metadata"].get("name") or "", text)


def _aggregates(role: _Json) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_collected(obj: _Json, old: _Json) -> bool:
    """Whether a write changes only members that the garbage collector writes."""
    return _rest(obj) == _rest(old)


def _rest(obj: _Json) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _COLLECTED}
    return {**obj, "metadata": metadata}
