"""Decode users' JSON within limits that keep it from blocking the server; large JSON is decoded in steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import msgspec

from strato.api.yamltext import MAX_DEPTH
from strato.decoding import UNDECODABLE
from strato.errors import BadRequest, TooLarge
from strato.http.parser import MAX_BODY_BYTES, too_large
from strato.server import incrementaljson
from strato.server.flowcontrol.dispatch import Divisible, Steps, at_once

MAX_VALUES = 64_000
"""Most values of a body: as many as a call into C handles in 3 ms. Objects of the 1.5 MiB that etcd would store have
fewer, unless most of their values are shorter than 20 bytes."""
UNCOUNTED_BYTES = 64 * 1024
"""JSON up to this length is decoded without counting its values first: that takes at most 5 ms."""
SHORT_BYTES = 4096
SHORT_VALUES = 1_000
"""Objects with no more of either are worked on at once: checking a value takes 5 µs at most."""
FEW_VALUES = 8_000
"""Most values that are decoded, and their nesting checked, without yielding: 3 ms at most, as none can be long."""
LARGE_BYTES = 512 * 1024
_DIGITS = bytes(48 if byte in b"-+.eE0123456789" else 32 for byte in range(256))
_LONG_NUMBER = b"0" * 400
_decode = msgspec.json.Decoder().decode


def is_long(body: bytes) -> bool:
    """Tell whether a JSON object holds so much that it is checked in slices: many bytes, or many values."""
    size = len(body)
    return size > SHORT_BYTES and (size > UNCOUNTED_BYTES or _most_values(body) > SHORT_VALUES)


def decode_json(body: bytes) -> Any:
    """Decode JSON.

    Raises:
        BadRequest: It is not JSON, or nested too deeply.
        TooLarge: It is over the limit of bytes or values.
    """
    return _read_small(body) if len(body) <= UNCOUNTED_BYTES else at_once(json_steps(body))


def json_steps(body: bytes) -> Steps[Any]:
    """Decode JSON as `decode_json` does, in steps if it is large."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large()
    most = _most_values(body)
    if len(body) > UNCOUNTED_BYTES:
        yield None
        yield from _check_size(body, most)
        yield None
    if most <= FEW_VALUES and len(body) < LARGE_BYTES:
        return _read_small(body)
    try:
        value = yield from incrementaljson.decoded(body, most_depth=MAX_DEPTH)
    except incrementaljson.TooDeep as error:
        raise too_deep() from error
    except UNDECODABLE as error:
        raise _no_json(error) from error
    return value


def stored_steps(body: bytes) -> Steps[Any]:
    """Decode a stored object, in steps if it is large. It was checked against the limits when it was written."""
    if len(body) <= UNCOUNTED_BYTES:
        return _decode(body)
    return (yield Divisible(lambda: _decode(body), lambda: incrementaljson.decoded(body, most_depth=2 * MAX_DEPTH)))


def _read_small(body: bytes) -> Any:
    """Decode JSON that holds few values."""
    try:
        value = _decode(body)
    except UNDECODABLE as error:
        raise _no_json(error) from error
    if may_be_deep(body):
        check_shape(value)
    return value


def _no_json(error: Exception) -> BadRequest:
    return BadRequest(f"the object provided is not valid JSON: {error}")


def _most_values(body: bytes) -> int:
    """Return an upper bound of the number of values."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def may_be_deep(body: bytes) -> bool:
    """Tell whether JSON may be nested too deeply; if False, it certainly is not."""
    # each level takes two bytes, so only a body this long can be too deep
    return len(body) > 2 * MAX_DEPTH and body.count(b"{") + body.count(b"[") > MAX_DEPTH


def check_shape(value: Any) -> None:
    """Raise if a value is nested so deeply that recursive functions could fail on it, or holds too many values.

    Raises:
        BadRequest: It is nested too deeply.
        TooLarge: It holds too much.
    """
    level = [value] if value.__class__ in _NESTED else []
    left = MAX_VALUES
    for _ in range(MAX_DEPTH):
        if not level:
            return
        left -= sum(map(len, level))
        if left < 0:
            raise too_many()
        level = list(chain.from_iterable(map(_nested_in, level)))
    if level:
        raise too_deep()


def _nested_in(value: Any) -> list[Any]:
    """Return the lists and maps directly inside a value; in portions, between which a `Computation` can pause."""
    inner = value.values() if value.__class__ is dict else value
    if len(inner) <= _AT_ONCE:
        return _nested(inner)
    values, found = iter(inner), []
    while some := list(islice(values, _AT_ONCE)):
        found += _nested(some)
    return found


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value.__class__ in _NESTED]


_NESTED = (dict, list)
_AT_ONCE = 1024


def _check_size(body: bytes, most: int) -> Steps[None]:
    """Raise if JSON has too many values, before it is decoded; ``most`` is an upper bound of their number.

    Raises:
        BadRequest: It has a number of hundreds of digits, for which msgspec would take long.
        TooLarge: It is over the limit.
    """
    if most <= MAX_VALUES and not (yield from _has_long_number(body)):
        return  # nearly always, so the costlier count outside of strings is skipped
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    yield None
    if plain.count(b'"') > 4 * MAX_VALUES:  # a value has at most two strings: itself and its key
        raise too_many()
    yield None
    structure = b"".join(plain.split(b'"')[::2])
    yield None
    if structure.count(b",") + structure.count(b"{") + structure.count(b"[") > MAX_VALUES:
        raise too_many()
    yield None
    if (yield from _has_long_number(structure)):
        raise BadRequest("the object provided is not valid JSON: a number has more than 400 characters")


def _has_long_number(text: bytes) -> Steps[bool]:
    digits = text.translate(_DIGITS)
    for start in range(0, len(digits), LARGE_BYTES):
        yield None
        if digits.find(_LONG_NUMBER, start, start + LARGE_BYTES + len(_LONG_NUMBER) - 1) >= 0:
            return True
    return False


def too_deep() -> BadRequest:
    """Return the error for a body that is nested too deeply."""
    return BadRequest(f"the object provided is nested too deeply: exceeded max depth of {MAX_DEPTH}")


def too_many() -> TooLarge:
    """Return the error for a body of too many values."""
    return TooLarge(f"Request entity too large: limit is {MAX_VALUES} values")
