"""The interfaces through which the verbs check users' rights; `strato.server.auth` implements them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.api.selectors import InvalidSelector, parse_field_selector
from strato.api.wire import Request, User
from strato.errors import Forbidden
from strato.server.dynamicadmission.sources import Permissions
from strato.server.path import Attributes, ResourcePath

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Rule(Protocol):
    """A rule of a role: something that its users may do."""

    @property
    def resources(self) -> Collection[str]:
        """The resources that the rule covers."""

    @property
    def paths(self) -> Sequence[str]:
        """The non-resource paths that the rule covers."""

    @property
    def written(self) -> Mapping[str, Any]:
        """The rule as a ``PolicyRule``."""


class Authorizer(Permissions, Protocol):
    """Decides whether a user may do something."""

    @property
    def revision(self) -> int:
        """Grows with every change of rights; answers to equal questions hold while it is the same."""

    def depends_on_names(self, user: User) -> bool:
        """Return whether this user's rights depend on the names of objects."""

    def rules(self, user: User, namespace: str) -> Sequence[Rule]:
        """Return the rules that apply to a user in a namespace."""

    def has_more_than_rules(self, user: User) -> bool:
        """Return whether a user has rights that `rules` cannot express, as nodes have."""


class WriteRights(Protocol):
    """Checks the content of writes against the user's rights (for roles, node objects and others)."""

    def restrict(self, user: User | None, kind: Kind) -> bool:
        """Return whether `check` may refuse this user's writes of a kind; such writes take no fast path."""

    def check(self, request: AdmissionRequest, asked: str) -> None:
        """Raise if the user may not write this; ``asked`` is the name in the request's path."""


class AllRights:
    """Allows every write."""

    def restrict(self, user: User | None, kind: Kind) -> bool:
        """Return False."""
        del user, kind
        return False

    def check(self, request: AdmissionRequest, asked: str) -> None:
        """Do nothing."""


def attributes_of(request: Request, verb: str, target: ResourcePath) -> Attributes:
    """Return the attributes of a resource request.

    For a Namespace object the attributes' namespace is its own name, so that a role in it can allow the request. A list
    or watch with a field selector for one name counts as a request for that name.
    """
    group, _, plural, namespace, name, subresource = target
    if plural == "namespaces" and name:
        namespace = name
    fields = ""
    if verb in ("list", "watch", "deletecollection") and "fieldSelector" in request.query:
        fields = request.param("fieldSelector")
        if verb != "deletecollection":
            name = _exact_name(fields)
    if "/" in subresource:
        subresource = subresource.partition("/")[0]
    return Attributes(verb, group, plural, subresource, namespace, name, "", fields)


def _exact_name(fields: str) -> str:
    try:
        name = parse_field_selector(fields).exact("metadata.name") or ""
    except InvalidSelector:
        return ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def refusal(user: User, asked: Attributes, reason: str) -> Forbidden:
    """Return the error for a request that a user has no right to."""
    why = f": {reason}" if reason else ""
    verb, group, plural, subresource, namespace, name, path, _ = asked
    if path:
        return Forbidden(_escaped(f'forbidden: User "{user.name}" cannot {verb} path "{path}"') + why)
    full = f"{plural}.{group}" if group else plural
    shown = f"{plural}/{subresource}" if subresource else plural
    named = f' "{name}"' if name else ""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = f'User "{user.name}" cannot {verb} resource "{shown}" in API group "{group}" {scope}'
    details = {"kind": plural, **({"name": name} if name else {}), **({"group": group} if group else {})}
    return Forbidden(f"{full}{named} is forbidden: {_escaped(text)}{why}", details=details)


def _escaped(text: str) -> str:
    """Escape a text, so that no browser takes it for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def authorize(authorizer: Authorizer, user: User, asked: Attributes) -> None:
    """Check a user's right to a request.

    Raises:
        Forbidden: The user has no right to it; the message says why.
    """
    if not authorizer.allows(user, asked):
        raise refusal(user, asked, authorizer.reason(user, asked))
