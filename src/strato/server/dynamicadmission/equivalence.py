"""One resource in several versions: which there are, and an object in another of them.

A rule about one version is about writes in all others, too (``matchPolicy: Equivalent``). Whoever matched so sees the
object in the version that its rule names, and what it changes is converted back.
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
    """Return the same resource in its other versions."""
    return tuple(one for one in kinds if one is not kind and one.plural == kind.plural and one.group == kind.group)


def converted(registry: Registry, obj: Json | None, kind: Kind, to: Kind) -> Any:
    """Return an object of a kind in another version of it; what is no object of the kind stays as it is.

    Raises:
        Unconverted: A webhook has to make it; the request begins anew then.
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
    """Return the new and the old object of a write in the version as which it matched."""
    kind = request.kind
    return converted(registry, request.object, kind, matched), converted(registry, request.old_object, kind, matched)
