"""Builders of structural schemas (OpenAPI v3 as apiextensions accepts it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def _described(schema: Schema, description: str) -> Schema:
    return {"description": description, **schema} if description else schema


def text(
    description: str = "",
    *,
    max_length: int | None = None,
    min_length: int | None = None,
    pattern: str = "",
    enum: Sequence[str] = (),
    default: str | None = None,
) -> Schema:
    """Return the schema of a string."""
    schema: Schema = {"type": "string"}
    if default is not None:
        schema["default"] = default
    if enum:
        schema["enum"] = list(enum)
    if max_length is not None:
        schema["maxLength"] = max_length
    if min_length is not None:
        schema["minLength"] = min_length
    if pattern:
        schema["pattern"] = pattern
    return _described(schema, description)


def integer(
    description: str = "",
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    default: int | None = None,
    bits: int = 32,
) -> Schema:
    """Return the schema of an integer of 32 or 64 bits (0: unbounded ``int``)."""
    schema: Schema = {"type": "integer"}
    if bits:
        schema["format"] = f"int{bits}"
    if default is not None:
        schema["default"] = default
    if maximum is not None:
        schema["maximum"] = maximum
    if minimum is not None:
        schema["minimum"] = minimum
    return _described(schema, description)


def boolean(description: str = "", *, default: bool | None = None) -> Schema:
    """Return the schema of a boolean."""
    schema: Schema = {"type": "boolean"}
    if default is not None:
        schema["default"] = default
    return _described(schema, description)


def duration(description: str = "") -> Schema:
    """Return the schema of a Go duration (``1h30m``)."""
    return _described({"type": "string"}, description)


def time(description: str = "") -> Schema:
    """Return the schema of an RFC 3339 time."""
    return _described({"type": "string", "format": "date-time"}, description)


def quantity(description: str = "") -> Schema:
    """Return the schema of a quantity: a number or its text."""
    return _described(
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": True},
        description,
    )


def resources(description: str = "") -> Schema:
    """Return the schema of a resource list."""
    return mapping(quantity(), description)


def array(
    items: Schema,
    description: str = "",
    *,
    min_items: int | None = None,
    max_items: int | None = None,
    **extensions: object,
) -> Schema:
    """Return the schema of a list; ``list_type="map", list_map_keys=[…]`` become Kubernetes' extensions."""
    schema: Schema = {"type": "array", "items": items}
    if min_items is not None:
        schema["minItems"] = min_items
    if max_items is not None:
        schema["maxItems"] = max_items
    for name, value in extensions.items():
        schema["x-kubernetes-" + name.replace("_", "-")] = value
    return _described(schema, description)


def mapping(values: Schema, description: str = "") -> Schema:
    """Return the schema of a map with string keys."""
    return _described({"type": "object", "additionalProperties": values}, description)


def obj(
    properties: Mapping[str, Schema], description: str = "", *, required: Sequence[str] = (), atomic: bool = False
) -> Schema:
    """Return the schema of an object."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return _described(schema, description)


def opaque(description: str = "") -> Schema:
    """Return the schema of an object whose members are kept as they are."""
    return _described({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, description)


def label_selector(description: str = "A label query; empty selects everything, absent nothing.") -> Schema:
    """Return the schema of ``metav1.LabelSelector``."""
    expression = obj(
        {
            "key": text("The label key."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": array(text(), "Values for In and NotIn.", list_type="atomic"),
        },
        required=["key", "operator"],
    )
    return obj(
        {
            "matchExpressions": array(expression, "Requirements, all of which must hold.", list_type="atomic"),
            "matchLabels": mapping(text(), "Labels that must be equal."),
        },
        description,
        atomic=True,
    )


def condition(description: str = "One aspect of the object's state.") -> Schema:
    """Return the schema of ``metav1.Condition``."""
    return obj(
        {
            "type": text(
                "Type of the condition.",
                max_length=316,
                pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            ),
            "status": text("Whether it holds.", enum=["True", "False", "Unknown"]),
            "observedGeneration": integer("Generation the condition was set for.", minimum=0, bits=64),
            "lastTransitionTime": time("When it changed last."),
            "reason": text(
                "Why, in one CamelCase word.",
                max_length=1024,
                min_length=1,
                pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            ),
            "message": text("Why, for people.", max_length=32768),
        },
        description,
        required=["lastTransitionTime", "message", "reason", "status", "type"],
    )


def network_topology() -> Schema:
    """Return the schema of NetworkTopologySpec (spec volcano-api 2.1)."""
    return obj(
        {
            "mode": text(
                "hard: never span more than the tier allowed; soft: as near as possible.",
                enum=["hard", "soft"],
                default="hard",
            ),
            "highestTierAllowed": integer("Highest HyperNode tier the pods may span.", minimum=0, bits=0),
            "highestTierName": text("The same by tier name; not together with highestTierAllowed.", max_length=253),
        },
        "How far apart in the network the pods may be.",
    )


def object_reference() -> Schema:
    """Return the schema of ``v1.ObjectReference``."""
    names = ("apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath")
    return obj({name: text() for name in names}, "A reference to an object.", atomic=True)
