"""Cached routes: writes that differ only in the name of their object share path parsing and authorization.

In a burst thousands of writes have the same user, and the same path but for a name. `Routes` caches the resource and
the function that answers, for requests that were found and allowed. The cache is emptied when the revision of the
served kinds or of roles and bindings changes. Reads are not cached, as answering them costs much more than routing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from strato.api.wire import Request, Response, User
from strato.server.negotiation import is_plain
from strato.server.path import ResourcePath
from strato.server.registry import Served

Action = Callable[[Request, ResourcePath, Served], Response | Awaitable[Response]]
"""Answers a request, or raises an `ApiError` as the answer."""

_CUT_OFF = frozenset(("binding", "status"))
"""Subresources whose routes are cached too, as they are often written."""
_ROUTES_MAX = 4096

_Key = tuple[str, str, str, User | None]
"""Method, path before the name (for a creation the whole path), subresource, user."""


class Route(msgspec.Struct, frozen=True, gc=False):
    """How to answer requests that differ only in the name of the object."""

    group: str
    version: str
    plural: str
    namespace: str
    subresource: str
    served: Served
    verb: str
    action: Action


class Routes:
    """The cached routes. They hold for one ``revision``, which the caller defines and compares."""

    def __init__(self) -> None:
        self.revision: tuple[int, int] = (0, 0)
        self._routes: dict[_Key, Route] = {}

    def forget(self, revision: tuple[int, int]) -> None:
        """Empty the cache, for a new revision."""
        self.revision = revision
        self._routes.clear()

    def find(self, request: Request) -> tuple[Route, str] | None:
        """Return a request's cached route and its object's name (empty for a creation); None if it is not cached."""
        method, path, user = request.method, request.path, request.user
        if not is_plain(request.headers.get("accept", "")):  # other forms may be refused, by kind
            return None
        if method == "POST":
            route = self._routes.get((method, path, "", user))
            if route is not None:
                return route, ""
        before, _, name = path.rpartition("/")
        subresource = ""
        if name in _CUT_OFF:
            subresource = name
            before, _, name = before.rpartition("/")
        elif method == "POST":
            return None
        route = self._routes.get((method, before, subresource, user))
        return (route, name) if route is not None and name else None

    def note(self, request: Request, target: ResourcePath, served: Served, verb: str, action: Action) -> None:
        """Cache the route of a request, unless `find` would split its path differently than `parse_path` does."""
        path, (group, version, plural, namespace, name, subresource) = request.path, target
        if not name:
            key = (request.method, path, "", request.user) if request.method == "POST" else None
        elif subresource in _CUT_OFF and path.endswith(f"/{name}/{subresource}"):
            key = (request.method, path[: -len(name) - len(subresource) - 2], subresource, request.user)
        elif request.method != "POST" and not subresource and name not in _CUT_OFF and path.endswith(f"/{name}"):
            key = (request.method, path[: -len(name) - 1], "", request.user)
        else:
            key = None
        if key is None:
            return
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[key] = Route(group, version, plural, namespace, subresource, served, verb, action)
