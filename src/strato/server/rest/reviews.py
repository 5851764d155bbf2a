"""Create-only kinds that are questions: may I, may they, who is this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request, Response, User
from strato.errors import BadRequest
from strato.server import objects
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath


class Authorizer(Protocol):
    """Decides whether a user may do something."""

    def allows(
        self, user: User, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str, path: str
    ) -> bool:
        """Answer for a resource request, or with an empty ``resource`` for a path."""
        ...


Answer = Callable[[Request, ResourcePath, Authorizer | None], Response]


def answer_for(kind: Kind) -> Answer | None:
    """Return what answers a review kind; None for kinds that are stored."""
    return _ANSWERS.get(kind)


def _read(request: Request) -> Json:
    review = objects.read_body(request.body, request.headers.get("content-type", ""))
    if not isinstance(review, dict) or not isinstance(review.get("spec") or {}, dict):
        raise BadRequest("a review is an object with an object as its spec")
    return review


def _access_review(request: Request, target: ResourcePath, authorizer: Authorizer | None) -> Response:
    review = _read(request)
    spec = review.get("spec") or {}
    if target.plural == "selfsubjectaccessreviews":
        user = request.user or User("system:anonymous")
    else:
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()))
    allowed = authorizer is None or _allows(authorizer, user, spec)
    status = {"allowed": allowed} if allowed else {"allowed": False, "reason": "no RBAC policy matched"}
    return _created(review, status)


def _allows(authorizer: Authorizer, user: User, spec: Json) -> bool:
    attributes: Any = spec.get("resourceAttributes")
    if attributes:
        get = attributes.get
        verb, group, resource = get("verb") or "", get("group") or "", get("resource") or ""
        subresource, namespace, name = get("subresource") or "", get("namespace") or "", get("name") or ""
        return authorizer.allows(user, verb, group, resource, subresource, namespace, name, "")
    path = spec.get("nonResourceAttributes") or {}
    return authorizer.allows(user, path.get("verb") or "", "", "", "", "", "", path.get("path") or "")


def _self_review(request: Request, target: ResourcePath, authorizer: Authorizer | None) -> Response:
    del target, authorizer
    user = request.user or User("system:anonymous", ("system:unauthenticated",))
    info = {"username": user.name, "groups": list(user.groups), **({"uid": user.uid} if user.uid else {})}
    return _created(_read(request), {"userInfo": info})


def _created(review: Json, status: Json) -> Response:
    return Response(201, encode({**review, "status": status}))


_ANSWERS: dict[Kind, Answer] = {
    catalog.SELFSUBJECTACCESSREVIEW: _access_review,
    catalog.SUBJECTACCESSREVIEW: _access_review,
    catalog.LOCALSUBJECTACCESSREVIEW: _access_review,
    catalog.SELFSUBJECTREVIEW: _self_review,
}
