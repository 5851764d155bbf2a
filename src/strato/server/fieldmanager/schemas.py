"""Compile the types of kinds, from published schemas of built-in kinds and structural ones of custom resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strato.server.fieldmanager.types import ABSENT, DEDUCED, UNTYPED_ATOMIC, WHOLE_MAP, ListType, MapType, Type

Schema = Mapping[str, Any]
REFERENCE = "#/components/schemas/"
_PRIMITIVES = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_STRINGS = frozenset(("", "byte"))
"""Formats of strings whose values are always strings; with other formats a value may be any scalar."""
_MACHINERY = "io.k8s.apimachinery.pkg."
_META = _MACHINERY + "apis.meta.v1."
OBJECT_META = _META + "ObjectMeta"
_SPECIAL = {
    _MACHINERY + "api.resource.Quantity": Type("untyped"),
    _MACHINERY + "runtime.RawExtension": UNTYPED_ATOMIC,
    _META + "FieldsV1": Type(map=WHOLE_MAP),
}
_RESOURCE: Schema = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": REFERENCE + OBJECT_META},
}
"""Members of every object, embedded ones too."""


class Compiler:
    """Compiles schemas into types, each on first use.

    Args:
        named: Returns a schema by name; None if the name is unknown.
    """

    def __init__(self, named: Callable[[str], Schema | None]) -> None:
        self._named = named
        self._types: dict[tuple[str, str], Type] = {}

    def named(self, name: str, relationship: str = "") -> Type:
        """Return the type of a published schema; a field that refers to it may set another list or map type."""
        found = self._types.get((name, relationship))
        if found is None:
            schema = self._named(name)
            found = _SPECIAL.get(name) or (DEDUCED if schema is None else self.compile(schema))
            if relationship:
                found = found.with_atomic(atomic=relationship == "atomic")
            self._types[name, relationship] = found
        return found

    def custom(self, schema: Schema) -> Type:
        """Return the type of custom resources."""
        return self.compile({**schema, "x-kubernetes-embedded-resource": True})

    def compile(self, schema: Schema, *, keeps_unknown: bool = False) -> Type:
        """Return the type of a schema; ``keeps_unknown`` is whether the schema around it keeps unknown fields."""
        reference = schema.get("$ref")
        if reference is None and len(schema.get("allOf") or ()) == 1:
            reference = schema["allOf"][0].get("$ref")
        if reference is not None:
            return self.named(reference.removeprefix(REFERENCE), schema.get("x-kubernetes-map-type", ""))
        keeps_unknown = keeps_unknown or schema.get("x-kubernetes-preserve-unknown-fields") is True
        match schema.get("type", ""):
            case "object":
                return Type(map=self._map(schema, keeps_unknown))
            case "array":
                return Type(list=self._list(schema, keeps_unknown))
            case "string":
                return Type("string" if schema.get("format", "") in _STRINGS else "untyped")
            case "integer" | "number" | "boolean" as primitive:
                return Type(_PRIMITIVES[primitive])
        is_open = not schema.get("properties") and not schema.get("additionalProperties")
        return Type("untyped", self._list(schema, keeps_unknown), self._map(schema, keeps_unknown), is_deduced=is_open)

    def _map(self, schema: Schema, keeps_unknown: bool) -> MapType:
        def compile_type(inner: Schema) -> Type:
            return self.compile(inner, keeps_unknown=keeps_unknown)

        declared: Schema = schema.get("properties") or {}
        if schema.get("x-kubernetes-embedded-resource"):
            declared = {**declared, **_RESOURCE}
        others = schema.get("additionalProperties")
        if not isinstance(others, Mapping):
            is_open = others or (others is None and (keeps_unknown or not schema.get("properties")))
            others = DEDUCED if is_open else None
        return MapType(declared, compile_type, others, atomic=schema.get("x-kubernetes-map-type") == "atomic")

    def _list(self, schema: Schema, keeps_unknown: bool) -> ListType:
        items = schema.get("items")
        kind, keys = _relationship(schema)

        def compile_type(inner: Schema | None) -> Type:
            return DEDUCED if inner is None else self.compile(inner, keeps_unknown=keeps_unknown)

        def default_of(key: str) -> Any:
            element = compile_type(items).map
            return (element.declared.get(key) or {}).get("default", ABSENT) if element is not None else ABSENT

        defaults = {key: default_of(key) for key in keys}
        return ListType(items, compile_type, kind, keys, defaults.__getitem__)


def _relationship(schema: Schema) -> tuple[str, tuple[str, ...]]:
    """Return the list type (atomic, set or map) of a schema, and its keys."""
    kind = schema.get("x-kubernetes-list-type")
    if kind:
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
        return (kind if kind in ("set", "map") else "atomic"), keys
    if "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()
