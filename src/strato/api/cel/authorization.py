"""Authorization checks in CEL: ``authorizer.group('apps').resource('deployments').check('delete').allowed()``.

Source: ``k8s.io/apiserver/pkg/cel/library`` (authz). Field and label selectors are accepted, but the authorizer here
does not use labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from strato.api import names
from strato.api.cel.cost import charge
from strato.api.cel.values import CelMessage, EvaluationError

_CHECK_UNITS = 1_000
"""Cost of a check, for which the authorizer reads each role of the user."""


@dataclass(frozen=True, slots=True)
class Question:
    """The subject of a check: a resource, or a path if that is set."""

    account: tuple[str, str] | None = None
    """Namespace and name of the service account to check; None for the user of the request."""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: str = ""


class AuthorizationDecision(NamedTuple):
    """The authorizer's decision."""

    allowed: bool
    reason: str = ""


Ask = Callable[[Question, str], AuthorizationDecision]
"""Returns the decision about a question and a verb."""


class _Asking(CelMessage):
    """An incomplete question; its CEL type determines which methods can complete it."""

    __slots__ = ("ask", "question")

    def __init__(self, type_: str, question: Question, ask: Ask, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"kubernetes.authorization.{type_}", fields or {})
        self.question, self.ask = question, ask

    def having(self, **members: Any) -> _Asking:
        """Return the question with further members set."""
        return self.__class__(self.type_name.rpartition(".")[2], replace(self.question, **members), self.ask)


class _Path(_Asking):
    __slots__ = ()


class _Group(_Asking):
    __slots__ = ()


class _Resource(_Asking):
    __slots__ = ()


class AuthorizerVariable(_Asking):
    """The variable ``authorizer``.

    Args:
        ask: Returns decisions.
        requested: The question of ``authorizer.requestResource``; None if that is not available.
    """

    __slots__ = ()

    def __init__(self, ask: Ask, requested: Question | None, account: tuple[str, str] | None = None) -> None:
        fields = {} if requested is None else {"requestResource": _Resource("ResourceCheck", requested, ask)}
        super().__init__("Authorizer", Question(account), ask, fields)


def _service_account(authorizer: AuthorizerVariable, namespace: str, name: str) -> AuthorizerVariable:
    problems = names.check_label(namespace) or names.check_subdomain(name)
    if problems:
        raise EvaluationError(f"Invalid service account {namespace}/{name}: {problems[0]}")
    return AuthorizerVariable(authorizer.ask, None, (namespace, name))


def _path(authorizer: AuthorizerVariable, path: str) -> _Path:
    if not path:
        raise EvaluationError("path must not be empty")
    return _Path("PathCheck", replace(authorizer.question, path=path), authorizer.ask)


def _resource(group: _Group, resource: str) -> _Resource:
    if not resource:
        raise EvaluationError("resource must not be empty")
    return _Resource("ResourceCheck", replace(group.question, resource=resource), group.ask)


def _check(asking: _Asking, verb: str) -> AuthorizationDecision:
    charge(_CHECK_UNITS)
    return asking.ask(asking.question, verb)


def _group(authorizer: AuthorizerVariable, group: str) -> _Group:
    return _Group("GroupCheck", replace(authorizer.question, group=group), authorizer.ask)


METHODS: dict[str, list[tuple[tuple[Any, ...], Callable[..., Any]]]] = {
    "path": [((AuthorizerVariable, str), _path)],
    "group": [((AuthorizerVariable, str), _group)],
    "serviceAccount": [((AuthorizerVariable, str, str), _service_account)],
    "resource": [((_Group, str), _resource)],
    "subresource": [((_Resource, str), lambda asking, text: asking.having(subresource=text))],
    "namespace": [((_Resource, str), lambda asking, text: asking.having(namespace=text))],
    "name": [((_Resource, str), lambda asking, text: asking.having(name=text))],
    "fieldSelector": [((_Resource, str), lambda asking, text: asking.having(fields=text))],
    "labelSelector": [((_Resource, str), lambda asking, _: asking)],
    "check": [(((_Path, _Resource), str), _check)],
    "allowed": [((AuthorizationDecision,), lambda decision: decision.allowed)],
    "reason": [((AuthorizationDecision,), lambda decision: decision.reason)],
    "errored": [((AuthorizationDecision,), lambda _: False)],
    "error": [((AuthorizationDecision,), lambda _: "")],
}
"""Called on a value."""
