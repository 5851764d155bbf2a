"""Check the CEL rules of a CustomResourceDefinition when it is written, with kube-apiserver's short messages.

Rules are refused that cannot be parsed, that name fields the schema does not have, or that use ``oldSelf`` where values
cannot be correlated with their old ones. A rule that needs a part of CEL that we do not have is accepted with a warning
and not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strato.api import cel
from strato.api.status import invalid_value, not_supported, required
from strato.errors import Cause

Schema = Mapping[str, Any]
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_OF_RESOURCES = frozenset(("apiVersion", "kind", "metadata"))


def problems(schema: Schema, field: str, *, is_root: bool = True, uncorrelated: str = "") -> Iterator[Cause]:
    """Yield the problems of the rules of a schema.

    Args:
        schema: A schema that is valid apart from its rules.
        field: The schema's path in its definition.
        is_root: Whether it is the schema of whole objects.
        uncorrelated: Path of the surrounding list whose items cannot be correlated with old ones; empty if none is.
    """
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _rule_problems(schema, rule, f"{field}.x-kubernetes-validations[{index}]", is_root, uncorrelated)
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    for name, inner in (schema.get("properties") or {}).items():
        place = uncorrelated or (field if is_atomic else "")
        yield from problems(inner, f"{field}.properties[{name}]", is_root=False, uncorrelated=place)
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, Mapping):
        yield from problems(extra, f"{field}.additionalProperties", is_root=False, uncorrelated=uncorrelated)
    if isinstance(items, Mapping):
        place = uncorrelated or ("" if schema.get("x-kubernetes-list-type") == "map" else field)
        yield from problems(items, f"{field}.items", is_root=False, uncorrelated=place)


def _rule_problems(schema: Schema, rule: Any, field: str, is_root: bool, uncorrelated: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield required(f"{field}.rule", "rule is not specified")
        return
    if message and not message.strip():
        yield invalid_value(f"{field}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{field}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        yield required(f"{field}.message", "message must be specified if rule contains line breaks")
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield not_supported(f"{field}.reason", rule["reason"], _REASONS)
    for member in ("rule", "messageExpression"):
        if rule.get(member) and (problem := _compilation_problem(schema, rule[member], is_root)):
            yield invalid_value(f"{field}.{member}", dict(rule), f"compilation failed: ERROR: <input>: {problem}")
    if "oldSelf" in text:
        if uncorrelated:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield invalid_value(f"{field}.rule", text, detail)
    elif rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid_value(f"{field}.optionalOldSelf", rule["optionalOldSelf"], detail)


def _compilation_problem(schema: Schema, text: str, is_root: bool) -> str:
    """Return why an expression is refused; empty if it is not."""
    try:
        selected = cel.selected_paths(text)
    except cel.MalformedExpression as error:
        return f"Syntax error: {error}"
    except cel.UnsupportedExpression:
        return ""
    for path in sorted(selected):
        name = _undefined(schema, path[1:], is_root) if path[0] == "self" else ""
        if name:
            return f"undefined field '{name}'"
    return ""


def _undefined(schema: Schema, path: tuple[str, ...], is_root: bool) -> str:
    """Return the first name in a path that the schema certainly does not have; empty if there is none."""
    for name in path:
        is_open = any(key.startswith("x-kubernetes-") and schema[key] is True for key in schema)
        if is_open or "__" in name or (is_root and name in _OF_RESOURCES) or schema.get("type") != "object":
            return ""  # the schema allows undeclared names here, or names are escaped
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        if not properties and not isinstance(extra, Mapping):
            return ""
        inner = properties.get(name) if properties else extra
        if inner is None:
            return name
        schema, is_root = inner, False
    return ""
