"""Build the documents: OpenAPI v3 for each group version, and one v2 document for all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.server.openapi import paths, schemas
from strato.server.openapi.paths import PathOperation
from strato.server.schema import shapes

Sources = Sequence[tuple[Kind, Mapping[str, Any] | None]]
"""Kinds with the schema of their CRD (None for built-in ones)."""

_INFO = {"title": "Kubernetes", "version": "v1.36.3"}


def version_three(sources: Sources) -> Json:
    """Return the OpenAPI v3 document of the kinds of one group version."""
    extra, roots = _schemas(sources)
    document_paths: Json = {}
    for kind, _ in sources:
        for operation in paths.operations(kind):
            entry = document_paths.setdefault(operation.path, _path_item_v3(operation))
            entry[operation.method] = _operation_v3(operation)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": document_paths,
        "components": {"schemas": schemas.reachable(roots, extra)},
    }


def version_two(sources: Sources) -> Json:
    """Return the OpenAPI v2 document of all kinds."""
    extra, roots = _schemas(sources)
    document_paths: Json = {}
    for kind, _ in sources:
        for operation in paths.operations(kind):
            entry = document_paths.setdefault(operation.path, _path_item_v2(operation))
            entry[operation.method] = _operation_v2(operation)
    definitions = {
        name: _open_v2(schema) if name in extra and schema.get(_PRESERVES) else to_v2(schema)
        for name, schema in schemas.reachable(roots, extra).items()
    }
    return {"swagger": "2.0", "info": _INFO, "paths": document_paths, "definitions": definitions}


def _schemas(sources: Sources) -> tuple[dict[str, Json], set[str]]:
    extra: dict[str, Json] = {}
    roots = {schemas.DELETE_OPTIONS, schemas.STATUS, schemas.PATCH}
    for kind, custom in sources:
        extra |= schemas.of_kind(kind, custom)
        roots |= {schemas.name_of(kind), schemas.name_of(kind) + "List"}
    return extra, roots


def _target(operation: PathOperation, what: str) -> str:
    name = schemas.name_of(operation.kind)
    return {
        "object": name,
        "list": name + "List",
        "status": schemas.STATUS,
        "options": schemas.DELETE_OPTIONS,
        "patch": schemas.PATCH,
    }[what]


def _common(operation: PathOperation) -> Json:
    kind = operation.kind
    tag = f"{kind.group or 'core'}_{kind.version}".replace(".k8s.io", "").replace(".", "_")
    return {
        "description": f"{operation.action} {kind.name}",
        "operationId": operation.operation_id,
        "tags": [tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "kind": kind.name, "version": kind.version},
    }


def _patch_types(kind: Kind) -> Sequence[str]:
    return paths.PATCH_TYPES if shapes.load().of(kind) is not None else paths.CUSTOM_PATCH_TYPES


def _path_item_v3(operation: PathOperation) -> Json:
    parameters = [_parameter_v3(name, "path", "string", True) for name in operation.path_parameters]
    return {"parameters": parameters} if parameters else {}


def _parameter_v3(name: str, place: str, type_: str, required: bool = False) -> Json:
    entry: Json = {"name": name, "in": place, "schema": {"type": type_, "uniqueItems": True}}
    return {**entry, "required": True} if required else entry


def _operation_v3(operation: PathOperation) -> Json:
    entry = _common(operation)
    entry["parameters"] = [_parameter_v3(name, "query", type_) for name, type_ in operation.parameters]
    result = {"schema": {"$ref": schemas.REFERENCE + _target(operation, operation.result)}}
    entry["responses"] = {"200": {"description": "OK", "content": {"application/json": result}}}
    if operation.body:
        types = _patch_types(operation.kind) if operation.body == "patch" else ("application/json",)
        body = {"schema": {"$ref": schemas.REFERENCE + _target(operation, operation.body)}}
        entry["requestBody"] = {"content": dict.fromkeys(types, body), "required": operation.body != "options"}
    return entry


def _path_item_v2(operation: PathOperation) -> Json:
    parameters = [_parameter_v2(name, "path", "string", True) for name in operation.path_parameters]
    return {"parameters": parameters} if parameters else {}


def _parameter_v2(name: str, place: str, type_: str, required: bool = False) -> Json:
    entry: Json = {"name": name, "in": place, "type": type_, "uniqueItems": True}
    return {**entry, "required": True} if required else entry


def _operation_v2(operation: PathOperation) -> Json:
    entry = _common(operation)
    parameters = [_parameter_v2(name, "query", type_) for name, type_ in operation.parameters]
    if operation.body:
        body: Json = {"name": "body", "in": "body"}
        if operation.body != "options":
            body["required"] = True
        body["schema"] = {"$ref": "#/definitions/" + _target(operation, operation.body)}
        parameters.insert(0, body)
    types = _patch_types(operation.kind) if operation.body == "patch" else ("application/json", "application/yaml")
    entry |= {"consumes": list(types), "produces": ["application/json"], "parameters": parameters}
    result = {"$ref": "#/definitions/" + _target(operation, operation.result)}
    entry["responses"] = {"200": {"description": "OK", "schema": result}}
    return entry


_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def _open_v2(schema: Mapping[str, Any]) -> Json:
    """Return a v2 definition of a custom kind without its members, as kubectl refuses all that are not declared."""
    return {"type": "object", "x-kubernetes-group-version-kind": schema["x-kubernetes-group-version-kind"]}


_ONLY_V3 = frozenset(("default", "nullable", "oneOf", "anyOf", "not", "allOf"))


def to_v2(schema: Mapping[str, Any]) -> Json:
    """Convert a v3 schema to v2: references move; anyOf and the like, defaults and nullability are dropped."""
    result: Json = {}
    for inner in schema.get("allOf") or ():
        if "$ref" in inner:
            result["$ref"] = inner["$ref"].replace(schemas.REFERENCE, "#/definitions/")
    for key, value in schema.items():
        if key in _ONLY_V3:
            continue
        if key == "$ref":
            result[key] = value.replace(schemas.REFERENCE, "#/definitions/")
        elif key == "properties":
            result[key] = {name: to_v2(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            result[key] = to_v2(value)
        else:
            result[key] = value
    if "oneOf" in schema and "type" not in result:
        result["type"] = "string"  # quantities and int-or-string, as the published v2 has them
    return result


def by_group_version(sources: Iterable[tuple[Kind, Mapping[str, Any] | None]]) -> dict[str, Sources]:
    """Group kinds by the name of their v3 document: ``api/v1``, ``apis/apps/v1``."""
    grouped: dict[str, list[tuple[Kind, Mapping[str, Any] | None]]] = {}
    for kind, custom in sources:
        grouped.setdefault(kind.prefix[1:], []).append((kind, custom))
    return dict(grouped)
