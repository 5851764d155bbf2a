"""Views of apiextensions.k8s.io/v1, and of the objects of kinds that definitions add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

import msgspec

from strato.api.kinds import Kind
from strato.api.meta import Object, View


class DefinitionNames(View, frozen=True, kw_only=True):
    """``names``."""

    kind: str = ""
    plural: str = ""


class DefinitionVersion(View, frozen=True, kw_only=True):
    """``versions[]``."""

    name: str = ""
    served: bool = False
    storage: bool = False


class DefinitionSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = "Namespaced"
    versions: tuple[DefinitionVersion, ...] = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """A kind added to the API."""

    spec: DefinitionSpec = DefinitionSpec()


class CustomObject(Object, frozen=True, kw_only=True):
    """The metadata of an object of a definition's kind; each kind has a class of its own, made by `kinds_of`."""

    kind_read: ClassVar[Kind]


def kinds_of(definition: CustomResourceDefinition) -> Iterator[Kind]:
    """Yield a definition's kind in each of its served versions, the stored one first; all are read by one view."""
    spec = definition.spec
    made = msgspec.defstruct(spec.names.kind, [], bases=(CustomObject,), frozen=True, kw_only=True)
    view = cast("type[CustomObject]", made)
    for version in sorted(spec.versions, key=lambda one: not one.storage):
        if version.served:
            kind = Kind(
                spec.group,
                version.name,
                spec.names.kind,
                spec.names.plural,
                namespaced=spec.scope == "Namespaced",
                view=view,
            )
            if not hasattr(view, "kind_read"):
                view.kind_read = kind
            yield kind
