"""The built-in types as msgspec structs: a quick check whether an object fits its kind.

msgspec converts an object, in C, into structs that forbid unknown fields and nulls (a pod takes 5 us). It accepts only
objects in which the walk over the shapes (`strato.server.schema.builtin`) would find no problem: every field is known
and has its JSON type, and none is a null that would be removed. A refused object may still be valid; then the walk
decides, and finds the messages.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import msgspec

from strato.api import quantity
from strato.decoding import UNDECODABLE
from strato.lru import memoised
from strato.server.schema import shapes

Check = Callable[[Any], bool]
"""Whether a value has the right type and only known fields."""

NEVER_NULL = frozenset(("creationTimestamp", "deletionTimestamp"))
"""Time fields that Go omits if they are unset; other unset times are encoded as null."""


def is_clean(shape: str) -> Check:
    """Return the quick check of one shape (``io.k8s.…ObjectMeta``), compiled on first use."""
    convert = converter(shape)
    return lambda value: convert(value) is not None


def converter(shape: str) -> Callable[[Any], msgspec.Struct | None]:
    """Return the function that converts an object into the struct of a shape, or returns None where it does not fit."""

    def convert(value: Any) -> msgspec.Struct | None:
        try:
            made: msgspec.Struct = msgspec.convert(value, _structure(shape), dec_hook=_take)
        except (msgspec.ValidationError, RecursionError):
            return None
        return made

    return convert


def fits_text(shape: str, key: str = "") -> Callable[[bytes], bool]:
    """Return the quick check of JSON text, for a shape or one field of it.

    It is stricter than `is_clean`, because msgspec's decoder parses the times.
    """
    kind = _field(shape, key, shapes.load().types[shape][key][0], _READ_TIME) if key else _structure(shape, _READ_TIME)
    decode = msgspec.json.Decoder(kind, dec_hook=_take).decode

    def check(text: bytes) -> bool:
        at = text.find(b"z")
        while at >= 0:  # a search for one byte takes a twentieth of the time of one for two bytes
            if text[at + 1 : at + 2] == b'"':
                return False  # perhaps a time with lower-case t or z, which only msgspec's decoder accepts
            at = text.find(b"z", at + 1)
        try:
            decode(text)
        except UNDECODABLE:
            return False
        return True

    return check


# ── words of the shapes that JSON has no type for ─────────────────────────────────────────────────────────────────


@memoised(2 << 20)  # thousands of objects a second have the same few times
def _read_time(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


def is_time(value: Any) -> bool:
    """Whether a value is an instant with a time zone."""
    try:
        return _read_time(value)
    except (ValueError, TypeError):  # not a string, or not a time
        return False


def is_quantity(value: Any) -> bool:
    """Whether a value is a quantity that our own parser accepts."""
    return quantity_problem(value) == ""


def quantity_problem(value: Any) -> str:
    """Return Kubernetes' message for a value that is not a quantity; empty if it is one."""
    try:
        quantity.parse(value)
    except ValueError as error:  # also for an integer with too many digits for Python to print
        return str(error)
    return ""


def is_bytes(value: Any) -> bool:
    """Whether a value is base64."""
    if value.__class__ is not str:
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return True


class _Checked:
    """A type for msgspec that is defined by a check function alone."""

    accepts: Check
    taken: _Checked
    """The result of every conversion, which is dropped: only whether the conversion succeeds counts."""


def _checked(accepts: Check) -> type[_Checked]:
    made: type[_Checked] = type("Checked", (_Checked,), {"accepts": staticmethod(accepts)})
    made.taken = made()
    return made


def _take(wanted: type[_Checked], value: Any) -> _Checked:
    """Convert into a `_Checked` (msgspec's ``dec_hook``)."""
    if wanted.accepts(value):
        return wanted.taken
    raise ValueError


# ── from shapes to structs ────────────────────────────────────────────────────────────────────────────────────────


@cache
def _structure(name: str, time: Any = None) -> Any:
    """Compile a shape and those inside it; times are checked by `is_time`, or have the type ``time`` if given."""
    fields = [
        (f"field{number}", _field(name, key, field[0], time), msgspec.field(default=None, name=key))
        for number, (key, field) in enumerate(shapes.load().types[name].items())
    ]
    return msgspec.defstruct(name.rpartition(".")[2], fields, forbid_unknown_fields=True, gc=False)


def _field(owner: str, key: str, kind: shapes.Type, time: Any) -> Any:
    return (time or _checked(is_time)) if key in NEVER_NULL else _type(owner, kind, time)


def _type(owner: str, kind: shapes.Type, time: Any) -> Any:
    if isinstance(kind, Mapping):
        if "list" in kind:
            return list[_type(owner, kind["list"], time)]  # type: ignore[misc]  # a type made from data
        return dict[str, _type(owner, kind["map"], time)]  # type: ignore[misc]  # the same
    if not kind.startswith("@"):
        return time | None if time is not None and kind == "time" else _SCALARS[kind]
    name = kind[1:]
    if name == owner:
        return _checked(is_clean(name))  # JSONSchemaProps is recursive, so it is compiled when first checked
    if name in shapes.load().types:
        return _structure(name, time)
    return _type(owner, shapes.load().scalars[name], time)


_READ_TIME = Annotated[datetime, msgspec.Meta(tz=True)]
_INT32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_SCALARS: dict[str, Any] = {
    "string": str,
    "bytes": _checked(is_bytes),
    "boolean": bool,
    "int32": _INT32,
    "int64": Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    "number": int | float,
    "object": dict[str, Any],
    "quantity": _checked(is_quantity),
    "time": _checked(is_time) | None,
    "int-or-string": _INT32 | str,
    "any": Any,
}
