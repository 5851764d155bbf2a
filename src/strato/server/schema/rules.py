"""``x-kubernetes-validations``: evaluate the CEL rules of a schema on an object.

As in Kubernetes, a rule that uses ``oldSelf`` runs only on updates, and only for values that have an old one; items of
lists of type ``map`` are correlated with old items by their keys, items of other lists are not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from strato.api import cel
from strato.api.crds.rules import all_rules
from strato.api.status import DUPLICATE, FORBIDDEN, INVALID, REQUIRED
from strato.errors import Cause
from strato.lru import memoised
from strato.server.flowcontrol import timeslice
from strato.server.schema.violations import json_type

Schema = Mapping[str, Any]
_log = logging.getLogger(__name__)
_REASONS = {
    INVALID: "Invalid value: ",
    FORBIDDEN: "Forbidden: ",
    REQUIRED: "Required value: ",
    DUPLICATE: "Duplicate value: ",
}


@dataclass(frozen=True, slots=True)
class RuleNode:
    """A node of a schema with rules in it or below it; parts without rules have no node."""

    rules: tuple[Mapping[str, Any], ...]
    members: Mapping[str, RuleNode]
    extra: RuleNode | None
    items: RuleNode | None
    keys: tuple[str, ...]
    """Map keys of a list of type map; empty for other lists, whose items have no identity."""
    properties: frozenset[str]
    typed: Callable[[Any], Any] | None
    """Converts strings with a time or duration format to CEL values; None if there are none below this node."""


def compiled(schema: Schema) -> RuleNode | None:
    """Return the node of a schema; None if it has no rules."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    members = {name: node for name, inner in properties.items() if (node := compiled(inner)) is not None}
    extra, items = schema.get("additionalProperties"), schema.get("items")
    below = compiled(extra) if isinstance(extra, Mapping) else None
    each = compiled(items) if isinstance(items, Mapping) else None
    own = tuple(schema.get("x-kubernetes-validations") or ())
    if not own and not members and below is None and each is None:
        return None
    is_map = schema.get("x-kubernetes-list-type") == "map"
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if is_map else ()
    return RuleNode(own, members, below, each, keys, frozenset(properties), _typed(schema) if own else None)


_FORMATS: Mapping[str, Callable[[str], Any]] = {"date-time": cel.timestamp, "duration": cel.duration}


def _typed(schema: Schema) -> Callable[[Any], Any] | None:
    """Compile the conversion of strings that are times or durations in CEL; a malformed one stays a string."""
    read = _FORMATS.get(schema.get("format") or "")
    if read is not None and schema.get("type") == "string":
        return lambda value: _read(read, value)
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    members = {name: typed for name, inner in properties.items() if (typed := _typed(inner)) is not None}
    extra, items = (_typed(one) if isinstance(one, Mapping) else None for one in map(schema.get, _BELOW))

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            kept = (
                (name, inner, members.get(name, None if name in properties else extra)) for name, inner in value.items()
            )
            return {name: inner if typed is None else typed(inner) for name, inner, typed in kept}
        return [items(item) for item in value] if items is not None and isinstance(value, list) else value

    return convert if members or extra is not None or items is not None else None


_BELOW = ("additionalProperties", "items")


def _read(read: Callable[[str], Any], value: Any) -> Any:
    try:
        return read(value) if isinstance(value, str) else value
    except ValueError:
        return value


def unsupported(schema: Schema) -> list[str]:
    """Return the reason for each rule that is skipped because we cannot evaluate it; empty if there are none."""
    return [problem for rule in all_rules(schema) if isinstance(problem := _program(rule["rule"]), str)]


def evaluate(node: RuleNode, value: Any, old: Any = None) -> list[Cause]:
    """Return a cause for every rule that is false; a rule over the cost limit ends the evaluation."""
    causes: list[Cause] = []
    computation = timeslice.current()
    with (
        nullcontext() if computation is None else computation.pausing_itself(),
        cel.budget(cel.OBJECT_LIMIT, None if computation is None else computation.pause) as meter,
    ):
        try:
            causes.extend(_evaluate(node, value, old, ""))
        except _Stopped as stopped:
            rest = "no further validation rules will be run"
            text = f"validation failed due to running out of cost budget, {rest}"
            if meter.left > 0:
                rule = " ".join(stopped.rule.split())
                text = f"'{stopped.__cause__}': {rest} due to call cost exceeds limit for rule: {rule}"
            causes.append(Cause(INVALID, f'Invalid value: "{stopped.type}": {text}', stopped.field))
    return causes


class _Stopped(Exception):
    """A rule at ``field``, whose value has type ``type``, exceeds the cost limit."""

    def __init__(self, rule: str, field: str, type_: str) -> None:
        super().__init__(rule)
        self.rule, self.field, self.type = rule, field, type_


@memoised(16 << 20, longest=16 << 10)
def _program(text: str) -> cel.Program | str:
    """Compile a rule, cached; return the error's text if that fails."""
    try:
        return cel.compile_expression(text)
    except cel.UnsupportedExpression as error:
        _log.warning("a validation rule is skipped: %s", error)
        return str(error)


def _evaluate(node: RuleNode, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if value is None:
        return
    typed = node.typed
    seen = (value, old) if typed is None else (typed(value), None if old is None else typed(old))
    for rule in node.rules:
        cel.pause()
        cause = _check(rule, value, seen, path)
        if cause is not None and ("oldSelf" in rule["rule"] or old is None or value != old):  # see `violations.find`
            yield cause
    if isinstance(value, dict):
        for name, below in node.members.items():
            if name in value:
                before = old.get(name) if isinstance(old, dict) else None
                yield from _evaluate(below, value[name], before, f"{path}.{name}" if path else name)
        if node.extra is not None:
            for name, inner in value.items():
                if name not in node.properties:
                    before = old.get(name) if isinstance(old, dict) else None
                    yield from _evaluate(node.extra, inner, before, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        olds = {_key(node, item): item for item in old} if node.keys and isinstance(old, list) else {}
        causes = (
            cause
            for index, item in enumerate(value)
            for cause in _evaluate(node.items, item, olds.get(_key(node, item)), f"{path}[{index}]")
        )
        first = next(causes, None)
        if first is not None and (node.keys or old is None or value != old):
            yield first
            yield from causes


def _key(node: RuleNode, item: Any) -> str:
    return json.dumps([item.get(key) for key in node.keys]) if isinstance(item, dict) and node.keys else ""


def _check(rule: Mapping[str, Any], value: Any, seen: tuple[Any, Any], path: str) -> Cause | None:
    """Return the cause if a rule is false for a value, else None; ``seen`` has the new and the old CEL value."""
    text, (new, old) = rule["rule"], seen
    transition = "oldSelf" in text
    program = _program(text)
    optional = bool(rule.get("optionalOldSelf"))
    if isinstance(program, str) or (transition and old is None and not optional):
        return None
    before = cel.Optional(old) if optional else old
    try:
        if program({"self": new, "oldSelf": before} if transition else {"self": new}):
            return None
        message = _message(rule, new, before)
    except cel.CostExceeded as error:
        raise _Stopped(text, path, json_type(value)) from error
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
            except (cel.EvaluationError, cel.CostExceeded):
                pass  # the plain message is used instead, as in Kubernetes
    return rule.get("message") or f"failed rule: {' '.join(rule['rule'].split())}"
