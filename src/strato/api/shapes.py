"""Small shapes that views of several groups share: empty maps, resource lists, selectors, references."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from strato.api.meta import View

EMPTY: Mapping[Any, Any] = MappingProxyType({})
"""The empty map that all views share as a default, so that a million pods do not hold a million empty dicts."""

ResourceList: TypeAlias = Mapping[str, str | int | float]
"""Resource name → quantity as written. Kubernetes answers with text; manifests and templates may have plain numbers."""

IntOrString: TypeAlias = int | str
"""A port, a percentage or a count."""


class LabelSelectorRequirement(View, frozen=True, kw_only=True):
    """``matchExpressions[]`` of a label selector; also of node selectors, where Gt and Lt are allowed too."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(View, frozen=True, kw_only=True):
    """``metav1.LabelSelector``. An absent selector matches nothing, an empty one everything."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(View, frozen=True, kw_only=True):
    """``v1.ObjectReference``."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(View, frozen=True, kw_only=True):
    """A name in the same namespace."""

    name: str = ""


class TypedReference(View, frozen=True, kw_only=True):
    """A reference with group and kind (``dataSource``, ``scaleTargetRef``, ``roleRef``)."""

    api_version: str = ""
    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
