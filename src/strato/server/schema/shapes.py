"""The built-in types as compact shapes, read from a file of the package: field names, JSON types and merge keys.

A type is a name (``string``, ``int32``, ``int64``, ``number``, ``boolean``, ``bytes``, ``quantity``, ``time``,
``int-or-string``, ``object``, ``any``), ``@name`` for another shape, ``{"list": type}`` or ``{"map": type}``.
`tools/extract_openapi.py` writes the file.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from strato.api.kinds import Kind

METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
Type = str | Mapping[str, Any]
"""A shape's type; see the module's text."""


class Shapes(msgspec.Struct, frozen=True):
    """All shapes of one Kubernetes version."""

    version: str
    types: Mapping[str, Mapping[str, Sequence[Any]]]
    """Shape name to fields; a field is ``[type]`` or ``[type, patch strategy, merge key]``."""
    kinds: Mapping[str, str]
    """``group/version/Kind`` to shape name."""
    scalars: Mapping[str, Any]
    """Types of names that are not structures."""

    def of(self, kind: Kind) -> str | None:
        """Return the name of a kind's shape; None for kinds that are not built in."""
        return self.kinds.get(f"{kind.group}/{kind.version}/{kind.name}")


@cache
def load() -> Shapes:
    """Read the shapes (about 6 ms, once per process)."""
    packed = files("strato.server").joinpath("openapi/data/shapes.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Shapes)


def go_name(kind: Type) -> str:
    """Return a type as Go prints it: ``[]v1.Container``, ``map[string]string``, ``int32``."""
    if isinstance(kind, Mapping):
        if "list" in kind:
            return "[]" + go_name(kind["list"])
        return "map[string]" + go_name(kind["map"])
    if kind.startswith("@"):
        return ".".join(kind.rsplit(".", 2)[-2:])
    return {
        "boolean": "bool",
        "bytes": "[]uint8",
        "number": "float64",
        "object": "map[string]interface {}",
        "quantity": "resource.Quantity",
        "time": "v1.Time",
        "int-or-string": "intstr.IntOrString",
    }.get(kind, kind)
