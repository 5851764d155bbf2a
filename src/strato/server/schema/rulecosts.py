"""Estimate the cost of a definition's CEL rules, and refuse rules that may cost too much.

Limits and messages are Kubernetes': ten million units for a rule, multiplied by how often its value can occur in an
object, and a hundred million for all rules of a version. The largest size of a value is in the schema, or follows from
the largest request.

Source: ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`` and ``k8s.io/apiserver/pkg/cel/common``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strato.api import cel
from strato.api.status import forbidden_field
from strato.errors import Cause

Schema = Mapping[str, Any]
RULE_LIMIT, ALL_RULES_LIMIT = 10_000_000, 100_000_000
_REQUEST_BYTES = 3 << 20
_TEXT: Schema = {"type": "string"}
_OF_RESOURCES: Schema = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}
_FORMATS = {"duration": ("scalar", 32, 3), "date": ("scalar", 12, 12), "date-time": ("scalar", 32, 21)}
"""Type of the CEL value, most characters and fewest bytes of strings with these formats."""
_SCALARS = {"boolean": 4, "number": 1, "integer": 1}
"""Fewest bytes of these scalars in JSON."""
_NAMED_MOST = 4


def declared(schema: Schema, *, is_root: bool = False) -> cel.Declared | None:
    """Return the CEL type of a schema's values; None if rules cannot access them."""
    longest = _limit(schema, "maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return cel.Declared("dyn", _REQUEST_BYTES - 2 if longest is None else 4 * longest)
    properties: Schema = schema.get("properties") or {}
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        properties = {**properties, **_OF_RESOURCES}
    match schema.get("type"):
        case "array":
            items = declared(schema.get("items") or {})
            if items is None:
                return None
            most = _limit(schema, "maxItems")
            return cel.Declared(
                "list", (_REQUEST_BYTES - 2) // (items.least_bytes + 1) if most is None else most, 2, items
            )
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            values = declared(schema["additionalProperties"])
            if values is None:
                return None
            most = _limit(schema, "maxProperties")
            return cel.Declared(
                "map", (_REQUEST_BYTES - 2) // (values.least_bytes + 6) if most is None else most, 2, values
            )
        case "object":
            fields = {name: one for name, inner in properties.items() if (one := declared(inner)) is not None}
            wanted = (name for name in schema.get("required") or () if "default" not in properties.get(name, {}))
            least = 2 + sum(len(name) + fields[name].least_bytes + 4 for name in wanted if name in fields)
            return cel.Declared("object", 0, least, None, fields)
        case "string":
            if schema.get("format") in _FORMATS:
                return cel.Declared(*_FORMATS[schema["format"]])
            if longest is not None:
                return cel.Declared("string", longest if schema.get("format") == "byte" else 4 * longest, 2)
            listed = [len(one.encode()) for one in schema.get("enum") or () if isinstance(one, str)]
            return cel.Declared("string", max(listed, default=_REQUEST_BYTES - 2), 2)
    least_bytes = _SCALARS.get(schema.get("type", ""))
    return None if least_bytes is None else cel.Declared("scalar", 0, least_bytes)


def problems(schema: Schema, field: str) -> Iterator[Cause]:
    """Yield a cause for each rule of the schema at ``field`` whose estimated cost is over the limit."""
    total = 0
    expensive: list[tuple[int, str]] = []
    for at, cost, called in _costs(schema, declared(schema, is_root=True), field, 1):
        if cost > RULE_LIMIT:
            yield forbidden_field(at, _exceeds(called, cost, RULE_LIMIT))
        total += cost
        if cost >= ALL_RULES_LIMIT // 100:
            expensive.append((cost, at))
    if total > ALL_RULES_LIMIT:
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        ordered = sorted(expensive, key=lambda one: -one[0])
        yield from (forbidden_field(at, text) for _, at in ordered[:_NAMED_MOST])
        called = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden_field(field, _exceeds(called, total, ALL_RULES_LIMIT))


def _costs(schema: Schema, type_: cel.Declared | None, field: str, times: int | None) -> Iterator[tuple[str, int, str]]:
    """Yield path, estimated cost and a name for each expression.

    Args:
        schema: The schema of a part.
        type_: The CEL type of its values.
        field: Its path.
        times: How often it can occur in an object; None if only the size of requests bounds that.
    """
    if type_ is None:
        return
    often = times if times is not None else _REQUEST_BYTES // (type_.least_bytes + 1)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{field}.x-kubernetes-validations[{index}]"
        for member, called, factor in (
            ("rule", "estimated rule cost", often),
            ("messageExpression", "estimated messageExpression cost", 1),
        ):
            yield f"{at}.{member}", _cost(rule.get(member) or "", type_) * factor, called
    extra, items = schema.get("additionalProperties"), schema.get("items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _costs(inner, type_.fields.get(name), f"{field}.properties[{name}]", times)
    if isinstance(extra, Mapping):
        below = _product(times, _limit(schema, "maxProperties"))
        yield from _costs(extra, type_.element, f"{field}.additionalProperties", below)
    if isinstance(items, Mapping):
        yield from _costs(items, type_.element, f"{field}.items", _product(times, _limit(schema, "maxItems")))


def _product(times: int | None, most: int | None) -> int | None:
    return None if times is None or most is None else times * most


def _limit(schema: Schema, member: str) -> int | None:
    written = schema.get(member)
    return None if written is None else max(int(written), 0)


def _cost(text: str, type_: cel.Declared) -> int:
    if not text.strip():
        return 0
    try:
        return cel.estimated_cost(cel.parse(text).root, {"self": type_, "oldSelf": type_})
    except (cel.UnsupportedExpression, RecursionError):
        return 0  # a rule that cannot be compiled is refused or never evaluated


def _exceeds(called: str, cost: int, limit: int) -> str:
    factor = min(cost, cel.UNBOUNDED) / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{called} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, "
        "and maxLength where arrays, maps, and strings are declared)"
    )
