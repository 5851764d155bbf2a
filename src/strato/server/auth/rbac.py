"""RBAC: decide on a user's request by Roles, ClusterRoles and their bindings.

A user's rules are collected at its first request and cached until a role or binding changes. Decisions are cached too,
so that a repeated request costs one dictionary look-up. Both caches are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strato.api.wire import User
from strato.lru import LruCache
from strato.server.auth.policy import PolicyRule, RbacPolicy
from strato.server.path import Attributes

MASTERS = "system:masters"
"""The group whose members have all rights, whatever roles say."""
_MAX_BYTES = 4 << 20
"""Size of the cache of users' rules, without their decisions."""
_MAX_ANSWERS = 65_536
"""Most cached decisions, of all users together."""
_MAX_QUESTION_CHARS = 512
"""Longest key of a cached decision, in characters; longer requests are decided anew each time."""

Question = tuple[str, str, str, str, str, str]


class _Held:
    """The rules of one user, and the cached decisions."""

    __slots__ = ("answers", "has_names", "rules")

    def __init__(self, rules: dict[str, list[PolicyRule]]) -> None:
        self.rules = rules
        """Rules by namespace; those under the empty one apply everywhere."""
        self.has_names = any(rule.names for some in rules.values() for rule in some)
        """Whether any rule names single objects; otherwise a decision holds for every name."""
        self.answers: dict[Question, bool] = {}


class Rbac:
    """Decides on the requests of all users. Single-threaded."""

    def __init__(self, policy: RbacPolicy) -> None:
        self.policy = policy
        self._revision = -1
        self._held: LruCache[tuple[str, tuple[str, ...]], _Held] = LruCache(_MAX_BYTES, _size)
        self._answers = 0

    def allows(self, user: User, asked: Attributes) -> bool:
        """Return whether the user, given with all groups, has the right to a request."""
        if MASTERS in user.groups:
            return True
        held = self._of(user)
        verb, group, resource, subresource, namespace, name, path, _ = asked
        if path:
            return any(rule.allows_path(verb, path) for rule in held.rules.get("", ()))
        question = (verb, group, resource, subresource, namespace, name if held.has_names else "")
        known = held.answers.get(question)
        if known is None:
            known = _decide(held, question)
            if sum(map(len, question)) <= _MAX_QUESTION_CHARS:
                self._note(held, question, known)
        return known

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        """Return the rules that hold for a user in a namespace (cluster-wide ones included)."""
        held = self._of(user)
        everywhere = held.rules.get("", [])
        return everywhere + held.rules.get(namespace, []) if namespace else everywhere

    def has_names(self, user: User) -> bool:
        """Return whether any rule of a user names single objects; otherwise decisions hold for every name."""
        return MASTERS not in user.groups and self._of(user).has_names

    def reason(self, user: User, asked: Attributes) -> str:
        """Return the reason of a decision, with Kubernetes' text; empty if there is none."""
        if MASTERS in user.groups:
            return ""
        verb, group, resource, subresource, namespace, name, path, _ = asked
        full = f"{resource}/{subresource}" if subresource else resource
        missing = []
        for grant in self.policy.grants(user):
            if grant.namespace and (path or grant.namespace != namespace):
                continue
            if grant.rules is None:
                missing.append(grant.role)
                continue
            for rule in grant.rules:
                if rule.allows_path(verb, path) if path else rule.allows(verb, group, full, name):
                    return f"RBAC: allowed by {grant.source}"
        return f"RBAC: {_aggregate(missing)}" if missing else ""

    def _of(self, user: User) -> _Held:
        if self._revision != self.policy.revision:
            self._revision = self.policy.revision
            self._forget()
        key = (user.name, user.groups)
        held = self._held.get(key)
        if held is None:
            rules: dict[str, list[PolicyRule]] = {}
            for grant in self.policy.grants(user):
                rules.setdefault(grant.namespace, []).extend(grant.rules or ())
            held = _Held(rules)
            self._held.put(key, held)
        return held

    def _note(self, held: _Held, question: Question, answer: bool) -> None:
        if self._answers >= _MAX_ANSWERS:
            self._forget()
        self._answers += 1
        held.answers[question] = answer

    def _forget(self) -> None:
        self._held.clear()
        self._answers = 0


def _size(user: tuple[str, tuple[str, ...]], held: _Held) -> int:
    name, groups = user
    rules = sum(len(some) for some in held.rules.values())  # they are the policy's own
    return 1000 + len(name) + sum(len(group) for group in groups) + 8 * rules


def _decide(held: _Held, question: Question) -> bool:
    verb, group, resource, subresource, namespace, name = question
    full = f"{resource}/{subresource}" if subresource else resource
    return any(rule.allows(verb, group, full, name) for rule in _rules(held, namespace))


def _rules(held: _Held, namespace: str) -> Iterator[PolicyRule]:
    yield from held.rules.get("", ())
    if namespace:
        yield from held.rules.get(namespace, ())


def _aggregate(texts: list[str]) -> str:
    """Join errors as Kubernetes does: in brackets, without duplicates."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
