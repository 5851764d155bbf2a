"""Paths of the OpenAPI documents, from the served kinds: what kubectl needs to find kinds and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strato.api.kinds import Kind

_LIST_PARAMETERS = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_WRITE_PARAMETERS = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
_PATCH_PARAMETERS = (*_WRITE_PARAMETERS, ("force", "boolean"))
_DELETE_PARAMETERS = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_PATCH_TYPES = (PATCH_TYPES[0], PATCH_TYPES[1], PATCH_TYPES[3])


@dataclass(frozen=True, slots=True)
class PathOperation:
    """One operation on one path."""

    path: str
    method: str
    action: str
    """Kubernetes' action: list, post, get, put, patch, delete, deletecollection."""
    kind: Kind
    parameters: tuple[tuple[str, str], ...]
    """Query parameters: name and JSON type."""
    body: str
    """``object``, ``patch``, ``options`` or empty."""
    result: str
    """``object``, ``list`` or ``status``."""

    @property
    def path_parameters(self) -> list[str]:
        """Names in braces."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def operation_id(self) -> str:
        """A unique name: ``listCoreV1NamespacedPod``."""
        group = "".join(part.capitalize() for part in (self.kind.group.removesuffix(".k8s.io") or "core").split("."))
        scope = "Namespaced" if "{namespace}" in self.path else ""
        tail = self.path.rpartition("/")[2]
        sub = tail.capitalize() if "{name}/" in self.path else ""
        everywhere = "ForAllNamespaces" if self.kind.namespaced and not scope else ""
        verb = {"post": "create", "put": "replace", "get": "read"}.get(self.action, self.action)
        if self.action == "deletecollection":
            verb, scope = "delete", "Collection" + scope
        return f"{verb}{group}{self.kind.version.capitalize()}{scope}{self.kind.name}{sub}{everywhere}"


def operations(kind: Kind) -> Iterator[PathOperation]:
    """Yield every operation that a kind's resource offers."""
    collection = kind.path("{namespace}") if kind.namespaced else kind.path()
    verbs = kind.verbs
    if kind.namespaced and "list" in verbs:
        yield PathOperation(kind.path(), "get", "list", kind, _LIST_PARAMETERS, "", "list")
    if "list" in verbs:
        yield PathOperation(collection, "get", "list", kind, _LIST_PARAMETERS, "", "list")
    if "create" in verbs:
        yield PathOperation(collection, "post", "post", kind, _WRITE_PARAMETERS, "object", "object")
    if "deletecollection" in verbs:
        parameters = (*_DELETE_PARAMETERS, *_LIST_PARAMETERS)
        yield PathOperation(collection, "delete", "deletecollection", kind, parameters, "options", "status")
    item = f"{collection}/{{name}}"
    if "get" in verbs:
        yield PathOperation(item, "get", "get", kind, (), "", "object")
    yield from _changes(kind, item, verbs)
    if "delete" in verbs:
        yield PathOperation(item, "delete", "delete", kind, _DELETE_PARAMETERS, "options", "status")
    if kind.has_status:
        yield PathOperation(f"{item}/status", "get", "get", kind, (), "", "object")
        yield from _changes(kind, f"{item}/status", ("update", "patch"))


def _changes(kind: Kind, path: str, verbs: tuple[str, ...]) -> Iterator[PathOperation]:
    if "update" in verbs:
        yield PathOperation(path, "put", "put", kind, _WRITE_PARAMETERS, "object", "object")
    if "patch" in verbs:
        yield PathOperation(path, "patch", "patch", kind, _PATCH_PARAMETERS, "patch", "object")
