"""Views of the create-only kinds: authentication.k8s.io/v1 and authorization.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object, View


class ResourceAttributes(View, frozen=True, kw_only=True):
    """What is asked about."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class NonResourceAttributes(View, frozen=True, kw_only=True):
    """A path asked about."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(View, frozen=True, kw_only=True):
    """``spec``; the ``Self`` form has no user or groups."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


class SubjectAccessReviewStatus(View, frozen=True, kw_only=True):
    """The answer."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Object, frozen=True, kw_only=True):
    """May that user do this."""

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class SelfSubjectAccessReview(SubjectAccessReview, frozen=True, kw_only=True):
    """May I do this."""


class LocalSubjectAccessReview(SubjectAccessReview, frozen=True, kw_only=True):
    """May that user do this in this namespace."""


class SelfSubjectRulesReviewSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    namespace: str = ""


class SelfSubjectRulesReview(Object, frozen=True, kw_only=True):
    """What may I do."""

    spec: SelfSubjectRulesReviewSpec = SelfSubjectRulesReviewSpec()


class TokenReviewSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    token: str = ""
    audiences: tuple[str, ...] = ()


class UserInfo(View, frozen=True, kw_only=True):
    """Who a token belongs to."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class TokenReviewStatus(View, frozen=True, kw_only=True):
    """The answer."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(Object, frozen=True, kw_only=True):
    """Whose token is this."""

    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class SelfSubjectReviewStatus(View, frozen=True, kw_only=True):
    """The answer."""

    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Object, frozen=True, kw_only=True):
    """Who am I."""

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()
