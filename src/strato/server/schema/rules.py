"""``x-kubernetes-validations``: rules in CEL, evaluated where the schema places them.

A rule that names ``oldSelf`` runs only on updates, and only where a value was there before; items of lists are
paired with their old ones by map keys (list type ``map``), otherwise not at all, as in Kubernetes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from strato.api import cel
from strato.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED
from strato.errors import Cause

Schema = Mapping[str, Any]
_log = logging.getLogger(__name__)
_REASONS = {
    INVALID: "Invalid value: ",
    FORBIDDEN: "Forbidden: ",
    REQUIRED: "Required value: ",
    DUPLICATE: "Duplicate value: ",
}


def present(schema: Schema) -> bool:
    """Whether any rule stands in the schema."""
    return next(_rules(schema), None) is not None


def unsupported(schema: Schema) -> list[str]:
    """Return why each rule that cannot be evaluated here is skipped; empty when all rules hold."""
    return [problem for rule in _rules(schema) if isinstance(problem := _program(rule["rule"]), str)]


def evaluate(schema: Schema, value: Any, old: Any = None) -> list[Cause]:
    """Return a cause for every rule that does not hold."""
    return list(_evaluate(schema, value, old, ""))


def _rules(schema: Schema) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("x-kubernetes-validations") or ()
    for inner in (schema.get("properties") or {}).values():
        yield from _rules(inner)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            yield from _rules(schema[name])


@lru_cache(maxsize=4096)
def _program(text: str) -> cel.Program | str:
    """Compile once; the text of the problem when it cannot be."""
    try:
        return cel.compile_expression(text)
    except cel.UnsupportedExpression as error:
        _log.warning("a validation rule is skipped: %s", error)
        return str(error)


def _evaluate(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if value is None:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        cause = _check(rule, value, old, path)
        if cause is not None:
            yield cause
    if isinstance(value, dict):
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, inner in value.items():
            below = properties.get(name, extra)
            if isinstance(below, Mapping):
                before = old.get(name) if isinstance(old, dict) else None
                yield from _evaluate(below, inner, before, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        olds = _by_key(schema, old)
        for index, item in enumerate(value):
            yield from _evaluate(schema["items"], item, olds.get(_key(schema, item)), f"{path}[{index}]")


def _key(schema: Schema, item: Any) -> str:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    return json.dumps([item.get(key) for key in keys]) if isinstance(item, dict) and keys else ""


def _by_key(schema: Schema, old: Any) -> dict[str, Any]:
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {_key(schema, item): item for item in old}


def _check(rule: Mapping[str, Any], value: Any, old: Any, path: str) -> Cause | None:
    text = rule["rule"]
    transition = "oldSelf" in text
    program = _program(text)
    if isinstance(program, str) or (transition and old is None and not rule.get("optionalOldSelf")):
        return None
    try:
        if program({"self": value, "oldSelf": old} if transition else {"self": value}):
            return None
        message = _message(rule, value, old)
    except cel.EvaluationError as error:
        message = f"rule evaluation error: {error}"
    field = path + (rule.get("fieldPath") or "")
    reason = rule.get("reason") or INVALID
    shown = "" if isinstance(value, dict | list) else f"{json.dumps(value, separators=(',', ':'))}: "
    prefix = f"Invalid value: {shown}" if reason == INVALID else _REASONS.get(reason, "")
    return Cause(reason, prefix + message, field)


def _message(rule: Mapping[str, Any], value: Any, old: Any) -> str:
    expression = rule.get("messageExpression")
    if expression:
        program = _program(expression)
        if not isinstance(program, str):
            try:
                return str(program({"self": value, "oldSelf": old}))
            except cel.EvaluationError:
                pass  # as in Kubernetes: the plain message is the fallback
    return rule.get("message") or f"failed rule: {' '.join(rule['rule'].split())}"
