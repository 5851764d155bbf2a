"""`Kind`: one resource that the API serves, with all that discovery and storage need to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.api.meta import Object

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column of a Table."""

    name: str
    json_path: str = ""
    """A simple JSONPath with a leading dot (``.status.phase``); empty for columns computed in code."""
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, a higher one only with ``-o wide``."""
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A resource of the API."""

    group: str
    """API group, empty for the core group."""
    version: str
    name: str
    """The kind, in CamelCase: ``PodGroup``."""
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_status: bool = False
    """Whether ``/status`` is a subresource; then the main resource ignores status and vice versa."""
    scale_paths: tuple[str, str, str] | None = None
    """Paths of the spec's replicas, the status' replicas and the label selector, if ``/scale`` is served."""
    subresources: tuple[str, ...] = ()
    """Further subresources: ``binding``, ``log``."""
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    """Paths (``spec.colour``) that a definition allows in field selectors."""
    view: type[Object] = field(default=Object)
    """The typed partial view of this kind."""
    api_version: str = field(init=False)
    """``group/version``, or just the version in the core group."""
    resource: str = field(init=False)
    """``plural.group`` as error messages name it (just ``plural`` in the core group)."""
    prefix: str = field(init=False)
    """URL prefix of the group version."""

    def __post_init__(self) -> None:
        """Compute the texts that every request needs once."""
        group, version, plural = self.group, self.version, self.plural
        object.__setattr__(self, "api_version", f"{group}/{version}" if group else version)
        object.__setattr__(self, "resource", f"{plural}.{group}" if group else plural)
        object.__setattr__(self, "prefix", f"/apis/{group}/{version}" if group else f"/api/{version}")

    @property
    def list_kind(self) -> str:
        """Kind of a list of these."""
        return f"{self.name}List"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object or (without a name) of the collection."""
        path = self.prefix
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path

    def __repr__(self) -> str:
        return f"Kind({self.api_version} {self.name})"
