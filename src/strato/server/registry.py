"""The kinds served: built-in ones, and those that CustomResourceDefinitions add while the server runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strato.api import catalog, crds
from strato.api.crds.rules import without_rules
from strato.api.forms import FORMS, Form
from strato.api.kinds import Column, Kind
from strato.server import definitionstatus
from strato.server.schema.structural import StructuralSchema
from strato.server.versions import Versions


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One kind in one version, as it is served."""

    kind: Kind
    schema: StructuralSchema | None = None
    """The schema of a custom kind; built-in kinds are checked by `strato.server.schema.builtin`."""
    openapi: Mapping[str, Any] | None = None
    """The schema as the CustomResourceDefinition has it."""
    status: Served | None = None
    """The same kind with only the status in its schema, for writes of the status; None if these need the whole
    schema."""
    versions: Versions | None = None
    """Converts stored objects to this version; None if stored objects need no conversion, as nearly always."""
    is_terminating: bool = False
    """Whether its definition is being deleted, so that creations are refused."""
    form: Form | None = None
    """The form in which clients see stored objects of the kind; None if as they are stored."""
    deprecation: str = ""
    """What every answer warns of where this version is deprecated."""

    @property
    def asked(self) -> Kind:
        """The kind that clients see, which may be another form of the stored one."""
        return self.kind if self.form is None else self.form.kind

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition serves it."""
        return self.schema is not None

    @property
    def is_stored_as_served(self) -> bool:
        """Whether objects written in this version are stored without conversion."""
        return self.versions is None or self.versions.storage == self.kind.api_version


class Registry:
    """The served kinds by group, version and plural.

    Args:
        builtin: Kinds that are served without a CustomResourceDefinition.
        covered: Kinds of ours whose definitions have CEL rules that our admission enforces already: these are not
            evaluated again. Rules that a user adds to such a definition are.
    """

    def __init__(self, builtin: Iterable[Kind] = catalog.BUILTIN, *, covered: frozenset[Kind] = frozenset()) -> None:
        self._covered = covered
        self.revision = 1
        """Grows with every change of the served kinds; caches of discovery and routes depend on it."""
        self._served = {(kind.group, kind.version, kind.plural): _builtin(kind) for kind in builtin}
        self._by_crd: dict[str, list[Served]] = {}

    def kinds(self) -> Iterable[Kind]:
        """Return every served kind."""
        return [served.asked for served in self._served.values()]

    def served(self) -> Iterable[Served]:
        """Return everything served."""
        return list(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """Return the kind served under a path, or None; if it is another form, ``kind`` is the stored one."""
        return self._served.get((group, version, plural))

    def openapi_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the schema of a custom kind as its definition has it; None for built-in kinds."""
        served = self._served.get((kind.group, kind.version, kind.plural))
        return served.openapi if served is not None else None

    def serve_crd(self, crd: Mapping[str, Any]) -> None:
        """Serve the versions of a CustomResourceDefinition that have ``served``, instead of those of its last state.

        A definition whose names are not accepted is not served.
        """
        name = crd["metadata"]["name"]
        self._remove(name)
        added = _from_definition(crd, self._covered) if definitionstatus.is_true(crd, "Established") else []
        self._by_crd[name] = added
        for served in added:
            kind = served.kind
            self._served[kind.group, kind.version, kind.plural] = served
        self.revision += 1

    def drop_crd(self, name: str) -> None:
        """Stop serving a CustomResourceDefinition's kinds."""
        if self._remove(name):
            self.revision += 1

    def _remove(self, name: str) -> bool:
        gone = self._by_crd.pop(name, [])
        for served in gone:
            del self._served[served.kind.group, served.kind.version, served.kind.plural]
        return bool(gone)


def _builtin(kind: Kind) -> Served:
    form = FORMS.get(kind)
    stored = kind if form is None else form.stored
    return Served(stored, form=form, deprecation=_DEPRECATIONS.get(kind, ""))


_DEPRECATIONS = {
    catalog.ENDPOINTS: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    catalog.COMPONENTSTATUS: "v1 ComponentStatus is deprecated in v1.19+",
}


def _from_definition(crd: Mapping[str, Any], covered: frozenset[Kind]) -> list[Served]:
    spec, metadata = crd["spec"], crd["metadata"]
    versions = Versions.of(crd)
    is_terminating = bool(metadata.get("deletionTimestamp"))
    return [
        replace(_from_version(spec, version, covered), versions=versions, is_terminating=is_terminating)
        for version in spec["versions"]
        if version.get("served")
    ]


def _from_version(spec: Mapping[str, Any], version: Mapping[str, Any], covered: frozenset[Kind]) -> Served:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
    known = catalog.find(spec["group"], version["name"], names["plural"])
    kind = Kind(
        group=spec["group"],
        version=version["name"],
        name=names["kind"],
        plural=names["plural"],
        namespaced=spec.get("scope", "Namespaced") == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        scale_paths=(
            (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
            if scale
            else None
        ),
        selectable_fields=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ())
        or (Column("Age", ".metadata.creationTimestamp", "date"),),
    )
    if known is not None and _same_shape(known, kind):
        kind = known  # admission and views compare our own kinds by identity
    evaluated = without_rules(schema, crds.rule_texts(kind)) if kind in covered else schema
    deprecation = ""
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or f"{kind.api_version} {kind.name} is deprecated"
    return Served(kind, StructuralSchema(evaluated), schema, _status_of(kind, evaluated), deprecation=deprecation)


def _status_of(kind: Kind, schema: Mapping[str, Any]) -> Served | None:
    """Return the kind with only its status in the schema; None if CEL rules of the whole object may concern it."""
    status = (schema.get("properties") or {}).get("status")
    if status is None or schema.get("x-kubernetes-validations"):
        return None
    return Served(kind, StructuralSchema({"type": "object", "properties": {"status": status}}))


def _same_shape(known: Kind, kind: Kind) -> bool:
    return (known.name, known.namespaced, known.has_status, known.scale_paths) == (
        kind.name,
        kind.namespaced,
        kind.has_status,
        kind.scale_paths,
    )


def _column(column: Mapping[str, Any]) -> Column:
    return Column(
        name=column["name"],
        json_path=column.get("jsonPath", ""),
        type=column.get("type", "string"),
        format=column.get("format", ""),
        priority=column.get("priority", 0),
        description=column.get("description", ""),
    )
