"""Impersonation: who may act as somebody else (``kubectl --as``), and as whom the request then goes on."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.wire import User
from strato.errors import BadRequest, Forbidden
from strato.server.auth.bootstrap import AUTHENTICATED
from strato.server.auth.identity import ANONYMOUS
from strato.server.rest.reviews import Authorizer

_ACCOUNT = "system:serviceaccount:"
_CORE_KINDS = frozenset(("users", "groups", "serviceaccounts"))
_IDENTITY_GROUP = "authentication.k8s.io"


def impersonated(user: User, headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer | None) -> User:
    """Return whom a request with ``Impersonate-…`` headers acts as.

    Args:
        user: Who asks, authenticated.
        headers: As received, names in lower case, repeated ones apart. Extra fields are not kept: nothing reads them.
        authorizer: Asked for the verb ``impersonate``; None lets everybody.

    Raises:
        Forbidden: The user may not act as that user or in that group.
        BadRequest: Groups or a uid without a user.
    """
    wanted: dict[str, list[str]] = {}
    for header, value in headers:
        if header.startswith(b"impersonate-"):
            wanted.setdefault(header[len(b"impersonate-") :].decode("latin-1"), []).append(value.decode("latin-1"))
    names = [name for name in wanted.get("user", ()) if name]
    if not names:
        raise BadRequest(f"requested {sorted(wanted)} without impersonating a user name")
    name, uid = names[0], next(iter(wanted.get("uid", ())), "")
    groups = tuple(wanted.get("group", ()))
    account = name[len(_ACCOUNT) :].split(":") if name.startswith(_ACCOUNT) else []
    if len(account) == 2:
        _check(user, authorizer, "serviceaccounts", account[1], namespace=account[0])
    else:
        _check(user, authorizer, "users", name)
    for group in groups:
        _check(user, authorizer, "groups", group)
    if uid:
        _check(user, authorizer, "uids", uid)
    if len(account) == 2 and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if name == ANONYMOUS.name:
        return User(name, groups or ANONYMOUS.groups, uid)
    return User(name, groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED), uid)


def _check(user: User, authorizer: Authorizer | None, resource: str, name: str, namespace: str = "") -> None:
    group = "" if resource in _CORE_KINDS else _IDENTITY_GROUP
    if authorizer is None or authorizer.allows(user, "impersonate", group, resource, "", namespace, name, ""):
        return
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    full = f"{resource}.{group}" if group else resource
    raise Forbidden(
        f'{full} "{name}" is forbidden: User "{user.name}" cannot impersonate resource "{resource}" '
        f'in API group "{group}" {scope}',
        details={"name": name, "group": group, "kind": resource},
    )
