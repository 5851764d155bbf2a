"""Types whose JSON differs from their message: times, quantities, raw JSON and others.

The functions in `STRUCTURED` take the decoded fields of a message and return its JSON value, None for null. Those in
`UNSTRUCTURED` take a JSON value and return the fields, None for an empty message. Source: the behaviour of
``MarshalJSON`` and ``Unmarshal`` of the Go types of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.errors import BadRequest
from strato.server.jsonbodies import decode_json
from strato.server.protobuf.wire import broken
from strato.units import duration_parts

_META = "apimachinery.pkg.apis.meta.v1."
_APIEXTENSIONS = "apiextensions_apiserver.pkg.apis.apiextensions."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000_000
_MICROSECONDS = 1_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}


def time(fields: Json) -> str | None:
    """Return a time, to the second; None for the empty message, which is Go's zero time."""
    return _moment(fields).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") if fields else None


def micro_time(fields: Json) -> str | None:
    """Return a time, to the microsecond."""
    return _moment(fields).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0") if fields else None


def duration(fields: Json) -> str:
    """Return nanoseconds as Go writes durations: ``1h0m5.25s``, ``1.5ms``, ``0s``."""
    whole = fields.get("duration", 0)
    sign, rest = ("-" if whole < 0 else ""), abs(whole)
    if rest < _SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    minutes, rest = divmod(rest, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, _SECOND)}s"


def quantity(fields: Json) -> str:
    """Return a quantity as it was written; a missing one is 0."""
    return fields.get("string") or "0"


def int_or_string(fields: Json) -> int | str:
    """Return the number or the string, by the message's type field."""
    kind = fields.get("type", 0)
    if kind not in (0, 1):
        raise broken(f"{kind} is no type of an IntOrString (0 is a number, 1 a string)")
    value: int | str = fields.get("strVal", "") if kind else fields.get("intVal", 0)
    return value


def raw_json(content: bytes) -> Any:
    """Decode the JSON that a message has as bytes; no bytes are null."""
    if not content:
        return None
    try:
        return decode_json(content)
    except BadRequest as error:
        raise broken(f"a raw value is not JSON: {error}") from error


def schema_or_bool(fields: Json) -> Any:
    """Return ``JSONSchemaPropsOrBool``: the schema if there is one, else the flag."""
    return fields.get("schema", fields.get("allows", False))


def schema_or_list(fields: Json) -> Any:
    """Return ``JSONSchemaPropsOrArray``: the list unless it is empty, else the schema."""
    return fields.get("jSONSchemas", fields.get("schema"))


def schema_or_names(fields: Json) -> Any:
    """Return ``JSONSchemaPropsOrStringArray``: the names if there are any, else the schema."""
    return fields.get("property", fields.get("schema"))


def time_fields(value: str | None) -> Json | None:
    """Return the fields of a time to the second; None for Go's zero time."""
    return None if value is None else {"seconds": _since_epoch(value) // _MICROSECONDS, "nanos": 0}


def micro_time_fields(value: str | None) -> Json | None:
    """Return the fields of a time to the microsecond."""
    if value is None:
        return None
    seconds, microseconds = divmod(_since_epoch(value), _MICROSECONDS)
    return {"seconds": seconds, "nanos": microseconds * 1000}


def duration_fields(value: str | None) -> Json:
    """Return the fields of a duration."""
    text = value or ""
    parts = duration_parts(text, 1 if text.startswith(("-", "+")) else 0)
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in parts.amounts)
    return {"duration": -total if text.startswith("-") else total}


def int_or_string_fields(value: int | str | None) -> Json:
    """Return the fields of a number or a string."""
    return {"type": 1, "strVal": value} if isinstance(value, str) else {"intVal": value or 0}


def raw_bytes(value: Any) -> bytes:
    """Encode a value as the JSON bytes of a message."""
    return msgspec.json.encode(value)


def _either(named: Mapping[type, str], **always: Any) -> Callable[[Any], Json]:
    """Return a function that puts a value into the field for its Python type."""
    return lambda value: {**always, named[type(value)]: value} if type(value) in named else always


def _since_epoch(value: str) -> int:
    """Return the microseconds from 1970 to a time that validation has accepted."""
    return (datetime.fromisoformat(value) - _EPOCH) // timedelta(microseconds=1)


def _moment(fields: Json) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=fields.get("seconds", 0), microseconds=fields.get("nanos", 0) // 1000)
    except OverflowError as error:
        raise broken(f"a time of {fields.get('seconds', 0)} seconds is outside the years 1 to 9999") from error


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


STRUCTURED: Mapping[str, Callable[[Json], Any]] = {
    _META + "Time": time,
    _META + "MicroTime": micro_time,
    _META + "Duration": duration,
    "apimachinery.pkg.api.resource.Quantity": quantity,
    "apimachinery.pkg.api.resource.QuantityValue": quantity,
    "apimachinery.pkg.util.intstr.IntOrString": int_or_string,
    **{
        f"{_APIEXTENSIONS}{version}.{name}": form
        for version in ("v1", "v1beta1")
        for name, form in (
            ("JSONSchemaPropsOrBool", schema_or_bool),
            ("JSONSchemaPropsOrArray", schema_or_list),
            ("JSONSchemaPropsOrStringArray", schema_or_names),
        )
    },
}
"""Functions from fields to JSON, by message."""

UNSTRUCTURED: Mapping[str, Callable[[Any], Json | None]] = {
    _META + "Time": time_fields,
    _META + "MicroTime": micro_time_fields,
    _META + "Duration": duration_fields,
    "apimachinery.pkg.api.resource.Quantity": lambda value: {"string": "0" if value is None else str(value)},
    "apimachinery.pkg.api.resource.QuantityValue": lambda value: {"string": "0" if value is None else str(value)},
    "apimachinery.pkg.util.intstr.IntOrString": int_or_string_fields,
    **{
        f"{_APIEXTENSIONS}{version}.{name}": form
        for version in ("v1", "v1beta1")
        for name, form in (
            ("JSONSchemaPropsOrBool", _either({dict: "schema", bool: "allows"}, allows=True)),
            ("JSONSchemaPropsOrArray", _either({dict: "schema", list: "jSONSchemas"})),
            ("JSONSchemaPropsOrStringArray", _either({dict: "schema", list: "property"})),
        )
    },
}
"""Functions from JSON to fields, by message."""

RAW = frozenset(
    (
        _META + "FieldsV1",
        "apimachinery.pkg.runtime.RawExtension",
        _APIEXTENSIONS + "v1.JSON",
        _APIEXTENSIONS + "v1beta1.JSON",
    )
)
"""Messages whose field 1 holds JSON as bytes."""
