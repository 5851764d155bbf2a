"""Reviews: create-only kinds that ask for a user's rights (one or all), a user's identity, or a token's user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import invalid, invalid_value
from strato.api.wire import Request, Response, User
from strato.errors import BadRequest
from strato.server import preparation
from strato.server.path import Attributes, ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import representations
from strato.server.rest.rights import ANONYMOUS, Authorizer, Rule
from strato.server.rest.tokens import Tokens

_EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """Answers reviews.

    Args:
        authorizer: Decides on rights; None allows everything.
        tokens: Identifies tokens; with None no token is valid.
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
        """Return whether a kind is a review, whose creation is answered here instead of stored."""
        return kind in self._answers

    def answer(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer a review.

        Raises:
            BadRequest: The body cannot be decoded.
            NotAcceptable: The client accepts only a table.
            Invalid: The spec asks for nothing, or for two things at once.
        """
        representations.wanted(request, served, has_table=False)
        kind = served.kind
        review = preparation.read_typed(kind, request)
        status = self._answers[kind](request, target, review.get("spec") or {})
        head = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": review["metadata"]}
        return Response(201, encode({**head, **review, "status": status}))

    def _own_access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target
        return self._decided(catalog.SELFSUBJECTACCESSREVIEW, request.user or ANONYMOUS, spec)

    def _access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del request
        kind = catalog.LOCALSUBJECTACCESSREVIEW if target.namespace else catalog.SUBJECTACCESSREVIEW
        if not spec.get("user") and not spec.get("groups"):
            text = "at least one of user or group must be specified"
            raise invalid(kind, "", [*_attribute_problems(spec), invalid_value("spec.user", "", text)])
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()))  # no authorizer reads uid or extra
        return self._decided(kind, user, spec)

    def _local_access(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        problems: list[Any] = []
        attributes, kind = spec.get("resourceAttributes"), catalog.LOCALSUBJECTACCESSREVIEW
        if attributes is not None and (attributes.get("namespace") or "") != target.namespace:
            text = "must match metadata.namespace"
            place = "spec.resourceAttributes.namespace"
            problems.append(invalid_value(place, attributes.get("namespace") or "", text))
        if spec.get("nonResourceAttributes") is not None:
            text = "disallowed on this kind of request"
            problems.append(invalid_value("spec.nonResourceAttributes", spec["nonResourceAttributes"], text))
        if problems:
            raise invalid(kind, "", [*_attribute_problems(spec), *problems])
        return self._access(request, target, spec)

    def _decided(self, kind: Kind, user: User, spec: Json) -> Json:
        problems = _attribute_problems(spec)
        if problems:
            raise invalid(kind, "", problems)
        if self._authorizer is None:
            return {"allowed": True}
        asked = _attributes(spec)
        allowed, reason = self._authorizer.allows(user, asked), self._authorizer.reason(user, asked)
        return {"allowed": allowed, **({"reason": reason} if reason else {})}

    def _own_rules(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target
        if not spec.get("namespace"):
            raise BadRequest("no namespace on request")
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        if self._authorizer is None:
            paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
            return {"resourceRules": [everything], "nonResourceRules": paths, "incomplete": False}
        user = request.user or ANONYMOUS
        rules: Sequence[Rule] = self._authorizer.rules(user, spec["namespace"])
        status: dict[str, Any] = {
            "resourceRules": [_written(rule, _OF_RESOURCES) for rule in rules if rule.resources],
            "nonResourceRules": [_written(rule, _OF_PATHS) for rule in rules if rule.paths],
            "incomplete": False,
        }
        if self._authorizer.has_more_than_rules(user):
            text = "node authorizer does not support user rule resolution"
            status |= {"incomplete": True, "evaluationError": text}
        return status

    def _self(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del target, spec
        return {"userInfo": _user_info(request.user or ANONYMOUS)}

    def _token(self, request: Request, target: ResourcePath, spec: Json) -> Json:
        del request, target
        token, audiences = spec.get("token") or "", spec.get("audiences") or ()
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        found = self._tokens.identify(token, audiences) if self._tokens is not None else None
        if found is None:
            return {"user": {}, "error": "invalid bearer token"}
        user, shared = found
        return {"authenticated": True, "user": _user_info(user), "audiences": list(shared)}


_OF_RESOURCES = ("verbs", "apiGroups", "resources", "resourceNames")
_OF_PATHS = ("verbs", "nonResourceURLs")


def _written(rule: Rule, members: Sequence[str]) -> Json:
    return {name: list(rule.written[name]) for name in members if rule.written.get(name)}


def _attribute_problems(spec: Json) -> list[Any]:
    given = [name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name) is not None]
    if len(given) == 1:
        return []
    if given:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid_value("spec.nonResourceAttributes", spec["nonResourceAttributes"], text)]
    return [invalid_value("spec.resourceAttributes", None, _EXACTLY_ONE)]


def _attributes(spec: Json) -> Attributes:
    """Return the attributes that a review asks about; a selector given as requirements becomes its text."""
    where: Any = spec.get("resourceAttributes")
    if where is None:
        path: Any = spec.get("nonResourceAttributes") or {}
        return Attributes(path.get("verb") or "", path=path.get("path") or "/")
    texts = {name: where.get(name) or "" for name in ("verb", "group", "resource", "subresource", "namespace", "name")}
    selector = where.get("fieldSelector") or {}
    fields = selector.get("rawSelector") or ",".join(
        f"{one.get('key')}={one['values'][0]}"
        for one in selector.get("requirements") or ()
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1
    )
    return Attributes(**texts, fields=fields)


def _user_info(user: User) -> Json:
    return {
        "username": user.name,
        **({"uid": user.uid} if user.uid else {}),
        **({"groups": list(user.groups)} if user.groups else {}),
        **({"extra": {key: list(values) for key, values in user.extra}} if user.extra else {}),
    }
