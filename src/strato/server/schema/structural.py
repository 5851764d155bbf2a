"""Structural schemas of custom resources: prune, default and validate objects, in that order, as Kubernetes does.

A schema is compiled into closures when its first object comes, because most served kinds have no objects. Valid objects
(nearly all) need only the quick closures, which answer yes or no; for invalid ones `server.schema.violations` walks the
schema again to find the messages.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from strato.api.patterns import Pattern
from strato.api.status import INVALID, NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID
from strato.errors import Cause
from strato.lru import memoised
from strato.server.schema import builtin, rules, shapes, typed, violations

Schema = Mapping[str, Any]
Check = Callable[[Any], bool]
Change = Callable[[Any], None]

_ROOT_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


class StructuralSchema:
    """One version's ``openAPIV3Schema``; each part is compiled on first use.

    Args:
        schema: A structural schema; it need not declare ``apiVersion``, ``kind`` and ``metadata`` at its root.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        metadata = (schema.get("properties") or {}).get("metadata") or {}
        about_all = ("x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not")
        self.spares_metadata = metadata.keys() <= {"type", "description"} and not any(map(schema.get, about_all))
        """Whether the schema has no constraints on the metadata, nor on the whole object, which contains them."""

    def compile(self) -> None:
        """Compile all parts now; any exception means that the schema cannot be used."""
        _ = self._known, self._default, self._valid, self._rules

    @cached_property
    def _known(self) -> Check:
        return _known(self._schema, resource=True)

    @cached_property
    def _default(self) -> Change | None:
        return _default(self._schema)

    @cached_property
    def _valid(self) -> Check:
        return _valid(self._schema)

    @cached_property
    def _rules(self) -> rules.RuleNode | None:
        return rules.compiled(self._schema)

    @property
    def has_rules(self) -> bool:
        """Whether the schema has CEL rules, which may compare an object with its old state."""
        return self._rules is not None

    def prune(self, obj: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Remove fields that the schema does not have.

        Returns:
            ``unknown field "spec.foo"`` for each, those of embedded metadata last; the message of Kubernetes' decoder
            for each value of the metadata that has a wrong JSON type.
        """
        if self._known(obj):
            return [], []
        unknown: list[str] = []
        wrong: list[str] = []
        _prune(self._schema, obj, "", unknown, wrong, resource=True)
        return sorted(unknown, key=lambda text: (".metadata." in text, text)), wrong

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in defaults; a null that the schema does not allow counts as missing if there is a default."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[Cause]:
        """Return every violation; with ``old``, the stored object, those of unchanged parts are tolerated (ratcheting).

        Nulls that the schema does not allow are removed from ``obj``, and 1.0 becomes 1, as in kube-apiserver.
        """
        causes = [] if self._valid(obj) else self._violations(obj, old)
        if self._rules is not None:
            if any(cause.reason in _BLOCKING for cause in causes):
                causes.append(_UNCHECKED)
            else:
                causes += rules.evaluate(self._rules, obj, old)
        return causes

    def _violations(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
        is_changed = violations.drop_nulls(self._schema, obj)
        if (violations.write_whole_numbers(obj) or is_changed) and self._valid(obj):
            return []
        return violations.find(self._schema, obj, old=old)


_BLOCKING = frozenset((NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID))
"""Reasons of violations with which CEL rules cannot be evaluated."""
_UNCHECKED = Cause(
    INVALID,
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
    "<nil>",
)


# ── prune ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _known(schema: Schema, resource: bool = False) -> Check:
    """Compile the check that a value has only fields of the schema."""
    resource = resource or bool(schema.get("x-kubernetes-embedded-resource"))
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    fields: dict[str, Check | None] = {name: _known_or_none(inner) for name, inner in properties.items()}
    if resource:
        fields |= {"apiVersion": None, "kind": None, "metadata": typed.is_clean(shapes.METADATA)}
    extra = schema.get("additionalProperties")
    each = _known_or_none(extra) if isinstance(extra, Mapping) else None
    open_ended = bool(extra) or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    items = _known_or_none(schema["items"]) if isinstance(schema.get("items"), Mapping) else None

    def check(value: Any) -> bool:
        if value.__class__ is dict:
            for key, inner in value.items():
                if key in fields:
                    want = fields[key]
                elif open_ended:
                    want = each
                else:
                    return False
                if want is not None and inner is not None and not want(inner):
                    return False
        elif items is not None and value.__class__ is list:
            for item in value:
                if not items(item):
                    return False
        return True

    return check


def _known_or_none(schema: Schema) -> Check | None:
    """Return the check, or None if it cannot fail: for scalars and values with arbitrary fields."""
    if schema.get("type") in ("string", "integer", "number", "boolean") or schema.get("x-kubernetes-int-or-string"):
        return None
    if schema.get("type") == "array" and _known_or_none(schema.get("items") or {}) is None:
        return None
    free = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties") is True
    if free and not schema.get("properties") and not schema.get("x-kubernetes-embedded-resource"):
        return None
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping) and not schema.get("properties") and _known_or_none(extra) is None:
        return None
    return _known(schema)


def _prune(
    schema: Schema, value: Any, path: str, unknown: list[str], wrong: list[str], *, resource: bool = False
) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                _prune(items, item, f"{path}[{index}]", unknown, wrong)
    if not isinstance(value, dict):
        return
    resource = resource or bool(schema.get("x-kubernetes-embedded-resource"))
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keep = bool(extra) or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for key in list(value):
        inner = f"{path}.{key}" if path else key
        if resource and key in _ROOT_FIELDS:
            if key == "metadata" and isinstance(value[key], dict):
                for problems, found in zip((unknown, wrong), builtin.typed_metadata(value[key], inner), strict=True):
                    problems += found
        elif key in properties:
            _prune(properties[key], value[key], inner, unknown, wrong)
        elif isinstance(extra, Mapping):
            _prune(extra, value[key], inner, unknown, wrong)
        elif not keep:
            unknown.append(f'unknown field "{inner}"')
            del value[key]


# ── default ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _default(schema: Schema) -> Change | None:
    """Compile the filling in of defaults; None if the schema has none here or below."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    given = [
        (name, inner["default"], bool(inner.get("nullable")))
        for name, inner in properties.items()
        if "default" in inner
    ]
    below = [(name, deeper) for name, inner in properties.items() if (deeper := _default(inner)) is not None]
    extra = schema.get("additionalProperties")
    each = _default(extra) if isinstance(extra, Mapping) else None
    items = _default(schema["items"]) if isinstance(schema.get("items"), Mapping) else None
    if not given and not below and each is None and items is None:
        return None

    def change(value: Any) -> None:
        if value.__class__ is dict:
            for name, default, nullable in given:
                if name not in value or (value[name] is None and not nullable):
                    value[name] = copy.deepcopy(default)
            for name, inner in below:
                if name in value:
                    inner(value[name])
            if each is not None:
                for name, item in value.items():
                    if name not in properties:
                        each(item)
        elif items is not None and value.__class__ is list:
            for item in value:
                items(item)

    return change


# ── validate ──────────────────────────────────────────────────────────────────────────────────────────────────────

_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def _valid(schema: Schema) -> Check:
    """Compile the check that a value satisfies the schema, without its CEL rules."""
    checks = [*_type_checks(schema), *_scalar_checks(schema), *_nested_checks(schema), *_junctor_checks(schema)]
    nullable = bool(schema.get("nullable"))
    if len(checks) == 1 and not nullable:
        return checks[0]

    def check(value: Any) -> bool:
        if value is None and nullable:
            return True
        for one in checks:  # noqa: SIM110 - a generator costs twice as much here
            if not one(value):
                return False
        return True

    return check


def _type_checks(schema: Schema) -> list[Check]:
    if schema.get("x-kubernetes-int-or-string"):
        return [lambda value: value.__class__ is int or value.__class__ is str]
    kind = schema.get("type")
    if not kind:
        return []
    classes = _CLASSES[kind]
    if kind == "integer":
        return [_integer_check(schema)]
    if len(classes) == 1:
        one = classes[0]
        return [lambda value: value.__class__ is one]
    return [lambda value: value.__class__ in classes]


def _integer_check(schema: Schema) -> Check:
    """Return one check of an integer's type, format and limits."""
    bits = violations.INTEGERS.get(schema.get("format") or "")
    low: float
    high: float
    low, high = (-math.inf, math.inf) if bits is None else (-(1 << bits - 1), (1 << bits - 1) - 1)
    low, high = max(low, schema.get("minimum", low)), min(high, schema.get("maximum", high))

    def check(value: Any) -> bool:
        if value.__class__ is not int:
            return False  # a float: `validate` then rewrites 1.0 as 1 and checks again
        return bool(low <= value <= high)

    return check


def _of_texts(fits: Callable[[str], bool]) -> Check:
    """Return a check that a value is a string and fits; cached, as statuses and quantities repeat few short strings."""
    known = memoised(128 << 10, longest=64)(fits)
    return lambda value: not isinstance(value, str) or known(value)


_NUMBERS = ("minimum", "maximum", "multipleOf")
_UNUSUAL_NUMBERS = ("exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def _scalar_checks(schema: Schema) -> list[Check]:
    checks: list[Check] = []
    if schema.get("enum"):
        options = list(schema["enum"])
        checks.append(lambda value: value in options)
    if schema.get("pattern"):
        checks.append(_of_texts(Pattern(schema["pattern"]).is_in))
    low, high = schema.get("minLength"), schema.get("maxLength")
    if low is not None or high is not None:
        least, most = low or 0, high if high is not None else math.inf
        checks.append(lambda value: not isinstance(value, str) or least <= len(value) <= most)
    looked_at = schema.get("type") == "integer" and not any(key in schema for key in _UNUSUAL_NUMBERS)
    if not looked_at and any(key in schema for key in _NUMBERS):
        checks.append(lambda value: not violations.is_number(value) or not violations.number_problems(schema, value))
    if schema.get("format") in violations.FORMATS:
        checks.append(_of_texts(violations.FORMATS[schema["format"]]))
    return checks


def _nested_checks(schema: Schema) -> list[Check]:
    checks: list[Check] = []
    if schema.get("x-kubernetes-embedded-resource"):
        checks.append(lambda value: not isinstance(value, dict) or not violations.embedded_problems(value))
    required: tuple[str, ...] = tuple(schema.get("required") or ())
    if required:
        names = frozenset(required)
        checks.append(lambda value: value.__class__ is not dict or names <= value.keys())
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    each = _valid(extra) if isinstance(extra, Mapping) and extra else None
    if properties or each is not None:
        checks.append(_members_check({name: _valid(inner) for name, inner in properties.items()}, each))
    if isinstance(schema.get("items"), Mapping):
        item_valid = _valid(schema["items"])
        checks.append(lambda value: value.__class__ is not list or all(map(item_valid, value)))
    for kind, least, most in ((list, "minItems", "maxItems"), (dict, "minProperties", "maxProperties")):
        if least in schema or most in schema:
            checks.append(_size_check(kind, schema.get(least, 0), schema.get(most, math.inf)))
    if schema.get("x-kubernetes-list-type") in ("map", "set") or schema.get("uniqueItems"):
        checks.append(lambda value: value.__class__ is not list or not violations.duplicates(schema, value))
    return checks


def _members_check(fields: dict[str, Check], each: Check | None) -> Check:
    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            return True
        for key, inner in value.items():
            want = fields.get(key, each)
            if want is not None and not want(inner):
                return False
        return True

    return check


def _size_check(kind: Any, least: float, most: float) -> Check:
    return lambda value: value.__class__ is not kind or least <= len(value) <= most


def _junctor_checks(schema: Schema) -> list[Check]:
    checks: list[Check] = []
    if schema.get("allOf"):
        all_of = [_valid(inner) for inner in schema["allOf"]]
        checks.append(lambda value: all(one(value) for one in all_of))
    if schema.get("anyOf"):
        any_of = [_valid(inner) for inner in schema["anyOf"]]
        checks.append(lambda value: any(one(value) for one in any_of))
    if schema.get("oneOf"):
        one_of = [_valid(inner) for inner in schema["oneOf"]]
        checks.append(lambda value: sum(one(value) for one in one_of) == 1)
    if schema.get("not"):
        banned = _valid(schema["not"])
        checks.append(lambda value: not banned(value))
    return checks
