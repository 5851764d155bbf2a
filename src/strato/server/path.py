"""Parse URL paths into resource, namespace, name and subresource, and requests into the attributes of their action."""

from __future__ import annotations

from typing import NamedTuple

from strato.api.selectors import InvalidSelector, parse_field_selector


class ResourcePath(NamedTuple):
    """A path below ``/api/v1`` or ``/apis/{group}/{version}``."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


class Attributes(NamedTuple):
    """A request as authorizers and the audit policy see it; if it is not for a resource, only verb and path are set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: str = ""
    """The field selector of a list or watch."""

    def selects(self, field: str, value: str) -> bool:
        """Return whether the field selector allows only this value of a field."""
        try:
            return parse_field_selector(self.fields).exact(field) == value
        except InvalidSelector:
            return False


def parse_path(path: str) -> ResourcePath | None:
    """Parse a path; None if it is not a resource's."""
    parts = path.strip("/").split("/")
    count = len(parts)
    if parts[0] == "api" and count >= 3:
        if count >= 5 and parts[2] == "namespaces" and (count > 5 or parts[4] not in ("status", "finalize")):
            # by far the most frequent: an object of the core group in a namespace
            name = parts[5] if count > 5 else ""
            return ResourcePath("", parts[1], parts[4], parts[3], name, _subresource(parts[6:]) if count > 6 else "")
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and count >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # in /namespaces/x, /namespaces/x/status and /namespaces/x/finalize the resource is the namespace
    if rest[0] == "namespaces" and len(rest) >= 3 and group:
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    return ResourcePath(group, version, plural, namespace, name, _subresource(rest[2:]))


def _subresource(parts: list[str]) -> str:
    """Return the subresource; the parts behind ``proxy`` are the path at the server that is proxied to."""
    return "proxy" if parts[:1] == ["proxy"] else "/".join(parts)


def verb_of(method: str, has_name: bool, is_watch: bool) -> str:
    """Return the API verb, as RBAC and discovery call it."""
    match method:
        case "GET" | "HEAD":
            return "watch" if is_watch else "get" if has_name else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if has_name else "deletecollection"
    return method.lower()
