"""Create-only kinds that are questions: may I, may they, what may I, who is this, whose token is that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import invalid, invalid_value
from strato.api.wire import Request, Response, User
from strato.errors import BadRequest
from strato.server import objects
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.tokens import API_AUDIENCE, Tokens

_ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Rule(Protocol):
    """What some users may do."""

    verbs: Collection[str]
    groups: Collection[str]
    resources: Collection[str]
    names: Collection[str]
    paths: Sequence[str]


class Authorizer(Protocol):
    """Decides whether a user may do something."""

    @property
    def revision(self) -> int:
        """Grows with every change of who may do what; until then answers stay as they are."""
        ...

    def minds_names(self, user: User) -> bool:
        """Return whether answers to the user depend on the names of objects."""
        ...

    def allows(
        self, user: User, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str, path: str
    ) -> bool:
        """Answer for a resource request, or with an empty ``resource`` for a path."""
        ...

    def rules(self, user: User, namespace: str) -> Sequence[Any]:
        """Return the rules (`Rule`) that hold for a user in a namespace."""
        ...


class Reviews:
    """Answers reviews.

    Args:
        authorizer: None lets everybody do everything.
        tokens: None knows no tokens.
    """

    def __init__(self, authorizer: Authorizer | None, tokens: Tokens | None) -> None:
        self._authorizer, self._tokens = authorizer, tokens
        self._answers: Mapping[Kind, Callable[[Request, ResourcePath, Json], Json]] = {
            catalog.SELFSUBJECTACCESSREVIEW: self._own_access,
            catalog.SUBJECTACCESSREVIEW: self._access,
            catalog.LOCALSUBJECTACCESSREVIEW: self._local_access,
            catalog.SELFSUBJECTRULESREVIEW: self._own_rules,
            catalog.SELFSUBJECTREVIEW: self._self,
            catalog.TOKENREVIEW: self._token,
        }

    def answers(self, kind: Kind) -> bool:
        """Return whether a kind is a review; others are stored."""
        return kind in self._answers

    def answer(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer a review.

        Raises:
            BadRequest: It cannot be read.
            Invalid: It asks nothing, or two things at once.
        """
        kind = served.kind
        review = objects.read_typed(kind, request)
        status = self._answers[kind](request, target, review.get("spec") or {})
        head = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": review["metadata"]}
        return Response(201, encode({**head, **review, "status": status}))

    def _own_access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target
        return self._decided(catalog.SELFSUBJECTACCESSREVIEW, request.user or _ANONYMOUS, spec)

    def _access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del request, target
        kind = catalog.SUBJECTACCESSREVIEW
        if not spec.get("user") and not spec.get("groups"):
            text = "at least one of user or group must be specified"
            raise invalid(kind, "", [*_attribute_problems(spec), invalid_value("spec.user", "", text)])
        return self._decided(kind, User(spec.get("user") or "", tuple(spec.get("groups") or ())), spec)

    def _local_access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        attributes = spec.get("resourceAttributes") or {}
        if (attributes.get("namespace") or "") != target.namespace:
            text = "must match metadata.namespace"
            cause = invalid_value("spec.resourceAttributes.namespace", attributes.get("namespace") or "", text)
            raise invalid(catalog.LOCALSUBJECTACCESSREVIEW, "", [cause])
        return self._access(request, target, spec)

    def _decided(self, kind: Kind, user: User, spec: Json) -> Json:
        problems = _attribute_problems(spec)
        if problems:
            raise invalid(kind, "", problems)
        if self._authorizer is None or _allows(self._authorizer, user, spec):
            return {"allowed": True}
        return {"allowed": False, "reason": "no RBAC policy matched"}

    def _own_rules(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target
        if not spec.get("namespace"):
            raise BadRequest("no namespace on request")
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        if self._authorizer is None:
            paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
            return {"resourceRules": [everything], "nonResourceRules": paths, "incomplete": False}
        rules: Sequence[Rule] = self._authorizer.rules(request.user or _ANONYMOUS, spec["namespace"])
        resource_rules = [
            {
                "verbs": sorted(rule.verbs),
                "apiGroups": sorted(rule.groups),
                "resources": sorted(rule.resources),
                **({"resourceNames": sorted(rule.names)} if rule.names else {}),
            }
            for rule in rules
            if rule.resources
        ]
        path_rules = [
            {"verbs": sorted(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
        ]
        return {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}

    def _self(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target, spec
        return {"userInfo": _user_info(request.user or _ANONYMOUS)}

    def _token(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del request, target
        token, audiences = spec.get("token") or "", spec.get("audiences") or ()
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        user = self._tokens.identify(token, audiences) if self._tokens is not None else None
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences or (API_AUDIENCE,))}


def _attribute_problems(spec: Json) -> list[Any]:
    given = [name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name) is not None]
    if len(given) == 1:
        return []
    field = "spec.nonResourceAttributes" if given else "spec.resourceAttributes"
    return [invalid_value(field, spec.get(field[5:]), _EXACTLY_ONE)]


def _allows(authorizer: Authorizer, user: User, spec: Json) -> bool:
    attributes: Any = spec.get("resourceAttributes")
    if attributes:
        get = attributes.get
        verb, group, resource = get("verb") or "", get("group") or "", get("resource") or ""
        subresource, namespace, name = get("subresource") or "", get("namespace") or "", get("name") or ""
        return authorizer.allows(user, verb, group, resource, subresource, namespace, name, "")
    path = spec.get("nonResourceAttributes") or {}
    return authorizer.allows(user, path.get("verb") or "", "", "", "", "", "", path.get("path") or "")


def _user_info(user: User) -> Json:
    return {"username": user.name, **({"uid": user.uid} if user.uid else {}), "groups": list(user.groups)}
