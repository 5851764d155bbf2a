"""Authorize nodes by what their pods use, then all users by RBAC; and check the content of writes against rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.api.wire import User
from strato.server.auth.escalation import BINDINGS, ROLES, Escalation
from strato.server.auth.identity import ANONYMOUS
from strato.server.auth.noderestriction import NodeRestriction
from strato.server.auth.nodes import NODES_GROUP, NodeAuthorizer, node_of
from strato.server.auth.policy import PolicyRule, RbacPolicy
from strato.server.auth.rbac import MASTERS, Rbac
from strato.server.path import Attributes
from strato.server.store import Store

_RBAC = "rbac.authorization.k8s.io"
_GUARDED = frozenset((*ROLES, *BINDINGS))
_Json = Mapping[str, Any]


class RbacAuthorizer:
    """Authorizes the requests of all users; a `rest.rights.Authorizer`.

    Args:
        nodes: Authorizes nodes; None leaves them to RBAC.
    """

    def __init__(self, policy: RbacPolicy, nodes: NodeAuthorizer | None = None) -> None:
        self._rbac, self._nodes = Rbac(policy), nodes

    @classmethod
    def of_store(cls, store: Store) -> RbacAuthorizer:
        """Return an authorizer that follows the objects of a store."""
        return cls(RbacPolicy.of_store(store), NodeAuthorizer(store))

    @property
    def revision(self) -> int:
        """Grows with every change of a role or a binding."""
        return self._rbac.policy.revision

    @property
    def policy(self) -> RbacPolicy:
        """The roles and bindings."""
        return self._rbac.policy

    def allows(self, user: User, asked: Attributes) -> bool:
        """Return whether the user, given with all groups, has the right to a request."""
        node = self._node_of(user)
        if node is not None and self._nodes is not None and self._nodes.denial(node, asked) is None:
            return True
        return self._rbac.allows(user, asked)

    def reason(self, user: User, asked: Attributes) -> str:
        """Return the reason of the decision, with Kubernetes' text; empty if there is none."""
        reasons = []
        node = self._node_of(user)
        if node is not None and self._nodes is not None:
            denial = self._nodes.denial(node, asked)
            if denial is None:
                return ""
            reasons.append(denial)
        reasons.append(self._rbac.reason(user, asked))
        return reasons[-1] if reasons[-1].startswith("RBAC: allowed") else "\n".join(filter(None, reasons))

    def _node_of(self, user: User) -> str | None:
        """Return the name of the node that a user is; None for other users."""
        return node_of(user) if self._nodes is not None and MASTERS not in user.groups else None

    def depends_on_names(self, user: User) -> bool:
        """Return whether the user's rights depend on the names of objects, or on more than roles and bindings."""
        return node_of(user) is not None or self._rbac.has_names(user)

    def rules(self, user: User, namespace: str) -> Sequence[PolicyRule]:
        """Return the rules that RBAC gives a user in a namespace (cluster-wide ones included)."""
        return self._rbac.rules(user, namespace)

    def has_more_than_rules(self, user: User) -> bool:
        """Return whether a user has rights that `rules` cannot express, as nodes have."""
        return self._nodes is not None and node_of(user) is not None


class WriteRights:
    """Checks the content of writes against the user's rights; a `rest.rights.WriteRights`."""

    def __init__(self, authorizer: RbacAuthorizer, look_up: Callable[[Kind, str, str], _Json | None]) -> None:
        self._nodes = NodeRestriction(look_up)
        self._escalation = Escalation(
            lambda user, verb, plural, namespace, name: authorizer.allows(
                user, Attributes(verb, _RBAC, plural, "", namespace, name)
            ),
            authorizer.rules,
            authorizer.policy.rules_of,
        )

    def restrict(self, user: User | None, kind: Kind) -> bool:
        """Return whether `check` may refuse this user's writes of a kind; such writes take no fast path."""
        return kind in _GUARDED or (user is not None and NODES_GROUP in user.groups and node_of(user) is not None)

    def check(self, request: AdmissionRequest, asked: str) -> None:
        """Check that the user's rights allow the content of a write.

        Args:
            request: The write.
            asked: The name in the request's path; empty for a creation.

        Raises:
            Forbidden: A role or binding grants more than the user has, or a node writes an object that is not its own.
            NotFound: A binding refers to a role that does not exist.
        """
        user, kind = request.user or ANONYMOUS, request.kind
        if MASTERS in user.groups:
            return
        node = node_of(user)
        if node is not None:
            self._nodes.check(node, request)
        if kind not in _GUARDED or request.object is None:
            return
        if kind in ROLES:
            self._escalation.check_role(user, kind.plural, request.namespace, asked, request.object, request.old_object)
        else:
            self._escalation.check_binding(user, kind.plural, request.namespace, request.object, request.old_object)
