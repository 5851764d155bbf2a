"""What a URL path means: a resource, a namespace, a name, a subresource."""

from __future__ import annotations

from typing import NamedTuple


class ResourcePath(NamedTuple):
    """A path below ``/api/v1`` or ``/apis/{group}/{version}``."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def parse_path(path: str) -> ResourcePath | None:
    """Return what ``path`` names, or None when it is not a resource's path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and group == "":
        # /namespaces/x, /namespaces/x/status and /namespaces/x/finalize are the namespace itself
        if len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and len(rest) >= 3:
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    return ResourcePath(group, version, plural, namespace, name, subresource)


def verb_of(method: str, has_name: bool, is_watch: bool) -> str:
    """Return the API verb that RBAC and discovery speak of."""
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
