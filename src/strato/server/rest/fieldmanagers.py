"""The field managers of the served kinds, made on first use."""

from __future__ import annotations

from typing import Any

from strato.api.kinds import Kind
from strato.server.fieldmanager import resets
from strato.server.fieldmanager.manager import FieldManager
from strato.server.fieldmanager.schemas import Compiler
from strato.server.fieldmanager.types import Type
from strato.server.fieldmanager.updater import Updater
from strato.server.openapi import schemas
from strato.server.registry import Registry

SCALE = Kind("autoscaling", "v1", "Scale", "scales")
"""The kind that the subresource ``scale`` reads and writes."""


class FieldManagers:
    """Makes and caches the field managers of the served kinds."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._compiler = Compiler(lambda name: schemas.published().get(name))
        self._managers: dict[tuple[Kind, str], FieldManager] = {}
        self._types: dict[Kind, Type | None] = {}
        self._revision = 0

    def of(self, kind: Kind, subresource: str) -> FieldManager:
        """Return the field manager of a kind and subresource."""
        if self._revision != self._registry.revision:
            self._managers, self._types, self._revision = {}, {}, self._registry.revision
        found = self._managers.get((kind, subresource))
        if found is None:
            is_custom = self._registry.openapi_schema(kind) is not None
            counts = resets.filter_of(kind, subresource, is_custom=is_custom)
            updater = Updater(_Versions(self, kind), lambda _: counts)
            found = FieldManager(updater, kind.api_version, kind.name, subresource)
            self._managers[kind, subresource] = found
        return found

    def of_scale(self) -> FieldManager:
        """Return the field manager of scales."""
        updater = Updater(_Versions(self, SCALE))
        return FieldManager(updater, SCALE.api_version, SCALE.name, "scale")

    def replicas(self, kind: Kind) -> dict[str, str | None]:
        """Return the path of the replicas by version of a kind; None for a version without ``scale``."""
        every = (served.asked for served in self._registry.served())
        same = [other for other in every if (other.group, other.plural) == (kind.group, kind.plural)]
        return {other.api_version: other.scale_paths[0] if other.scale_paths else None for other in same}

    def type_of(self, kind: Kind, api_version: str) -> Type | None:
        """Return the type of a kind's version; None if there is no such version."""
        group, _, version = api_version.rpartition("/")
        served = self._registry.find(group, version, kind.plural) if group == kind.group else None
        asked = kind if api_version == kind.api_version else served.asked if served is not None else None
        if asked is None:
            return None
        if asked not in self._types:
            custom = self._registry.openapi_schema(asked)
            self._types[asked] = (
                self._compiler.named(schemas.name_of(asked)) if custom is None else self._compiler.custom(custom)
            )
        return self._types[asked]


class _Versions:
    """Converts between the versions of one kind, which differ only in their schemas."""

    def __init__(self, managers: FieldManagers, kind: Kind) -> None:
        self._managers, self._kind = managers, kind

    def type_of(self, api_version: str) -> Type | None:
        return self._managers.type_of(self._kind, api_version)

    def convert(self, obj: Any, api_version: str, to: str) -> Any:
        return obj if api_version == to or not isinstance(obj, dict) else {**obj, "apiVersion": to}
