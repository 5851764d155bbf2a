"""Views of apiextensions.k8s.io/v1 and apiregistration.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from strato.api.meta import Condition, Object, View
from strato.api.shapes import EMPTY


class CustomResourceColumn(View, frozen=True, kw_only=True):
    """``additionalPrinterColumns[]``."""

    name: str = ""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


class CustomResourceScale(View, frozen=True, kw_only=True):
    """``subresources.scale``."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str = ""


class CustomResourceSubresources(View, frozen=True, kw_only=True):
    """``subresources``; an empty ``status`` object switches it on."""

    status: Mapping[str, Any] | None = None
    scale: CustomResourceScale | None = None


class CustomResourceValidation(View, frozen=True, kw_only=True):
    """``schema``: an OpenAPI v3 schema as plain JSON."""

    open_api_v3_schema: Mapping[str, Any] = msgspec.field(default=EMPTY, name="openAPIV3Schema")


class CustomResourceSelectableField(View, frozen=True, kw_only=True):
    """A field that field selectors may use."""

    json_path: str = ""


class CustomResourceVersion(View, frozen=True, kw_only=True):
    """One version."""

    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: bool = False
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: tuple[CustomResourceColumn, ...] = ()
    selectable_fields: tuple[CustomResourceSelectableField, ...] = ()


class CustomResourceNames(View, frozen=True, kw_only=True):
    """How the kind is called."""

    plural: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    kind: str = ""
    list_kind: str = ""
    categories: tuple[str, ...] = ()


class CustomResourceDefinitionSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    group: str = ""
    names: CustomResourceNames = CustomResourceNames()
    scope: str = "Namespaced"
    versions: tuple[CustomResourceVersion, ...] = ()
    preserve_unknown_fields: bool = False


class CustomResourceDefinitionStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    accepted_names: CustomResourceNames = CustomResourceNames()
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    """A kind added to the API."""

    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()


class APIServiceSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    group: str = ""
    version: str = ""
    group_priority_minimum: int = 0
    version_priority: int = 0


class APIService(Object, frozen=True, kw_only=True):
    """A group version and who serves it."""

    spec: APIServiceSpec = APIServiceSpec()
