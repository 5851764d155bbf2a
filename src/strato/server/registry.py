"""What the server serves: built-in kinds, and kinds that CustomResourceDefinitions add while it runs."""

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
    """One kind as it is served."""

    kind: Kind
    schema: StructuralSchema | None = None
    """Of a custom kind; built-in kinds are checked by `strato.server.schema.builtin`."""
    openapi: Mapping[str, Any] | None = None
    """The schema as written in the CRD."""
    status: Served | None = None
    """The same kind with only the schema of its status: all that a write of the status needs to pass."""
    versions: Versions | None = None
    """How stored objects become objects of this version; None where they are already, as nearly always."""
    is_terminating: bool = False
    """Whether its definition is being deleted, so that nothing new is created."""
    form: Form | None = None
    """In which form objects of the kind are asked for; None: as they are stored."""

    @property
    def asked(self) -> Kind:
        """The kind that is asked for, which may be another form of the one that is stored."""
        return self.kind if self.form is None else self.form.kind

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition serves it."""
        return self.schema is not None

    @property
    def is_stored_as_served(self) -> bool:
        """Whether what is written in this version is stored as it is."""
        return self.versions is None or self.versions.storage == self.kind.api_version


class Registry:
    """The served kinds by group, version and plural.

    Args:
        builtin: Kinds that no definition serves.
        covered: Kinds of ours whose definitions' own rules in CEL admission enforces; here they are not evaluated.
            Rules that somebody adds to such a definition are.
    """

    def __init__(self, builtin: Iterable[Kind] = catalog.BUILTIN, *, covered: frozenset[Kind] = frozenset()) -> None:
        self._covered = covered
        self.revision = 1
        """Grows with every change of what is served; caches of discovery depend on it."""
        self._served = {(kind.group, kind.version, kind.plural): _builtin(kind) for kind in builtin}
        self._by_crd: dict[str, list[Served]] = {}

    def kinds(self) -> Iterable[Kind]:
        """Return every served kind."""
        return [served.asked for served in self._served.values()]

    def served(self) -> Iterable[Served]:
        """Return everything served."""
        return list(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """Return what is served under a path, or None; of another form the kind is the one that is stored."""
        return self._served.get((group, version, plural))

    def openapi_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the schema of a custom kind as written in its CRD; None for built-in kinds."""
        served = self._served.get((kind.group, kind.version, kind.plural))
        return served.openapi if served is not None else None

    def serve_crd(self, crd: Mapping[str, Any]) -> None:
        """Serve every served version of a CustomResourceDefinition, in place of what it served before.

        One whose names are not accepted is not served.
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
    return Served(kind) if form is None else Served(form.stored, form=form)


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
        kind = known  # admission and views know our own kinds by identity
    evaluated = without_rules(schema, crds.rule_texts(kind)) if kind in covered else schema
    return Served(kind, StructuralSchema(evaluated), schema, _status_of(kind, evaluated))


def _status_of(kind: Kind, schema: Mapping[str, Any]) -> Served | None:
    """Return what checks a status alone; None when rules of the whole object may be about it."""
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
