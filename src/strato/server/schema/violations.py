"""Find violations of a structural schema, with Kubernetes' messages. Runs only for objects that have some."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from strato.api.cel.libraries import reads
from strato.api.patterns import compile_pattern
from strato.api.status import DUPLICATE, INVALID, NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID
from strato.errors import Cause

Schema = Mapping[str, Any]


def find(schema: Schema, value: Any, path: str = "", old: Any = None) -> list[Cause]:
    """Return every violation of ``value`` below ``path``, without those of CEL rules.

    Violations in parts that an update leaves as they were in ``old`` are tolerated, as in Kubernetes ("ratcheting"), so
    that objects can be written after their definition has become stricter. Items of lists are paired by map keys.
    """
    return list(_find(schema, value, path, old))


def _find(schema: Schema, value: Any, path: str, old: Any = None) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    if old is not None and value == old and path not in _TYPE_FIELDS:
        return
    wrong_type = _type_problem(schema, value, path)
    if wrong_type is not None:
        yield wrong_type
        return
    if schema.get("enum") and value not in schema["enum"]:
        options = ", ".join(json.dumps(option) for option in schema["enum"])
        yield Cause(NOT_SUPPORTED, f"Unsupported value: {_shown(value)}: supported values: {options}", path)
    if not fits_format(schema, value):
        kind = schema.get("type")
        yield _of_no_field(f"Checked value must be of type {kind} with format {schema['format']} in {path}")
    if is_number(value):
        for text in number_problems(schema, value):
            yield _invalid(value, path, text)
    elif isinstance(value, str):
        yield from _text_problems(schema, value, path)
    elif isinstance(value, list):
        yield from _list_problems(schema, value, path, old)
    elif isinstance(value, dict):
        yield from _object_problems(schema, value, path, old)
    yield from _junctor_problems(schema, value, path)


_TYPE_FIELDS = ("apiVersion", "kind")


def _invalid(value: Any, path: str, text: str) -> Cause:
    return Cause(INVALID, f"Invalid value: {_shown(value)}: {path} in body {text}", path)


def _shown(value: Any) -> str:
    return "null" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_type(value: Any) -> str:
    """Return the JSON type's name."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _type_problem(schema: Schema, value: Any, path: str) -> Cause | None:
    have = json_type(value)
    want = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""
    kinds = want.split(",") if want else [have]
    is_whole = isinstance(value, float) and value.is_integer()
    if have in kinds or (have == "integer" and "number" in kinds) or (is_whole and "integer" in kinds):
        return None
    return Cause(TYPE_INVALID, f'Invalid value: "{have}": {path} in body must be of type {want}: "{have}"', path)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number (true and false are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def fits_format(schema: Schema, value: Any) -> bool:
    """Whether an integer is in the range of its format; True for other formats, which are of strings."""
    bits = INTEGERS.get(schema.get("format") or "")
    return bits is None or not is_number(value) or -(1 << bits - 1) <= value < 1 << bits - 1


def drop_nulls(schema: Schema, value: Any) -> bool:
    """Remove members that are null although the schema does not allow it, in place; return whether there were any.

    Items of lists are left alone.
    """
    dropped = False
    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in list(value):
            inner = properties.get(name, extra)
            if not isinstance(inner, Mapping):
                continue
            if value[name] is None and not inner.get("nullable"):
                del value[name]
                dropped = True
            else:
                dropped = drop_nulls(inner, value[name]) or dropped
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for item in value:
            dropped = drop_nulls(schema["items"], item) or dropped
    return dropped


def write_whole_numbers(value: Any) -> bool:
    """Replace 1.0 by 1 in an object, in place, as Go encodes it; return whether there was any.

    Decoders of integers do not accept 1.0.
    """
    found = False
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, inner in list(members):
        if isinstance(inner, float):
            if inner.is_integer() and abs(inner) < _EXPONENT_FROM:
                value[place] = int(inner)
                found = True
        else:
            found = write_whole_numbers(inner) or found
    return found


_EXPONENT_FROM = 1e21
"""Smallest number that Go prints with an exponent."""

INTEGERS = {"int32": 32, "int64": 64}
"""Bits of the integer formats."""


def number_problems(schema: Schema, value: float) -> Sequence[str]:
    """Return messages for a number that violates minimum, maximum or multipleOf."""
    texts = []
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None and schema.get("exclusiveMinimum") and value <= low:
        texts.append(f"should be greater than {low}")
    elif low is not None and value < low:
        texts.append(f"should be greater than or equal to {low}")
    if high is not None and schema.get("exclusiveMaximum") and value >= high:
        texts.append(f"should be less than {high}")
    elif high is not None and value > high:
        texts.append(f"should be less than or equal to {high}")
    if step is not None and value % step != 0:
        texts.append(f"should be a multiple of {step}")
    return texts


def _text_problems(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    low, high = schema.get("minLength"), schema.get("maxLength")
    if low is not None and len(value) < low:
        yield _invalid(value, path, f"should be at least {low} chars long")
    elif high is not None and len(value) > high:
        yield Cause(TOO_LONG, f"Too long: may not be more than {high} bytes", path)
    elif schema.get("pattern") and not compile_pattern(schema["pattern"]).is_in(value):
        yield _invalid(value, path, f"should match '{schema['pattern']}'")
    name = schema.get("format")
    if name in FORMATS and not FORMATS[name](value):
        shown = _shown(value)
        yield Cause(TYPE_INVALID, f"Invalid value: {shown}: {path} in body must be of type {name}: {shown}", path)


def _list_problems(schema: Schema, value: list[Any], path: str, old: Any) -> Iterator[Cause]:
    low, high = schema.get("minItems"), schema.get("maxItems")
    if low is not None and len(value) < low:
        yield Cause(INVALID, f"Invalid value: {len(value)}: {path} in body should have at least {low} items", path)
    if high is not None and len(value) > high:
        yield Cause(TOO_MANY, f"Too many: {len(value)}: must have at most {high} items", path)
    for index, key in duplicates(schema, value):
        yield Cause(DUPLICATE, f"Duplicate value: {_shown(key)}", f"{path}[{index}]")
    items = schema.get("items")
    if isinstance(items, Mapping):
        olds = items_by_key(schema, old)
        for index, item in enumerate(value):
            yield from _find(items, item, f"{path}[{index}]", olds.get(item_key(schema, item)))


def item_key(schema: Schema, item: Any) -> str:
    """Return the map key of an item as text; empty if items have none."""
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(item, dict):
        return ""
    return json.dumps([item.get(key) for key in keys])


def items_by_key(schema: Schema, items: Any) -> dict[str, Any]:
    """Return the items of a list of type map by their keys; empty for other lists."""
    found = {item_key(schema, item): item for item in items} if isinstance(items, list) else {}
    found.pop("", None)
    return found


def duplicates(schema: Schema, value: Sequence[Any]) -> list[tuple[int, Any]]:
    """Return index and key of every item of a map or set list whose key an earlier item has."""
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    is_map = schema.get("x-kubernetes-list-type") == "map"
    defaults = {
        name: inner.get("default") for name, inner in ((schema.get("items") or {}).get("properties") or {}).items()
    }
    seen: set[Any] = set()
    found = []
    for index, item in enumerate(value):
        key = item
        if is_map and isinstance(item, dict):
            key = {name: item.get(name, defaults.get(name)) for name in keys}
        hashable = key if isinstance(key, str) else json.dumps(key, sort_keys=True)
        if hashable in seen:
            found.append((index, key))
        seen.add(hashable)
    return found


def _object_problems(schema: Schema, value: dict[str, Any], path: str, old: Any) -> Iterator[Cause]:
    if schema.get("x-kubernetes-embedded-resource"):
        for name in embedded_problems(value):
            yield Cause(REQUIRED, "Required value", _join(path, name))
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(REQUIRED, "Required value", _join(path, name))
    low, high = schema.get("minProperties"), schema.get("maxProperties")
    if low is not None and len(value) < low:
        yield _invalid(value, path, f"should have at least {low} properties")
    if high is not None and len(value) > high:
        yield Cause(TOO_MANY, f"Too many: {len(value)}: must have at most {high} items", path)
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name, inner in sorted(value.items()):
        before = old.get(name) if isinstance(old, dict) else None
        if name in properties:
            yield from _find(properties[name], inner, _join(path, name), before)
        elif isinstance(extra, Mapping):
            yield from _find(extra, inner, _join(path, name), before)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def embedded_problems(value: Mapping[str, Any]) -> list[str]:
    """Return problems for missing type fields of an embedded resource."""
    return [name for name in ("apiVersion", "kind") if not value.get(name)]


def _junctor_problems(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    for inner in schema.get("allOf") or ():
        yield from _find(inner, value, path)
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if any_of and not any(not find(inner, value, path) for inner in any_of):
        yield _of_no_field(f'"{path}" must validate at least one schema (anyOf)')
    if one_of:
        count = sum(not find(inner, value, path) for inner in one_of)
        if count != 1:
            found = f"{count} valid alternatives" if count else "none valid"
            yield _of_no_field(f'"{path}" must validate one and only one schema (oneOf). Found {found}')
    if schema.get("not") and not find(schema["not"], value, path):
        yield _of_no_field(f'"{path}" must not validate the schema (not)')


def _of_no_field(text: str) -> Cause:
    return Cause(INVALID, f'Invalid value: "": {text}', "<nil>")


def _read_instant(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": reads(_read_instant),
    "date": reads(date.fromisoformat),
    "byte": reads(lambda text: base64.b64decode(text, validate=True)),
    "ipv4": reads(ipaddress.IPv4Address),
    "ipv6": reads(ipaddress.IPv6Address),
    "cidr": reads(lambda text: ipaddress.ip_network(text, strict=False)),
    "uuid": reads(UUID),
}
"""Checks of string formats; other formats are not checked, as in Kubernetes."""
