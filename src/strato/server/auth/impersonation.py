"""Impersonation (``kubectl --as``): check the right to it, and return the impersonated user."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from strato.api.wire import User
from strato.errors import BadRequest
from strato.server.bootstrap import AUTHENTICATED
from strato.server.path import Attributes
from strato.server.rest.rights import ANONYMOUS, Authorizer, authorize

_ACCOUNT = "system:serviceaccount:"
_UNAUTHENTICATED = "system:unauthenticated"
_IDENTITY_GROUP = "authentication.k8s.io"
_PREFIX = b"impersonate-"
_EXTRA = "extra-"
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def impersonated(user: User, headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer | None) -> User:
    """Return the user that ``Impersonate-…`` headers name; ``user`` itself if they name none.

    Args:
        user: The authenticated user.
        headers: As received: names in lower case, repeated headers as several pairs.
        authorizer: Checks the right to the verb ``impersonate``; None allows all.

    Raises:
        Forbidden: The user has no right to impersonate that user, group, uid or extra value.
        BadRequest: The headers have groups, a uid or extra values without a user.
    """
    wanted: dict[str, list[str]] = {}
    for header, value in headers:
        if header.startswith(_PREFIX):
            wanted.setdefault(header[len(_PREFIX) :].decode("latin-1"), []).append(value.decode("latin-1"))
    name, uid = next(iter(wanted.get("user", ())), ""), next(iter(wanted.get("uid", ())), "")
    groups = tuple(wanted.get("group", ()))
    extra = {unquote(key[len(_EXTRA) :]): tuple(some) for key, some in wanted.items() if key.startswith(_EXTRA)}
    if not name:
        if groups or uid or extra:
            raise BadRequest(f"requested {sorted(wanted)} without impersonating a user")
        return user
    account = _account_of(name)
    if account is not None:
        _check(user, authorizer, "serviceaccounts", account[1], namespace=account[0])
    else:
        _check(user, authorizer, "users", name)
    for group in groups:
        _check(user, authorizer, "groups", group)
    for key, values in extra.items():
        for one in values:
            _check(user, authorizer, "userextras", one, subresource=key)
    if uid:
        _check(user, authorizer, "uids", uid)
    if account is not None and "group" not in wanted:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    return User(name, _completed(name, groups), uid, tuple(sorted(extra.items())))


def _account_of(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account from its user name; None for other users."""
    parts = name[len(_ACCOUNT) :].split(":") if name.startswith(_ACCOUNT) else []
    if len(parts) != 2 or not _NAMESPACE.fullmatch(parts[0]) or not _NAME.fullmatch(parts[1]):
        return None
    return parts[0], parts[1]


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups with ``system:authenticated`` (for the anonymous user, ``system:unauthenticated``) added.

    None is added if the headers ask for one of the two.
    """
    if name == ANONYMOUS.name:
        return groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or _UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _check(
    user: User, authorizer: Authorizer | None, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> None:
    group = _IDENTITY_GROUP if resource in ("uids", "userextras") else ""
    if authorizer is not None:
        authorize(authorizer, user, Attributes("impersonate", group, resource, subresource, namespace, name))
