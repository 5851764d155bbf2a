"""Equivalent versions of a resource, and the conversion of objects between them.

With ``matchPolicy: Equivalent`` a rule about one version matches writes in all versions. The webhook or policy then
gets the object in the version of its rule, and its changes are converted back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strato.admission import AdmissionRequest
from strato.api.forms import FORMS
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.server.registry import Registry

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


def equivalents(kind: Kind, kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Return the other versions of the same resource."""
    return tuple(one for one in kinds if one is not kind and one.plural == kind.plural and one.group == kind.group)


def converted(registry: Registry, obj: Json | None, kind: Kind, to: Kind) -> Any:
    """Return an object in another version of its kind; a value that is not an object of the kind stays as it is.

    Raises:
        Unconverted: The conversion webhook has to be called first; the request is then repeated.
    """
    if obj is None or kind is to or obj.get("kind") != kind.name:
        return obj
    if to in FORMS:
        return FORMS[to].show(obj)
    if kind in FORMS:
        return FORMS[kind].read(obj)
    served = registry.find(kind.group, kind.version, kind.plural)
    if served is None or served.versions is None:
        return {**obj, "apiVersion": to.api_version}
    return _decode(served.versions.shown(_encode(obj), to.api_version))


def as_matched(registry: Registry, request: AdmissionRequest, matched: Kind) -> tuple[Any, Any]:
    """Return the new and the old object of a write in the version in which it matched."""
    kind = request.kind
    return converted(registry, request.object, kind, matched), converted(registry, request.old_object, kind, matched)
