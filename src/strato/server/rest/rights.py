"""What the verbs ask about the rights of who asks; `strato.server.auth` has the answers."""

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
    """What some users may do."""

    @property
    def resources(self) -> Collection[str]:
        """The resources it is about."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths it is about, which are no resources."""

    @property
    def written(self) -> Mapping[str, Any]:
        """The ``PolicyRule``."""


class Authorizer(Permissions, Protocol):
    """Decides whether a user may do something."""

    @property
    def revision(self) -> int:
        """Grows with every change of who may do what; until then answers stay as they are."""

    def depends_on_names(self, user: User) -> bool:
        """Return whether answers to the user depend on the names of objects."""

    def rules(self, user: User, namespace: str) -> Sequence[Rule]:
        """Return the rules that hold for a user in a namespace."""

    def has_more_than_rules(self, user: User) -> bool:
        """Return whether `rules` are not all of what decides over a user."""


class WriteRights(Protocol):
    """Decides what the rights of a user let it write."""

    def restrict(self, user: User | None, kind: Kind) -> bool:
        """Return whether `check` may refuse what the user writes of a kind; no fast path is taken then."""

    def check(self, request: AdmissionRequest, asked: str) -> None:
        """Refuse by raising; ``asked`` is the name in the request's path."""


class AllRights:
    """Allows every write."""

    def restrict(self, user: User | None, kind: Kind) -> bool:
        """Return False."""
        del user, kind
        return False

    def check(self, request: AdmissionRequest, asked: str) -> None:
        """Refuse nothing."""


def attributes_of(request: Request, verb: str, target: ResourcePath) -> Attributes:
    """Return the attributes of a resource request.

    A namespace is asked for in itself, so that a role in it can allow that. A list or watch of one name is about that.
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
    """Return the error that says what a user may not do."""
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
    """Return a text that no browser takes for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def authorize(authorizer: Authorizer, user: User, asked: Attributes) -> None:
    """Return when the user may.

    Raises:
        Forbidden: It may not; says why.
    """
    if not authorizer.allows(user, asked):
        raise refusal(user, asked, authorizer.reason(user, asked))
