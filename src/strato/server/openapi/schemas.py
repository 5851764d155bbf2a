"""The published schemas of built-in types, and those of custom resources in the same form."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.server.schema import shapes

REFERENCE = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS, STATUS, PATCH = _META + "DeleteOptions", _META + "Status", _META + "Patch"
_TYPE_META = {
    "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object.",
        "type": "string",
    },
    "kind": {"description": "Kind is the REST resource this object represents, in CamelCase.", "type": "string"},
}


@cache
def published() -> Mapping[str, Json]:
    """Return every built-in schema by name (about 15 ms, once per process, at the first OpenAPI request)."""
    packed = files("strato.server").joinpath("openapi/data/schemas.json.gz").read_bytes()
    document = msgspec.json.decode(gzip.decompress(packed), type=dict[str, Any])
    found: Mapping[str, Json] = document["schemas"]
    return found


def name_of(kind: Kind) -> str:
    """Return the schema's name: the built-in one, or the group reversed, version and kind."""
    builtin = shapes.load().of(kind)
    return builtin or ".".join([*reversed(kind.group.split(".")), kind.version, kind.name])


def of_kind(kind: Kind, custom: Mapping[str, Any] | None) -> dict[str, Json]:
    """Return the schemas a kind adds: none when built in, itself and its list when custom."""
    if shapes.load().of(kind) is not None:
        return {}
    name = name_of(kind)
    own: Json = dict(custom or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    metadata = {"allOf": [{"$ref": REFERENCE + _META + "ObjectMeta"}], "description": "Standard object's metadata."}
    own["properties"] = {**_TYPE_META, "metadata": metadata, **_without_root(own.get("properties") or {})}
    own["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    listed: Json = {
        "description": f"{kind.list_kind} is a list of {kind.name}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "items": {"type": "array", "items": {"allOf": [{"$ref": REFERENCE + name}]}},
            "metadata": {"allOf": [{"$ref": REFERENCE + _META + "ListMeta"}]},
        },
        "x-kubernetes-group-version-kind": [{**_gvk(kind), "kind": kind.list_kind}],
    }
    return {name: own, name + "List": listed}


def _without_root(properties: Mapping[str, Any]) -> Json:
    return {key: value for key, value in properties.items() if key not in ("apiVersion", "kind", "metadata")}


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "kind": kind.name, "version": kind.version}


def reachable(roots: Iterator[str] | list[str] | set[str], extra: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schemas that the roots need, by name, in order of names."""
    builtin = published()
    found: dict[str, Json] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        schema = extra.get(name) or builtin.get(name)
        if schema is not None:
            found[name] = schema
            waiting.extend(_references(schema))
    return dict(sorted(found.items()))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(REFERENCE)
        for inner in value.values():
            if isinstance(inner, dict | list):
                yield from _references(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
